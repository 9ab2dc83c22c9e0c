"""Distinct solutions of a maze: how many different successful paths were found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sera_maze.envs.generating.generate import check_int
from sera_maze.envs.ground.kernels import kernel
from sera_maze.envs.ground.random_bits import GOLDEN, mix

# Cells (row, column) become one integer, row * 2**31 + column.
_ROW = 2**31
_NO_GOAL = -(2**62)
_CHUNK = 4096  # paths hashed at a time
_OTHER_KEY = np.uint64(0x6A09E667F3BCC909)  # of the second hash: the fraction of the root of 2, odd


def distinct_solutions(
    paths: Sequence[Any] | NDArray[Any],
    successes: ArrayLike,
    *,
    lengths: ArrayLike | None = None,
    goal: int | Sequence[int] | None = None,
) -> int:
    """Number of different successful paths among R rollouts of one maze.

    A path is the executed cells up to the goal: what comes after the goal does not make another solution, nor does
    standing still at a wall.

    Args:
        paths: R sequences of cells (row, column), from the start on, as ``info["path"]`` of the environments; or, with
            ``lengths``, a padded array, (R, L, 2) of cells or (R, L) of flat squares.
        successes: (R,) bool. Paths of the others are not looked at.
        lengths: (R,) integers, cells of each row of the padded array.
        goal: cell, or flat square, at which paths are cut; needed if some go on after the goal.

    Returns:
        The number.

    Raises:
        ValueError: if shapes do not fit, a successful path does not reach the goal, or, without ``goal``, two of them
            end on different cells.
        TypeError: if successes are not bool, or cells or lengths are not integers.

    Example:
        >>> distinct_solutions([[(1, 1), (1, 2)], [(1, 1), (1, 2)], [(1, 1)]], [True, True, False])
        1
    """
    solved = _as_flags(successes)
    if lengths is None:
        padded, counts = _padded(paths, solved)
    else:
        padded, counts = np.asarray(paths), np.asarray(lengths)
    prompts = np.zeros(len(solved), np.int64)
    goals = None if goal is None else np.asarray(goal)[None]
    return int(distinct_solutions_by_prompt(padded, counts, solved, prompts, 1, goals=goals)[0])


def distinct_solutions_by_prompt(
    paths: ArrayLike,
    lengths: ArrayLike,
    successes: ArrayLike,
    prompts: ArrayLike,
    num_prompts: int,
    *,
    goals: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """Number of different successful paths of each prompt; see `distinct_solutions`.

    Paths are compared by hashes of 128 bits: a million paths have a chance of 1e-26 that two of them are confused.

    Args:
        paths: (R, L, 2) integers, cells (row, column), or (R, L) integers, flat squares; anything after ``lengths``.
        lengths: (R,) integers, cells of each path, the start included, 1 to L where it is a success.
        successes: (R,) bool.
        prompts: (R,) integers from 0 to num_prompts - 1, in any order.
        num_prompts: number of prompts P.
        goals: (P, 2) or (P,) integers, cell or flat square of each goal; needed if paths go on after the goal.

    Returns:
        (P,) int64.

    Raises:
        ValueError, TypeError: as `distinct_solutions`, and for prompts out of range.
    """
    solved, size = _as_flags(successes), check_int("num_prompts", num_prompts, 1, 2**40)
    cells, counts, owners = _integers("paths", paths), _integers("lengths", lengths), _integers("prompts", prompts)
    squares = _flat(cells) if cells.ndim == 3 and cells.shape[2] == 2 else cells
    if squares.ndim != 2 or not len(squares) == len(counts) == len(owners) == len(solved):
        raise ValueError(
            f"paths must be (R, L) or (R, L, 2) and lengths, successes and prompts (R,); got shapes {cells.shape}, "
            f"{counts.shape}, {solved.shape} and {owners.shape}"
        )
    _check_each("prompts", owners, 0, size - 1)
    rows = np.flatnonzero(solved)
    for r in rows[(counts[rows] < 1) | (counts[rows] > squares.shape[1])][:1]:
        raise ValueError(f"lengths[{r}]={counts[r]} is out of range; a success has 1 to {squares.shape[1]} cells")
    ends = np.full(size, _NO_GOAL)
    if goals is not None:
        places = _integers("goals", goals)
        ends = _flat(places) if cells.ndim == 3 and places.ndim == 2 else places.astype(np.int64)
        if ends.shape != (size,) or places.ndim != cells.ndim - 1:
            raise ValueError(
                f"goals must be ({size}, 2) for cells and ({size},) for flat squares, got shape {places.shape}"
            )
    last, one, two = (np.empty(len(rows), kind) for kind in (np.int64, np.uint64, np.uint64))
    owners = owners[rows]
    for low in range(0, len(rows), _CHUNK):
        part = slice(low, low + _CHUNK)
        paths = np.array(squares[rows[part]], np.int64, order="C")
        _hash_paths(paths, counts[rows[part]], ends[owners[part]], last[part], one[part], two[part])
    _check_ends(last, owners, rows, ends, cells.ndim == 3)
    order = np.lexsort((two, one, owners))
    keys = owners[order], one[order], two[order]
    is_new = np.ones(len(rows), bool)
    is_new[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return np.bincount(keys[0][is_new], minlength=size)


def _as_flags(successes: ArrayLike) -> NDArray[np.bool_]:
    flags = np.asarray(successes)
    if flags.ndim != 1 or (flags.dtype != bool and flags.size):
        raise TypeError(f"successes must be (R,) bool, got {flags.dtype} of shape {flags.shape}")
    return flags.astype(bool)


def _integers(name: str, values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name} must be integers, got {array.dtype} of shape {array.shape}")
    # Large arrays of squares are not widened as a whole.
    return np.ascontiguousarray(array, np.int32 if array.dtype == np.int32 else np.int64)


def _flat(cells: NDArray[Any]) -> NDArray[np.int64]:
    return cells[..., 0].astype(np.int64) * _ROW + cells[..., 1]


def _check_each(name: str, values: NDArray[np.int64], low: int, high: int) -> None:
    for place in np.flatnonzero((values < low) | (values > high))[:1]:
        raise ValueError(f"{name}[{place}]={values[place]} is out of range; allowed are {low} to {high}")


def _padded(
    paths: Sequence[Any] | NDArray[Any], solved: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The successful paths as a padded array (R, L, 2) with lengths (R,); the others are left empty."""
    if len(paths) != len(solved):
        raise ValueError(f"got {len(paths)} paths and {len(solved)} successes; give one success for each path")
    rows = [_integers(f"paths[{r}]", paths[r]) if solved[r] else np.zeros((0, 2), np.int64) for r in range(len(solved))]
    for r, row in enumerate(rows):
        if row.ndim != 2 or row.shape[1] != 2:
            raise ValueError(f"paths[{r}] must be a sequence of cells (row, column), got shape {row.shape}")
    lengths = np.array([len(row) for row in rows], np.int64)
    padded = np.zeros((len(rows), int(lengths.max(initial=0)), 2), np.int64)
    for r, row in enumerate(rows):
        padded[r, : len(row)] = row
    return padded, lengths


def _check_ends(
    last: NDArray[np.int64], owners: NDArray[np.int64], rows: NDArray[np.intp], ends: NDArray[np.int64], are_cells: bool
) -> None:
    """Check that every successful path, of rollouts ``rows``, ends on its goal, or on one square for each prompt."""
    wanted, unknown = ends.copy(), ends == _NO_GOAL
    first = np.unique(owners, return_index=True)[1]
    first = first[unknown[owners[first]]]
    wanted[owners[first]] = last[first]
    for i in np.flatnonzero(last != wanted[owners])[:1]:
        end, goal = (divmod(square, _ROW) if are_cells else square for square in (int(last[i]), int(wanted[owners[i]])))
        remedy = "pass the goal, at which paths are cut" if unknown[owners[i]] else "is it a success?"
        raise ValueError(f"the path of rollout {rows[i]} of prompt {owners[i]} ends on {end}, not on {goal}; {remedy}")


@kernel
def _hash_paths(squares, lengths, goals, last, hashes, others):  # type: ignore[no-untyped-def]
    """Hash S paths, rows of squares (S, L) int64, up to their goals, twice (S,) uint64; last (S,) are their ends."""
    for i in range(lengths.size):
        one, two, previous = GOLDEN, _OTHER_KEY, np.int64(_NO_GOAL)
        for t in range(lengths[i]):
            square = squares[i, t]
            if square != previous:
                one = mix((one ^ (np.uint64(square) * GOLDEN)) + GOLDEN)
                two = mix(two + np.uint64(square) * _OTHER_KEY + GOLDEN)
                previous = square
            if square == goals[i]:
                break
        last[i], hashes[i], others[i] = previous, one, two
