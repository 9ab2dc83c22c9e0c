"""How groups of rollouts are made, and how their loss is taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sera_maze.envs.ground.lazy import lazy_names

if TYPE_CHECKING:
    from sera_maze.sampling.choosing import choose_sampler as choose_sampler
    from sera_maze.sampling.choosing import register_sampler as register_sampler
    from sera_maze.sampling.loss import LossTerms as LossTerms
    from sera_maze.sampling.maps import MapSampler as MapSampler
    from sera_maze.sampling.protocol import Sampler as Sampler
    from sera_maze.sampling.rollouts import Rollouts as Rollouts
    from sera_maze.sampling.steps import StepSampler as StepSampler
    from sera_maze.sampling.vec_env import MazeVecEnv as MazeVecEnv

__all__ = [
    "LossTerms",
    "MapSampler",
    "MazeVecEnv",
    "Rollouts",
    "Sampler",
    "StepSampler",
    "choose_sampler",
    "register_sampler",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "LossTerms": "loss",
        "MapSampler": "maps",
        "MazeVecEnv": "vec_env",
        "Rollouts": "rollouts",
        "Sampler": "protocol",
        "StepSampler": "steps",
        "choose_sampler": "choosing",
        "register_sampler": "choosing",
    },
)
