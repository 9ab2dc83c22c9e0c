"""The four observations of a maze episode: their spaces, and encoders that follow one episode.

The planes of grid and local hold 0 or 255, so that Stable-Baselines3, which divides images by 255, sees 0 and 1. Those
of dict hold 0 or 1: its MultiInputPolicy takes them for numbers then, not for an image, which needs 36x36 squares.

=========  =============================================================================================================
grid       (3, H, W) uint8: walls, agent, goal
local      (2, 2r + 1, 2r + 1) uint8: walls and goal around the agent in the middle; outside the maze counts as wall
tokens     (L,) uint8: the papers' prompt, then the moves so far, then padding; L = prompt length + max_steps
dict       "layout" (2, H, W) uint8: walls, goal; "position" (2,) int64: row, column
=========  =============================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.pool import MazePool
from sera_maze.envs.tokens import TOKENS, VOCABULARY, encode_prompts, prompt_length

FILLED = 255
FIRST_MOVE_TOKEN = VOCABULARY["UP"]  # the ids of UP, DOWN, LEFT, RIGHT follow each other like the actions 0 to 3


def observation_space(rules: MazeRules) -> spaces.Space[Any]:
    """The space of one observation; see the table above."""
    height, width = rules.size
    if rules.observation == "grid":
        return spaces.Box(0, FILLED, (3, height, width), np.uint8)
    if rules.observation == "local":
        side = 2 * rules.radius + 1
        return spaces.Box(0, FILLED, (2, side, side), np.uint8)
    if rules.observation == "tokens":
        return spaces.Box(0, len(TOKENS) - 1, (prompt_length(height, width) + rules.horizon,), np.uint8)
    layout = spaces.Box(0, 1, (2, height, width), np.uint8)
    return spaces.Dict({"layout": layout, "position": spaces.MultiDiscrete([height, width])})


def wall_planes(walls: NDArray[np.bool_], margin: int = 0) -> NDArray[np.uint8]:
    """Walls (M, H, W) bool as planes (M, H + 2 margin, W + 2 margin) uint8 of 0 and 255; the margin is wall."""
    count, height, width = walls.shape
    planes = np.full((count, height + 2 * margin, width + 2 * margin), FILLED, np.uint8)
    np.multiply(walls, np.uint8(FILLED), out=planes[:, margin : margin + height, margin : margin + width])
    return planes


class Encoder(Protocol):
    """Follows one episode and writes its observations. Squares are flat: row * W + column."""

    def begin(self, pool: MazePool, prompt: int, start: int, goal: int) -> None:
        """A new episode in maze ``prompt`` of ``pool``."""

    def move(self, square: int, action: int) -> None:
        """The agent took ``action`` and stands on ``square``."""

    def observe(self) -> Any:
        """A fresh observation of the present state."""


class GridEncoder:
    """observation="grid"."""

    def __init__(self, rules: MazeRules):
        self._squares = rules.size[0] * rules.size[1]
        self._planes = np.zeros((3, *rules.size), np.uint8)
        self._agent, self._goal = self._squares, 2 * self._squares
        self._flat = self._planes.reshape(-1).data

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_flat"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._flat = self._planes.reshape(-1).data

    def begin(self, pool: MazePool, prompt: int, start: int, goal: int) -> None:
        """See `Encoder`."""
        self._planes[0] = pool.planes[prompt]
        flat = self._flat
        flat[self._agent] = flat[self._goal] = 0
        self._agent, self._goal = self._squares + start, 2 * self._squares + goal
        flat[self._agent] = flat[self._goal] = FILLED

    def move(self, square: int, action: int) -> None:
        """See `Encoder`."""
        flat = self._flat
        flat[self._agent] = 0
        self._agent = self._squares + square
        flat[self._agent] = FILLED

    def observe(self) -> NDArray[np.uint8]:
        """See `Encoder`."""
        return self._planes.copy()


class LocalEncoder:
    """observation="local"."""

    def __init__(self, rules: MazeRules):
        self._width, self._radius, self._side = rules.size[1], rules.radius, 2 * rules.radius + 1
        self._planes = np.zeros((2, rules.size[0] + self._side - 1, rules.size[1] + self._side - 1), np.uint8)
        self._goal = self._square = 0

    def begin(self, pool: MazePool, prompt: int, start: int, goal: int) -> None:
        """See `Encoder`."""
        self._planes[0] = wall_planes(pool.walls[prompt : prompt + 1], self._radius)[0]
        self._planes[1] = 0
        row, column = divmod(goal, self._width)
        self._planes[1, row + self._radius, column + self._radius] = FILLED
        self._square = start

    def move(self, square: int, action: int) -> None:
        """See `Encoder`."""
        self._square = square

    def observe(self) -> NDArray[np.uint8]:
        """See `Encoder`."""
        row, column = divmod(self._square, self._width)
        return self._planes[:, row : row + self._side, column : column + self._side].copy()


class TokenEncoder:
    """observation="tokens"."""

    def __init__(self, rules: MazeRules):
        self._prompt_length = prompt_length(*rules.size)
        self._ids = np.zeros(self._prompt_length + rules.horizon, np.uint8)
        self._length = 0

    def begin(self, pool: MazePool, prompt: int, start: int, goal: int) -> None:
        """See `Encoder`."""
        one = slice(prompt, prompt + 1)
        self._ids[: self._prompt_length] = encode_prompts(pool.walls[one], pool.start[one], pool.goal[one])[0]
        self._ids[self._prompt_length :] = VOCABULARY["<pad>"]
        self._length = self._prompt_length

    def move(self, square: int, action: int) -> None:
        """See `Encoder`."""
        self._ids[self._length] = FIRST_MOVE_TOKEN + action
        self._length += 1

    def observe(self) -> NDArray[np.uint8]:
        """See `Encoder`."""
        return self._ids.copy()


class DictEncoder:
    """observation="dict"."""

    def __init__(self, rules: MazeRules):
        self._width = rules.size[1]
        self._planes = np.zeros((2, *rules.size), np.uint8)
        self._square = 0

    def begin(self, pool: MazePool, prompt: int, start: int, goal: int) -> None:
        """See `Encoder`."""
        self._planes[0] = pool.walls[prompt]
        self._planes[1] = 0
        self._planes[1].reshape(-1)[goal] = 1
        self._square = start

    def move(self, square: int, action: int) -> None:
        """See `Encoder`."""
        self._square = square

    def observe(self) -> dict[str, NDArray[Any]]:
        """See `Encoder`."""
        return {"layout": self._planes.copy(), "position": np.array(divmod(self._square, self._width))}


ENCODERS: dict[str, Callable[[MazeRules], Encoder]] = {
    "grid": GridEncoder,
    "local": LocalEncoder,
    "tokens": TokenEncoder,
    "dict": DictEncoder,
}
