"""Maze navigation for likelihood-style reinforcement learning, on Gymnasium and Stable-Baselines3.

Importing this package is light: it registers the Gymnasium ids (``SeraMaze/Prim-17x17-v0``, ...) and
loads each public name when it is first used. Import it before torch: then it sets ``GOMP_SPINCOUNT``, so
that torch's threads do not spin while they wait for each other.
"""

from __future__ import annotations

import os
import sys
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Else torch's threads wait by spinning, which costs many times the time where other programs use a core. The library
# that they come from reads this when torch is loaded.
if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def _take_in(name: str) -> None:
    """Load a package of the folder above as one of this package."""
    place = Path(__file__).parents[1] / name
    spec = util.spec_from_file_location(
        f"{__name__}.{name}", place / "__init__.py", submodule_search_locations=[str(place)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{place} is no package", name=f"{__name__}.{name}")
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module
    globals()[name] = module
    spec.loader.exec_module(module)


# An installed package has envs/ and assets/ inside it. In the repository they lie one folder up, and Python started
# there finds this source folder before an installed copy.
if not (Path(__file__).parent / "envs").is_dir():
    for _name in ("assets", "envs"):
        if f"{__name__}.{_name}" not in sys.modules:
            _take_in(_name)

from sera_maze import envs as envs  # noqa: E402 (which may have to be found first)
from sera_maze.envs.ground.lazy import lazy_names  # noqa: E402

if TYPE_CHECKING:
    __version__: str
    from sera_maze.algorithm.maxrl import SERA as SERA
    from sera_maze.algorithm.maxrl import MaxRL as MaxRL
    from sera_maze.allocation.advantages import group_advantages as group_advantages
    from sera_maze.allocation.allocation import allocate as allocate
    from sera_maze.allocation.success import SuccessHistory as SuccessHistory
    from sera_maze.coverage.callback import CoverageCallback as CoverageCallback
    from sera_maze.coverage.evaluation import evaluate as evaluate
    from sera_maze.coverage.unbiased import pass_at_k as pass_at_k
    from sera_maze.envs.layouts.layout import MazeLayout as MazeLayout
    from sera_maze.envs.play.maze import MazeEnv as MazeEnv
    from sera_maze.envs.play.prompt_queue import PromptQueue as PromptQueue
    from sera_maze.envs.pools.fresh import FreshMazes as FreshMazes
    from sera_maze.envs.pools.pool import MazePool as MazePool
    from sera_maze.policies.maze import MazePolicy as MazePolicy
    from sera_maze.sampling.vec_env import MazeVecEnv as MazeVecEnv

__all__ = [
    "SERA",
    "CoverageCallback",
    "FreshMazes",
    "MaxRL",
    "MazeEnv",
    "MazeLayout",
    "MazePolicy",
    "MazePool",
    "MazeVecEnv",
    "PromptQueue",
    "SuccessHistory",
    "__version__",
    "allocate",
    "envs",
    "evaluate",
    "group_advantages",
    "pass_at_k",
]
_load, _ = lazy_names(
    __name__,
    {
        "CoverageCallback": "coverage.callback",
        "FreshMazes": "envs.pools.fresh",
        "MaxRL": "algorithm.maxrl",
        "MazeEnv": "envs.play.maze",
        "MazeLayout": "envs.layouts.layout",
        "MazePolicy": "policies.maze",
        "MazePool": "envs.pools.pool",
        "MazeVecEnv": "sampling.vec_env",
        "PromptQueue": "envs.play.prompt_queue",
        "SERA": "algorithm.maxrl",
        "SuccessHistory": "allocation.success",
        "allocate": "allocation.allocation",
        "evaluate": "coverage.evaluation",
        "group_advantages": "allocation.advantages",
        "pass_at_k": "coverage.unbiased",
    },
    rooms=(
        "runs", "viewer", "coverage", "algorithm", "sampling", "policies", "exact", "allocation", "envs.pictures",
        "envs",
    ),
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name == "__version__":
        from sera_maze.envs.pools.files import package_version

        return package_version()
    return _load(name)


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted(__all__)
