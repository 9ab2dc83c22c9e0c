"""The tables, the figure and the files of `digits_study`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sera_maze.coverage.method_styles import METHOD_STYLES, Style
from sera_maze.coverage.tables import markdown_table
from sera_maze.envs.ground.atomic_files import write_text
from sera_maze.studies.digits.study import CROSS_ENTROPY, EXACT, METHODS, NO_BUDGET, UNIFORM, Job, Point, Run, Setting
from sera_maze.studies.extras import paired_t_test, save_figure

_STYLES = {name: METHOD_STYLES[name] for name in (UNIFORM, EXACT, "GRPO", "REINFORCE")}
_REFERENCE = Style("#bbbbbb", "", "-")  # wide, and behind the others, which often lie on it
Floats = NDArray[np.float64]
Quantity = Callable[[Point], float]


def quantities(setting: Setting) -> dict[str, Quantity]:
    """What is read off the last point of a run: name to function. Probabilities are in percent."""
    everyone, rare = slice(None), slice(-setting.rare, None)
    found: dict[str, Quantity] = {"mean log p": partial(_log_p, everyone)}
    for i, k in enumerate(setting.ks):
        found[f"pass@{k}, %"] = partial(_pass_at_k, i, everyone)
    found["mean log p, rarest classes"] = partial(_log_p, rare)
    found["mean log p, worst class"] = lambda point: min(point.log_p)
    for i, k in enumerate(setting.ks[:2]):
        found[f"pass@{k}, rarest classes, %"] = partial(_pass_at_k, i, rare)
        found[f"pass@{k}, worst class, %"] = partial(_worst_pass_at_k, i)
    found["mean log p, training images"] = lambda point: point.train_log_p
    return found


def _log_p(classes: slice, point: Point) -> float:
    return float(np.mean(point.log_p[classes]))


def _pass_at_k(i: int, classes: slice, point: Point) -> float:
    return 100 * float(np.mean(point.pass_at_k[i][classes]))


def _worst_pass_at_k(i: int, point: Point) -> float:
    return 100 * min(point.pass_at_k[i])


# Of the batches, averaged over a whole training.
ALONG = {
    "cosine with the exact gradient": "cosine",
    "norm over that of the exact gradient": "norm_ratio",
    "share of images with rollouts": "active",
    "share of groups without a success": "no_success",
}


def of_seeds(runs: Sequence[Run], variant: str, method: str, budget: int) -> list[Run]:
    """The runs of one method, seed by seed; cross-entropy has no budget."""
    budget = NO_BUDGET if method == CROSS_ENTROPY else budget
    found = [run for run in runs if run.job[:3] == (variant, method, budget)]
    return sorted(found, key=lambda run: run.job.seed)


def at_the_end(runs: Sequence[Run], quantity: Quantity) -> Floats:
    """(seeds,) a quantity at the last point of each run."""
    return np.array([quantity(run.points[-1]) for run in runs])


def along(runs: Sequence[Run], field: str) -> Floats:
    """(seeds,) a figure of the batches, such as "cosine", averaged over each training."""
    means = []
    for run in runs:
        updates = np.diff([point.update for point in run.points])
        means.append(np.average([getattr(point, field) for point in run.points[1:]], weights=updates))
    return np.array(means)


def caption(setting: Setting) -> str:
    """What was measured, in words."""
    sizes = setting.class_sizes("long-tailed")
    even = setting.class_sizes("balanced")
    return (
        "Handwritten digits (scikit-learn), 8x8 pixels, 10 classes. A label is sampled from the policy's softmax; "
        "success is the right class, so p is the softmax of the label. Training images: "
        f"{even[0]} of each class (balanced, {sum(even)} in all), or {sizes[0]} of the most frequent class falling "
        f"geometrically to {sizes[-1]} of the rarest (long-tailed, {sum(sizes)} in all; each seed draws which class is "
        f"how frequent). Test images, the same for both: {setting.test_images} of each class. One hidden layer of "
        f"{setting.hidden} units, Adam with a learning rate of {setting.learning_rate:g}, no clipping, "
        f"{setting.updates} updates of {setting.prompts} images; N0 is the number of rollouts an image, the same in "
        "all for every method (cross-entropy takes none). "
        f"Seeds {setting.seed} to {setting.seed + setting.seeds - 1}; a seed fixes split, parameters at the start and "
        "order of batches for all methods. log p and pass@k are exact, on test images unless said otherwise, after the "
        f"last update; *rarest classes* are the {setting.rare} with the fewest images in the long-tailed variant, the "
        "*worst class* is the one where the figure is lowest. Cosines and norms "
        "compare the gradient of a batch with the exact gradient of the mean log p of the same batch at the same "
        "parameters, averaged over a training; every method does so along its own way, so a low cosine is of the "
        "estimate and of the policies that it led to. Cells are means over the seeds, with the standard deviation over "
        "the seeds in brackets; differences are paired by seed, with 95 % t intervals and the p-value of a t test, not "
        "corrected for the number of tests.\n"
    )


def markdown(runs: Sequence[Run], setting: Setting) -> str:
    """A table for each variant and quantity: methods down, N0 across, SERA's difference from uniform MaxRL below."""
    parts = [caption(setting)]
    for variant in setting.variants:
        parts.append(f"### {variant}\n")
        parts += [table(runs, setting, variant, name) + "\n" for name in (*quantities(setting), *ALONG)]
    return "\n".join(parts)


def table(runs: Sequence[Run], setting: Setting, variant: str, name: str) -> str:
    """One of the tables of `markdown`: of a name among `quantities` or `ALONG`."""
    values: Callable[[Sequence[Run]], Floats] = (
        partial(along, field=ALONG[name]) if name in ALONG else partial(at_the_end, quantity=quantities(setting)[name])
    )
    digits = 1 if name.endswith("%") else 3
    budgets = sorted(setting.budgets)
    lines: list[list[str]] = []
    for method in METHODS:
        columns = [values(of_seeds(runs, variant, method, budget)) for budget in budgets]
        lines.append([method, *(_cell(column, digits) for column in columns)])
    if name not in ALONG:
        exact = _cell(values(of_seeds(runs, variant, CROSS_ENTROPY, NO_BUDGET)), digits)
        lines.append([CROSS_ENTROPY, *[exact] * len(budgets)])
    gaps = []
    for budget in budgets:
        pair = (values(of_seeds(runs, variant, method, budget)) for method in (EXACT, UNIFORM))
        mean, low, high, p_value = paired_t_test(*pair)
        interval = "" if np.isnan(p_value) else f" [{low:+.{digits}f}, {high:+.{digits}f}], p={p_value:.2g}"
        gaps.append(f"{mean:+.{digits}f}{interval}")
    lines.append([f"{EXACT} less {UNIFORM}", *gaps])
    return markdown_table([name, *(f"N0={budget}" for budget in budgets)], lines, has_names=True)


def _cell(values: Floats, digits: int) -> str:
    spread = f" ({values.std(ddof=1):.{digits}f})" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{spread}"


def draw(runs: Sequence[Run], setting: Setting) -> Figure:
    """Curves of each variant with the fewest and with the most rollouts; bands are standard errors over the seeds."""
    budgets = sorted({min(setting.budgets), max(setting.budgets)})
    rows = [(variant, budget) for variant in setting.variants for budget in budgets]
    panels = _panels(setting)
    figure = Figure(figsize=(3.2 * len(panels) + 0.4, 2.5 * len(rows) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(rows), len(panels), squeeze=False, sharex=True)
    for number, (line, (variant, budget)) in enumerate(zip(axes, rows, strict=True)):
        for panel, first in zip(line, axes[number - number % len(budgets)], strict=True):
            if panel is not first:
                panel.sharey(first)  # within a variant: between them the ranges are too different
        for panel, (name, quantity) in zip(line, panels.items(), strict=True):
            _draw_panel(panel, runs, variant, budget, quantity)
            panel.set_title(f"{variant}, N0={budget}" if panel is line[0] else "", fontsize=9, loc="left")
            panel.set_ylabel(name, fontsize=8)
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False, fontsize=9)
    figure.supxlabel("updates", fontsize=9)
    return figure


def _panels(setting: Setting) -> dict[str, Callable[[Point], float | None]]:
    named = quantities(setting)
    first = f"pass@{setting.ks[0]}, %"
    shown: dict[str, Callable[[Point], float | None]] = {
        name: named[name] for name in (first, "mean log p", "mean log p, rarest classes")
    }
    shown["cosine with the exact gradient"] = lambda point: point.cosine
    return shown


def _draw_panel(
    panel: Axes, runs: Sequence[Run], variant: str, budget: int, quantity: Callable[[Point], float | None]
) -> None:
    for method, (colour, mark, line) in {CROSS_ENTROPY: _REFERENCE, **_STYLES}.items():
        width = 4.0 if method == CROSS_ENTROPY else 1.2
        found = of_seeds(runs, variant, method, budget)
        updates = [point.update for point in found[0].points]
        values = np.array([[quantity(point) for point in run.points] for run in found], np.float64)  # None is NaN
        mean, error = values.mean(0), (values.std(0, ddof=1) / len(found) ** 0.5 if len(found) > 1 else 0.0)
        panel.plot(
            updates, mean, color=colour, marker=mark, linestyle=line, label=method, markersize=3.5, linewidth=width
        )
        panel.fill_between(updates, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0)
    panel.grid(alpha=0.3)
    panel.tick_params(labelsize=8)


def write_report(runs: Sequence[Run], setting: Setting, folder: Path) -> list[Path]:
    """Write digits.json, digits.md and digits.png into a folder; return their paths."""
    rows: list[dict[str, Any]] = [
        {**run.job._asdict(), "points": [point._asdict() for point in run.points]} for run in runs
    ]
    record = {"setting": asdict(setting), "runs": rows}
    texts = {"json": json.dumps(record), "md": markdown(runs, setting)}
    paths = [write_text(folder / f"digits.{suffix}", text + "\n") for suffix, text in texts.items()]
    return [*paths, save_figure(draw(runs, setting), folder / "digits.png")]


def read_runs(path: Path) -> tuple[list[Run], Setting]:
    """Read the digits.json that `write_report` wrote."""
    record = json.loads(path.read_text(encoding="utf-8"))
    options: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in record["setting"].items()}
    runs = [
        Run(Job(*(row[name] for name in Job._fields)), [Point(**point) for point in row["points"]])
        for row in record["runs"]
    ]
    return runs, Setting(**options)
