"""Maze navigation for likelihood-style reinforcement learning, on Gymnasium and Stable-Baselines3.

Importing this package is light: it registers the Gymnasium ids (``SeraMaze/Prim-17x17-v0``, ...) and
loads each public name when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

# An installed package has envs/ and assets/ inside it. In the repository they lie one folder up, and Python
# started there finds this source folder before an installed copy, so the folder above joins the search path.
if not (Path(__file__).parent / "envs").is_dir():
    __path__.append(str(Path(__file__).parent.parent))

from sera_maze import envs as envs

if TYPE_CHECKING:
    __version__: str
    from sera_maze.callbacks import CoverageCallback as CoverageCallback
    from sera_maze.envs.fresh_mazes import FreshMazes as FreshMazes
    from sera_maze.envs.layout import MazeLayout as MazeLayout
    from sera_maze.envs.pool import MazePool as MazePool
    from sera_maze.maxrl import SERA as SERA
    from sera_maze.maxrl import MaxRL as MaxRL
    from sera_maze.policies import MazePolicy as MazePolicy
    from sera_maze.vec_env import MazeVecEnv as MazeVecEnv

_PUBLIC = {
    "CoverageCallback": "sera_maze.callbacks",
    "FreshMazes": "sera_maze.envs.fresh_mazes",
    "MazeLayout": "sera_maze.envs.layout",
    "MazePolicy": "sera_maze.policies",
    "MazePool": "sera_maze.envs.pool",
    "MazeVecEnv": "sera_maze.vec_env",
    "MaxRL": "sera_maze.maxrl",
    "SERA": "sera_maze.maxrl",
}

__all__ = [
    "SERA",
    "CoverageCallback",
    "FreshMazes",
    "MaxRL",
    "MazeLayout",
    "MazePolicy",
    "MazePool",
    "MazeVecEnv",
    "__version__",
    "envs",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name == "__version__":
        return import_module("sera_maze.envs.pool_files").package_version()
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'sera_maze' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted(__all__)
