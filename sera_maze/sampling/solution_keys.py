"""Keys of paths, by which distinct solutions are told apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sera_maze.envs.ground.kernels import kernel
from sera_maze.envs.ground.random_bits import GOLDEN, mix

NO_GOAL = -(2**62)
_OTHER_KEY = np.uint64(0x6A09E667F3BCC909)  # of the second hash: the fraction of the root of 2, odd


def path_keys(squares: ArrayLike, lengths: ArrayLike) -> NDArray[np.uint64]:
    """Keys of R paths: equal for equal paths, where standing still (at a wall) makes no other path.

    A million paths have a chance of 1e-26 that two of them are confused.

    Args:
        squares: (S,) integers, the squares of all paths, one path after another.
        lengths: (R,) integers, squares of each path; S in all.

    Returns:
        (R, 2) uint64.
    """
    counts = np.array(lengths, np.int64, order="C")
    return hash_paths(squares, np.cumsum(counts) - counts, counts, np.full(len(counts), NO_GOAL))[0]


def hash_paths(
    squares: ArrayLike, first: NDArray[np.int64], lengths: NDArray[np.int64], goals: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """`path_keys` of paths that lie anywhere among the squares and are cut at their goals.

    Args:
        squares: (S,) integers.
        first: (R,) place of each path's first square.
        lengths: (R,) squares of each path.
        goals: (R,) square at which a path is cut; `NO_GOAL` for none.

    Returns:
        Keys (R, 2) uint64, and the last square (R,) int64 of each path.
    """
    keys, last = np.empty((len(lengths), 2), np.uint64), np.empty(len(lengths), np.int64)
    # Always arrays of the same types, contiguous and writable, see `kernel`.
    arrays = (np.array(values, np.int64, order="C") for values in (squares, first, lengths, goals))
    _hash_paths(*arrays, last, keys)
    return keys, last


@kernel
def _hash_paths(squares, first, lengths, goals, last, keys):  # type: ignore[no-untyped-def]
    """Fill the keys (R, 2) uint64 and last squares (R,) int64 of R paths."""
    for i in range(lengths.size):
        one, two, previous = GOLDEN, _OTHER_KEY, np.int64(NO_GOAL)
        for t in range(first[i], first[i] + lengths[i]):
            square = squares[t]
            if square != previous:
                one = mix((one ^ (np.uint64(square) * GOLDEN)) + GOLDEN)
                two = mix(two + np.uint64(square) * _OTHER_KEY + GOLDEN)
                previous = square
            if square == goals[i]:
                break
        last[i], keys[i, 0], keys[i, 1] = previous, one, two
