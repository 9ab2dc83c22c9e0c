"""Counts of squares and steps of many paths, against counts by hand and a slow count."""

import itertools

import numpy as np
import pytest

from sera_maze.envs.layouts import path_counts
from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.layouts.moves import ACTION_STEPS
from sera_maze.envs.layouts.path_counts import count_paths

LOOP = MazeLayout.from_text("#####\n#S G#\n#   #\n#####")


def test_counts_by_hand():
    straight = [(1, 1), (1, 2), (1, 3)]
    round_below = [(1, 1), (2, 1), (2, 2), (2, 3), (1, 3)]
    # Waits, goes back and forth, and ends in the middle: each square and step counts once.
    wandering = [(1, 1), (1, 1), (1, 2), (1, 1), (1, 2), (2, 2), (1, 2)]
    successes, failures = count_paths(LOOP, [straight, wandering, round_below, straight], [True, False, True, True])

    assert (successes.num_paths, failures.num_paths) == (3, 1)
    squares, right, down = successes.steps
    assert squares[1:3, 1:4].tolist() == [[3, 2, 3], [1, 1, 1]]
    assert right[1:3, 1:4].tolist() == [[2, 2, 0], [1, 1, 0]]
    assert down[1:3, 1:4].tolist() == [[1, 0, 1], [0, 0, 0]]
    assert successes.ends[1:3, 1:4].tolist() == [[0, 0, 3], [0, 0, 0]]
    squares, right, down = failures.steps
    assert squares[1:3, 1:4].tolist() == [[1, 1, 0], [0, 1, 0]]
    assert right[1:3, 1:4].tolist() == [[1, 0, 0], [0, 0, 0]]
    assert down[1:3, 1:4].tolist() == [[0, 1, 0], [0, 0, 0]]
    assert failures.ends[1:3, 1:4].tolist() == [[0, 1, 0], [0, 0, 0]]
    for counts in (successes, failures):
        assert counts.steps[:, LOOP.walls].sum() == counts.ends[LOOP.walls].sum() == 0


def random_walk(rng, length):
    cell, path = LOOP.start, [LOOP.start]
    for _ in range(length - 1):
        down, right = ACTION_STEPS[rng.integers(4)]
        if not LOOP.walls[cell[0] + down, cell[1] + right]:
            cell = (cell[0] + down, cell[1] + right)
        path.append(cell)
    return path


@pytest.mark.parametrize("table_bytes", [1, 200, 1 << 24])
def test_counts_agree_with_a_slow_count_however_many_paths_are_counted_at_once(table_bytes, monkeypatch):
    monkeypatch.setattr(path_counts, "_MAX_TABLE", table_bytes)
    rng = np.random.default_rng(0)
    paths = [random_walk(rng, length) for length in rng.integers(1, 12, 50)]
    flags = rng.random(50) < 0.5
    for counts, flag in zip(count_paths(LOOP, paths, flags), (True, False), strict=True):
        steps, ends = np.zeros((3, 4, 5), int), np.zeros((4, 5), int)
        for path in (path for path, success in zip(paths, flags, strict=True) if success == flag):
            ends[path[-1]] += 1
            for cell in set(path):
                steps[(0, *cell)] += 1
            for first, second in {tuple(sorted(step)) for step in itertools.pairwise(path)}:
                if first != second:
                    steps[(1 if first[0] == second[0] else 2, *first)] += 1
        assert counts.num_paths == int((flags == flag).sum()) > 0
        assert np.array_equal(counts.steps, steps)
        assert np.array_equal(counts.ends, ends)


def test_no_paths_are_counted_as_nothing():
    for counts in count_paths(LOOP, [], []):
        assert counts.num_paths == counts.steps.sum() == counts.ends.sum() == 0


GOOD = [(1, 1), (1, 2)]


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (
            [(1, 1), (1, 2), (1, 5)],
            ValueError,
            r"paths\[1\] leaves the maze at step 2, at .* \(1, 5\); .*columns 0 to 4",
        ),
        ([(-1, 1)], ValueError, r"paths\[1\] leaves the maze at step 0, at .* \(-1, 1\); allowed: rows 0 to 3"),
        ([(1, 1), (0, 1)], ValueError, r"paths\[1\] stands in a wall at step 1, at .* \(0, 1\); allowed: open squares"),
        ([(1, 1), (1, 3)], ValueError, r"paths\[1\] jumps at step 1, at .* \(1, 3\); allowed: \(1, 1\)"),
        ([(1, 1), (2, 1), (1, 2)], ValueError, r"paths\[1\] jumps at step 2, at .* \(1, 2\); allowed: \(2, 1\)"),
        ([], ValueError, r"paths\[1\] has shape \(0,\)"),
        (np.zeros((0, 2), int), ValueError, r"paths\[1\] has shape \(0, 2\).* L at least 1"),
        ((1, 1), ValueError, r"paths\[1\] has shape \(2,\)"),
        ([(1, 1, 0)], ValueError, r"paths\[1\] has shape \(1, 3\)"),
        ([(1, 1), (1,)], ValueError, r"paths\[1\] is not a table of cells"),
        ([(1.0, 1.0)], TypeError, r"paths\[1\] has dtype float64"),
    ],
)
def test_path_errors_name_path_and_step(bad, error, message):
    with pytest.raises(error, match=message):
        count_paths(LOOP, [GOOD, bad, GOOD], [True, False, True])


def test_a_new_path_may_begin_anywhere():
    successes, _ = count_paths(LOOP, [GOOD, [(2, 3)]], [True, True])
    assert successes.steps[0, 2, 3] == 1
    assert successes.steps[1:].sum() == 1


@pytest.mark.parametrize(
    ("successes", "message"),
    [
        ([True], r"successes has shape \(1,\), but there are 2 paths"),
        (np.zeros(2, "i4,i4"), r"successes\[0\] is .*; allowed are True and False"),
        ([[True], [False]], r"successes has shape \(2, 1\)"),
        ([True, 0.5], r"successes\[1\] is .*0.5.* allowed are True and False"),
        ([-1, 1], r"successes\[0\] is .*-1"),
    ],
)
def test_successes_errors(successes, message):
    with pytest.raises(ValueError, match=message):
        count_paths(LOOP, [GOOD, GOOD], successes)
