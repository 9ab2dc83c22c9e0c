"""Drawings of a scene: the maze with sampled paths, visits or the policy's arrows, and the rollout that is played."""

from __future__ import annotations

import itertools
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.pictures.canvas import PALETTE, Colour, draw_marker, marker, pygame
from sera_maze.envs.pictures.drawing import draw_heatmap, draw_layout, draw_paths
from sera_maze.viewer.scenes import Scene

Background = Literal["plain", "paths", "visits", "crowd"]

_TRAIL_ALPHA = 140
_CROSS_IN_RING = 0.5  # of a square: a cross inside the ring of the start


def draw_scene(
    scene: Scene,
    cell_size: int,
    background: Background = "plain",
    *,
    limits: tuple[float, float] | None = None,
) -> pygame.Surface:
    """Draw what does not move: the maze and its background.

    Args:
        scene: what to draw.
        cell_size: pixels a square; the maze is exactly (W * cell_size, H * cell_size) pixels.
        background: "paths" (all sampled paths over one another), "visits" (a heat map), or nothing ("plain", "crowd").
        limits: of the heat map, see `draw_heatmap`.
    """
    layout = scene.layout
    if background == "paths":
        return draw_paths(layout, scene.paths, scene.success, cell_size=cell_size, legend=False)
    if background == "visits":
        return draw_heatmap(layout, scene.visits, cell_size=cell_size, legend=False, limits=limits)
    return draw_layout(layout, cell_size=cell_size)


def draw_played(
    picture: pygame.Surface,
    layout: MazeLayout,
    path: NDArray[np.int64],
    cell_size: int,
    *,
    failed: bool,
    background: Background = "plain",
) -> None:
    """Draw a rollout as far as it has been played: its trail, and the agent, or a cross where it failed.

    Start and goal stay in sight: a cross on the start is small and lies inside its ring. A heat map gets no trail, and
    over other paths the trail is black.

    Args:
        picture: of `draw_scene`, drawn onto.
        layout: the maze.
        path: (L, 2), (row, column), up to the present square.
        cell_size: pixels a square.
        failed: whether the rollout has ended there in failure.
        background: what is drawn below.
    """
    if len(path) > 1 and background != "visits":
        others, width = background == "paths", max(1, round(cell_size / 7))
        layer = pygame.Surface(picture.get_size(), pygame.SRCALPHA, 32)
        layer.fill((*PALETTE.agent, 0))
        if others:  # stands out from what lies below
            _draw_line(layer, path, cell_size, PALETTE.rim, width + 2 * max(1, round(cell_size / 24)))
        _draw_line(layer, path, cell_size, PALETTE.text if others else PALETTE.agent, width)
        layer.set_alpha(255 if others else _TRAIL_ALPHA)
        picture.blit(layer, (0, 0))
        draw_marker(picture, "start", layout.start, cell_size)
        draw_marker(picture, "goal", layout.goal, cell_size)
    row, column = path[-1].tolist()
    if failed and (row, column) == layout.start:
        cross = marker("cross", max(1, round(_CROSS_IN_RING * cell_size)))
        shift = (cell_size - cross.get_width()) // 2
        picture.blit(cross, (column * cell_size + shift, row * cell_size + shift))
    else:
        draw_marker(picture, "cross" if failed else "agent", (row, column), cell_size)


def _draw_line(layer: pygame.Surface, path: NDArray[np.int64], cell_size: int, colour: Colour, width: int) -> None:
    """A line through the middles of the squares of a path, of one width at its corners too."""
    begin = (cell_size - width) // 2
    for squares in itertools.pairwise(path.tolist()):
        (top, bottom), (left, right) = (sorted(ends) for ends in zip(*squares, strict=True))
        size = ((right - left) * cell_size + width, (bottom - top) * cell_size + width)
        layer.fill((*colour, 255), (left * cell_size + begin, top * cell_size + begin, *size))
