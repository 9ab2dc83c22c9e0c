"""The figure of a `Comparison`: final pass@k against k, and the way there against rollouts spent."""

from __future__ import annotations

import io
import math
import os
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray

from sera_maze.coverage.method_styles import Style, method_of, styles_of
from sera_maze.envs.ground.atomic_files import whole_file
from sera_maze.runs.comparison import Comparison
from sera_maze.runs.config import RunConfig

FIGURE_SIZE = (10.0, 5.4)  # inches
DOTS_PER_INCH = 160
_PANELS = (1, 32)  # and the largest k
_GREY = "#595959"


def draw_comparison(comparison: Comparison) -> Figure:
    """Draw a comparison: pass@k against k on the left, -log pass@k against rollouts spent on the right.

    On the right pass@k is exact where all runs have recorded it. -log pass@k of pass@k = 1 has no place on a
    logarithmic axis: what is nearer to 1 than half a rollout of all ``prompts * num_samples`` is drawn as if half a
    rollout had failed, on a dotted line that says so. Bands may leave the panels at the bottom.

    Returns:
        A figure of `FIGURE_SIZE` inches, with a canvas of its own.
    """
    figure = Figure(FIGURE_SIZE, layout="constrained")
    FigureCanvasAgg(figure)
    chosen = sorted({k for k in _PANELS if k in comparison.ks} | {comparison.ks[-1]})
    grid = figure.add_gridspec(1, 2, width_ratios=(1, 1.15))
    left, right = figure.add_subfigure(grid[0]), figure.add_subfigure(grid[1])
    final = left.add_subplot()
    _draw_final(final, comparison)
    panels = right.subplots(len(chosen), sharex=True, squeeze=False)[:, 0]
    for panel, k in zip(panels, chosen, strict=True):
        _draw_curves(panel, comparison, k)
    right.align_ylabels(panels)
    panels[-1].set_xlabel("rollouts spent in training")
    kind = "exact " if comparison.exact_curves else ""
    _set_titles(panels[0], f"On the way: {kind}\u2212log pass@k, lower is better", _curve_bands(comparison))
    panels[-1].xaxis.set_major_formatter(EngFormatter(sep=""))
    handles, labels = final.get_legend_handles_labels()
    longest = max(map(len, labels))
    columns = max(1, min(len(labels), 110 // (longest + 8)))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, handlelength=3.5)
    return figure


def save_figure(comparison: Comparison, path: str | os.PathLike[str]) -> Path:
    """Write the figure as a PNG file, whole or not at all; missing folders are made.

    Returns:
        Where the file lies.
    """
    content = io.BytesIO()
    draw_comparison(comparison).savefig(content, format="png", dpi=DOTS_PER_INCH)
    with whole_file(Path(path)) as file:
        file.write(content.getvalue())
    return Path(path)


def neg_log(pass_at_k: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    """-log pass@k, with pass@k kept from ``floor`` to 1 - ``floor``; NaN stays.

    Args:
        pass_at_k: float64, any shape.
        floor: half a rollout's share of all, 0 to 1/2.
    """
    return np.clip(-np.log(np.maximum(pass_at_k, floor)), floor, None)


def _styles(comparison: Comparison) -> list[Style]:
    """A style for each group: of its method, where its runs are of mazes and have one."""
    configs = [group.runs[0].config for group in comparison.groups]
    return styles_of([method_of(config.method) if isinstance(config, RunConfig) else None for config in configs])


def _draw_final(axes: Axes, comparison: Comparison) -> None:
    for i, (group, style) in enumerate(zip(comparison.groups, _styles(comparison), strict=True)):
        seeds = "1 seed" if len(group.runs) == 1 else f"{len(group.runs)} seeds"
        mean, low, high = (100 * values for values in comparison.shown(i))
        _draw_band(axes, np.array(comparison.ks, float), low, high, style)
        axes.plot(
            comparison.ks, mean, color=style.colour, marker=style.marker, linestyle=style.line, markersize=6,
            label=f"{group.label} ({seeds})",
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator([float(k) for k in comparison.ks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda k, _: f"{k:g}"))
    axes.set_xlabel("k")
    axes.set_ylabel(f"pass@k on held-out {comparison.noun}, %")
    alone = sum(len(group.runs) == 1 for group in comparison.groups)
    noun = comparison.noun
    over = noun if alone == len(comparison.groups) else f"seeds and {noun}"
    also = f", of single runs over {noun}" if 0 < alone < len(comparison.groups) else ""
    _set_titles(axes, "At the end: pass@k, higher is better", f"bands: 95 % intervals over {over}{also}")
    _plain_frame(axes)


def _draw_curves(axes: Axes, comparison: Comparison, k: int) -> None:
    floor = 1 / (2 * comparison.prompts * comparison.num_samples)
    lowest = math.inf
    for i, style in enumerate(_styles(comparison)):
        curve = comparison.curve(i, k)
        values = neg_log(curve.mean, floor)
        lowest = min(lowest, float(values.min()))
        _draw_band(axes, curve.rollouts, neg_log(curve.high, floor), neg_log(curve.low, floor), style)
        axes.plot(
            curve.rollouts, values, color=style.colour, marker=style.marker, linestyle=style.line, markersize=4,
            markevery=max(1, math.ceil(len(values) / 12)),
        )  # fmt: skip
    axes.set_yscale("log")
    # Not where the bands end, which is the floor for those that reach 1; and the floor's label needs room.
    axes.set_ylim(bottom=lowest / (2 if lowest > floor else 8))
    if lowest <= floor:
        axes.axhline(floor, color=_GREY, linestyle=":", linewidth=1, zorder=0)
        axes.annotate("pass@k = 1 to within half a rollout", (1, floor), (-3, -4), xycoords=("axes fraction", "data"),
                      textcoords="offset points", ha="right", va="top", fontsize=8, color=_GREY)  # fmt: skip
    bottom, top = axes.get_ylim()
    axes.yaxis.set_minor_locator(NullLocator())
    if top < 200 * bottom:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_ylabel(f"\u2212log pass@{k}")
    _plain_frame(axes)


def _curve_bands(comparison: Comparison) -> str:
    """What the bands of the right half are, as far as there are any."""
    kinds = []
    if any(len(group.runs) > 1 for group in comparison.groups):
        kinds.append("lowest to highest seed")
    alone = [i for i, group in enumerate(comparison.groups) if len(group.runs) == 1]
    if any(np.isfinite(comparison.curve(i, comparison.ks[0]).low).any() for i in alone):
        kinds.append(f"{'of single runs ' if kinds else ''}95 % intervals over {comparison.noun}")
    return f"bands: {', '.join(kinds)}" if kinds else ""


def _draw_band(
    axes: Axes, places: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64], style: Style
) -> None:
    axes.fill_between(places, low, high, color=style.colour, alpha=0.15, linewidth=0)
    for ends in (low, high):  # which tell the bands apart without colours, too
        axes.plot(places, ends, color=style.colour, linestyle=style.line, linewidth=0.7, alpha=0.8)


def _set_titles(axes: Axes, title: str, subtitle: str) -> None:
    axes.set_title(title, fontsize=11, pad=20)
    axes.annotate(subtitle, (0.5, 1), (0, 5), xycoords="axes fraction", textcoords="offset points", ha="center",
                  fontsize=9, color=_GREY)  # fmt: skip


def _plain_frame(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#D9D9D9", linewidth=0.6)
    axes.set_axisbelow(True)
