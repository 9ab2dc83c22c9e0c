"""The four moves, in the order of their numbers, where they lead, and which of them lead to open squares."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

# (row, column) steps of the four actions UP, DOWN, LEFT, RIGHT, in the order of their numbers 0 to 3.
ACTION_NAMES = ("UP", "DOWN", "LEFT", "RIGHT")
ACTION_STEPS: tuple[tuple[int, int], ...] = ((-1, 0), (1, 0), (0, -1), (0, 1))
OnWall = Literal["fail", "stay"]  # what a move into a wall does: it ends the episode, or leaves the agent where it is


def flat_steps(width: int) -> tuple[int, ...]:
    """What each action adds to a flat square, row * width + column: (-width, width, -1, 1)."""
    return tuple(down * width + right for down, right in ACTION_STEPS)


def action_masks(walls: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which actions lead to an open square: walls (M, H, W) bool to (M, H, W, 4) bool, all False in walls."""
    is_open = ~walls
    masks = np.zeros((*walls.shape, len(ACTION_STEPS)), bool)
    masks[:, 1:, :, 0] = is_open[:, :-1]
    masks[:, :-1, :, 1] = is_open[:, 1:]
    masks[:, :, 1:, 2] = is_open[:, :, :-1]
    masks[:, :, :-1, 3] = is_open[:, :, 1:]
    return masks & is_open[..., None]
