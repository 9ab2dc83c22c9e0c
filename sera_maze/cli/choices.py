"""Which mazes the options of a command ask for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from sera_maze.envs.generating.spec import MazeSpec
from sera_maze.runs.config import RunConfig

if TYPE_CHECKING:
    from sera_maze.envs.pools.pool import MazePool


def unless_given(what: str) -> Any:
    """Let the help of an option say what holds where it is left out."""
    return tyro.conf.arg(help_behavior_hint=f"(default: {what})")


def parse_size(text: str) -> tuple[int, int]:
    """Read "17x17" or "17" as (height, width); the multiplication sign does for the x, too.

    Raises:
        ValueError: for other text.
    """
    match = re.fullmatch(r"(\d+)(?:[xX\u00d7](\d+))?", text.strip())
    if match is None:
        raise ValueError(f"size {text!r} is not HEIGHTxWIDTH or one number; try 17x17")
    return int(match[1]), int(match[2] or match[1])


def choose_mazes(
    config: RunConfig, load: Path | None, size: str | None, count: int | None, *, is_shipped: bool = False
) -> tuple[MazePool, str]:
    """The mazes that the options of a command ask for, and a name for the folder of their evaluation.

    Args:
        config: of the run whose held-out mazes are taken if nothing else is asked for.
        load: the option --load.
        size: --size.
        count: --count.
        is_shipped: whether it is the config of the agent that comes with the package: then 17x17 mazes are taken.

    Raises:
        ValueError: if the options exclude each other, or there are no such mazes.
    """
    from sera_maze.runs import maze_task
    from sera_maze.runs.shipped import COUNT, SIZE

    if load is not None and size is not None:
        raise ValueError("--load and --size exclude each other; give one")
    if count is not None and size is None and not (is_shipped and load is None):
        raise ValueError("--count is for mazes of a given --size; leave it out, or give one")
    if load is not None:
        return load_pool(load), f"eval-{load.stem}"
    if size is None and not is_shipped:
        return maze_task.held_out_pool(config), "eval"
    height, width = MazeSpec(SIZE if size is None else parse_size(size)).size
    usual = COUNT if is_shipped else 256
    pool = maze_task.unseen_pool(config, usual if count is None else count, (height, width))
    return pool, f"eval-{height}x{width}"


def load_pool(path: Path) -> MazePool:
    """Read mazes from a folder of drawings or a file that 'sera-maze mazes --out' wrote.

    Raises:
        FileNotFoundError, ValueError: if there are none.
    """
    from sera_maze.envs.layouts.files import SUFFIXES, read_layouts
    from sera_maze.envs.pools.pool import MazePool

    if path.is_dir():
        return MazePool.from_folder(path)
    if path.suffix.lower() in SUFFIXES:
        return MazePool.from_layouts(read_layouts(path), provenance={"made_by": "file", "file": path.name})
    return MazePool.load(path)
