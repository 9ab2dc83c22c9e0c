"""Mazes of several kinds, and of several sizes, as mazes of one size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.generating.distinct import generate_distinct
from sera_maze.envs.generating.spec import MazeSpec
from sera_maze.envs.ground.checks import check_int
from sera_maze.envs.layouts.layout import digest_content
from sera_maze.envs.pools.files import package_version
from sera_maze.envs.pools.pool import MazePool


def largest(kinds: Sequence[MazeSpec]) -> MazeSpec:
    """The first of the kinds with the largest height and width.

    Raises:
        TypeError: if there are no kinds.
        ValueError: if none has both.
    """
    if not kinds or not all(isinstance(kind, MazeSpec) for kind in kinds):
        raise TypeError(f"kinds={kinds!r}; give one or more MazeSpec")
    size = max(kind.size[0] for kind in kinds), max(kind.size[1] for kind in kinds)
    for kind in kinds:
        if kind.size == size:
            return kind
    raise ValueError(f"no kind has {size[0]}x{size[1]} squares, the largest height and width; add one that has both")


def walled_in(walls: NDArray[np.bool_], size: tuple[int, int]) -> NDArray[np.bool_]:
    """Walls (M, H, W) with more wall to the right and below, up to a size of at least (H, W)."""
    more = [(0, wanted - side) for wanted, side in zip(size, walls.shape[1:], strict=True)]
    return np.pad(walls, [(0, 0), *more], constant_values=True)


def fitting(pool: MazePool, size: tuple[int, int]) -> MazePool | None:
    """The mazes of a pool that fit into a size, without the wall that surrounds them; None if there are none."""
    height, width = size
    fits = _fit(pool.walls, size)
    if not fits.any():
        return None
    cells = (array[fits] for array in (pool.start, pool.goal))
    return MazePool(pool.walls[fits, :height, :width], *cells, provenance=pool.provenance)


def _fit(walls: NDArray[np.bool_], size: tuple[int, int]) -> NDArray[np.bool_]:
    """(M,) bool: which of the walls (M, H, W) hold nothing but wall beyond a size."""
    height, width = size
    beyond = np.concatenate([walls[:, height:].reshape(len(walls), -1), walls[:, :, width:].reshape(len(walls), -1)], 1)
    return np.asarray(beyond.all(axis=1))


def mixed_pool(count: int, kinds: Sequence[MazeSpec], seed: int = 0, exclude: Sequence[MazePool] = ()) -> MazePool:
    """Different mazes of K kinds, kind after kind: as many of each, or one more of the first ones.

    Args:
        count: number of mazes, at least K.
        kinds: of any sizes; mazes smaller than the largest height and width get more wall to the right and below. One
            kind must have both.
        seed: 0 to 2**64 - 1.
        exclude: pools of the largest size whose walls must not occur.

    Raises:
        ValueError, TypeError: if there are no kinds, none is the largest, or fewer different mazes exist.
    """
    size = largest(kinds).size
    count = check_int("count", count, len(kinds), 2**31)
    seen = [pool.walls for pool in exclude]
    starts, goals = [], []
    for k, kind in enumerate(kinds):
        each = count // len(kinds) + (k < count % len(kinds))
        height, width = kind.size
        excluded: set[bytes] = set()
        for walls in seen:  # those that may be a maze of this kind
            excluded.update(digest_content(walls[_fit(walls, kind.size), :height, :width]))
        mazes = generate_distinct(kind, each, seed, excluded)
        seen.append(walled_in(mazes.walls, size))
        starts.append(mazes.start)
        goals.append(mazes.goal)
    new = seen[len(exclude) :]
    provenance = {
        "made_by": "mixed", "count": count, "seed": seed, "kinds": [kind.to_dict() for kind in kinds],
        "version": package_version(),
    }  # fmt: skip
    return MazePool(np.concatenate(new), np.concatenate(starts), np.concatenate(goals), provenance=provenance)
