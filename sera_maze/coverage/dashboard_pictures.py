"""Pictures for TensorBoard: how a batch's rollouts were allocated, and the paths that the policy takes now."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sera_maze.allocation.allocation import Allocation
from sera_maze.coverage.evaluation import difficulty_of
from sera_maze.coverage.evaluator import Evaluator
from sera_maze.coverage.path_sheets import path_sheet
from sera_maze.envs.pictures.canvas import OVERSAMPLING, PALETTE, Colour, blank, pygame
from sera_maze.envs.pictures.legends import row_width, side_by_side, text_lines
from sera_maze.envs.pictures.sheets import to_array

LEAST_SHOWN = 1e-6  # smaller success probabilities are drawn here
DOT, CURVE, LINE = PALETTE.agent, PALETTE.failure, (128, 128, 128)
_WIDTH, _HEIGHT = 460, 320  # pixels of the allocation picture, about as large as TensorBoard shows it
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 92, 58, 50  # pixels around its axes
_RADIUS = 4  # pixels of a dot
_TEXT = 15  # pixels
_SIDE = 210  # pixels of a maze, at most, unless it has more squares; TensorBoard makes larger pictures smaller
_COLUMNS = 2


class Axes(NamedTuple):
    """Where things stand in the allocation picture.

    Attributes:
        least: success probability at the left end of the logarithmic axis; 1 is at the right.
        most: rollouts at the upper end of the linear axis; 0 is at the lower.
    """

    least: float
    most: float

    def across(self, probability: float) -> float:
        """Pixels from the left edge of the picture to a success probability."""
        share = 1 - math.log(max(probability, self.least)) / math.log(self.least)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def down(self, rollouts: float) -> float:
        """Pixels from the upper edge of the picture to a number of rollouts."""
        return _HEIGHT - _BOTTOM - rollouts / self.most * (_HEIGHT - _TOP - _BOTTOM)


def allocation_axes(
    allocation: Allocation, probability: Tensor, mean: float, bounds: tuple[int, int] | None = None
) -> Axes:
    """The axes of `allocation_picture`, for the same arguments: from the power of ten below all p, 0.1 at most."""
    least = min(0.1, max(LEAST_SHOWN, float(probability.min())))
    most = max(float(allocation.counts.max()), mean, 0 if allocation.waterline is None or bounds is None else bounds[1])
    return Axes(10.0 ** math.floor(math.log10(least) + 1e-9), 1.06 * most)


def allocation_picture(
    allocation: Allocation, probability: Tensor, mean: float, bounds: tuple[int, int] | None = None
) -> NDArray[np.uint8]:
    """Draw the rollouts of each prompt of a batch against its success probability p, and what the waterline says.

    Active prompts are dots, inactive ones hollow dots at 0. The curve is the count before rounding, `waterline_curve`.

    Args:
        allocation: of one batch of B prompts.
        probability: (B,) that it was made from; those below 1e-6 are drawn at 1e-6.
        mean: rollouts a prompt, N0.
        bounds: n_min and n_max of an allocation with a waterline.

    Returns:
        (H, W, 3) uint8.
    """
    axes = allocation_axes(allocation, probability, mean, bounds)
    prob, counts = probability.double().cpu().numpy(), allocation.counts.cpu().numpy()
    active = allocation.active.cpu().numpy()
    lines = [(mean, f"N0 = {mean:g}")]
    curve: list[tuple[float, float]] = []
    if allocation.waterline is not None and bounds is not None:
        lines += [(bounds[0], f"n_min = {bounds[0]}"), (bounds[1], f"n_max = {bounds[1]}")]
        grid = np.minimum(np.geomspace(axes.least, 1, 400), 1 - 1e-9)
        rollouts = waterline_curve(grid, float(allocation.waterline), *bounds)
        curve = [(axes.across(p), axes.down(n)) for p, n in zip(grid.tolist(), rollouts.tolist(), strict=True)]
    large = blank(_WIDTH * OVERSAMPLING, _HEIGHT * OVERSAMPLING)
    _draw_grid(large, axes, [height for height, _ in lines])
    if curve:
        _draw_line(large, curve, CURVE, 2)
    for is_active in (False, True):
        for p, count in zip(prob[active == is_active].tolist(), counts[active == is_active].tolist(), strict=True):
            _draw_dot(large, (axes.across(p), axes.down(count)), hollow=not is_active)
    picture = pygame.transform.smoothscale(large, (_WIDTH, _HEIGHT))
    _write_words(picture, axes, lines)
    entries = [(_dot_swatch(hollow=False), f"active prompts: {active.sum()}")]
    if not active.all():
        entries.append((_dot_swatch(hollow=True), f"inactive prompts: {(~active).sum()}"))
    if curve:
        entries.append((_line_swatch(), "waterline: 1 + tau / c, clipped"))
    legend = side_by_side([side_by_side([swatch, text_lines(text, _TEXT, 300)], 5) for swatch, text in entries], 18)
    picture.blit(legend, ((_WIDTH - row_width([legend], 0)) // 2, 10))
    return to_array(picture)


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


def _draw_grid(large: pygame.Surface, axes: Axes, heights: Sequence[float]) -> None:
    """The frame of the axes, and dashed lines at some numbers of rollouts."""
    left, right, floor = axes.across(axes.least), axes.across(1), axes.down(0)
    for height in heights:
        y, dash = axes.down(height), 6
        for x in np.arange(left, right, 2 * dash):
            _draw_line(large, [(x, y), (min(x + dash, right), y)], LINE, 1)
    _draw_line(large, [(left, _TOP), (left, floor), (right, floor)], PALETTE.text, 1)
    for p in _probabilities(axes):
        _draw_line(large, [(axes.across(p), floor), (axes.across(p), floor + 5)], PALETTE.text, 1)
    for rollouts in _ticks(axes):
        _draw_line(large, [(left - 5, axes.down(rollouts)), (left, axes.down(rollouts))], PALETTE.text, 1)


def _write_words(picture: pygame.Surface, axes: Axes, lines: Sequence[tuple[float, str]]) -> None:
    """The numbers and names of the axes, and the names of lines right of them, moved up where they would overlap."""
    floor, right = axes.down(0), axes.across(1)
    for p in _probabilities(axes):
        _put(picture, f"{p:g}".replace("e-0", "e-"), (axes.across(p), floor + 14))
    for rollouts in _ticks(axes):
        _put(picture, f"{rollouts}", (_LEFT - 10, axes.down(rollouts)), side="right")
    _put(picture, "success probability p", ((_LEFT + right) / 2, _HEIGHT - 16))
    name = pygame.transform.rotate(text_lines("rollouts of the prompt", _TEXT, _HEIGHT), 90)
    picture.blit(name, (8, round((_TOP + floor - name.get_height()) / 2)))
    lowest = math.inf
    for height, text in sorted(lines):
        lowest = min(axes.down(height), lowest - _TEXT)
        _put(picture, text, (right + 8, lowest), side="left", colour=(90, 90, 90))


def _put(
    picture: pygame.Surface, text: str, place: tuple[float, float], side: str = "middle", colour: Colour = PALETTE.text
) -> None:
    """Write a line whose middle, left or right end is at (x, y)."""
    words = text_lines(text, _TEXT, _WIDTH, colour)
    shift = {"left": 0, "middle": words.get_width() / 2, "right": words.get_width()}[side]
    picture.blit(words, (round(place[0] - shift), round(place[1] - words.get_height() / 2)))


def _probabilities(axes: Axes) -> list[float]:
    """Powers of ten, and if they are few, 2 and 5 times these."""
    powers = range(round(-math.log10(axes.least)), 0, -1)
    digits = (1, 2, 5) if len(powers) < 3 else (1,)
    return [*(digit * 10.0**-power for power in powers for digit in digits), 1.0]


def _ticks(axes: Axes) -> list[int]:
    """Multiples of 1, 2 or 5 times a power of ten, eight at most."""
    steps = (digit * 10**power for power in range(12) for digit in (1, 2, 5))
    step = next(step for step in steps if axes.most / step < 8)
    return list(range(0, int(axes.most) + 1, step))


def _draw_line(large: pygame.Surface, places: Sequence[tuple[float, float]], colour: Colour, thickness: int) -> None:
    """Draw lines by their corners (x, y), in pixels of the finished picture."""
    scaled = [(x * OVERSAMPLING, y * OVERSAMPLING) for x, y in places]
    pygame.draw.lines(large, colour, False, scaled, thickness * OVERSAMPLING)


def _draw_dot(large: pygame.Surface, place: tuple[float, float], hollow: bool) -> None:
    centre = (place[0] * OVERSAMPLING, place[1] * OVERSAMPLING)
    pygame.draw.circle(large, PALETTE.page, centre, (_RADIUS + 0.75) * OVERSAMPLING)
    pygame.draw.circle(large, DOT, centre, _RADIUS * OVERSAMPLING)
    if hollow:
        pygame.draw.circle(large, PALETTE.page, centre, (_RADIUS - 1.5) * OVERSAMPLING)


def _dot_swatch(hollow: bool) -> pygame.Surface:
    side = 2 * _RADIUS + 2
    large = blank(side * OVERSAMPLING, side * OVERSAMPLING)
    _draw_dot(large, (side / 2, side / 2), hollow)
    return pygame.transform.smoothscale(large, (side, side))


def _line_swatch() -> pygame.Surface:
    swatch = blank(24, 2)
    swatch.fill(CURVE)
    return swatch
