"""`generate_layouts`: many random mazes at once, each fixed by its seed and index alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.generating.carving import numbering
from sera_maze.envs.generating.kernels import MAX_ATTEMPTS, fill_mazes
from sera_maze.envs.generating.spec import ALGORITHMS, ENDPOINTS, MAX_SEED, MazeSpec
from sera_maze.envs.ground.checks import check_choice as check_choice
from sera_maze.envs.ground.checks import check_int as check_int

# What a thread makes at a time: enough to make the call's cost vanish, and little enough to stop soon when asked to.
_CHUNK_MAZES, _CHUNK_SQUARES = 256, 2**18

Result = TypeVar("Result")


class LayoutArrays(NamedTuple):
    """M mazes of one size."""

    walls: NDArray[np.bool_]  # (M, H, W), True where there is a wall
    start: NDArray[np.int64]  # (M, 2), (row, column)
    goal: NDArray[np.int64]  # (M, 2), (row, column)


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


def _available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
