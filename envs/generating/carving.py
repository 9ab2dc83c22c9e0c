"""The maze algorithms as numba kernels, on one maze at a time.

A maze of H x W grid squares has (H - 1) / 2 x (W - 1) / 2 *cells*, on its odd rows and columns. The kernels number
the cells inside a frame one cell wide: cell (r, c) is ``(r + 1) * stride + c + 1`` with ``stride = columns + 2``. Four
bits of a cell stand for its neighbours UP, DOWN, LEFT, RIGHT; ``FRAME`` marks what must not be carved (again).
Each kernel takes

    squares: (H * W,) uint8, all 1 on entry; carved squares become 0.
    state: uint64 stream of random numbers; the advanced one is returned.
    grid: the numbering of the cells, see `Numbering`.
    marks, order, parent: scratch, one element a framed cell (uint8, int32, int32).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.ground.kernels import kernel_part
from sera_maze.envs.ground.random_bits import GOLDEN, U32, bounded, draw, mix
from sera_maze.envs.layouts.moves import flat_steps

FRAME = np.uint8(0x80)
_NEIGHBOURS = np.uint8(0x0F)
_OPPOSITE = np.array([2, 1, 8, 4], np.uint8)  # the bit under which a cell is known to its neighbour above, below, ...


def _choice_table() -> NDArray[np.int8]:
    """``table[bits, r]`` is the direction that r in 0..11 picks from the set bits; 1, 2, 3 and 4 divide 12."""
    table = np.full((16, 12), -1, np.int8)
    for bits in range(1, 16):
        directions = [d for d in range(4) if bits >> d & 1]
        table[bits] = [directions[r % len(directions)] for r in range(12)]
    return table


_CHOICE = _choice_table()


class Numbering(NamedTuple):
    """How the framed cells of one maze size are numbered."""

    cells: NDArray[np.int32]  # (n,) framed number of each cell, row by row
    square: NDArray[np.int32]  # (framed,) flat grid square of each framed cell; 0 for the frame
    frame: NDArray[np.uint8]  # (framed,) FRAME on the frame, else 0
    sides: NDArray[np.uint8]  # (framed,) bits of the neighbours that are cells
    step: NDArray[np.int32]  # (4,) from a framed cell to its neighbour above, below, left, right
    passage: NDArray[np.int32]  # (4,) from a cell's square to the square between it and that neighbour
    shape: NDArray[np.int32]  # (2,) rows and columns of cells


def numbering(height: int, width: int) -> Numbering:
    """Number the cells of a maze of ``height`` x ``width`` grid squares, both odd."""
    rows, columns = (height - 1) // 2, (width - 1) // 2
    framed = np.arange((rows + 2) * (columns + 2), dtype=np.int32).reshape(rows + 2, columns + 2)
    square = np.zeros(framed.shape, np.int32)
    square[1:-1, 1:-1] = (2 * np.arange(rows)[:, None] + 1) * width + 2 * np.arange(columns) + 1
    frame = np.full(framed.shape, FRAME)
    frame[1:-1, 1:-1] = 0
    is_cell = frame == 0
    sides = np.zeros(framed.shape, np.uint8)
    sides[1:-1, 1:-1] = (
        is_cell[:-2, 1:-1] + 2 * is_cell[2:, 1:-1] + 4 * is_cell[1:-1, :-2] + 8 * is_cell[1:-1, 2:]
    ).astype(np.uint8)
    return Numbering(
        framed[1:-1, 1:-1].ravel().copy(),
        square.ravel(),
        frame.ravel(),
        sides.ravel(),
        np.array(flat_steps(columns + 2), np.int32),
        np.array(flat_steps(width), np.int32),
        np.array([rows, columns], np.int32),
    )


@kernel_part
def carve_prim(squares, state, grid, marks, order):  # type: ignore[no-untyped-def]
    """Randomized Prim: a random frontier cell joins a random carved neighbour, until no frontier is left.

    ``marks`` collects for each uncarved cell which neighbours are carved; ``order`` is the frontier.
    """
    marks[:] = grid.frame
    pick, state = draw(state, grid.cells.size)
    cell = np.uint64(grid.cells[pick])
    size = 0
    while True:
        marks[cell] = FRAME
        squares[grid.square[cell]] = 0
        for direction in range(4):
            neighbour = np.uint64(cell + np.uint64(grid.step[direction]))
            # Written always and kept only if the neighbour is new: cheaper than an unpredictable branch.
            order[np.uint64(size)] = neighbour
            size += marks[neighbour] == 0
            marks[neighbour] |= _OPPOSITE[direction]
        if size == 0:
            return state
        state += GOLDEN
        bits = mix(state)
        pick, state = bounded(state, bits, size)
        size -= 1
        cell = np.uint64(order[np.uint64(pick)])
        order[np.uint64(pick)] = order[np.uint64(size)]
        pick, state = bounded(state, bits >> U32, 12)
        direction = _CHOICE[marks[cell] & _NEIGHBOURS, pick]
        squares[grid.square[cell] + grid.passage[direction]] = 0


@kernel_part
def carve_dfs(squares, state, grid, marks, order, first):  # type: ignore[no-untyped-def]
    """Depth-first search from cell ``first`` over all cells whose mark is 0; ``order`` is the path walked so far."""
    cell, size = first, 0
    marks[cell] = FRAME
    squares[grid.square[cell]] = 0
    while True:
        free = 0
        for direction in range(4):
            if marks[cell + grid.step[direction]] == 0:
                free |= 1 << direction
        if free:
            pick, state = draw(state, 12)
            direction = _CHOICE[free, pick]
            order[size] = cell
            size += 1
            squares[grid.square[cell] + grid.passage[direction]] = 0
            cell += grid.step[direction]
            marks[cell] = FRAME
            squares[grid.square[cell]] = 0
        elif size:
            size -= 1
            cell = order[size]
        else:
            return state


@kernel_part
def _root(parent, cell):  # type: ignore[no-untyped-def]
    while parent[cell] != cell:
        parent[cell] = parent[parent[cell]]
        cell = parent[cell]
    return cell


@kernel_part
def join_components(squares, state, grid, order, parent):  # type: ignore[no-untyped-def]
    """Kruskal: visit the walls between cells in random order and open those between two components.

    ``parent`` holds the components (a union-find forest); ``order`` needs two elements a framed cell.
    """
    count = 0
    for cell in grid.cells:
        for direction in (1, 3):
            if grid.sides[cell] >> direction & 1:
                order[count] = 2 * cell + (direction == 3)
                count += 1
    while count:
        pick, state = draw(state, count)
        count -= 1
        cell, direction = order[pick] >> 1, 1 + 2 * (order[pick] & 1)
        order[pick] = order[count]
        one, other = _root(parent, cell), _root(parent, cell + grid.step[direction])
        if one != other:
            parent[other] = one
            squares[grid.square[cell] + grid.passage[direction]] = 0
    return state


@kernel_part
def carve_kruskal(squares, state, grid, order, parent):  # type: ignore[no-untyped-def]
    """Kruskal from single cells."""
    for cell in grid.cells:
        squares[grid.square[cell]] = 0
        parent[cell] = cell
    return join_components(squares, state, grid, order, parent)


@kernel_part
def carve_wilson(squares, state, grid, marks, order):  # type: ignore[no-untyped-def]
    """Loop-erased random walks: every spanning tree has the same probability (Wilson, STOC 1996).

    ``order[cell]`` is the direction in which the walk left the cell last, which erases its loops.
    """
    marks[:] = grid.frame
    pick, state = draw(state, grid.cells.size)
    marks[grid.cells[pick]] = FRAME
    squares[grid.square[grid.cells[pick]]] = 0
    for first in grid.cells:
        cell = first
        while marks[cell] == 0:
            pick, state = draw(state, 12)
            order[cell] = _CHOICE[grid.sides[cell], pick]
            cell += grid.step[order[cell]]
        cell = first
        while marks[cell] == 0:
            marks[cell] = FRAME
            squares[grid.square[cell]] = 0
            squares[grid.square[cell] + grid.passage[order[cell]]] = 0
            cell += grid.step[order[cell]]
    return state


@kernel_part
def carve_division(squares, state, grid, order):  # type: ignore[no-untyped-def]
    """Recursive division: a wall with one gap cuts a field in two, until every field is one cell wide.

    ``order`` is the stack of fields (row, column, rows, columns); the longer side is cut, of a square field either.
    """
    rows, columns = grid.shape
    width = 2 * columns + 1
    for row in range(1, 2 * rows):
        for column in range(1, 2 * columns):
            if row & 1 or column & 1:
                squares[row * width + column] = 0
    fields = order[: 4 * (order.size // 4)].reshape(-1, 4)
    fields[0, 0], fields[0, 1], fields[0, 2], fields[0, 3] = 0, 0, rows, columns
    size = 1
    while size:
        size -= 1
        row, column, high, broad = fields[size]
        axis, state = draw(state, 2)  # 0 cuts between two rows, 1 between two columns
        if high != broad:
            axis = int(high < broad)
        long, wide = (high, broad) if axis == 0 else (broad, high)
        if wide == 1:
            continue
        cut, state = draw(state, long - 1)
        gap, state = draw(state, wide)
        across, along = (width, 1) if axis == 0 else (1, width)
        wall = (2 * row + 1) * width + 2 * column + 1 + (2 * cut + 1) * across
        for i in range(wide):
            if i != gap:
                squares[wall + 2 * i * along] = 1
        fields[size + 1] = fields[size]
        fields[size, 2 + axis] = cut + 1
        fields[size + 1, axis] += cut + 1
        fields[size + 1, 2 + axis] -= cut + 1
        size += 2
    return state


@kernel_part
def carve_rooms(squares, state, grid, marks, order, parent):  # type: ignore[no-untyped-def]
    """Rooms and corridors: random rectangles, depth-first corridors in between, one door between any two parts.

    A room takes 2 to 4 cells a side (fewer in a small maze) and never the whole maze; one room is tried for every four
    cells, and those that would overlap an earlier one are dropped.
    """
    rows, columns = grid.shape
    marks[:] = grid.frame
    for cell in grid.cells:
        parent[cell] = cell
    for _ in range(1 + grid.cells.size // 4):
        high, state = draw(state, max(1, min(3, rows // 2)))
        wide, state = draw(state, max(1, min(3, columns // 2)))
        high, wide = min(high + 2, rows), min(wide + 2, columns)
        top, state = draw(state, rows - high + 1)
        left, state = draw(state, columns - wide + 1)
        if high * wide < grid.cells.size:
            _open_room(squares, grid, marks, top, left, high, wide)
    for first in grid.cells:
        if marks[first] == 0:
            state = carve_dfs(squares, state, grid, marks, order, first)
    _join_carved(squares, grid, parent)
    return join_components(squares, state, grid, order, parent)


@kernel_part
def _open_room(squares, grid, marks, top, left, high, wide):  # type: ignore[no-untyped-def]
    """Open a rectangle of ``high`` x ``wide`` cells unless one of them is taken."""
    columns = grid.shape[1]
    for row in range(top, top + high):
        for column in range(left, left + wide):
            if marks[grid.cells[row * columns + column]]:
                return
    for row in range(top, top + high):
        for column in range(left, left + wide):
            marks[grid.cells[row * columns + column]] = FRAME
    for row in range(2 * top + 1, 2 * (top + high)):
        for column in range(2 * left + 1, 2 * (left + wide)):
            squares[row * (2 * columns + 1) + column] = 0


@kernel_part
def _join_carved(squares, grid, parent):  # type: ignore[no-untyped-def]
    """Unite in ``parent`` all cells with an open square between them."""
    for cell in grid.cells:
        for direction in (1, 3):
            if grid.sides[cell] >> direction & 1 and squares[grid.square[cell] + grid.passage[direction]] == 0:
                parent[_root(parent, cell + grid.step[direction])] = _root(parent, cell)


@kernel_part
def open_dead_ends(squares, state, grid, share):  # type: ignore[no-untyped-def]
    """Braid: open a random wall of each dead end, with probability ``share`` (0 to 1)."""
    for cell in grid.cells:
        closed, passages = 0, 0
        for direction in range(4):
            if squares[grid.square[cell] + grid.passage[direction]] == 0:
                passages += 1
            elif grid.sides[cell] >> direction & 1:
                closed |= 1 << direction
        if passages == 1 and closed:
            state += GOLDEN
            if (mix(state) >> np.uint64(11)) * 2.0**-53 < share:
                pick, state = draw(state, 12)
                squares[grid.square[cell] + grid.passage[_CHOICE[closed, pick]]] = 0
    return state


@kernel_part
def open_walls(squares, state, grid, order, count):  # type: ignore[no-untyped-def]
    """Open ``count`` random walls between neighbouring cells, or all of them if there are fewer."""
    closed = 0
    for cell in grid.cells:
        for direction in (1, 3):
            passage = grid.square[cell] + grid.passage[direction]
            if grid.sides[cell] >> direction & 1 and squares[passage]:
                order[closed] = passage
                closed += 1
    for _ in range(min(count, closed)):
        pick, state = draw(state, closed)
        closed -= 1
        squares[order[pick]] = 0
        order[pick] = order[closed]
    return state
