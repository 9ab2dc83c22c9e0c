"""Drawings of a scene: the maze with sampled paths, visits or the policy's arrows, and the rollout that is played."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.layouts.moves import ACTION_STEPS
from sera_maze.envs.pictures.canvas import PALETTE, Colour, blank, draw_marker, pygame
from sera_maze.envs.pictures.drawing import draw_heatmap, draw_layout, draw_paths
from sera_maze.envs.pictures.legends import text_line, wrapped
from sera_maze.viewer.scenes import Scene

Background = Literal["plain", "paths", "visits"]

_ARROW_SIZE = 10  # pixels a square: below, only the likeliest action is drawn, as a stroke
_NUMBER_SIZE = 44  # pixels a square: from here on probabilities are written as percentages
_LEAST_SHOWN = 0.02  # probability: below, no arrow is drawn
_LEAST_WRITTEN = 0.005
_TRAIL_ALPHA = 140
_HEADING: Colour = PALETTE.agent
_ARROW_COLOUR: Colour = (120, 60, 140)


def draw_scene(
    scene: Scene, cell_size: int, background: Background = "plain", *, arrows: bool = False
) -> pygame.Surface:
    """Draw all that does not move: the maze, its background, and the policy's arrows.

    Args:
        scene: what to draw.
        cell_size: pixels a square; the maze is exactly (W * cell_size, H * cell_size) pixels.
        background: "plain", "paths" (all sampled paths over one another) or "visits" (a heat map).
        arrows: whether to draw the probabilities of the four actions on every open square.
    """
    layout = scene.layout
    if background == "paths":
        picture = draw_paths(layout, scene.paths, scene.success, cell_size=cell_size, legend=False)
    elif background == "visits":
        picture = draw_heatmap(layout, scene.visits, cell_size=cell_size, legend=False)
    else:
        picture = draw_layout(layout, cell_size=cell_size)
    if arrows:
        _draw_arrows(picture, scene, cell_size)
    return picture


def draw_played(
    picture: pygame.Surface, path: NDArray[np.int64], cell_size: int, *, failed: bool, others: bool
) -> None:
    """Draw a rollout as far as it has been played: its trail, and the agent, or a cross where it failed.

    Args:
        picture: of `draw_scene`, drawn onto.
        path: (L, 2), (row, column), up to the present square.
        cell_size: pixels a square.
        failed: whether the rollout has ended there in failure.
        others: whether other paths are drawn below, so that this one has to stand out.
    """
    points = [((column + 0.5) * cell_size, (row + 0.5) * cell_size) for row, column in path.tolist()]
    if len(points) > 1:
        width = max(1, round(cell_size / 7))
        layer = pygame.Surface(picture.get_size(), pygame.SRCALPHA, 32)
        layer.fill((*PALETTE.agent, 0))
        if others:  # stands out from what lies below
            _draw_line(layer, points, PALETTE.rim, width + max(2, round(cell_size / 12)))
        _draw_line(layer, points, PALETTE.text if others else PALETTE.agent, width)
        layer.set_alpha(255 if others else _TRAIL_ALPHA)
        picture.blit(layer, (0, 0))
    draw_marker(picture, "cross" if failed else "agent", path[-1].tolist(), cell_size)


def _draw_line(layer: pygame.Surface, points: list[tuple[float, float]], colour: Colour, width: int) -> None:
    """A line whose corners are round."""
    pygame.draw.lines(layer, (*colour, 255), False, points, width)
    for point in points:
        pygame.draw.circle(layer, (*colour, 255), point, width / 2)


def _draw_arrows(picture: pygame.Surface, scene: Scene, cell_size: int) -> None:
    layout, chances = scene.layout, scene.action_probabilities
    layer = pygame.Surface(picture.get_size(), pygame.SRCALPHA, 32)
    layer.fill((*_ARROW_COLOUR, 0))
    for row, column in np.argwhere(~layout.walls).tolist():
        if (row, column) == layout.goal:
            continue
        middle = ((column + 0.5) * cell_size, (row + 0.5) * cell_size)
        if cell_size < _ARROW_SIZE:
            _draw_stroke(layer, middle, int(chances[row, column].argmax()), 0.45 * cell_size)
            continue
        for action, chance in enumerate(chances[row, column].tolist()):
            if chance >= _LEAST_SHOWN:
                _draw_arrow(layer, middle, action, chance, cell_size)
            if cell_size >= _NUMBER_SIZE and chance >= _LEAST_WRITTEN:
                _write_chance(layer, middle, action, chance, cell_size)
    picture.blit(layer, (0, 0))


def _draw_stroke(layer: pygame.Surface, middle: Sequence[float], action: int, length: float) -> None:
    down, right = ACTION_STEPS[action]
    end = (middle[0] + right * length, middle[1] + down * length)
    pygame.draw.line(layer, (*_ARROW_COLOUR, 255), middle, end)


def _draw_arrow(layer: pygame.Surface, middle: Sequence[float], action: int, chance: float, cell_size: int) -> None:
    """An arrow from the middle of a square whose length and opacity are the probability."""
    down, right = ACTION_STEPS[action]
    length, head = (0.14 + 0.30 * chance) * cell_size, 0.12 * cell_size
    shaft, opacity = max(1, cell_size // 16), round(110 + 145 * chance)
    tip = (middle[0] + right * length, middle[1] + down * length)
    neck = (tip[0] - right * head, tip[1] - down * head)
    for colour, grown in ((PALETTE.rim, max(1, cell_size // 24)), (_ARROW_COLOUR, 0)):
        wing = 0.8 * head + grown
        wings = [(neck[0] + side * down * wing - right * grown, neck[1] + side * right * wing - down * grown)
                 for side in (-1, 1)]  # fmt: skip
        point = (tip[0] + 1.5 * grown * right, tip[1] + 1.5 * grown * down)
        pygame.draw.line(layer, (*colour, opacity), middle, neck, shaft + 2 * grown)
        pygame.draw.polygon(layer, (*colour, opacity), [point, *wings])


def _write_chance(layer: pygame.Surface, middle: Sequence[float], action: int, chance: float, cell_size: int) -> None:
    """The probability in percent, beside the arrow, with a rim that keeps it readable on dark squares."""
    down, right = ACTION_STEPS[action]
    line, size = f"{100 * chance:.0f}", max(12, cell_size // 5)
    words, rim = text_line(line, size), text_line(line, size, PALETTE.rim)
    # Beside the shaft: to the right of vertical arrows, above horizontal ones.
    x = round(middle[0] + right * 0.32 * cell_size + (0.2 * cell_size if down else 0) - words.get_width() / 2)
    y = round(middle[1] + down * 0.30 * cell_size - (0.2 * cell_size if right else 0) - words.get_height() / 2)
    for shift in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        layer.blit(rim, (x + shift[0], y + shift[1]))
    layer.blit(words, (x, y))


def column_of_text(
    lines: Sequence[tuple[str, bool]], width: int, height: int, size: int, page: Colour = PALETTE.page
) -> pygame.Surface:
    """Lines (text, whether a heading) one under another, wrapped at spaces, on a page of (width, height) pixels."""
    surface = blank(width, height, page)
    y = 0
    for line, is_heading in lines:
        for part in wrapped(line, size, width):
            surface.blit(text_line(part, size, _HEADING if is_heading else PALETTE.text), (0, y))
            y += round(1.25 * size) if part else size // 2
    return surface


def font_size(height: int) -> int:
    """Pixels of the text in a window of so many pixels."""
    return min(28, max(15, height // 36))


def draw_help(page: pygame.Surface, keys: Sequence[tuple[str, str]]) -> None:
    """Draw the list of keys over a page, as large as it fits."""
    width, height = page.get_size()
    size = min(26, max(10, (height - 60) // round(1.4 * (len(keys) + 2))))
    while size > 10 and _help_width(keys, size) > width - 20:
        size -= 1
    line = round(1.4 * size)
    box = blank(min(width - 20, _help_width(keys, size)), min(height - 20, line * (len(keys) + 1)), PALETTE.floor)
    names = max(text_line(key, size).get_width() for key, _ in keys)
    for i, (key, meaning) in enumerate(keys):
        box.blit(text_line(key, size, PALETTE.agent), (size, line // 2 + i * line))
        box.blit(text_line(meaning, size), (3 * size + names, line // 2 + i * line))
    pygame.draw.rect(box, PALETTE.wall, box.get_rect(), 2)
    page.blit(box, ((width - box.get_width()) // 2, (height - box.get_height()) // 2))


def _help_width(keys: Sequence[tuple[str, str]], size: int) -> int:
    names, meanings = (
        max(text_line(words, size).get_width() for words in column) for column in zip(*keys, strict=True)
    )
    return names + meanings + 4 * size
