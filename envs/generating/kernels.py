"""The kernel behind `generate_layouts`: carve a maze, open more of it, place start and goal."""

from __future__ import annotations

import numpy as np

from sera_maze.envs.generating import carving
from sera_maze.envs.ground.kernels import kernel, kernel_part
from sera_maze.envs.ground.random_bits import draw, stream
from sera_maze.envs.layouts.distances import fill_distances

# What to do, in the order of the names in `MazeSpec`; other algorithms than these carve rooms.
_PRIM, _DFS, _KRUSKAL, _WILSON, _DIVISION = range(5)
_CORNERS, _RANDOM, _FARTHEST = range(3)
MAX_ATTEMPTS = 1000


@kernel
def fill_mazes(walls, ends, seed, first_index, grid, algorithm, braid, openings, endpoints, distance):  # type: ignore[no-untyped-def]
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


@kernel_part
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


@kernel_part
def _place_random(ends, state, grid):  # type: ignore[no-untyped-def]
    one, state = draw(state, grid.cells.size)
    other, state = draw(state, grid.cells.size - 1)
    ends[0], ends[1] = grid.square[grid.cells[one]], grid.square[grid.cells[other + (other >= one)]]
    return state


@kernel_part
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


@kernel_part
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
