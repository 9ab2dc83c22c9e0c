"""Shortest-path distances by breadth-first search, for one maze or for many at once.

All distances count moves. Squares that cannot be reached, walls among them, have distance -1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.ground.kernels import kernel, kernel_part


@kernel_part
def fill_distances(walls, source, distances, queue):  # type: ignore[no-untyped-def]
    """Write the distance of every square from ``source`` into ``distances``; return how many squares were reached.

    Args:
        walls: (H, W) uint8, nonzero where there is a wall; the border must be wall.
        source: flat index (row * W + column) of an open square.
        distances: (H * W,) int32, overwritten.
        queue: (H * W,) int32 scratch; afterwards its first squares are the reached ones by rising distance.
    """
    width = walls.shape[1]
    squares = walls.reshape(-1)
    distances[:] = -1
    distances[source] = 0
    queue[0] = source
    head, tail = 0, 1
    while head < tail:
        square = queue[head]
        head += 1
        for neighbour in (square - width, square + width, square - 1, square + 1):
            if squares[neighbour] == 0 and distances[neighbour] < 0:
                distances[neighbour] = distances[square] + 1
                queue[tail] = neighbour
                tail += 1
    return tail


@kernel
def _fill_many(walls, sources, distances):  # type: ignore[no-untyped-def]
    """Run `fill_distances` for M mazes: walls (M, H, W) uint8, sources (M,) int64, distances (M, H * W) int32."""
    queue = np.empty(walls.shape[1] * walls.shape[2], np.int32)
    for m in range(walls.shape[0]):
        fill_distances(walls[m], sources[m], distances[m], queue)


@kernel
def _fill_lengths(walls, sources, targets, lengths):  # type: ignore[no-untyped-def]
    """Write the distance from source to target of M mazes into ``lengths`` (M,) int32."""
    squares = walls.shape[1] * walls.shape[2]
    queue = np.empty(squares, np.int32)
    distances = np.empty(squares, np.int32)
    for m in range(walls.shape[0]):
        fill_distances(walls[m], sources[m], distances, queue)
        lengths[m] = distances[targets[m]]


@kernel_part
def flat_step(action, width):  # type: ignore[no-untyped-def]
    """The same of one action, 0 to 3; arithmetic, since random moves defeat the prediction of branches."""
    return (2 * (action & 1) - 1) * (width + (1 - width) * (action >> 1))


def distances_from(walls: NDArray[np.bool_], cells: NDArray[np.integer]) -> NDArray[np.int32]:
    """Distance in moves of every square of M mazes from one cell each.

    Args:
        walls: (M, H, W) bool, True where there is a wall. The border must be wall.
        cells: (M, 2) integers, (row, column) of an open square of each maze.

    Returns:
        (M, H, W) int32; -1 for walls and for squares that cannot be reached.
    """
    count, height, width = walls.shape
    distances = np.empty((count, height * width), np.int32)
    _fill_many(_as_bytes(walls), _flat(cells, width), distances)
    return distances.reshape(count, height, width)


def shortest_lengths(
    walls: NDArray[np.bool_], start: NDArray[np.integer], goal: NDArray[np.integer]
) -> NDArray[np.int32]:
    """Number of moves on a shortest path from start to goal of M mazes.

    Args:
        walls: (M, H, W) bool, True where there is a wall. The border must be wall.
        start: (M, 2) integers, (row, column).
        goal: (M, 2) integers, (row, column).

    Returns:
        (M,) int32; -1 where the goal cannot be reached.
    """
    lengths = np.empty(len(walls), np.int32)
    _fill_lengths(_as_bytes(walls), _flat(start, walls.shape[2]), _flat(goal, walls.shape[2]), lengths)
    return lengths


def shortest_actions(walls: NDArray[np.bool_], goal: NDArray[np.integer]) -> NDArray[np.float32]:
    """What an imitation of shortest paths aims at: uniform over the moves that begin one.

    Args:
        walls: (M, H, W) bool.
        goal: (M, 2) integers, (row, column).

    Returns:
        (M, H, W, 4) float32, shares of UP, DOWN, LEFT, RIGHT; zero in walls and at the goal.
    """
    distances = distances_from(walls, goal)
    far = np.where(distances < 0, np.iinfo(np.int32).max, distances)
    best = np.zeros((*distances.shape, 4), np.float32)
    best[:, 1:, :, 0] = far[:, :-1] == far[:, 1:] - 1
    best[:, :-1, :, 1] = far[:, 1:] == far[:, :-1] - 1
    best[:, :, 1:, 2] = far[:, :, :-1] == far[:, :, 1:] - 1
    best[:, :, :-1, 3] = far[:, :, 1:] == far[:, :, :-1] - 1
    best *= (distances > 0)[..., None]
    return best / np.maximum(best.sum(axis=-1, keepdims=True), 1)


def _as_bytes(walls: NDArray[np.bool_]) -> NDArray[np.uint8]:
    squares = np.ascontiguousarray(walls, np.bool_).view(np.uint8)
    squares.setflags(write=False)  # as the walls of pools and layouts are: a kernel wants one type
    return squares


def _flat(cells: NDArray[np.integer], width: int) -> NDArray[np.int64]:
    rows_columns = np.asarray(cells, np.int64)
    return rows_columns[:, 0] * width + rows_columns[:, 1]
