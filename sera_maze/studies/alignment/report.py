"""The text, the figures and the files of `alignment_study`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sera_maze.coverage.method_styles import METHOD_STYLES, Style
from sera_maze.coverage.tables import markdown_table
from sera_maze.envs.ground.atomic_files import write_text
from sera_maze.studies.alignment.measuring import Row
from sera_maze.studies.alignment.study import ESTIMATORS, UNIFORM, Setting
from sera_maze.studies.alignment.tables import (
    answer,
    budgets_of,
    cosine_table,
    difference,
    direction_table,
    estimators_table,
    median_p,
    policies,
    values,
)
from sera_maze.studies.extras import save_figure

_COMMON = ("MaxRL, uniform", "SERA, exact p")
_ALLOCATIONS: dict[str, Style] = {
    **{name: METHOD_STYLES[name] for name in (*_COMMON, "SERA, history", "SERA, posterior", "SERA, critic")},
    "VIP, exact p": METHOD_STYLES["VIP"],
    "Knapsack, exact p": METHOD_STYLES["Knapsack"],
}
_OTHERS = ("SERA, exact p, no correction", "success average", "RLOO", "GRPO", "REINFORCE")
_ADVANTAGES: dict[str, Style] = {name: METHOD_STYLES[name] for name in (*_COMMON, *_OTHERS)}
# Names of the files and their lines.
FIGURES = {"alignment": _ALLOCATIONS, "alignment_estimators": _ADVANTAGES}


def markdown(rows: Sequence[Row], setting: Setting) -> str:
    """What was measured, the answer, the summary tables, and a table of all estimators for each policy."""
    parts = [
        caption(setting),
        answer(rows) + "\n",
        "### Uniform MaxRL / SERA with exact p\n",
        f"Mean cosines, * for a difference with p < 0.01:\n\n{cosine_table(rows)}\n",
        f"Direction and noise:\n\n{direction_table(rows)}\n",
        f"### All estimators, mean cosines over the sizes\n\n{estimators_table(rows)}\n",
    ]
    for side, level in policies(rows):
        here = [row for row in rows if (row.side, row.level) == (side, level)]
        medians = [row.median_p for row in here]
        batches = len({row.batch for row in here})
        parts.append(
            f"### {side}x{side}, median p {min(medians):.2g} to {max(medians):.2g} over {batches} batches of mazes\n"
        )
        parts.append(_table(here, side, level) + "\n")
    return "\n".join(parts)


def _table(rows: Sequence[Row], side: int, level: float) -> str:
    """All estimators on one policy, differences of the allocations from uniform, and how well p was known."""
    budgets = budgets_of(rows)
    lines: list[list[str]] = []
    for name in ESTIMATORS:
        cells = []
        for budget in budgets:
            cosine, spread = (values(rows, side, level, budget, name, what).mean() for what in ("cosine", "spread"))
            cells.append(f"{cosine:+.3f} ({spread:.2f})")
        lines.append([name, *cells])
    others = [name for name in _ALLOCATIONS if name != UNIFORM]
    for name in others:
        gaps = [
            difference(*(values(rows, side, level, budget, which) for which in (name, UNIFORM))) for budget in budgets
        ]
        lines.append([f"{name} less {UNIFORM}", *(f"{gap:+.3f}, p={p_value:.2g}" for gap, p_value in gaps)])
    for name in ("SERA, history", "SERA, critic"):
        ranks = (values(rows, side, level, budget, name, "rank_correlation").mean() for budget in budgets)
        lines.append([f"{name}: rank correlation with exact p", *(f"{rank:.2f}" for rank in ranks)])
    heads = ["mean cosine (sd within a batch)", *(f"N0={budget}" for budget in budgets)]
    return markdown_table(heads, lines, has_names=True)


def caption(setting: Setting) -> str:
    """What was measured, in words."""
    return (
        f"Cosines of gradient estimates with the exact gradient of the mean log p over {setting.prompts} "
        f"mazes. Each size has one policy in training (seed {setting.seed}), which is measured when its median "
        f"p on other mazes first passes a level: on {setting.batches} batches of mazes, with {setting.draws} "
        "estimates each. N0 is the number of rollouts a maze; all estimators have the same, but that SERA's "
        "history and posterior are of N0 further, earlier rollouts a maze with the same policy, and its critic, a "
        "network of its own, was fitted before to sampled outcomes of that policy on other mazes "
        f"({setting.critic_updates} updates for each policy). sd is over the estimates of a batch, mean over batches; "
        "differences are paired by batch, p is of a t test over the batches of this one policy, not corrected for the "
        "number of tests.\n"
    )


def draw(rows: Sequence[Row], styles: Mapping[str, Style]) -> Figure:
    """Mean cosine against N0, one panel for each size (down) and policy (across); bars are standard errors.

    Args:
        rows: of `alignment_study`.
        styles: colour, marker and line style of each estimator to show.
    """
    sides, levels = (sorted({getattr(row, name) for row in rows}) for name in ("side", "level"))
    figure = Figure(figsize=(3.6 * len(levels) + 2.4, 2.9 * len(sides) + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(sides), len(levels), squeeze=False, sharex=True, sharey=True)
    for panel_row, side in zip(panels, sides, strict=True):
        for panel, level in zip(panel_row, levels, strict=True):
            _draw_panel(panel, [row for row in rows if (row.side, row.level) == (side, level)], styles)
    handles, names = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right center", frameon=False, fontsize=9)
    figure.supxlabel("rollouts a maze, N0")
    figure.supylabel("cosine with the exact likelihood gradient")
    return figure


def _draw_panel(panel: Axes, rows: Sequence[Row], styles: Mapping[str, Style]) -> None:
    side, level = rows[0].side, rows[0].level
    budgets = budgets_of(rows)
    for place, (name, (colour, mark, line)) in enumerate(styles.items()):
        columns = [values(rows, side, level, budget, name) for budget in budgets]
        error = [0.0 if len(each) < 2 else each.std(ddof=1) / len(each) ** 0.5 for each in columns]
        means = [each.mean() for each in columns]
        # Side by side, so that the bars of one budget can be told apart.
        shifted = np.array(budgets) * 2 ** (0.05 * (place - len(styles) // 2))
        panel.errorbar(
            shifted, means, error, color=colour, marker=mark, linestyle=line, label=name, capsize=2, markersize=4,
            linewidth=1.2, elinewidth=0.8,
        )  # fmt: skip
    panel.set_xscale("log", base=2)
    panel.set_xticks(budgets, [str(budget) for budget in budgets])
    panel.grid(alpha=0.3)
    panel.set_title(f"{side}x{side}, median p {median_p(rows, side, level):.2g}", fontsize=9)


def _without_nan(row: Row) -> dict[str, object]:
    return {name: None if value != value else value for name, value in row._asdict().items()}


def write_report(rows: Sequence[Row], setting: Setting, folder: Path) -> list[Path]:
    """Write alignment.json and .md, and a .png for each of `FIGURES`, into a folder; return their paths."""
    record = {"setting": asdict(setting), "rows": [_without_nan(row) for row in rows]}
    texts = {"json": json.dumps(record, indent=1), "md": markdown(rows, setting)}
    paths = [write_text(folder / f"alignment.{suffix}", text + "\n") for suffix, text in texts.items()]
    return paths + [save_figure(draw(rows, styles), folder / f"{name}.png") for name, styles in FIGURES.items()]


def read_rows(path: Path) -> list[Row]:
    """The rows in an alignment.json that `write_report` wrote."""
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    known = [{name: float("nan") if value is None else value for name, value in row.items()} for row in rows]
    return [Row._make(row[name] for name in Row._fields) for row in known]
