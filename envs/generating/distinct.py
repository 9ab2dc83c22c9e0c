"""Different mazes of one seed: as many as asked for, or an error that says how many there are."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.generating.generate import LayoutArrays, generate_until_failure
from sera_maze.envs.generating.spec import MazeSpec
from sera_maze.envs.layouts.layout import digest_content

# Generation gives up when this many mazes (and 50 for each asked for) in a row bring no new one: collecting all of
# n equally likely mazes waits n on average for the last.
_PATIENCE = 20_000
# A batch takes at most so many bytes of walls, and at most so many mazes more than are missing.
_MAX_BATCH_BYTES, _MAX_SPARE = 2**26, 1023


def generate_distinct(spec: MazeSpec, count: int, seed: int, taken: AbstractSet[bytes]) -> LayoutArrays:
    """The first ``count`` different mazes of ``seed`` whose walls' `digest_content` is not in ``taken``.

    An index at which no maze can be made (no cells at the wanted distance) is an error if it comes up before the mazes
    are together: to pass over it would make them easier than those that were asked for.

    Raises:
        ValueError: if fewer different mazes exist, none turns up for a long time, or one cannot be made.
    """
    _check_enough_exist(spec, count)
    besides = f", not counting the {len(taken)} that are held out or excluded otherwise" if taken else ""
    most = max(1, _MAX_BATCH_BYTES // (spec.size[0] * spec.size[1]))
    seen: set[bytes] = set()
    kept: list[tuple[NDArray[Any], ...]] = []
    index, last_new, spare = 0, 0, 0
    while len(seen) < count:
        missing = count - len(seen)
        batch = min(missing + spare, most)
        if batch >= missing:  # what is missing after this batch is missing because mazes repeat
            spare = min(2 * spare + 1, _MAX_SPARE)
        arrays, failure = generate_until_failure(spec, batch, seed, first_index=index)
        allowed = [content not in taken for content in digest_content(arrays.walls)] if taken else None
        fresh = []
        for i, content in enumerate(digest_content(*arrays)):
            if content not in seen and len(seen) < count and (allowed is None or allowed[i]):
                seen.add(content)
                fresh.append(i)
                last_new = index + i
        kept.append(tuple(array[fresh] for array in arrays))
        index += len(arrays.walls)
        if len(seen) < count and failure:
            raise ValueError(failure)
        if len(seen) < count and index - last_new > _PATIENCE + 50 * count:
            raise ValueError(
                f"{count} different mazes were asked for, but only {len(seen)} turned up in {index} "
                f"{spec.size[0]}x{spec.size[1]} {spec.algorithm} mazes of seed {seed}{besides}; ask for "
                "fewer or a larger size"
            )
    return LayoutArrays(*(np.concatenate(parts) for parts in zip(*kept, strict=True)))


def _check_enough_exist(spec: MazeSpec, count: int) -> None:
    """Refuse at once when more perfect mazes are asked for than spanning trees and pairs of cells exist."""
    if spec.algorithm == "rooms" or spec.braid or spec.openings:
        return
    rows, columns = (side // 2 for side in spec.size)
    logarithm = log_spanning_trees(rows, columns)
    if spec.endpoints != "corners":
        logarithm += math.log(rows * columns * (rows * columns - 1))
    if math.log(count) > logarithm + 1e-9:
        raise ValueError(
            f"{count} different mazes were asked for, but only {round(math.exp(logarithm))} of "
            f"{spec.size[0]}x{spec.size[1]} squares ({rows}x{columns} cells) exist; ask for fewer or a larger size"
        )


def log_spanning_trees(rows: int, columns: int) -> float:
    """Natural logarithm of the number of perfect mazes on ``rows`` x ``columns`` cells.

    The product of the nonzero eigenvalues of the grid's Laplacian over the number of cells (Kirchhoff's theorem).
    """
    down = 2 - 2 * np.cos(np.pi * np.arange(rows) / rows)
    right = 2 - 2 * np.cos(np.pi * np.arange(columns) / columns)
    eigenvalues = np.add.outer(down, right).ravel()[1:]
    return float(np.log(eigenvalues).sum() - math.log(rows * columns))
