"""Distinct solutions: different executed paths up to the goal."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sera_maze.coverage.solutions import distinct_solutions, distinct_solutions_by_prompt
from sera_maze.envs.play.vector import MazeVectorEnv
from sera_maze.envs.pools.pool import MazePool

S, A, B, G = (1, 1), (1, 2), (2, 1), (2, 2)


@pytest.mark.parametrize(
    ("paths", "successes", "number"),
    [
        ([], [], 0),
        ([[S, A, G], [S, A, G]], [True, True], 1),
        ([[S, A, G], [S, B, G]], [True, True], 2),
        ([[S, A, G], [S, B, G]], [True, False], 1),
        ([[S, A], None], [False, False], 0),
        ([[S, A, G], [S, A, S, A, G]], [True, True], 2),  # a detour is another path
        ([[S, A, G], [S, S, A, A, A, G]], [True, True], 1),  # standing still is not
        ([np.array([S, A, G]), tuple([S, A, G]), [list(S), list(A), list(G)]], [True] * 3, 1),
    ],
)  # fmt: skip
def test_hand_values(paths, successes, number):
    assert distinct_solutions(paths, successes) == number


def test_moves_after_the_goal_make_no_new_solution():
    paths = [[S, A, G], [S, A, G, B], [S, A, G, A, G], [S, B, G, B]]
    assert distinct_solutions(paths, [True] * 4, goal=G) == 2
    flat = np.array([[0, 1, 3, 9, 9], [0, 1, 3, 2, 9], [0, 1, 3, 1, 3], [0, 2, 3, 2, 9]])
    assert distinct_solutions(flat, [True] * 4, lengths=[3, 4, 5, 4], goal=3) == 2
    cells = np.stack([flat // 2, flat % 2], -1)
    assert distinct_solutions(cells, [True] * 4, lengths=[3, 4, 5, 4], goal=(1, 1)) == 2
    with pytest.raises(ValueError, match=r"of rollout 1 of prompt 0 ends on \(2, 1\), not on \(2, 2\); pass the goal"):
        distinct_solutions(paths, [True] * 4)


def test_a_path_is_not_its_beginning():
    """Padding does not count, and square 0 is a square."""
    squares = np.array([[5, 0, 7, 7, 7], [5, 7, 0, 0, 0], [0, 5, 7, 0, 0], [5, 0, 0, 7, 1]])
    assert distinct_solutions(squares, [True] * 4, lengths=[3, 2, 3, 4]) == 3


def reference(squares, lengths, successes, prompts, num_prompts, goals):
    """The definition in plain Python."""
    found = [set() for _ in range(num_prompts)]
    for row, length, success, prompt in zip(squares.tolist(), lengths, successes, prompts, strict=True):
        if success:
            path = row[: row.index(goals[prompt]) + 1]
            assert len(path) <= length
            found[prompt].add(tuple(c for i, c in enumerate(path) if i == 0 or path[i - 1] != c))
    return [len(solutions) for solutions in found]


@given(seed=st.integers(0, 2**32), dtype=st.sampled_from([np.int16, np.int32, np.int64, np.uint8]))
@settings(max_examples=60, deadline=None)
def test_equals_the_definition(seed, dtype):
    """Few squares and short paths, so that many are equal, of rollouts in any order."""
    rng = np.random.default_rng(seed)
    squares = rng.integers(0, 3, (200, 5))
    prompts, goals = rng.integers(0, 4, 200), rng.integers(0, 3, 4)
    successes = (squares == goals[prompts, None]).any(1) & (rng.random(200) < 0.8)
    first = (squares == goals[prompts, None]).argmax(1) + 1
    lengths = np.where(successes, rng.integers(first, 6), 5)
    expected = reference(squares, lengths, successes, prompts, 5, [*goals.tolist(), 0])
    goals = np.append(goals, 0)
    found = distinct_solutions_by_prompt(squares.astype(dtype), lengths, successes, prompts, 5, goals=goals)
    assert found.dtype == np.int64
    assert found.tolist() == expected
    cells, ends = np.stack([squares, 9 - squares], -1), np.stack([goals, 9 - goals], -1)
    assert distinct_solutions_by_prompt(cells, lengths, successes, prompts, 5, goals=ends).tolist() == expected


def test_paths_of_the_environments():
    """Random walks in an open room, bouncing off walls: the recorded paths count as their definition says."""
    pool = MazePool.generate(1, (5, 5), "rooms", 0, openings=20)
    env = MazeVectorEnv(400, pool, on_wall="stay", max_steps=16, record_paths=True)
    env.reset(seed=0)
    rng, paths, successes = np.random.default_rng(0), [None] * 400, np.zeros(400, bool)
    for _ in range(16):
        _, _, terminated, truncated, info = env.step(rng.integers(0, 4, 400))
        for n in np.flatnonzero(terminated | truncated):
            if paths[n] is None:
                paths[n], successes[n] = info["path"][n], terminated[n]
    number = len({path for path, success in zip(paths, successes, strict=True) if success})
    assert number > 5
    assert distinct_solutions(paths, successes) == number
    assert distinct_solutions(paths, successes, goal=pool.goal[0]) == number


GOOD = {
    "paths": np.array([[0, 1], [0, 1]]),
    "lengths": [2, 2],
    "successes": [True, True],
    "prompts": [0, 1],
    "num_prompts": 2,
}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"paths": np.zeros((2, 2))}, TypeError, "paths must be integers, got float64"),
        ({"paths": np.zeros((2, 2, 3), int)}, ValueError, "paths must be (R, L) or (R, L, 2)"),
        ({"lengths": [2]}, ValueError, "got shapes (2, 2), (1,), (2,) and (2,)"),
        ({"lengths": [2, 0]}, ValueError, "lengths[1]=0 is out of range; a success has 1 to 2 cells"),
        ({"lengths": [3, 2]}, ValueError, "lengths[0]=3 is out of range"),
        ({"successes": [1, 0]}, TypeError, "successes must be (R,) bool, got int64"),
        ({"prompts": [0, 2]}, ValueError, "prompts[1]=2 is out of range; allowed are 0 to 1"),
        ({"prompts": [-1, 0]}, ValueError, "prompts[0]=-1 is out of range"),
        ({"num_prompts": 0}, ValueError, "num_prompts=0"),
        ({"goals": [1]}, ValueError, "goals must be (2, 2) for cells and (2,) for flat squares, got shape (1,)"),
        ({"goals": [[1, 1], [1, 1]]}, ValueError, "goals must be (2, 2)"),
        ({"goals": [1, 2]}, ValueError, "of rollout 1 of prompt 1 ends on 1, not on 2; is it a success?"),
    ],
)
def test_errors(change, error, message):
    with pytest.raises(error, match=re.escape(message)):
        distinct_solutions_by_prompt(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("paths", "successes", "error", "message"),
    [
        ([[S, G]], [True, False], ValueError, "got 1 paths and 2 successes"),
        ([[S, G], None], [True, True], TypeError, "paths[1] must be integers, got object"),
        ([[1, 2]], [True], ValueError, "paths[0] must be a sequence of cells (row, column), got shape (2,)"),
        ([[]], [True], ValueError, "paths[0] must be a sequence of cells"),
    ],
)
def test_errors_of_sequences(paths, successes, error, message):
    with pytest.raises(error, match=re.escape(message)):
        distinct_solutions(paths, successes)
