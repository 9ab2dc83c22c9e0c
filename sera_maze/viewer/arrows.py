"""The policy's arrows: which way it goes from each square, and how likely."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.layouts.moves import ACTION_STEPS
from sera_maze.envs.pictures.canvas import OVERSAMPLING, PALETTE, Colour, pygame
from sera_maze.envs.pictures.legends import text_line

LEAST_SHOWN = 0.1  # probability: below, only the likeliest action has an arrow
_ARROW_SIZE = 10  # pixels a square: below, only the likeliest action is drawn, as a stroke
_NUMBER_SIZE = 48  # pixels a square: from here on probabilities are written as percentages
# Shares of a square. Arrows begin beside its middle, so that opposite ones do not meet.
_BEGIN, _SHORTEST, _GROWTH = 0.07, 0.2, 0.2
_ALONE = (-0.34, 0.38)
_HEAD, _WING, _SHAFT, _RIM = 0.17, 0.12, 0.045, 0.025
# Where the percentage of UP, DOWN, LEFT, RIGHT stands: each has a corner of its own, (down, right) of the middle.
_CORNERS = ((-0.34, -0.3), (0.34, 0.3), (0.34, -0.3), (-0.34, 0.3))


def draw_arrows(layout: MazeLayout, probabilities: NDArray[np.float64], cell_size: int) -> pygame.Surface:
    """Draw the policy on a transparent Surface: an arrow on every open square for its likeliest action.

    Other actions have one too where their probability is at least 10 %. An arrow alone in its square goes through the
    middle; of several, each begins at the middle and is the longer the likelier it is. Squares of 48 pixels and more
    have the percentages too; under 10 pixels there is one stroke.

    Args:
        layout: the maze.
        probabilities: (H, W, 4) float64, of UP, DOWN, LEFT, RIGHT on every square.
        cell_size: pixels a square.
    """
    height, width = layout.size
    picture = pygame.Surface((width * cell_size, height * cell_size), pygame.SRCALPHA, 32)
    picture.fill((*PALETTE.rim, 0))
    for row, column in np.argwhere(~layout.walls).tolist():
        if (row, column) == layout.goal:
            continue
        chances = tuple(round(chance, 2) for chance in probabilities[row, column].tolist())
        if cell_size < _ARROW_SIZE:
            _draw_stroke(picture, row, column, int(probabilities[row, column].argmax()), cell_size)
        else:
            picture.blit(_arrows(chances, cell_size), (column * cell_size, row * cell_size))
    return picture


def _draw_stroke(picture: pygame.Surface, row: int, column: int, action: int, cell_size: int) -> None:
    down, right = ACTION_STEPS[action]
    x, y = (column + 0.5) * cell_size, (row + 0.5) * cell_size
    end = (x + 0.45 * right * cell_size, y + 0.45 * down * cell_size)
    pygame.draw.line(picture, (*PALETTE.text, 255), (x, y), end)


@lru_cache(maxsize=4096)
def _arrows(chances: tuple[float, ...], cell_size: int) -> pygame.Surface:
    """The arrows of one square, on a transparent Surface."""
    side = cell_size * OVERSAMPLING
    canvas = pygame.Surface((side, side), pygame.SRCALPHA, 32)
    canvas.fill((*PALETTE.rim, 0))
    shown = [action for action, chance in enumerate(chances) if chance >= LEAST_SHOWN or chance == max(chances)]
    for action in shown:
        begin, end = _ALONE if len(shown) == 1 else (_BEGIN, _BEGIN + _SHORTEST + _GROWTH * chances[action])
        corners = _arrow(action, begin, end, side)
        pygame.draw.polygon(canvas, PALETTE.rim, corners, round(2 * _RIM * side))
        pygame.draw.polygon(canvas, PALETTE.text, corners)
    small = pygame.transform.smoothscale(canvas, (cell_size, cell_size))
    if cell_size >= _NUMBER_SIZE:
        for action in shown:
            _write_chance(small, action, chances[action], cell_size)
    return small


def _arrow(action: int, begin: float, end: float, side: int) -> list[tuple[float, float]]:
    """The corners of an arrow that goes from ``begin`` to ``end``, shares of a side away from the middle."""
    down, right = ACTION_STEPS[action]
    neck = max(end - _HEAD, begin)
    along = (begin, neck, neck, end, neck, neck, begin)
    across = (_SHAFT, _SHAFT, _WING, 0.0, -_WING, -_SHAFT, -_SHAFT)
    return [
        (side * (0.5 + far * right + wide * down), side * (0.5 + far * down + wide * right))
        for far, wide in zip(along, across, strict=True)
    ]


def _write_chance(square: pygame.Surface, action: int, chance: float, cell_size: int) -> None:
    """The probability in percent, in the action's corner, with a rim that keeps it readable on dark squares."""
    down, right = _CORNERS[action]
    line, size = f"{100 * chance:.0f}", max(12, cell_size // 5)
    words = text_line(line, size)
    x = round((0.5 + right) * cell_size - words.get_width() / 2)
    y = round((0.5 + down) * cell_size - words.get_height() / 2)
    _blit_rim(square, line, size, (x, y), PALETTE.rim)
    square.blit(words, (x, y))


def _blit_rim(square: pygame.Surface, line: str, size: int, place: tuple[int, int], colour: Colour) -> None:
    rim = text_line(line, size, colour)
    for shift in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        square.blit(rim, (place[0] + shift[0], place[1] + shift[1]))
