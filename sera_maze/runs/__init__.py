"""A run's folder, from its config to comparisons with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sera_maze.envs.ground.lazy import lazy_names

if TYPE_CHECKING:
    from sera_maze.runs.comparison import compare as compare
    from sera_maze.runs.config import PRESETS as PRESETS
    from sera_maze.runs.config import RunConfig as RunConfig
    from sera_maze.runs.training import train as train

__all__ = [
    "PRESETS",
    "RunConfig",
    "compare",
    "train",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "PRESETS": "config",
        "RunConfig": "config",
        "compare": "comparison",
        "train": "training",
    },
)
