"""`generate_layouts`: many random mazes at once, each fixed by its seed and index alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.generating.carving import numbering
from sera_maze.envs.generating.kernels import MAX_ATTEMPTS, fill_mazes
from sera_maze.envs.ground.checks import as_number, as_sides
from sera_maze.envs.ground.checks import check_choice as check_choice
from sera_maze.envs.ground.checks import check_int as check_int

ALGORITHMS = ("prim", "dfs", "kruskal", "wilson", "division", "rooms")
ENDPOINTS = ("corners", "random", "farthest", "distance")
MAX_SIDE, MAX_SEED = 2**12, 2**64 - 1
_BRAID = "a probability from 0 (none) to 1 (all dead ends)"
# What a thread makes at a time: enough to make the call's cost vanish, and little enough to stop soon when asked to.
_CHUNK_MAZES, _CHUNK_SQUARES = 256, 2**18

Result = TypeVar("Result")


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
            probability), "division" (recursive division), or "rooms" (rooms and corridors, often several solutions).
        braid: probability, 0 to 1, with which each dead end is opened, row by row, so that several solutions may exist.
            An opening can lead into another dead end, which then is none any more.
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
        braid = as_number("braid", self.braid, _BRAID)
        if not 0 <= braid <= 1:
            raise ValueError(f"braid={self.braid!r} is out of range; allowed is {_BRAID}")
        object.__setattr__(self, "braid", braid)
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
    mazes, failure = generate_until_failure(spec, count, seed, first_index=first_index, num_threads=num_threads)
    if failure:
        raise ValueError(failure)
    return mazes


def generate_until_failure(
    spec: MazeSpec, count: int, seed: int, *, first_index: int = 0, num_threads: int | None = None
) -> tuple[LayoutArrays, str]:
    """`generate_from_spec` that gives back what there is before the first maze that cannot be made.

    Returns:
        At most ``count`` mazes, and why there are no more of them; empty if there are ``count``.
    """
    count = check_int("count", count, 0, 2**40)
    seed = check_int("seed", seed, 0, MAX_SEED)
    first_index = check_int("first_index", first_index, 0, 2**62)
    threads = check_int("num_threads", num_threads, 1, 1024) if num_threads is not None else _available_cores()
    height, width = spec.size
    walls = np.empty((count, height, width), bool)
    ends = np.empty((count, 2), np.int32)
    grid = numbering(height, width)
    codes = (
        ALGORITHMS.index(spec.algorithm), spec.braid, spec.openings, ENDPOINTS.index(spec.endpoints), spec.distance or 0
    )  # fmt: skip
    chunk = max(1, min(_CHUNK_MAZES, _CHUNK_SQUARES // (height * width)))

    def fill(low: int) -> tuple[int, int]:
        high = min(low + chunk, count)
        key = np.uint64(seed), np.uint64(first_index + low)
        failed, reached = fill_mazes(walls[low:high].view(np.uint8), ends[low:high], *key, grid, *codes)
        return low + failed if failed >= 0 else -1, reached

    failure = ""
    with closing(_in_order(fill, range(0, count, chunk), threads)) as results:
        for failed, reached in results:
            if failed >= 0:
                walls, ends = walls[:failed], ends[:failed]
                failure = (
                    f"maze {first_index + failed} of seed {seed}: no two cells are distance={spec.distance} moves "
                    f"apart in any of {MAX_ATTEMPTS} {height}x{width} {spec.algorithm} mazes (the longest distance was "
                    f"{reached}); ask for a smaller distance or a larger size"
                )
                break
    cells = np.stack(np.divmod(ends.astype(np.int64), width), axis=-1)
    return LayoutArrays(walls, cells[:, 0], cells[:, 1]), failure


def _in_order(fill: Callable[[int], Result], lows: Sequence[int], num_threads: int) -> Generator[Result, None, None]:
    """Results of ``fill`` in order; work that has not begun when the caller stops is left undone."""
    if num_threads == 1 or len(lows) < 2:
        yield from map(fill, lows)
        return
    executor = ThreadPoolExecutor(min(num_threads, len(lows)))
    try:
        yield from executor.map(fill, lows)
    finally:
        executor.shutdown(cancel_futures=True)


def _checked_size(size: object) -> tuple[int, int]:
    height, width = as_sides(size)
    for name, side in (("height", height), ("width", width)):
        if not 3 <= side <= MAX_SIDE or side % 2 == 0:
            hint = f"; the nearest sizes are {max(3, side - 1)} and {max(5, side + 1)}" if 3 < side < MAX_SIDE else ""
            raise ValueError(
                f"size={height}x{width}: the {name} {side} is not an odd number from 3 to {MAX_SIDE}: sizes count "
                f"grid squares, walls included, and walls and cells alternate{hint}"
            )
    if height == width == 3:
        raise ValueError(
            "size=3x3 has a single cell, so no room for start and goal; the smallest sizes are 3x5 and 5x3"
        )
    return height, width


def _available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
