"""Pictures for TensorBoard: how a batch's rollouts were allocated, and the paths that the policy takes now."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sera_maze.allocation.allocation import Allocation
from sera_maze.coverage.evaluation import difficulty_of
from sera_maze.coverage.evaluator import Evaluator
from sera_maze.coverage.path_sheets import path_sheet
from sera_maze.envs.pictures.canvas import PALETTE, Colour
from sera_maze.envs.pictures.sheets import to_array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST_SHOWN = 1e-6  # smaller success probabilities are drawn here
DOT, CURVE = PALETTE.agent, PALETTE.failure
_INCHES, _DOTS_PER_INCH = (4.6, 3.2), 100  # of the allocation picture, about as large as TensorBoard shows it
_PLACE = (0.13, 0.15, 0.65, 0.71)  # of its axes: left, lower, width and height, shares of the picture's
_POINTS = 8  # size of its text
_LABEL_GAP = 0.065  # between the names of lines, a share of the axis of rollouts
_SIDE = 210  # pixels of a maze, at most, unless it has more squares; TensorBoard makes larger pictures smaller
_COLUMNS = 2


def allocation_picture(
    allocation: Allocation, probability: Tensor, mean: float, bounds: tuple[int, int] | None = None
) -> NDArray[np.uint8]:
    """`allocation_figure`, for the same arguments, as (H, W, 3) uint8."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(allocation_figure(allocation, probability, mean, bounds))
    canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3]


def allocation_figure(
    allocation: Allocation, probability: Tensor, mean: float, bounds: tuple[int, int] | None = None
) -> Figure:
    """The rollouts of each prompt of a batch against its success probability p, and what the waterline says.

    Active prompts are dots, inactive ones hollow dots at 0. The curve is the count before rounding, `waterline_curve`.
    The logarithmic axis of p begins at the power of ten below all p, at 0.1 at most.

    Args:
        allocation: of one batch of B prompts.
        probability: (B,) that it was made from; those below 1e-6 are drawn at 1e-6.
        mean: rollouts a prompt, N0.
        bounds: n_min and n_max of an allocation with a waterline.

    Returns:
        The same figure at every call, filled anew, as its ticks take longer to make than to draw; for one thread.
    """
    from matplotlib.ticker import LogLocator

    prob = np.maximum(probability.double().cpu().numpy(), LEAST_SHOWN)  # (B,)
    counts, active = allocation.counts.cpu().numpy(), allocation.active.cpu().numpy()
    least = 10.0 ** math.floor(math.log10(min(0.1, prob.min())) + 1e-9)
    figure = _empty_figure()
    (axes,) = figure.axes
    for artist in (*axes.lines, *axes.texts, *figure.legends):  # of the last time
        artist.remove()
    _draw_dots(axes, prob[active], counts[active], f"active: {active.sum()}", colour=_hex(DOT), rim="white")
    if not active.all():
        label = f"inactive: {(~active).sum()}"
        _draw_dots(axes, prob[~active], counts[~active], label, colour="white", rim=_hex(DOT))
    lines = [(mean, f"N0 = {mean:g}")]
    if allocation.waterline is not None and bounds is not None:
        lines += [(bounds[0], f"n_min = {bounds[0]}"), (bounds[1], f"n_max = {bounds[1]}")]
        grid = np.minimum(np.geomspace(least, 1, 400), 1 - 1e-9)
        rollouts = waterline_curve(grid, float(allocation.waterline), *bounds)
        axes.plot(grid, rollouts, color=_hex(CURVE), linewidth=1.5, label="waterline: 1 + τ / c, clipped")
    axes.set(xlim=(least, 1), ylim=(0, 1.06 * max(float(counts.max()), *(height for height, _ in lines))))
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if least > 1e-3 else (1,), numticks=20))
    _draw_lines(axes, lines)
    spaces = {"handlelength": 1.5, "handletextpad": 0.5, "columnspacing": 1.5}
    figure.legend(loc="upper center", ncols=3, frameon=False, fontsize=_POINTS, **spaces)
    return figure


def waterline_curve(probability: NDArray[np.float64], waterline: float, n_min: int, n_max: int) -> NDArray[np.float64]:
    """Rollouts before rounding of success probabilities p (...) in (0, 1).

    They are ``clip(1 + tau / c, n_min, n_max)`` with ``c = -log(1 - p)`` and ``tau = -log(waterline)``.
    """
    tau = -math.log(waterline) if waterline > 0 else math.inf
    return np.clip(1 + tau / -np.log1p(-probability), n_min, n_max)


def hardest(difficulty: NDArray[np.int64], count: int) -> NDArray[np.intp]:
    """The hardest prompts by their difficulty (M,), from the hardest on; of equal ones the first. All if fewer."""
    return np.argsort(-difficulty, kind="stable")[:count]


def paths_picture(evaluator: Evaluator, count: int, num_samples: int) -> NDArray[np.uint8] | None:
    """Draw the first rollouts of an evaluation in the mazes with the longest shortest paths, of equal ones the first.

    Which mazes these are depends on the pool alone, so that pictures can be compared over a training.

    Args:
        evaluator: of a policy on mazes.
        count: mazes to draw; all if there are fewer.
        num_samples: rollouts to draw of each maze.

    Returns:
        (H, W, 3) uint8; None if the environments do not move as plain mazes do, so that there are no paths to draw.
    """
    difficulty, mazes = difficulty_of(evaluator.prompts), evaluator.mazes
    if difficulty is None or mazes is None:
        return None
    chosen = hardest(difficulty, count)
    labels = [evaluator.prompts.describe(maze) for maze in chosen.tolist()]
    cell_size = max(1, _SIDE // max(mazes.pool.size))
    sheet = path_sheet(evaluator, chosen, num_samples, labels, cell_size=cell_size, columns=_COLUMNS)
    return None if sheet is None else to_array(sheet)


def _hex(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _draw_dots(
    axes: Axes, probability: NDArray[np.float64], counts: NDArray[np.int64], label: str, colour: str, rim: str
) -> None:
    axes.plot(probability, counts, "o", color=colour, markeredgecolor=rim, markersize=6.5, clip_on=False, zorder=3,
              label=label)  # fmt: skip


@functools.cache
def _empty_figure() -> Figure:
    """A figure with a logarithmic axis of p and a linear one of rollouts."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    figure = Figure(_INCHES, dpi=_DOTS_PER_INCH)
    axes = figure.add_axes(_PLACE, xscale="log")
    axes.set_xlabel("success probability p", fontsize=_POINTS)
    axes.set_ylabel("rollouts of the prompt", fontsize=_POINTS)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda p, _: f"{p:g}".replace("e-0", "e-")))
    axes.yaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10], integer=True))
    axes.tick_params(labelsize=_POINTS)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_lines(axes: Axes, lines: Sequence[tuple[float, str]]) -> None:
    """Dashed lines at some numbers of rollouts, their names right of them, moved up where they would overlap."""
    most, free = axes.get_ylim()[1], -math.inf
    for height, name in sorted(lines):
        axes.axhline(height, color="#808080", linewidth=0.8, dashes=(6, 6), zorder=1)
        free = max(height, free + _LABEL_GAP * most)
        axes.annotate(
            name, (1, free), (6, 0), xycoords=axes.get_yaxis_transform(), textcoords="offset points", va="center",
            color="#5a5a5a", fontsize=_POINTS,
        )  # fmt: skip
