"""The four moves, in the order of their numbers, where they lead, and which of them lead to open squares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.ground.kernels import kernel_part

# (row, column) steps of the four actions UP, DOWN, LEFT, RIGHT, in the order of their numbers 0 to 3.
ACTION_NAMES = ("UP", "DOWN", "LEFT", "RIGHT")
ACTION_STEPS: tuple[tuple[int, int], ...] = ((-1, 0), (1, 0), (0, -1), (0, 1))


def flat_steps(width: int) -> tuple[int, ...]:
    """What each action adds to a flat square, row * width + column: (-width, width, -1, 1)."""
    return tuple(down * width + right for down, right in ACTION_STEPS)


@kernel_part
def flat_step(action, width):  # type: ignore[no-untyped-def]
    """The same of one action, 0 to 3; arithmetic, since random moves defeat the prediction of branches."""
    return (2 * (action & 1) - 1) * (width + (1 - width) * (action >> 1))


def action_masks(walls: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which actions lead to an open square: walls (M, H, W) bool to (M, H, W, 4) bool, all False in walls."""
    is_open = ~walls
    masks = np.zeros((*walls.shape, len(ACTION_STEPS)), bool)
    masks[:, 1:, :, 0] = is_open[:, :-1]
    masks[:, :-1, :, 1] = is_open[:, 1:]
    masks[:, :, 1:, 2] = is_open[:, :, :-1]
    masks[:, :, :-1, 3] = is_open[:, :, 1:]
    return masks & is_open[..., None]
