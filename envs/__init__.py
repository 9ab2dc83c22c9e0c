"""Maze environments: layouts, generators, Gymnasium environments and their pictures.

Importing this package registers the Gymnasium ids and is otherwise light: public names load on first use.
It needs numpy, numba, gymnasium and pygame, and neither torch nor Stable-Baselines3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sera_maze.envs.ground.lazy import lazy_names

if TYPE_CHECKING:
    from sera_maze.envs.generating.generate import generate_layouts as generate_layouts
    from sera_maze.envs.generating.spec import MazeSpec as MazeSpec
    from sera_maze.envs.ground.errors import LayoutError as LayoutError
    from sera_maze.envs.layouts.layout import MazeLayout as MazeLayout
    from sera_maze.envs.play.maze import MazeEnv as MazeEnv
    from sera_maze.envs.play.prompt_queue import PromptQueue as PromptQueue
    from sera_maze.envs.play.vector import MazeVectorEnv as MazeVectorEnv
    from sera_maze.envs.pools.fresh import FreshMazes as FreshMazes
    from sera_maze.envs.pools.mixing import mixed_pool as mixed_pool
    from sera_maze.envs.pools.pool import MazePool as MazePool

__all__ = [
    "FreshMazes", "LayoutError", "MazeEnv", "MazeLayout", "MazePool", "MazeSpec", "MazeVectorEnv",
    "PromptQueue", "generate_layouts", "mixed_pool", "register_envs",
]  # fmt: skip
__getattr__, _ = lazy_names(
    __name__,
    {
        "FreshMazes": "pools.fresh",
        "LayoutError": "ground.errors",
        "MazeEnv": "play.maze",
        "MazeLayout": "layouts.layout",
        "MazePool": "pools.pool",
        "MazeSpec": "generating.spec",
        "MazeVectorEnv": "play.vector",
        "PromptQueue": "play.prompt_queue",
        "generate_layouts": "generating.generate",
        "mixed_pool": "pools.mixing",
    },
)


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted(__all__)


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
                    entry_point="sera_maze.envs.play.maze:MazeEnv",
                    vector_entry_point="sera_maze.envs.play.vector:MazeVectorEnv",
                    kwargs={"size": (side, side), **options},
                )


register_envs()
