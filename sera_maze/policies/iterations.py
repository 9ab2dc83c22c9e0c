"""How many iterations a `MazeNet` takes. Imports no torch, so that the command line knows it at once."""

from __future__ import annotations

from typing import Literal

BLOCK = 2  # squares of a maze that share one position of the hidden state, along each axis
Growth = Literal["sides", "area"]


def default_iterations(height: int, width: int, growth: Growth = "sides") -> int:
    """Iterations for mazes of (height, width) squares.

    Each iteration carries information over `BLOCK` squares. Time grows with the iterations times the squares.

    Args:
        height: of the mazes.
        width: of the mazes.
        growth: "sides": 0.6 times height plus width, at least 8, so that information travels 1.2 times height + width
            squares, more than the shortest path of most mazes takes. "area": a sixth of height times width, at least
            12, for mazes with long winding paths, such as those of depth-first search.
    """
    if growth == "area":
        return max(12, round(height * width / 6))
    return max(8, round(0.6 * (height + width)))


def reach(iterations: int) -> int:
    """Moves over which so many iterations surely carry information."""
    return BLOCK * iterations - 1
