"""Networks and the policies of Stable-Baselines3 that are made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sera_maze.envs.ground.lazy import lazy_names

if TYPE_CHECKING:
    from sera_maze.policies.asking import success_logits as success_logits
    from sera_maze.policies.maze import MazePolicy as MazePolicy
    from sera_maze.policies.network import MazeNet as MazeNet
    from sera_maze.policies.network import default_iterations as default_iterations
    from sera_maze.policies.small_grid import SmallGridPolicy as SmallGridPolicy

__all__ = [
    "MazeNet",
    "MazePolicy",
    "SmallGridPolicy",
    "default_iterations",
    "success_logits",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "MazeNet": "network",
        "MazePolicy": "maze",
        "SmallGridPolicy": "small_grid",
        "default_iterations": "network",
        "success_logits": "asking",
    },
)
