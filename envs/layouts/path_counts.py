"""How often each square, and each step between two squares, is used by many paths through one maze."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sera_maze.envs.ground.checks import is_zero_or_one
from sera_maze.envs.layouts.layout import MazeLayout

_MAX_TABLE = 1 << 24  # bytes of the table (paths, steps) that is filled at a time


class PathCounts(NamedTuple):
    """Counts of some paths through a maze of (H, W) squares; a path that comes twice counts once.

    Attributes:
        num_paths: how many paths there are.
        steps: (3, H, W) int64: the paths that visit a square, that step between it and the square to its right, and
            that step between it and the square below it.
        ends: (H, W) int64: the paths whose last square this is.
    """

    num_paths: int
    steps: NDArray[np.int64]
    ends: NDArray[np.int64]


def count_paths(
    layout: MazeLayout, paths: Sequence[ArrayLike], successes: Sequence[bool] | NDArray[np.bool_]
) -> tuple[PathCounts, PathCounts]:
    """Count the steps of the successes and of the failures.

    Args:
        layout: the maze.
        paths: N paths, each (L, 2) integers, (row, column), L at least 1.
        successes: (N,) bool (or 0 and 1).

    Returns:
        The counts of the successes and of the failures.

    Raises:
        TypeError: if a path is not made of integers.
        ValueError: for an empty path, a path that leaves the maze, steps into a wall or jumps, and for another number
            of successes than paths.
    """
    arrays = [_as_path(path, i) for i, path in enumerate(paths)]
    flags = _as_flags(successes, len(arrays))
    height, width = layout.size
    lengths = np.array([len(array) for array in arrays], np.int64)
    owner = np.repeat(np.arange(len(arrays)), lengths)
    cells = np.concatenate([np.empty((0, 2), np.int64), *arrays])
    first = np.zeros(len(cells), bool)
    first[np.cumsum(lengths) - lengths] = True
    _check_cells(layout, cells, owner, first)
    squares = cells[:, 0] * width + cells[:, 1]
    last = np.append(first[1:], True)[: len(first)]
    # A step is written down at its upper or left square: in plane 1 if it is horizontal, 2 if vertical.
    before, after = squares[:-1], squares[1:]
    moved = ~first[1:] & (before != after)
    plane = np.where(np.abs(after - before) == 1, 1, 2)
    step_keys = (plane * (height * width) + np.minimum(before, after))[moved]
    step_owner = owner[1:][moved]
    groups = []
    for flag in (True, False):
        chosen = np.flatnonzero(flags == flag)
        rank = np.full(len(arrays), -1)
        rank[chosen] = np.arange(len(chosen))
        steps = np.zeros(3 * height * width, np.int64)
        for keys, ranks in ((squares, rank[owner]), (step_keys, rank[step_owner])):
            steps += _count_distinct(keys[ranks >= 0], ranks[ranks >= 0], len(chosen), len(steps))
        ends = np.bincount(squares[last & (flags[owner] == flag)], minlength=height * width)
        groups.append(PathCounts(len(chosen), steps.reshape(3, height, width), ends.reshape(height, width)))
    return groups[0], groups[1]


def _count_distinct(
    keys: NDArray[np.int64], owner: NDArray[np.int64], num_owners: int, num_keys: int
) -> NDArray[np.int64]:
    """How many owners have each key at least once; owners must be sorted."""
    counts = np.zeros(num_keys, np.int64)
    at_once = max(1, _MAX_TABLE // num_keys)
    for begin in range(0, num_owners, at_once):
        low, high = np.searchsorted(owner, (begin, begin + at_once))
        seen = np.zeros((min(at_once, num_owners - begin), num_keys), bool)
        seen[owner[low:high] - begin, keys[low:high]] = True
        counts += seen.sum(axis=0)
    return counts


def _as_path(path: ArrayLike, index: int) -> NDArray[np.int64]:
    try:
        array = np.asarray(path)
    except ValueError as error:
        raise ValueError(f"paths[{index}] is not a table of cells: {error}; allowed is shape (L, 2)") from None
    if array.ndim != 2 or array.shape[1] != 2 or len(array) == 0:
        raise ValueError(
            f"paths[{index}] has shape {array.shape}; allowed is (L, 2) with L at least 1: one (row, column) for each "
            "square visited, the first one included"
        )
    if array.dtype.kind not in "iu":
        raise TypeError(f"paths[{index}] has dtype {array.dtype}; rows and columns are integers")
    return array.astype(np.int64, copy=False)


def _as_flags(successes: Sequence[bool] | NDArray[np.bool_], num_paths: int) -> NDArray[np.bool_]:
    flags = np.asarray(successes)
    if flags.shape != (num_paths,):
        raise ValueError(f"successes has shape {flags.shape}, but there are {num_paths} paths; give one bool for each")
    bad = np.flatnonzero(~is_zero_or_one(flags))
    if len(bad):
        raise ValueError(f"successes[{bad[0]}] is {flags[bad[0]]!r}; allowed are True and False")
    return flags.astype(bool)


def _check_cells(
    layout: MazeLayout, cells: NDArray[np.int64], owner: NDArray[np.int64], first: NDArray[np.bool_]
) -> None:
    height, width = layout.size
    outside: NDArray[np.bool_] = np.any((cells < 0) | (cells >= (height, width)), axis=1)
    if outside.any():
        _refuse("leaves the maze", outside, cells, owner, f"rows 0 to {height - 1}, columns 0 to {width - 1}")
    in_wall = layout.walls[cells[:, 0], cells[:, 1]]
    if in_wall.any():
        _refuse("stands in a wall", in_wall, cells, owner, "open squares")
    jumped = ~first
    jumped[1:] &= np.abs(np.diff(cells, axis=0)).sum(axis=1) > 1
    if jumped.any():
        step = int(np.argmax(jumped))
        row, column = cells[step - 1].tolist()
        _refuse("jumps", jumped, cells, owner, f"({row}, {column}), where it stood before, and its four neighbours")


def _refuse(
    fault: str, bad: NDArray[np.bool_], cells: NDArray[np.int64], owner: NDArray[np.int64], allowed: str
) -> None:
    place = int(np.argmax(bad))
    path = int(owner[place])
    step = place - int(np.searchsorted(owner, path))
    row, column = cells[place].tolist()
    raise ValueError(
        f"paths[{path}] {fault} at step {step}, at (row, column) = ({row}, {column}); allowed: {allowed} (paths, "
        "steps, rows and columns count from 0)"
    )
