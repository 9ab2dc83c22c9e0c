"""Keys of paths, by which distinct solutions are told apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sera_maze.envs.ground.kernels import kernel, kernel_part

NO_GOAL = -(2**62)
# To hash paths with: the constants of SplitMix64, and the fractions of the golden ratio and of the root of 2, odd.
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_KEY_1, _KEY_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0x6A09E667F3BCC909)
_U27, _U30, _U31 = np.uint64(27), np.uint64(30), np.uint64(31)


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
        one, two, previous = _KEY_1, _KEY_2, np.int64(NO_GOAL)
        for t in range(first[i], first[i] + lengths[i]):
            square = squares[t]
            if square != previous:
                one = _mixed(one ^ (np.uint64(square) * _KEY_1))
                two = _mixed(two + (np.uint64(square) * _KEY_2))
                previous = square
            if square == goals[i]:
                break
        last[i], keys[i, 0], keys[i, 1] = previous, one, two


@kernel_part
def _mixed(value):  # type: ignore[no-untyped-def]
    """SplitMix64's output function, uint64 to uint64; 0 goes elsewhere than to itself."""
    value = value + _KEY_1
    value = (value ^ (value >> _U30)) * _MIX_1
    value = (value ^ (value >> _U27)) * _MIX_2
    return value ^ (value >> _U31)
