"""Pictures of one maze: its layout, the paths of many rollouts, a heat map of values."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sera_maze.envs.ground.checks import as_list, as_number
from sera_maze.envs.ground.errors import LayoutError
from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.layouts.path_counts import count_paths
from sera_maze.envs.pictures.canvas import (
    MIN_MARKER_SIZE,
    PALETTE,
    Colour,
    Marker,
    as_cell_size,
    as_layout,
    check_text,
    draw_marker,
    enlarge,
    marker,
    pygame,
    square_colours,
)
from sera_maze.envs.pictures.legends import colour_bar, frame, marker_legend, path_legend, ramp_colours

_FAINTEST = 0.2  # share of max_opacity that a single one of very many paths keeps, so that it can be seen


def draw_layout(
    layout: MazeLayout,
    *,
    cell_size: int | None = None,
    agent: Sequence[int] | None = None,
    legend: bool = False,
    title: str = "",
) -> pygame.Surface:
    """Draw a maze: walls dark, the start a ring, the goal a star, the agent a disc.

    Args:
        layout: the maze.
        cell_size: pixels a square, at least 1; None chooses one with which the longer side has about 512 pixels. The
            maze is exactly (width * cell_size, height * cell_size) pixels.
        agent: (row, column) of an open square, or None for no agent.
        legend: whether to explain the markers below the maze.
        title: text above the maze. Pictures under 96 pixels wide have neither title nor legend.

    Returns:
        A Surface in memory; no display is needed.

    Raises:
        TypeError: for a layout that is no `MazeLayout`, a cell size that is no integer, a title that is no str.
        ValueError: for a cell size below 1, or an agent outside or in a wall.
    """
    pixels = as_cell_size(cell_size, as_layout(layout))
    check_text("title", title)
    picture = enlarge(square_colours(layout), pixels)
    _draw_ends(picture, layout, pixels)
    if agent is not None:
        draw_marker(picture, "agent", _as_agent(agent, layout), pixels)
    kinds: tuple[Marker, ...] = ("start", "goal") if agent is None else ("start", "goal", "agent")
    return frame(picture, title, partial(marker_legend, kinds, cell_size=pixels) if legend else None)


def draw_paths(
    layout: MazeLayout,
    paths: Sequence[ArrayLike],
    successes: Sequence[bool] | NDArray[np.bool_],
    *,
    cell_size: int | None = None,
    legend: bool = True,
    title: str = "",
    max_opacity: float = 0.9,
) -> pygame.Surface:
    """Draw many paths into a maze: the more paths of its kind take a step, the darker it is.

    Successes are solid lines; failures are dashed lines beside them, with a cross where a path ended. The opacity of a
    step is ``max_opacity * (0.2 + 0.8 * sqrt(share))``, where share is the share of the successes, or of the failures,
    that take this step at least once, in either direction.

    Args:
        layout: the maze.
        paths: N paths, each (L, 2) integers, (row, column) of the squares visited, L at least 1. A square may
            repeat (a wall hit).
        successes: (N,) bool, whether each path is a success.
        cell_size: as in `draw_layout`. Crosses and dashes need 7 pixels, lines side by side 2.
        legend: whether to count successes and failures below the maze.
        title: as in `draw_layout`.
        max_opacity: opacity, over 0 and at most 1, of a step that all paths of a kind take.

    Returns:
        A Surface in memory; no display is needed.

    Raises:
        TypeError: as in `draw_layout`, for paths that are not integers, and an opacity that is no number.
        ValueError: for a path that is empty, leaves the maze, steps into a wall or jumps, with its index and step;
            for another number of successes than paths; for an opacity out of range.
    """
    pixels = as_cell_size(cell_size, as_layout(layout))
    check_text("title", title)
    if not 0 < as_number("max_opacity", max_opacity, "a number over 0 and at most 1") <= 1:
        raise ValueError(f"max_opacity={max_opacity!r} is out of range; allowed is over 0 and at most 1")
    succeeded, failed = count_paths(layout, paths, successes)
    picture = enlarge(square_colours(layout), pixels)
    both = succeeded.num_paths > 0 and failed.num_paths > 0
    thickness, lanes = _lanes(pixels, both)
    dash_gap = round(pixels / 12)
    has_crosses = failed.num_paths > 0 and pixels >= MIN_MARKER_SIZE
    for counts, colour, lane, gap in (
        (failed, PALETTE.failure, lanes[1], dash_gap),
        (succeeded, PALETTE.success, lanes[0], 0),
    ):
        if counts.num_paths:
            opacity = _opacity(counts.steps, counts.num_paths, max_opacity)
            _draw_lines(picture, opacity, colour, (lane, lane + thickness), gap)
    if has_crosses:
        _draw_crosses(picture, _opacity(failed.ends, failed.num_paths, max_opacity), lanes[1] + thickness / 2, pixels)
    _draw_ends(picture, layout, pixels)
    words = partial(
        path_legend, succeeded.num_paths, failed.num_paths, has_dashes=dash_gap > 0, has_crosses=has_crosses
    )
    return frame(picture, title, words if legend else None)


def draw_heatmap(
    layout: MazeLayout,
    values: ArrayLike,
    *,
    cell_size: int | None = None,
    legend: bool = True,
    title: str = "",
    label: str = "",
    limits: tuple[float, float] | None = None,
) -> pygame.Surface:
    """Draw a value for each open square as a colour from dark violet (low) to yellow (high).

    Args:
        layout: the maze.
        values: (H, W) real numbers; NaN for no value (the square stays plain). Values in walls are ignored.
        cell_size: as in `draw_layout`.
        legend: whether to draw a colour bar with its lowest and highest value below the maze.
        title: as in `draw_layout`.
        label: what the values are, with their unit; written above the colour bar.
        limits: the values at the two ends of the colour bar, low < high, for pictures that are to be compared; values
            beyond have the colour of the end. None takes the least and the greatest value there is.

    Returns:
        A Surface in memory; no display is needed.

    Raises:
        TypeError: as in `draw_layout`, and for values and limits that are not real numbers.
        ValueError: for values of another shape than the maze, infinite values, limits that are not low < high.
    """
    pixels = as_cell_size(cell_size, as_layout(layout))
    check_text("title", title)
    check_text("label", label)
    grid = _as_values(values, layout)
    shown = ~layout.walls & ~np.isnan(grid)
    low, high = _as_limits(limits, grid[shown])
    colours = square_colours(layout)
    # A constant map has one colour, that of the middle.
    colours[shown] = ramp_colours((grid[shown] - low) / (high - low) if low < high else np.full(shown.sum(), 0.5))
    picture = enlarge(colours, pixels)
    _draw_ends(picture, layout, pixels)
    return frame(picture, title, partial(colour_bar, low, high, label) if legend else None)


def _as_agent(agent: Sequence[int], layout: MazeLayout) -> tuple[int, int]:
    try:
        row, column = (operator.index(i) for i in agent)
    except (TypeError, ValueError):
        raise TypeError(f"agent={agent!r} is not a cell; allowed are two integers (row, column)") from None
    height, width = layout.size
    if not (0 <= row < height and 0 <= column < width):
        raise LayoutError(
            "the agent lies outside", row=row, column=column, found=f"a maze of {height}x{width} squares",
            allowed=f"rows 0 to {height - 1}, columns 0 to {width - 1}",
        )  # fmt: skip
    if layout.walls[row, column]:
        raise LayoutError("the agent lies in a wall", row=row, column=column, found="a wall", allowed="an open square")
    return row, column


def _as_values(values: ArrayLike, layout: MazeLayout) -> NDArray[np.float64]:
    try:
        grid = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"values are not a table: {error}; allowed is shape {layout.size}") from None
    if grid.dtype.kind not in "biuf":
        raise TypeError(f"values have dtype {grid.dtype}; allowed are real numbers, and NaN for no value")
    if grid.shape != layout.size:
        raise ValueError(
            f"values have shape {grid.shape}, but the maze has {layout.size} squares (height, width); give one value "
            "for each square, walls included (there any value will do)"
        )
    infinite = np.argwhere(np.isinf(grid) & ~layout.walls)
    if len(infinite):
        row, column = infinite[0].tolist()
        raise ValueError(f"values[{row}, {column}] is {grid[row, column]}; allowed are finite numbers, and NaN")
    return grid.astype(np.float64)


def _as_limits(limits: tuple[float, float] | None, values: NDArray[np.float64]) -> tuple[float, float]:
    if limits is None:
        return (float(values.min()), float(values.max())) if values.size else (math.nan, math.nan)
    allowed = "two finite numbers with low < high"
    ends = as_list("limits", limits, allowed)
    numbers = [as_number(f"limits[{i}]", end, allowed) for i, end in enumerate(ends)]
    if len(numbers) != 2 or not np.isfinite(numbers).all() or numbers[0] >= numbers[1]:
        raise ValueError(f"limits={limits!r} are not (low, high); allowed are {allowed}")
    return numbers[0], numbers[1]


def _draw_ends(picture: pygame.Surface, layout: MazeLayout, cell_size: int) -> None:
    draw_marker(picture, "start", layout.start, cell_size)
    draw_marker(picture, "goal", layout.goal, cell_size)


def _lanes(cell_size: int, both: bool) -> tuple[int, tuple[int, int]]:
    """Thickness of lines, and where in a square those of successes and of failures begin, in pixels."""
    thickness = max(1, round(cell_size / 7))
    if not both:
        middle = (cell_size - thickness) // 2
        return thickness, (middle, middle)
    free = max(cell_size - 2 * thickness, 0)
    space = min(free, max(1, free // 3))
    begin = (free - space) // 2
    return thickness, (begin, min(begin + thickness + space, cell_size - thickness))


def _opacity(counts: NDArray[np.int64], num_paths: int, max_opacity: float) -> NDArray[np.uint8]:
    share = np.sqrt(counts / num_paths)
    return np.rint(255 * max_opacity * np.where(counts > 0, _FAINTEST + (1 - _FAINTEST) * share, 0)).astype(np.uint8)


def _draw_lines(
    picture: pygame.Surface, opacity: NDArray[np.uint8], colour: Colour, lane: tuple[int, int], gap: int
) -> None:
    """Draw all steps of one kind at once, so that lines that meet do not darken one another.

    Args:
        picture: the picture to draw on.
        opacity: (3, H, W) uint8, of squares, of steps to the right and of steps down.
        colour: of the lines.
        lane: from which to which pixel of its square a line goes, across.
        gap: pixels left free on both sides of the edge between two squares.
    """
    squares, right, down = opacity
    height, width = squares.shape
    size = picture.get_width() // width
    begin, end = lane
    # (H, cell_size, W, cell_size): the pixels of all squares, and each square's part of the steps to its neighbours
    alpha = np.zeros((height, size, width, size), np.uint8)
    alpha[:, begin:end, :, begin:end] = squares[:, None, :, None]
    alpha[:, begin:end, :, end : size - gap] = right[:, None, :, None]
    alpha[:, begin:end, 1:, gap:begin] = right[:, None, :-1, None]
    alpha[:, end : size - gap, :, begin:end] = down[:, None, :, None]
    alpha[1:, gap:begin, :, begin:end] = down[:-1, None, :, None]
    layer = pygame.Surface(picture.get_size(), pygame.SRCALPHA, 32)
    layer.fill((*colour, 0))
    pygame.surfarray.pixels_alpha(layer)[:] = alpha.reshape(height * size, width * size).T
    picture.blit(layer, (0, 0))


def _draw_crosses(picture: pygame.Surface, opacity: NDArray[np.uint8], centre: float, cell_size: int) -> None:
    cross = marker("cross", max(5, cell_size // 2))
    for row, column in np.argwhere(opacity > 0).tolist():
        cross.set_alpha(int(opacity[row, column]))
        offset = round(centre - cross.get_width() / 2)
        picture.blit(cross, (column * cell_size + offset, row * cell_size + offset))
