"""How many pixels a grid square has in pictures; needs no pygame, so that arguments can be checked without it."""

from __future__ import annotations

import math

from sera_maze.envs.ground.checks import as_integer

DEFAULT_SIDE = 512  # pixels, about the longer side of a maze drawn without a cell_size
_MAX_PIXELS = 100_000_000  # 400 MB a picture


def choose_cell_size(cell_size: int | None, size: tuple[int, int], side: int = DEFAULT_SIDE) -> int:
    """Check ``cell_size`` (pixels a square), or choose one with which the longer side has about ``side`` pixels.

    Args:
        cell_size: at least 1, or None to choose.
        size: (height, width) of the maze in squares.
        side: pixels; mazes of more squares get one pixel a square.

    Raises:
        TypeError: if it is not an integer.
        ValueError: if it is below 1, or the picture would not fit in memory.
    """
    height, width = size
    pixels = max(1, side // max(height, width)) if cell_size is None else as_integer(cell_size)
    if pixels is None:
        raise TypeError(f"cell_size={cell_size!r} is not an integer; it counts pixels a square, from 1 up")
    largest = math.isqrt(_MAX_PIXELS // (height * width))
    if largest == 0:
        raise ValueError(
            f"a maze of {height}x{width} squares is too large to be drawn: pictures have at most {_MAX_PIXELS} pixels, "
            "and a square takes at least one"
        )
    if not 1 <= pixels <= largest:
        raise ValueError(
            f"cell_size={pixels} cannot be drawn; allowed for a maze of {height}x{width} squares are 1 to {largest} "
            f"pixels a square, or None for a picture of about {DEFAULT_SIDE} pixels"
        )
    return pixels
