"""`generate_layouts`: many random mazes at once, each fixed by its seed and index alone."""

from __future__ import annotations

import difflib
import operator
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sera_maze.envs import carving
from sera_maze.envs.carving import numbering
from sera_maze.envs.distances import fill_distances
from sera_maze.envs.random_bits import draw, stream

ALGORITHMS = ("prim", "dfs", "kruskal", "wilson", "division", "rooms")
ENDPOINTS = ("corners", "random", "farthest", "distance")
_PRIM, _DFS, _KRUSKAL, _WILSON, _DIVISION = range(5)
_CORNERS, _RANDOM, _FARTHEST, _DISTANCE = range(4)
MAX_ATTEMPTS = 1000
_CHUNK = 256
_MAX_SIDE = 2**12


class LayoutArrays(NamedTuple):
    """M mazes of one size."""

    walls: NDArray[np.bool_]  # (M, H, W), True where there is a wall
    start: NDArray[np.int64]  # (M, 2), (row, column)
    goal: NDArray[np.int64]  # (M, 2), (row, column)


@dataclass(frozen=True)
class MazeSpec:
    """What to generate, validated: everything but the seed and the number of mazes.

    Args:
        size: (height, width) in grid squares, walls included; both odd, with at least two cells (3x5 is the smallest).
            One int means a square.
        algorithm: "prim" (the papers' randomized Prim), "dfs", "kruskal", "wilson" (every spanning tree has the same
            probability), "division" (recursive division), or "rooms" (rooms and corridors, several solutions).
        braid: share of the dead ends that are opened, 0 to 1, so that several solutions exist.
        openings: number of further walls between cells removed at random (all of them if there are fewer).
        endpoints: "corners" (start top left, goal bottom right: the papers'), "random" (two different cells),
            "farthest" (the two cells farthest apart, in random order), or "distance".
        distance: for endpoints="distance": moves on a shortest path from start to goal; even, since cells lie two
            squares apart.

    Raises:
        ValueError: for a value outside these ranges.
        TypeError: for a value of another type.
    """

    size: tuple[int, int]
    algorithm: str = "prim"
    braid: float = 0.0
    openings: int = 0
    endpoints: str = "corners"
    distance: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _checked_size(self.size))
        check_choice("algorithm", self.algorithm, ALGORITHMS)
        check_choice("endpoints", self.endpoints, ENDPOINTS)
        if isinstance(self.braid, bool) or not isinstance(self.braid, (int, float)) or not 0 <= self.braid <= 1:
            raise ValueError(f"braid={self.braid!r} is not a share; give a number from 0 (none) to 1 (all dead ends)")
        object.__setattr__(self, "openings", check_int("openings", self.openings, 0, 2**31 - 1))
        self._check_distance()

    def _check_distance(self) -> None:
        if (self.distance is None) != (self.endpoints != "distance"):
            raise ValueError(
                f"distance={self.distance!r} does not go with endpoints={self.endpoints!r}; "
                "endpoints='distance' needs a distance in moves, and the others take none"
            )
        if self.distance is not None:
            longest = self.size[0] * self.size[1] // 2
            distance = check_int("distance", self.distance, 2, longest)
            if distance % 2:
                raise ValueError(
                    f"distance={distance} is odd; start and goal lie on cells, two squares apart: use even"
                )
            object.__setattr__(self, "distance", distance)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON can hold them."""
        return {**asdict(self), "size": list(self.size)}


def generate_layouts(
    count: int,
    size: int | Sequence[int] = (17, 17),
    algorithm: str = "prim",
    seed: int = 0,
    *,
    braid: float = 0.0,
    openings: int = 0,
    endpoints: str = "corners",
    distance: int | None = None,
    first_index: int = 0,
    num_threads: int | None = None,
) -> LayoutArrays:
    """Generate ``count`` random mazes: those with index ``first_index`` onwards of ``seed``.

    Maze ``i`` of a seed is the same alone, among 10 or 1,000 others, on one thread or on many. Mazes may repeat, above
    all in small sizes: `MazePool.generate` gives distinct ones.

    Args:
        count: number of mazes M, 0 or more.
        size: grid squares, walls included, as (height, width) or one int; both odd. 17 means 8x8 cells.
        algorithm: see `MazeSpec`.
        seed: 0 to 2**64 - 1.
        braid: see `MazeSpec`.
        openings: see `MazeSpec`.
        endpoints: see `MazeSpec`.
        distance: see `MazeSpec`.
        first_index: index of the first maze.
        num_threads: threads to share the work; default: as many as the process has cores.

    Returns:
        walls (M, H, W) bool, start (M, 2) and goal (M, 2) int64, cells as (row, column).

    Raises:
        ValueError, TypeError: for an argument outside its range (see `MazeSpec`), and if no pair of cells at the wanted
            distance is found in 1,000 mazes of one index.

    Example:
        >>> generate_layouts(3, size=9, seed=1).walls.shape
        (3, 9, 9)
    """
    spec = MazeSpec(size, algorithm, braid, openings, endpoints, distance)  # type: ignore[arg-type]
    return generate_from_spec(spec, count, seed, first_index=first_index, num_threads=num_threads)


def generate_from_spec(
    spec: MazeSpec, count: int, seed: int, *, first_index: int = 0, num_threads: int | None = None
) -> LayoutArrays:
    """`generate_layouts` for a validated `MazeSpec`."""
    count = check_int("count", count, 0, 2**40)
    seed = check_int("seed", seed, 0, 2**64 - 1)
    first_index = check_int("first_index", first_index, 0, 2**62)
    threads = check_int("num_threads", num_threads, 1, 1024) if num_threads is not None else _available_cores()
    height, width = spec.size
    walls = np.empty((count, height, width), bool)
    ends = np.empty((count, 2), np.int32)
    grid = numbering(height, width)
    codes = (
        ALGORITHMS.index(spec.algorithm), float(spec.braid), spec.openings,
        ENDPOINTS.index(spec.endpoints), spec.distance or 0,
    )  # fmt: skip

    def fill(low: int) -> tuple[int, int]:
        high = min(low + _CHUNK, count)
        key = np.uint64(seed), np.uint64(first_index + low)
        failed, reached = _generate(walls[low:high].view(np.uint8), ends[low:high], *key, grid, *codes)
        return low + failed if failed >= 0 else -1, reached

    chunks = range(0, count, _CHUNK)
    if threads == 1 or len(chunks) < 2:
        results = [fill(low) for low in chunks]
    else:
        with ThreadPoolExecutor(min(threads, len(chunks))) as pool:
            results = list(pool.map(fill, chunks))
    for failed, reached in results:
        if failed >= 0:
            raise ValueError(
                f"maze {first_index + failed} of seed {seed}: no two cells are distance={spec.distance} moves apart in "
                f"any of {MAX_ATTEMPTS} {height}x{width} {spec.algorithm} mazes (the longest distance was {reached}); "
                "ask for a smaller distance or a larger size"
            )
    cells = np.stack(np.divmod(ends.astype(np.int64), width), axis=-1)
    return LayoutArrays(walls, cells[:, 0], cells[:, 1])


@njit(cache=True, nogil=True)
def _generate(walls, ends, seed, first_index, grid, algorithm, braid, openings, endpoints, distance):  # type: ignore[no-untyped-def]
    """Fill walls (M, H, W) uint8 and ends (M, 2) int32 flat squares; return (failed maze or -1, longest distance)."""
    framed = grid.square.size
    marks, parent = np.empty(framed, np.uint8), np.empty(framed, np.int32)
    order = np.empty(2 * framed, np.int32)
    distances, queue = np.empty(walls[0].size, np.int32), np.empty(walls[0].size, np.int32)
    for m in range(walls.shape[0]):
        squares = walls[m].reshape(-1)
        longest, placed = 0, False
        state = stream(seed, first_index + np.uint64(m))
        for _ in range(MAX_ATTEMPTS):
            squares[:] = 1
            state = _carve(squares, state, grid, algorithm, marks, order, parent)
            if braid > 0:
                state = carving.open_dead_ends(squares, state, grid, braid)
            if openings > 0:
                state = carving.open_walls(squares, state, grid, order, openings)
            if endpoints == _CORNERS:
                ends[m, 0], ends[m, 1] = grid.square[grid.cells[0]], grid.square[grid.cells[-1]]
                placed = True
            elif endpoints == _RANDOM:
                state = _place_random(ends[m], state, grid)
                placed = True
            elif endpoints == _FARTHEST:
                state = _place_farthest(ends[m], walls[m], state, grid, distances, queue)
                placed = True
            else:
                reached, state = _place_apart(ends[m], walls[m], state, grid, distance, order, distances, queue)
                longest = max(longest, reached)
                placed = reached == distance
            if placed:
                break
        if not placed:
            return m, longest
    return -1, 0


@njit(cache=True, nogil=True)
def _carve(squares, state, grid, algorithm, marks, order, parent):  # type: ignore[no-untyped-def]
    if algorithm == _PRIM:
        return carving.carve_prim(squares, state, grid, marks, order)
    if algorithm == _DFS:
        marks[:] = grid.frame
        pick, state = draw(state, grid.cells.size)
        return carving.carve_dfs(squares, state, grid, marks, order, grid.cells[pick])
    if algorithm == _KRUSKAL:
        return carving.carve_kruskal(squares, state, grid, order, parent)
    if algorithm == _WILSON:
        return carving.carve_wilson(squares, state, grid, marks, order)
    if algorithm == _DIVISION:
        return carving.carve_division(squares, state, grid, order)
    return carving.carve_rooms(squares, state, grid, marks, order, parent)


@njit(cache=True, nogil=True)
def _place_random(ends, state, grid):  # type: ignore[no-untyped-def]
    one, state = draw(state, grid.cells.size)
    other, state = draw(state, grid.cells.size - 1)
    ends[0], ends[1] = grid.square[grid.cells[one]], grid.square[grid.cells[other + (other >= one)]]
    return state


@njit(cache=True, nogil=True)
def _place_farthest(ends, walls, state, grid, distances, queue):  # type: ignore[no-untyped-def]
    longest = -1
    swap, state = draw(state, 2)
    for cell in grid.cells:
        start = grid.square[cell]
        fill_distances(walls, start, distances, queue)
        for other in grid.cells:
            if distances[grid.square[other]] > longest:
                longest = distances[grid.square[other]]
                ends[swap], ends[1 - swap] = start, grid.square[other]
    return state


@njit(cache=True, nogil=True)
def _place_apart(ends, walls, state, grid, distance, order, distances, queue):  # type: ignore[no-untyped-def]
    """A random start with cells ``distance`` moves away, and one of those as the goal; return the distance reached."""
    count, longest = grid.cells.size, 0
    for i in range(count):
        order[i] = grid.square[grid.cells[i]]
    while count:
        pick, state = draw(state, count)
        count -= 1
        start, order[pick] = order[pick], order[count]
        reached = fill_distances(walls, start, distances, queue)
        longest = max(longest, distances[queue[reached - 1]])
        found = 0
        for cell in grid.cells:
            found += distances[grid.square[cell]] == distance
        if found:
            pick, state = draw(state, found)
            for cell in grid.cells:
                if distances[grid.square[cell]] == distance:
                    if pick == 0:
                        ends[0], ends[1] = start, grid.square[cell]
                    pick -= 1
            return distance, state
    return longest, state


def _checked_size(size: object) -> tuple[int, int]:
    sides = (size, size) if isinstance(size, (int, np.integer)) else size
    try:
        height, width = (operator.index(side) for side in sides)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise TypeError(f"size={size!r} is not (height, width) or one int, in grid squares, walls included") from None
    for name, side in (("height", height), ("width", width)):
        if not 3 <= side <= _MAX_SIDE or side % 2 == 0:
            hint = f"; the nearest sizes are {max(3, side - 1)} and {max(5, side + 1)}" if 3 < side < _MAX_SIDE else ""
            raise ValueError(
                f"size={height}x{width}: the {name} {side} is not an odd number from 3 to {_MAX_SIDE}: sizes count "
                f"grid squares, walls included, and walls and cells alternate{hint}"
            )
    if height == width == 3:
        raise ValueError(
            "size=3x3 has a single cell, so no room for start and goal; the smallest sizes are 3x5 and 5x3"
        )
    return height, width


def check_choice(name: str, value: object, allowed: Sequence[str]) -> None:
    """Raise a ValueError that names the argument, what is allowed and the nearest of it."""
    if value not in allowed:
        near = difflib.get_close_matches(str(value).lower(), allowed, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{name}={value!r} is not known; allowed are {', '.join(map(repr, allowed))}{hint}")


def check_int(name: str, value: object, low: int, high: int) -> int:
    """``value`` as an int from ``low`` to ``high``, or a TypeError or ValueError that names the argument."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name}={value!r} is not an integer; give one from {low} to {high}") from None
    if isinstance(value, (bool, np.bool_)) or not low <= number <= high:
        raise ValueError(f"{name}={value!r} is out of range; give an integer from {low} to {high}")
    return number


def _available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
