"""What all pictures are made of: the palette, the picture of a maze and the markers.

Everything is drawn onto plain pygame Surfaces in memory: no display is needed and none is opened.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.pictures.cell_sizes import DEFAULT_SIDE, choose_cell_size

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # pygame greets on stdout when it is imported first

import pygame as pygame  # re-exported: imported from here, it never greets

Colour = tuple[int, int, int]
Marker = Literal["start", "goal", "agent", "cross"]


class Palette(NamedTuple):
    """The colours of all pictures, as (red, green, blue) from 0 to 255.

    The hues are those of Okabe and Ito (Color Universal Design, 2008), which stay apart under all common kinds of
    colour blindness; no two things are told apart by colour alone.
    """

    page: Colour = (255, 255, 255)
    text: Colour = (38, 43, 51)
    wall: Colour = (52, 58, 68)
    floor: Colour = (250, 249, 246)
    start: Colour = (0, 158, 115)
    goal: Colour = (230, 159, 0)
    agent: Colour = (0, 114, 178)
    success: Colour = (0, 114, 178)
    failure: Colour = (213, 94, 0)
    rim: Colour = (255, 255, 255)


PALETTE = Palette()

MIN_MARKER_SIZE = 7  # pixels a square: below, rings, stars and crosses are blots; squares or nothing are drawn instead
_MIN_FRAME_SIZE = 3  # pixels a square: below, a frame would have no inside
OVERSAMPLING = 4  # markers and text are drawn larger by this factor and then made smaller, for smooth edges


def as_layout(layout: object) -> MazeLayout:
    """Return ``layout``.

    Raises:
        TypeError: if it is not a `MazeLayout`.
    """
    if not isinstance(layout, MazeLayout):
        raise TypeError(
            f"layout must be a MazeLayout, got {type(layout).__name__}; "
            "make one with MazeLayout.from_text(...) or MazeLayout(walls, start, goal)"
        )
    return layout


def as_cell_size(cell_size: int | None, layout: MazeLayout, side: int = DEFAULT_SIDE) -> int:
    """Check ``cell_size`` (pixels a square), or choose one with which the longer side has about ``side`` pixels.

    Raises:
        TypeError: if it is not an integer.
        ValueError: if it is below 1, or the picture would not fit in memory.
    """
    return choose_cell_size(cell_size, layout.size, side)


def check_text(name: str, text: object) -> str:
    """Return ``text``.

    Raises:
        TypeError: if it is not a str.
        ValueError: if it holds a null character, which fonts cannot draw.
    """
    if not isinstance(text, str):
        raise TypeError(f"{name}={text!r} must be a str, got {type(text).__name__}")
    if "\0" in text:
        raise ValueError(f"{name}={text!r} holds a null character, which cannot be drawn; take it out")
    return text


def blank(width: int, height: int, colour: Colour = PALETTE.page) -> pygame.Surface:
    """Make a (width, height) Surface of one colour, in a format that does not depend on any display."""
    surface = pygame.Surface((width, height), 0, 32)
    surface.fill(colour)
    return surface


def enlarge(colours: NDArray[np.uint8], cell_size: int) -> pygame.Surface:
    """Draw colours (H, W, 3) as squares of ``cell_size`` pixels, without gaps or blur."""
    height, width = colours.shape[:2]
    small = blank(width, height)
    pygame.surfarray.blit_array(small, colours.swapaxes(0, 1))
    return pygame.transform.scale(small, (width * cell_size, height * cell_size))


def square_colours(layout: MazeLayout) -> NDArray[np.uint8]:
    """Colours (H, W, 3) of walls and floor."""
    return np.where(layout.walls[..., None], np.array(PALETTE.wall, np.uint8), np.array(PALETTE.floor, np.uint8))


def draw_marker(picture: pygame.Surface, kind: Marker, cell: Sequence[int], cell_size: int) -> None:
    """Draw a marker into the square ``cell`` (row, column) of a picture."""
    row, column = cell
    picture.blit(marker(kind, cell_size), (column * cell_size, row * cell_size))


def marker(kind: Marker, size: int, cell_size: int | None = None) -> pygame.Surface:
    """One marker on a transparent square of ``size`` pixels: start a ring, goal a star, agent a disc, failure a cross.

    The agent fits into the ring and leaves the points of the star free. Under 7 pixels the ring is a square frame and
    the star and the disc are squares; under 3 pixels each fills its square.

    Args:
        kind: which one.
        size: pixels.
        cell_size: draws the shapes of a marker of so many pixels; None: of ``size``.
    """
    shape = size if cell_size is None else cell_size
    if shape < MIN_MARKER_SIZE:
        return _small_marker(kind, size, is_full=shape < _MIN_FRAME_SIZE)
    side = size * OVERSAMPLING
    canvas = pygame.Surface((side, side), pygame.SRCALPHA, 32)
    # Transparent pixels carry the rim's colour too, or smoothing would darken the edges.
    canvas.fill((*PALETTE.rim, 0))
    centre, rim = (side / 2, side / 2), max(OVERSAMPLING / 2, 0.035 * side)
    if kind == "start":
        width = max(0.11 * side, 1.5 * OVERSAMPLING)  # thinner rings fade
        pygame.draw.circle(canvas, PALETTE.rim, centre, 0.40 * side + rim, round(width + 2 * rim))
        pygame.draw.circle(canvas, PALETTE.start, centre, 0.40 * side, round(width))
    elif kind == "goal":
        pygame.draw.polygon(canvas, PALETTE.rim, _star(side, 0.46 * side + 1.6 * rim))
        pygame.draw.polygon(canvas, PALETTE.goal, _star(side, 0.46 * side))
    elif kind == "agent":
        pygame.draw.circle(canvas, PALETTE.rim, centre, 0.24 * side + rim)
        pygame.draw.circle(canvas, PALETTE.agent, centre, 0.24 * side)
    else:
        canvas.fill((*PALETTE.failure, 0))
        for polygon in _cross(side, 0.40 * side, 0.2 * side):
            pygame.draw.polygon(canvas, PALETTE.failure, polygon)
    return pygame.transform.smoothscale(canvas, (size, size))


def _small_marker(kind: Marker, size: int, is_full: bool) -> pygame.Surface:
    canvas = pygame.Surface((size, size), pygame.SRCALPHA, 32)
    rect = pygame.Rect(0, 0, size, size)
    thickness = max(1, size // 5)
    if kind == "cross":
        pygame.draw.line(canvas, PALETTE.failure, (0, 0), (size - 1, size - 1))
        pygame.draw.line(canvas, PALETTE.failure, (size - 1, 0), (0, size - 1))
    elif kind == "start" and not is_full:
        pygame.draw.rect(canvas, PALETTE.start, rect, thickness)
    elif kind == "agent" and not is_full:
        canvas.fill(PALETTE.agent, rect.inflate(-2 * thickness, -2 * thickness))
    else:
        canvas.fill({"start": PALETTE.start, "goal": PALETTE.goal, "agent": PALETTE.agent}[kind])
    return canvas


def _star(side: float, radius: float) -> list[tuple[float, float]]:
    # Moved down a little: a star's bounding box is not centred on the centre of its circle.
    middle_x, middle_y = side / 2, side / 2 + 0.04 * side
    corners = []
    for i in range(10):
        reach, angle = radius * (1.0 if i % 2 == 0 else 0.48), math.pi * (i / 5 - 0.5)
        corners.append((middle_x + reach * math.cos(angle), middle_y + reach * math.sin(angle)))
    return corners


def _cross(side: float, arm: float, thickness: float) -> list[list[tuple[float, float]]]:
    middle, half = side / 2, thickness / math.sqrt(8)
    return [
        [
            (middle + sign * (-arm - half), middle - arm + half),
            (middle + sign * (-arm + half), middle - arm - half),
            (middle + sign * (arm + half), middle + arm - half),
            (middle + sign * (arm - half), middle + arm + half),
        ]
        for sign in (-1, 1)
    ]
