"""The table, the figure and the files of `alignment_study`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sera_maze.envs.atomic_files import whole_file, write_text
from sera_maze.evaluation_tables import markdown_table
from sera_maze.studies.alignment import ESTIMATORS, EXACT, UNIFORM, Row, Setting

# Okabe and Ito's colours, with a marker and a line style each, so that no two lines differ by colour alone.
_STYLES = {
    "MaxRL, uniform": ("#d55e00", "s", "--"),
    "SERA, exact p": ("#0072b2", "o", "-"),
    "SERA, history": ("#56b4e9", "^", "-"),
    "SERA, critic": ("#009e73", "v", "-"),
    "SERA, exact p, no correction": ("#cc79a7", "D", ":"),
    "success average": ("#e69f00", "P", "--"),
    "RLOO": ("#000000", "x", "-."),
    "GRPO": ("#777777", "+", "-."),
    "REINFORCE": ("#aaaaaa", "*", "-."),
}


def cosines(rows: Sequence[Row], side: int, level: float, budget: int, estimator: str) -> NDArray[np.float64]:
    """(batches,) mean cosines of one estimator, in the order of the batches."""
    found = [
        row for row in rows if (row.side, row.level, row.budget, row.estimator) == (side, level, budget, estimator)
    ]
    return np.array([row.cosine for row in sorted(found, key=lambda row: row.batch)])


def paired_test() -> Callable[..., Any]:
    """Scipy's t test of one sample, for differences.

    Raises:
        ValueError: if scipy is missing, which the extra ``studies`` brings.
    """
    try:
        from scipy import stats
    except ImportError:
        raise ValueError("the tests need the extra 'studies': pip install scipy") from None
    test: Callable[..., Any] = stats.ttest_1samp
    return test


def difference(one: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float]:
    """Mean of one - other, paired by batch, and the p-value of a paired t test; NaN for fewer than two batches.

    Raises:
        ValueError: see `paired_test`.
    """
    gap = one - other
    if len(gap) < 2 or not gap.any():
        return float(gap.mean()), float("nan")
    return float(gap.mean()), float(paired_test()(gap, 0.0).pvalue)


def markdown(rows: Sequence[Row], setting: Setting) -> str:
    """Mean cosines, one table for each size and policy, and SERA's differences from uniform MaxRL below."""
    parts = [caption(setting)]
    budgets = sorted({row.budget for row in rows})
    for side, level in sorted({(row.side, row.level) for row in rows}):
        here = [row for row in rows if (row.side, row.level) == (side, level)]
        medians = [row.median_p for row in here]
        batches = len({row.batch for row in here})
        parts.append(
            f"### {side}x{side}, median p {min(medians):.2g} to {max(medians):.2g} over {batches} batches of mazes\n"
        )
        heads = ["mean cosine (sd within a batch)", *(f"N0={budget}" for budget in budgets)]
        lines: list[list[str]] = []
        for name in ESTIMATORS:
            cells = []
            for budget in budgets:
                spread = [row.spread for row in here if (row.budget, row.estimator) == (budget, name)]
                cells.append(f"{cosines(rows, side, level, budget, name).mean():+.3f} ({np.mean(spread):.2f})")
            lines.append([name, *cells])
        for name in (EXACT, "SERA, history", "SERA, critic"):
            cells = []
            for budget in budgets:
                pair = (cosines(rows, side, level, budget, which) for which in (name, UNIFORM))
                gap, p_value = difference(*pair)
                cells.append(f"{gap:+.3f}, p={p_value:.2g}")
            lines.append([f"{name} less {UNIFORM}", *cells])
        parts.append(markdown_table(heads, lines, has_names=True) + "\n")
    return "\n".join(parts)


def caption(setting: Setting) -> str:
    """What was measured, in words."""
    return (
        f"Cosines of gradient estimates with the exact gradient of the mean log p over {setting.prompts} "
        f"mazes. Each size has one policy in training (seed {setting.seed}), which is measured when its median "
        f"p on other mazes first passes a level: on {setting.batches} batches of mazes, with {setting.draws} "
        "estimates each. N0 is the number of rollouts a maze; all estimators have the same, but that SERA's "
        "history is of N0 further, earlier rollouts a maze with the same policy. sd is over the estimates of "
        "a batch, mean over batches; differences are paired by batch, p is of a t test over the batches of "
        "this one policy, not corrected for the number of tests.\n"
    )


def draw(rows: Sequence[Row]) -> Figure:
    """Mean cosine against N0, one panel for each size (down) and policy (across); bars are standard errors."""
    sides, levels = (sorted({getattr(row, name) for row in rows}) for name in ("side", "level"))
    figure = Figure(figsize=(3.6 * len(levels) + 2.4, 2.9 * len(sides) + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(sides), len(levels), squeeze=False, sharex=True, sharey=True)
    for panel_row, side in zip(panels, sides, strict=True):
        for panel, level in zip(panel_row, levels, strict=True):
            _draw_panel(panel, rows, side, level)
    handles, names = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right center", frameon=False, fontsize=8)
    figure.supxlabel("rollouts a maze, N0")
    figure.supylabel("cosine with the exact likelihood gradient")
    return figure


def _draw_panel(panel: Axes, rows: Sequence[Row], side: int, level: float) -> None:
    here = [row for row in rows if (row.side, row.level) == (side, level)]
    budgets = sorted({row.budget for row in here})
    for name, (colour, mark, line) in _STYLES.items():
        columns = [cosines(rows, side, level, budget, name) for budget in budgets]
        error = [0.0 if len(each) < 2 else each.std(ddof=1) / len(each) ** 0.5 for each in columns]
        means = [each.mean() for each in columns]
        panel.errorbar(
            budgets, means, error, color=colour, marker=mark, linestyle=line, label=name, capsize=2, markersize=4,
            linewidth=1.2,
        )  # fmt: skip
    panel.set_xscale("log", base=2)
    panel.set_xticks(budgets, [str(budget) for budget in budgets])
    panel.grid(alpha=0.3)
    panel.set_title(f"{side}x{side}, median p {np.median([row.median_p for row in here]):.2g}", fontsize=9)


def _without_nan(row: Row) -> dict[str, object]:
    return {name: None if value != value else value for name, value in row._asdict().items()}


def write_report(rows: Sequence[Row], setting: Setting, folder: Path) -> list[Path]:
    """Write alignment.json, alignment.md and alignment.png into a folder; return their paths."""
    paths = [folder / f"alignment.{suffix}" for suffix in ("json", "md", "png")]
    record = {"setting": asdict(setting), "rows": [_without_nan(row) for row in rows]}
    write_text(paths[0], json.dumps(record, indent=1) + "\n")
    write_text(paths[1], markdown(rows, setting) + "\n")
    figure = draw(rows)
    with whole_file(paths[2]) as file:
        figure.savefig(file, format="png", dpi=110)
    return paths
