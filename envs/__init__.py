"""Maze environments: layouts, generators, Gymnasium environments and their pictures.

Importing this package registers the Gymnasium ids and is otherwise light: public names load on first use.
It needs numpy, numba, gymnasium and pygame, and neither torch nor Stable-Baselines3.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sera_maze.envs.errors import LayoutError as LayoutError
    from sera_maze.envs.fresh_mazes import FreshMazes as FreshMazes
    from sera_maze.envs.generate import generate_layouts as generate_layouts
    from sera_maze.envs.layout import MazeLayout as MazeLayout
    from sera_maze.envs.maze import MazeEnv as MazeEnv
    from sera_maze.envs.pool import MazePool as MazePool
    from sera_maze.envs.prompt_queue import PromptQueue as PromptQueue
    from sera_maze.envs.vector import MazeVectorEnv as MazeVectorEnv

_PUBLIC = {
    "FreshMazes": "fresh_mazes",
    "LayoutError": "errors",
    "MazeEnv": "maze",
    "MazeLayout": "layout",
    "MazePool": "pool",
    "MazeVectorEnv": "vector",
    "PromptQueue": "prompt_queue",
    "generate_layouts": "generate",
}

__all__ = [
    "FreshMazes", "LayoutError", "MazeEnv", "MazeLayout", "MazePool", "MazeVectorEnv", "PromptQueue",
    "generate_layouts", "register_envs",
]  # fmt: skip

# Names in the ids and what they generate. A braided maze has no dead ends, so usually several solutions.
_FAMILIES: dict[str, dict[str, Any]] = {
    "Prim": {"algorithm": "prim"},
    "Dfs": {"algorithm": "dfs"},
    "Kruskal": {"algorithm": "kruskal"},
    "Wilson": {"algorithm": "wilson"},
    "Division": {"algorithm": "division"},
    "Rooms": {"algorithm": "rooms"},
    "Braid": {"algorithm": "prim", "braid": 1.0},
}
_SIDES = (9, 17, 33)


def register_envs() -> None:
    """Register ``SeraMaze/{Prim,Dfs,Kruskal,Wilson,Division,Rooms,Braid}-{9x9,17x17,33x33}-v0`` with Gymnasium.

    Importing `sera_maze` or `sera_maze.envs` does so; calling it again changes nothing.
    """
    from gymnasium.envs.registration import register, registry

    for family, options in _FAMILIES.items():
        for side in _SIDES:
            name = f"SeraMaze/{family}-{side}x{side}-v0"
            if name not in registry:
                register(
                    id=name,
                    entry_point="sera_maze.envs.maze:MazeEnv",
                    vector_entry_point="sera_maze.envs.vector:MazeVectorEnv",
                    kwargs={"size": (side, side), **options},
                )


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name in _PUBLIC:
        return getattr(import_module(f"sera_maze.envs.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'sera_maze.envs' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted(__all__)


register_envs()
