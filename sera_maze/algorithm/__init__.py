"""`MaxRL` and `SERA`: algorithms of Stable-Baselines3 over groups of rollouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sera_maze.envs.ground.lazy import lazy_names

if TYPE_CHECKING:
    from sera_maze.algorithm.imitation import warm_start as warm_start
    from sera_maze.algorithm.maxrl import SERA as SERA
    from sera_maze.algorithm.maxrl import MaxRL as MaxRL

__all__ = [
    "SERA",
    "MaxRL",
    "warm_start",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "MaxRL": "maxrl",
        "SERA": "maxrl",
        "warm_start": "imitation",
    },
)
