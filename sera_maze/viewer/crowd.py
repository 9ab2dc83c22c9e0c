"""Many rollouts at once: dots that walk through a maze, those that failed as crosses, and how many have arrived."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.pictures.canvas import OVERSAMPLING, PALETTE, Colour, blank, draw_marker, marker, pygame
from sera_maze.envs.pictures.legends import text_line
from sera_maze.viewer.scenes import Scene

CROWD = 64  # rollouts, unless another number is asked for
_SPREAD = 0.26  # of a square: how far from the middle of their squares the rollouts walk
_DOT, _LEAST_DOT = 0.24, 3  # diameter, a share of a square; pixels
_CROSS, _CROSS_ALPHA = 0.3, 170
# A trail is a row of dots, ever smaller and fainter: how many, how many moves back the last, and its size and opacity.
_TRAIL_DOTS, _TRAIL_MOVES, _TRAIL_SIZE, _TRAIL_ALPHA = 6, 1.5, 0.4, 40
_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))
_WALKING: Colour = (205, 209, 214)


class CrowdCounts(NamedTuple):
    """How many rollouts of a crowd have reached the goal, are on their way, and have failed."""

    arrived: int
    walking: int
    failed: int


def crowd_moves(scene: Scene, count: int) -> int:
    """Moves until the last of the first ``count`` rollouts has ended."""
    return int(scene.steps[:count].max())


def crowd_counts(scene: Scene, count: int, moment: float) -> CrowdCounts:
    """Where the first ``count`` rollouts are after ``moment`` moves."""
    ended, success = scene.steps[:count] <= moment, scene.success[:count]
    return CrowdCounts(int((ended & success).sum()), int((~ended).sum()), int((ended & ~success).sum()))


def draw_crowd(picture: pygame.Surface, scene: Scene, count: int, moment: float, cell_size: int) -> None:
    """Draw the first ``count`` rollouts after ``moment`` moves, a part of a move as a part of the way between squares.

    Those on their way are dots with fading trails, those that failed crosses; those that arrived are gone. Each walks
    a little beside the middle, so that they can be told apart.

    Args:
        picture: of the maze, drawn onto.
        scene: whose rollouts.
        count: how many of them.
        moment: moves since the start, at least 0.
        cell_size: pixels a square.
    """
    ends = scene.steps[:count].tolist()
    places = _spread(count)  # (count, 2)
    cross = marker("cross", max(_LEAST_DOT, round(_CROSS * cell_size)))
    cross.set_alpha(_CROSS_ALPHA)
    for i, end in enumerate(ends):
        if end <= moment and not scene.success[i]:
            _blit(picture, cross, scene.paths[i][-1] + places[i], cell_size)
    layer = pygame.Surface(picture.get_size(), pygame.SRCALPHA, 32)
    layer.fill((*PALETTE.agent, 0))
    for back in range(_TRAIL_DOTS, -1, -1):
        faded = back / _TRAIL_DOTS
        diameter = max(_LEAST_DOT, _DOT * cell_size) * (1 - faded * (1 - _TRAIL_SIZE))
        dot = _dot(round(OVERSAMPLING * diameter), 255 if back == 0 else round(_TRAIL_ALPHA + 90 * (1 - faded)))
        for i, end in enumerate(ends):
            then = moment - _TRAIL_MOVES * faded
            if moment < end and (back == 0 or then > 0):
                _blit(layer, dot, _between(scene.paths[i], then) + places[i], cell_size, pygame.BLEND_RGBA_MAX)
    picture.blit(layer, (0, 0))
    draw_marker(picture, "start", scene.layout.start, cell_size)
    draw_marker(picture, "goal", scene.layout.goal, cell_size)


def draw_counts(counts: CrowdCounts, width: int, size: int) -> pygame.Surface:
    """A bar of ``width`` pixels, blue for those that arrived and orange for those that failed, and the numbers."""
    total, thickness = sum(counts), max(6, size // 2)
    arrived = text_line(f"{counts.arrived} of {total} at the goal", size, PALETTE.success)
    failed = text_line(f"{counts.failed} failed", size, PALETTE.failure)
    line = round(1.3 * size)
    is_narrow = arrived.get_width() + size + failed.get_width() > width
    surface = blank(width, thickness + line * (3 if is_narrow else 2) - line // 2)
    surface.fill(_WALKING, (0, 0, width, thickness))
    blue, orange = (round(width * number / total) for number in (counts.arrived, counts.failed))
    surface.fill(PALETTE.success, (0, 0, blue, thickness))
    surface.fill(PALETTE.failure, (width - orange, 0, orange, thickness))
    top = thickness + line // 4
    surface.blit(arrived, (0, top))
    surface.blit(failed, (width - failed.get_width(), top + (line if is_narrow else 0)))
    return surface


def _spread(count: int) -> NDArray[np.float64]:
    """(count, 2) places in a disc round (0, 0), evenly spread: those of seeds in a sunflower."""
    number = np.arange(count)
    radius = _SPREAD * np.sqrt((number + 0.5) / count)
    return radius[:, None] * np.stack([np.sin(number * _GOLDEN_ANGLE), np.cos(number * _GOLDEN_ANGLE)], axis=1)


def _between(path: NDArray[np.int64], moment: float) -> NDArray[np.float64]:
    """(2,) the place, (row, column), after a number of moves that need not be whole."""
    before = math.floor(moment)
    after = min(before + 1, len(path) - 1)
    place: NDArray[np.float64] = path[before] + (moment - before) * (path[after] - path[before])
    return place


def _blit(
    picture: pygame.Surface, image: pygame.Surface, place: NDArray[np.float64], cell_size: int, flags: int = 0
) -> None:
    """Put an image with its middle at a place (row, column), where (0, 0) is the middle of the first square."""
    x, y = ((place[i] + 0.5) * cell_size - side / 2 for i, side in ((1, image.get_width()), (0, image.get_height())))
    picture.blit(image, (round(x), round(y)), special_flags=flags)


@lru_cache(maxsize=256)
def _dot(large: int, alpha: int) -> pygame.Surface:
    """A disc of ``large`` / 4 pixels."""
    side = math.ceil(large / OVERSAMPLING)
    canvas = pygame.Surface((side * OVERSAMPLING, side * OVERSAMPLING), pygame.SRCALPHA, 32)
    canvas.fill((*PALETTE.agent, 0))
    middle = side * OVERSAMPLING / 2
    pygame.draw.circle(canvas, PALETTE.agent, (middle, middle), large / 2)
    small = pygame.transform.smoothscale(canvas, (side, side))
    small.fill((255, 255, 255, alpha), special_flags=pygame.BLEND_RGBA_MULT)
    return small
