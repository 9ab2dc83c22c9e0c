"""Distances, shortest paths, their number, and action masks, against breadth-first search written here and by hand."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sera_maze.envs.ground.errors import LayoutError
from sera_maze.envs.layouts.distances import distances_from, flat_step, shortest_actions, shortest_lengths
from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.layouts.moves import ACTION_STEPS, action_masks, flat_steps

Cell = tuple[int, int]

LOOP = MazeLayout.from_text("######\n#S   #\n# ## #\n#  G #\n######")


def room(height: int, width: int, start: Cell = (1, 1), goal: Cell | None = None) -> MazeLayout:
    """An open room of height x width cells, the walls around it not counted."""
    walls = np.ones((height + 2, width + 2), bool)
    walls[1:-1, 1:-1] = False
    return MazeLayout(walls, start, goal or (height, width))


def oracle(walls: np.ndarray, source: Cell) -> tuple[dict[Cell, int], dict[Cell, int]]:
    """Distance from the source and number of shortest paths to it, for every square that can be reached."""
    distances, counts, queue = {source: 0}, {source: 1}, deque([source])
    while queue:
        cell = queue.popleft()
        for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            neighbour = cell[0] + down, cell[1] + right
            if walls[neighbour]:
                continue
            if neighbour not in distances:
                distances[neighbour], counts[neighbour] = distances[cell] + 1, 0
                queue.append(neighbour)
            if distances[neighbour] == distances[cell] + 1:
                counts[neighbour] += counts[cell]
    return distances, counts


@st.composite
def mazes(draw: st.DrawFn) -> MazeLayout:
    height, width = draw(st.integers(3, 9)), draw(st.integers(3, 9))
    squares = (height - 2) * (width - 2)
    walls = np.ones((height, width), bool)
    walls[1:-1, 1:-1] = np.reshape(draw(st.lists(st.booleans(), min_size=squares, max_size=squares)), (height - 2, -1))
    open_cells = [(int(row), int(column)) for row, column in np.argwhere(~walls)]
    assume(open_cells)
    start = draw(st.sampled_from(open_cells))
    others = sorted(set(oracle(walls, start)[0]) - {start})
    assume(others)
    return MazeLayout(walls, start, draw(st.sampled_from(others)))


@settings(max_examples=300, deadline=None)
@given(maze=mazes())
def test_against_the_oracle(maze: MazeLayout):
    expected, counts = oracle(maze.walls, maze.goal)
    distances = maze.distances()
    assert distances.dtype == np.int32
    assert distances.shape == maze.size
    reached = np.argwhere(distances >= 0).tolist()
    assert {(row, column): distances[row, column] for row, column in reached} == expected
    assert (distances[distances < 0] == -1).all()

    assert maze.shortest_path_length == expected[maze.start]
    assert maze.num_shortest_paths() == counts[maze.start]
    path = maze.shortest_path()
    assert path.dtype == np.int64
    assert path.shape == (expected[maze.start] + 1, 2)
    assert (tuple(path[0]), tuple(path[-1])) == (maze.start, maze.goal)
    assert (np.abs(np.diff(path, axis=0)).sum(axis=1) == 1).all()
    assert not maze.walls[path[:, 0], path[:, 1]].any()

    masks = maze.action_masks()
    for row, column in np.ndindex(maze.size):
        is_open = not maze.walls[row, column]
        allowed = [is_open and not maze.walls[row + down, column + right] for down, right in ACTION_STEPS if is_open]
        assert masks[row, column].tolist() == (allowed or [False] * 4)
    assert masks[distances >= 0].any(axis=-1).all()


class TestDistances:
    def test_by_hand(self):
        assert LOOP.distances().tolist() == [
            [-1, -1, -1, -1, -1, -1],
            [-1, 4, 5, 4, 3, -1],
            [-1, 3, -1, -1, 2, -1],
            [-1, 2, 1, 0, 1, -1],
            [-1, -1, -1, -1, -1, -1],
        ]

    def test_from_another_square(self):
        assert LOOP.distances(LOOP.start)[3].tolist() == [-1, 2, 3, 4, 5, -1]
        assert LOOP.distances(np.array([3, 1]))[1].tolist() == [-1, 2, 3, 4, 5, -1]

    def test_unreached_squares(self):
        maze = MazeLayout.from_text("#######\n#SG#  #\n#######")
        assert maze.distances().tolist()[1] == [-1, 1, 0, -1, -1, -1, -1]

    @pytest.mark.parametrize(
        ("source", "problem", "row", "column"),
        [
            ((2, 2), "the source lies in a wall", 2, 2),
            ((0, 0), "the source lies in a wall", 0, 0),
            ((5, 1), "the source lies outside", 5, 1),
            ((1, -2), "the source lies outside", 1, -2),
            ((1, 2, 3), "source is not a cell", None, None),
        ],
    )
    def test_source_must_be_open(self, source: Any, problem: str, row: int | None, column: int | None):
        with pytest.raises(LayoutError) as caught:
            LOOP.distances(source)
        assert (caught.value.problem, caught.value.row, caught.value.column) == (problem, row, column)

    @pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, np.uint64])
    def test_many_are_each_alone(self, dtype: type[np.integer]):
        others = [LOOP, MazeLayout(LOOP.walls[::-1], (1, 1), (3, 4)), MazeLayout(LOOP.walls[:, ::-1], (1, 2), (3, 2))]
        walls = np.stack([maze.walls for maze in others])
        start, goal = (np.array([getattr(maze, name) for maze in others], dtype) for name in ("start", "goal"))
        distances = distances_from(walls, goal)
        assert distances.dtype == np.int32
        assert distances.tolist() == [maze.distances().tolist() for maze in others]
        lengths = shortest_lengths(walls, start, goal)
        assert lengths.dtype == np.int32
        assert lengths.tolist() == [4, 5, 4]
        wide = room(20, 20)  # its last square has number 460
        corner = np.array([wide.goal], dtype)
        assert shortest_lengths(wide.walls[None], corner, corner // 20).tolist() == [38]

    def test_layout_of_memory_does_not_matter(self):
        walls = np.asfortranarray(LOOP.walls)[None]
        goal = np.array([LOOP.goal])
        assert distances_from(walls, goal)[0].tolist() == LOOP.distances().tolist()
        assert distances_from(LOOP.walls[None].astype(np.int64), goal)[0].tolist() == LOOP.distances().tolist()

    def test_unreachable_goal(self):
        walls = np.ones((1, 3, 5), bool)
        walls[0, 1, [1, 3]] = False
        assert shortest_lengths(walls, np.array([[1, 1]]), np.array([[1, 3]])).tolist() == [-1]

    def test_no_mazes(self):
        none = np.zeros((0, 2), np.int64)
        assert distances_from(np.zeros((0, 3, 5), bool), none).shape == (0, 3, 5)
        assert shortest_lengths(np.zeros((0, 3, 5), bool), none, none).shape == (0,)


class TestShortestPath:
    def test_ties_go_to_the_first_action(self):
        assert room(2, 2).shortest_path().tolist() == [[1, 1], [2, 1], [2, 2]]  # DOWN before RIGHT
        assert room(2, 2, (2, 1), (1, 2)).shortest_path().tolist() == [[2, 1], [1, 1], [1, 2]]  # UP before RIGHT
        assert room(2, 2, (2, 2), (1, 1)).shortest_path().tolist() == [[2, 2], [1, 2], [1, 1]]  # UP before LEFT

    @pytest.mark.parametrize(
        ("maze", "count"),
        [
            (room(1, 2), 1),
            (room(2, 2), 2),
            (room(3, 3), 6),
            (room(3, 3, (3, 3), (1, 1)), 6),
            (room(3, 3, (1, 1), (1, 3)), 1),
            (room(3, 3, (1, 1), (2, 3)), 3),
            (room(2, 4), 4),
            (room(4, 2), 4),
            (LOOP, 1),
            (MazeLayout.from_text("#####\n#S  #\n# # #\n#  G#\n#####"), 2),
            (MazeLayout.from_text("#######\n#S ####\n#     #\n#### G#\n#######"), 4),
            (room(8, 8), math.comb(14, 7)),
            (room(63, 63), math.comb(124, 62)),
        ],
    )
    def test_number_of_shortest_paths(self, maze: MazeLayout, count: int):
        result = maze.num_shortest_paths()
        assert type(result) is int
        assert result == count

    def test_open_room_of_65_by_65_squares(self):
        maze = room(63, 63)
        assert maze.size == (65, 65)
        assert maze.shortest_path_length == 124
        assert maze.num_shortest_paths() == 1520803477811874490019821888415218656  # overflows every machine integer

    def test_101_by_101_does_not_recurse(self):
        # One corridor of 50 rows of 99 squares, joined at alternating ends by 49 squares: 4999 squares, 4998 moves.
        walls = np.ones((101, 101), bool)
        walls[1::2, 1:-1] = False
        walls[0] = walls[-1] = True
        walls[2:-1:4, 99] = walls[4:-1:4, 1] = False
        maze = MazeLayout(walls, (1, 1), (99, 1))
        assert maze.shortest_path_length == 4998
        assert maze.shortest_path().shape == (4999, 2)
        assert maze.num_shortest_paths() == 1
        assert MazeLayout.from_text(maze.to_text()) == maze


class TestShortestActions:
    def test_by_hand(self):
        """Three squares by three to (1, 3): RIGHT in the first row, UP below the goal, both elsewhere."""
        shares = shortest_actions(room(3, 3).walls[None], np.array([[1, 3]]))
        assert shares.dtype == np.float32
        assert shares.shape == (1, 5, 5, 4)
        # UP, DOWN, LEFT, RIGHT
        assert shares[0, 1, 1].tolist() == shares[0, 1, 2].tolist() == [0, 0, 0, 1]
        assert shares[0, 2, 3].tolist() == shares[0, 3, 3].tolist() == [1, 0, 0, 0]
        assert shares[0, 2, 1].tolist() == shares[0, 3, 2].tolist() == [0.5, 0, 0, 0.5]
        assert not shares[0, 1, 3].any()
        assert not shares[0, room(3, 3).walls].any()

    def test_each_move_with_a_share_is_one_nearer_and_the_shares_are_equal(self):
        for maze in (room(4, 5), LOOP):
            distances = maze.distances()
            shares = shortest_actions(maze.walls[None], np.array([maze.goal]))[0]
            for cell in np.argwhere(distances > 0):
                nearer = [distances[tuple(cell + step)] == distances[tuple(cell)] - 1 for step in ACTION_STEPS]
                assert (shares[tuple(cell)] > 0).tolist() == nearer
                assert len(set(shares[tuple(cell)][nearer].tolist())) == 1
                assert shares[tuple(cell)].sum() == pytest.approx(1)
            assert not shares[distances <= 0].any()


class TestActionMasks:
    def test_corner_with_two_exits(self):
        masks = room(3, 3).action_masks()
        assert masks.dtype == bool
        assert masks.shape == (5, 5, 4)
        # UP, DOWN, LEFT, RIGHT
        assert masks[1, 1].tolist() == [False, True, False, True]
        assert masks[3, 3].tolist() == [True, False, True, False]
        assert masks[1, 2].tolist() == [False, True, True, True]
        assert masks[2, 2].tolist() == [True, True, True, True]

    def test_walls_allow_nothing(self):
        masks = LOOP.action_masks()
        assert not masks[LOOP.walls].any()
        assert masks[~LOOP.walls].sum(axis=-1).tolist() == [2] * 10  # every square of a loop has two exits

    def test_many(self):
        walls = np.stack([LOOP.walls, LOOP.walls[::-1]])
        masks = action_masks(walls)
        assert masks.shape == (2, 5, 6, 4)
        assert masks[0].tolist() == LOOP.action_masks().tolist()
        assert masks[1].tolist() == LOOP.action_masks()[::-1][..., [1, 0, 2, 3]].tolist()  # upside down, UP is DOWN


def test_flat_steps_are_those_of_the_actions():
    for width in (3, 17):
        steps = [down * width + right for down, right in ACTION_STEPS]
        assert list(flat_steps(width)) == [flat_step(action, width) for action in range(4)] == steps
