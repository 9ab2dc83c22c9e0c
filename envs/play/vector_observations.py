"""The observations of `MazeEnv` for N environments at once, updated in place by what changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.ground.kernels import kernel
from sera_maze.envs.play.observations import FILLED, FIRST_MOVE_TOKEN, wall_planes
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.play.stepping import BEGAN, MOVED, Mazes, State
from sera_maze.envs.pools.pool import MazePool
from sera_maze.envs.tokens import VOCABULARY, encode_prompts, prompt_length

_PAD = VOCABULARY["<pad>"]


class VectorEncoder(Protocol):
    """Holds the observations of N environments."""

    def update(self, state: State, mazes: Mazes, actions: NDArray[np.int64]) -> None:
        """Follow the events of the last call of a stepping kernel; ``actions`` (N,) are those of agents that moved."""

    def observe(self) -> Any:
        """The observations themselves, not a copy; a dict is a new dict of the same arrays."""


# What comes from other files than those with kernels is handed to a kernel, not built into it: see `kernels`.


@kernel
def _update_grid(planes, shown_agent, shown_goal, event, prompt, square, walls, goal, filled):  # type: ignore[no-untyped-def]
    squares = walls.shape[1]
    for n in range(event.size):
        agent = squares + square[n]
        if event[n] == BEGAN:
            planes[n, :squares] = walls[prompt[n]]
            planes[n, shown_goal[n]] = 0
            shown_goal[n] = 2 * squares + goal[prompt[n]]
            planes[n, shown_goal[n]] = filled
        if agent != shown_agent[n] or event[n] == BEGAN:
            planes[n, shown_agent[n]] = 0
            planes[n, agent] = filled
            shown_agent[n] = agent


class VectorGrid:
    """observation="grid": (N, 3, H, W) uint8."""

    def __init__(self, rules: MazeRules, pool: MazePool, num_envs: int):
        self._planes = np.zeros((num_envs, 3, *rules.size), np.uint8)
        squares = rules.size[0] * rules.size[1]
        self._agent = np.full(num_envs, squares, np.int64)
        self._goal = np.full(num_envs, 2 * squares, np.int64)

    def update(self, state: State, mazes: Mazes, actions: NDArray[np.int64]) -> None:
        """See `VectorEncoder`."""
        _update_grid(
            self._planes.reshape(len(self._planes), -1), self._agent, self._goal, state.event, state.prompt,
            state.square, mazes.planes, mazes.goal, FILLED,
        )  # fmt: skip

    def observe(self) -> NDArray[np.uint8]:
        """See `VectorEncoder`."""
        return self._planes


@kernel
def _update_local(views, event, prompt, square, width, padded, goal, filled):  # type: ignore[no-untyped-def]
    side = views.shape[2]
    for n in range(event.size):
        if event[n]:
            row, column = square[n] // width, square[n] % width
            views[n, 0] = padded[prompt[n], row : row + side, column : column + side]
            views[n, 1] = 0
            goal_row = goal[prompt[n]] // width - row + side // 2
            goal_column = goal[prompt[n]] % width - column + side // 2
            if 0 <= goal_row < side and 0 <= goal_column < side:
                views[n, 1, goal_row, goal_column] = filled


class VectorLocal:
    """observation="local": (N, 2, 2 radius + 1, 2 radius + 1) uint8."""

    def __init__(self, rules: MazeRules, pool: MazePool, num_envs: int):
        side = 2 * rules.radius + 1
        self._views = np.zeros((num_envs, 2, side, side), np.uint8)
        self._padded, self._width = wall_planes(pool.walls, rules.radius), rules.size[1]

    def update(self, state: State, mazes: Mazes, actions: NDArray[np.int64]) -> None:
        """See `VectorEncoder`."""
        _update_local(
            self._views, state.event, state.prompt, state.square, self._width, self._padded, mazes.goal, FILLED
        )  # fmt: skip

    def observe(self) -> NDArray[np.uint8]:
        """See `VectorEncoder`."""
        return self._views


@kernel
def _update_tokens(ids, event, prompt, steps, actions, prompts, pad, first_move):  # type: ignore[no-untyped-def]
    length = prompts.shape[1]
    for n in range(event.size):
        if event[n] == BEGAN:
            ids[n, :length] = prompts[prompt[n]]
            ids[n, length:] = pad
        elif event[n] == MOVED:
            ids[n, length + steps[n] - 1] = first_move + actions[n]


class VectorTokens:
    """observation="tokens": (N, L) uint8."""

    def __init__(self, rules: MazeRules, pool: MazePool, num_envs: int):
        self._prompts = encode_prompts(pool.walls, pool.start, pool.goal).astype(np.uint8)
        self._ids = np.full((num_envs, prompt_length(*rules.size) + rules.horizon), _PAD, np.uint8)

    def update(self, state: State, mazes: Mazes, actions: NDArray[np.int64]) -> None:
        """See `VectorEncoder`."""
        _update_tokens(
            self._ids, state.event, state.prompt, state.steps, actions, self._prompts, _PAD, FIRST_MOVE_TOKEN
        )  # fmt: skip

    def observe(self) -> NDArray[np.uint8]:
        """See `VectorEncoder`."""
        return self._ids


@kernel
def _update_dict(layouts, position, shown_goal, event, prompt, square, width, walls, goal):  # type: ignore[no-untyped-def]
    squares = walls.shape[1]
    for n in range(event.size):
        if event[n] == BEGAN:
            layouts[n, :squares] = walls[prompt[n]]
            layouts[n, shown_goal[n]] = 0
            shown_goal[n] = squares + goal[prompt[n]]
            layouts[n, shown_goal[n]] = 1
        position[n, 0], position[n, 1] = square[n] // width, square[n] % width


class VectorDict:
    """observation="dict": layout (N, 2, H, W) uint8 and position (N, 2) int64."""

    def __init__(self, rules: MazeRules, pool: MazePool, num_envs: int):
        self._layouts = np.zeros((num_envs, 2, *rules.size), np.uint8)
        self._position = np.zeros((num_envs, 2), np.int64)
        self._goal = np.full(num_envs, rules.size[0] * rules.size[1], np.int64)
        self._width = rules.size[1]

    def update(self, state: State, mazes: Mazes, actions: NDArray[np.int64]) -> None:
        """See `VectorEncoder`."""
        _update_dict(
            self._layouts.reshape(len(self._layouts), -1), self._position, self._goal, state.event, state.prompt,
            state.square, self._width, mazes.walls, mazes.goal,
        )  # fmt: skip

    def observe(self) -> dict[str, NDArray[Any]]:
        """See `VectorEncoder`."""
        return {"layout": self._layouts, "position": self._position}


VECTOR_ENCODERS: dict[str, Callable[[MazeRules, MazePool, int], VectorEncoder]] = {
    "grid": VectorGrid,
    "local": VectorLocal,
    "tokens": VectorTokens,
    "dict": VectorDict,
}
