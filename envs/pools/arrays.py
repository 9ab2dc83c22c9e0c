"""The arrays that pools are made of and the indices into them, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sera_maze.envs.ground.checks import shown


def as_walls(walls: ArrayLike) -> NDArray[np.bool_]:
    """A new bool array of ``walls``, which holds bools, or integers 0 and 1.

    Raises:
        ValueError: if it holds something else or is ragged.
    """
    grid = _as_array("walls", walls)
    if grid.dtype != bool and (grid.dtype.kind not in "iu" or not np.isin(grid, (0, 1)).all()):
        raise ValueError(f"walls must be bool, or integers 0 (open) and 1 (wall); got others, of dtype {grid.dtype}")
    return np.array(grid, bool)


def as_cells(name: str, cells: ArrayLike) -> NDArray[np.int64]:
    """A new int64 array of ``cells``.

    Raises:
        TypeError: if it does not hold integers.
        ValueError: if it is ragged.
    """
    rows = _as_array(name, cells)
    if rows.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers (row, column), got dtype {rows.dtype}")
    return np.array(rows, np.int64)


def as_places(index: object, count: int) -> NDArray[np.intp]:
    """The places among 0 to ``count`` - 1 that a slice, integers or a mask select, at least one of them.

    Raises:
        IndexError: for a place that there is not, or a mask of another length.
        ValueError: if none is selected.
        TypeError: for other indices.
    """
    if isinstance(index, slice):
        places = np.arange(count)[index]
    else:
        given = _as_array("index", index)  # type: ignore[arg-type]
        if given.ndim != 1 or (len(given) and given.dtype.kind not in "iub"):
            raise TypeError(f"{shown(index)} selects no mazes; allowed are an int, a slice, a list of ints or a mask")
        if given.dtype == bool:
            if len(given) != count:
                raise IndexError(f"a mask of {len(given)} bools does not fit a pool of {count} mazes")
            given = np.flatnonzero(given)
        for place in given[(given < -count) | (given >= count)]:
            raise IndexError(no_such_maze(place, count))
        places = given.astype(np.intp)
    if not len(places):
        raise ValueError(f"{shown(index)} selects none of the {count} mazes; a pool holds at least one maze")
    return places


def no_such_maze(place: int, count: int) -> str:
    """What the error says for a place that a pool of ``count`` mazes does not have."""
    return (
        f"there is no maze {place} in a pool of {count}; allowed are 0 to {count - 1}, or -1 to {-count} from its end"
    )


def _as_array(name: str, values: ArrayLike) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} is not an array: {error}") from None
