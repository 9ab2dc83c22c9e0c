"""Pools: distinct mazes, splits that share no walls, files that come back whole."""

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sera_maze.envs.errors import LayoutError
from sera_maze.envs.generate import generate_layouts
from sera_maze.envs.layout import MazeLayout
from sera_maze.envs.pool import MazePool

CORRIDOR = "#######\n#S   G#\n#######"


@pytest.fixture(scope="module")
def pool():
    return MazePool.generate(60, 9, seed=3)


def walls_digests(pool):
    return {layout.walls_digest for layout in pool}


def test_mazes_are_distinct_and_the_first_of_their_seed():
    pool = MazePool.generate(150, 7, seed=5)  # of 192 that exist, so that repetitions are certain
    assert len(set(pool.digests)) == 150
    seen = list(dict.fromkeys(map(bytes, generate_layouts(3000, 7, "prim", 5).walls)))
    assert [bytes(walls) for walls in pool.walls] == seen[:150]


def test_a_smaller_pool_is_the_start_of_a_larger_one(pool):
    np.testing.assert_array_equal(MazePool.generate(20, 9, seed=3).walls, pool.walls[:20])


@pytest.mark.parametrize(("side", "exist"), [(5, 4), (7, 192)])
def test_all_mazes_that_exist_can_be_asked_for_and_no_more(side, exist):
    assert len(MazePool.generate(exist, side, "wilson")) == exist
    with pytest.raises(ValueError, match=f"{exist + 1} different mazes .* only {exist} "):
        MazePool.generate(exist + 1, side, "wilson")


@pytest.mark.slow
def test_all_mazes_of_4x4_cells():
    assert len(MazePool.generate(100352, 9, "wilson")) == 100352
    with pytest.raises(ValueError, match="only 100352 "):
        MazePool.generate(100353, 9, "wilson")


def test_random_endpoints_allow_more_mazes_than_walls():
    assert len(MazePool.generate(4 * 4 * 3, 5, "wilson", endpoints="random")) == 48
    with pytest.raises(ValueError, match="only 48 "):
        MazePool.generate(49, 5, "wilson", endpoints="random")


def test_asking_for_more_than_a_generator_can_give_ends():
    with pytest.raises(ValueError, match=r"192 different mazes .* only 88 turned up in \d+ 7x7 dfs mazes of seed 0"):
        MazePool.generate(192, 7, "dfs")
    with pytest.raises(ValueError, match="only 0 turned up"):
        MazePool.generate(1, 5, "wilson", exclude=[MazePool.generate(4, 5, "wilson")])


def test_excluded_walls_do_not_occur_whatever_start_and_goal():
    first = MazePool.generate(3, 5, "wilson", endpoints="random")
    second = MazePool.generate(1, 5, "wilson", exclude=[first], seed=9)
    assert not walls_digests(first) & walls_digests(second)


def test_papers_sets():
    train, held_out = MazePool.papers("train"), MazePool.papers("held_out")
    assert (len(train), len(held_out), train.size, held_out.size) == (7424, 256, (17, 17), (17, 17))
    assert not walls_digests(train) & walls_digests(held_out)
    assert (train.start == 1).all()
    assert (held_out.goal == 15).all()
    # The shipped file and the generator agree, and neither changed since the first version.
    np.testing.assert_array_equal(held_out.walls, MazePool.generate(256, seed=2609).walls)
    assert (held_out.digests[0], train.digests[0]) == (
        "8697228c4cf22b2c1a1e718cc0246464",
        "6072446d8f8a8fb6dbf26b8f40f3b83b",
    )
    with pytest.raises(ValueError, match="part='test'"):
        MazePool.papers("test")


@given(held_out=st.integers(1, 59), seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_split_parts_the_pool(pool, held_out, seed):
    train, test = pool.split(held_out, seed)
    assert len(test) == held_out
    assert sorted([*train.digests, *test.digests]) == sorted(pool.digests)
    assert not walls_digests(train) & walls_digests(test)
    again = pool.split(held_out, seed)
    np.testing.assert_array_equal(again[1].walls, test.walls)
    assert test.provenance == {
        "made_by": "split", "held_out": held_out, "seed": seed, "part": "held_out", "of": pool.provenance,
    }  # fmt: skip


def test_split_keeps_mazes_with_the_same_walls_together():
    pool = MazePool.generate(40, 5, "wilson", endpoints="random")  # 4 different walls
    sizes = {len(pool.split(n, seed)[1]) for seed in range(8) for n in range(1, 40) if can_split(pool, n, seed)}
    assert sizes
    for n in sizes:
        for seed in range(8):
            if can_split(pool, n, seed):
                train, test = pool.split(n, seed)
                assert not walls_digests(train) & walls_digests(test)
    with pytest.raises(ValueError, match=r"held_out=39: .*4 different walls"):
        pool.split(39)


def can_split(pool, n, seed):
    try:
        pool.split(n, seed)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("held_out", [0, 60, -1, 1.5, True])
def test_split_refuses_impossible_numbers(pool, held_out):
    with pytest.raises((ValueError, TypeError), match="held_out="):
        pool.split(held_out)


def test_graded_pools_have_their_distances_in_order():
    pool = MazePool.graded(5, [8, 2, 14], 9, "kruskal", seed=1)
    assert pool.shortest_lengths.tolist() == [8] * 5 + [2] * 5 + [14] * 5
    with pytest.raises(ValueError, match=r"distances=\[2, 2\]"):
        MazePool.graded(5, [2, 2], 9)


def test_save_and_load(pool, tmp_path):
    path = pool.save(tmp_path / "new" / "pool.npz")
    loaded = MazePool.load(path)
    for name in ("walls", "start", "goal"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(pool, name))
        assert getattr(loaded, name).dtype == getattr(pool, name).dtype
    assert {**pool.provenance, "saved_by_version": loaded.provenance["saved_by_version"]} == loaded.provenance
    assert json.loads(str(np.load(path)["header"]))["provenance"]["algorithm"] == "prim"
    assert os.listdir(path.parent) == ["pool.npz"]


def test_interrupted_save_leaves_the_old_file(pool, tmp_path, monkeypatch):
    path = pool.save(tmp_path / "pool.npz")
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        pool[:5].save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["pool.npz"]


@pytest.mark.parametrize("damage", ["half", "text", "empty", "other", "npy", "pickle", "folder", "header"])
def test_damaged_files_are_refused(pool, tmp_path, damage):
    path = pool.save(tmp_path / "pool.npz")
    if damage == "half":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif damage == "text":
        path.write_text(CORRIDOR)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "other":
        np.savez(path, walls=pool.walls)
    elif damage == "npy":
        with path.open("wb") as file:
            np.save(file, pool.walls)
    elif damage == "pickle":
        np.savez(path, header=np.array([{}], object), walls=pool.walls, start=pool.start, goal=pool.goal)
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    elif damage == "header":
        np.savez(path, header=np.array('{"format": "x", "version": 1}'), walls=0, start=0, goal=0)
    with pytest.raises(ValueError, match=r"pool\.npz is not a whole pool of mazes"):
        MazePool.load(path)


def test_missing_file_and_wrong_suffix(pool, tmp_path):
    with pytest.raises(FileNotFoundError):
        MazePool.load(tmp_path / "none.npz")
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        pool.save(tmp_path / "pool.txt")


def test_from_folder(tmp_path):
    (tmp_path / "b.txt").write_text(CORRIDOR.replace("S   G", "G   S"))
    (tmp_path / "a.txt").write_text(CORRIDOR)
    (tmp_path / "notes.md").write_text("not a maze")
    pool = MazePool.from_folder(tmp_path)
    assert [layout.start for layout in pool] == [(1, 1), (1, 5)]
    assert pool.provenance == {"made_by": "folder", "files": ["a.txt", "b.txt"]}


def test_from_folder_names_the_file_at_fault(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"\*\.txt"):
        MazePool.from_folder(tmp_path)
    (tmp_path / "a.txt").write_text(CORRIDOR)
    (tmp_path / "b.txt").write_text(CORRIDOR)
    with pytest.raises(ValueError, match="maze 1 of the pool repeats maze 0"):
        MazePool.from_folder(tmp_path)
    assert len(MazePool.from_folder(tmp_path, drop_repeated=True)) == 1
    (tmp_path / "b.txt").write_text("#####\n#S G#\n#####")
    with pytest.raises(ValueError, match=r"b\.txt has size \(3, 5\), but .*a\.txt has \(3, 7\)"):
        MazePool.from_folder(tmp_path)
    (tmp_path / "b.txt").write_text("#######\n#S x G#\n#######")
    with pytest.raises(LayoutError, match=r"b\.txt: unknown symbol at row 1, column 3") as caught:
        MazePool.from_folder(tmp_path)
    assert (caught.value.row, caught.value.column) == (1, 3)


def test_from_layouts():
    layout = MazeLayout.from_text(CORRIDOR)
    assert list(MazePool.from_layouts([layout])) == [layout]
    with pytest.raises(ValueError, match="layouts is empty"):
        MazePool.from_layouts([])
    with pytest.raises(ValueError, match=r"layout 1 has size \(3, 5\)"):
        MazePool.from_layouts([layout, MazeLayout.from_text("#####\n#S G#\n#####")])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda w, s, g: w.__setitem__((1, 0, 4), False), "maze 1 of the pool: the border is open at row 0, column 4"),
        (lambda w, s, g: s.__setitem__(1, (0, 0)), "maze 1 of the pool: the start lies in a wall at row 0, column 0"),
        (lambda w, s, g: g.__setitem__(1, (9, 1)), "maze 1 of the pool: the goal lies outside at row 9, column 1"),
        (lambda w, s, g: g.__setitem__(1, (-1, 1)), "maze 1 of the pool: the goal lies outside at row -1, column 1"),
        (lambda w, s, g: g.__setitem__(1, s[1]), "maze 1 of the pool: start and goal are one square"),
        (
            lambda w, s, g: w.__setitem__((1, [6, 7, 6], [7, 6, 6]), True),
            "maze 1 of the pool: the goal cannot be reached",
        ),
        (lambda w, s, g: w.__setitem__(1, w[0]), "maze 1 of the pool repeats maze 0"),
    ],
)
def test_arrays_that_break_the_rules(pool, change, words):
    walls, start, goal = pool.walls.copy(), pool.start.copy(), pool.goal.copy()
    change(walls, start, goal)
    with pytest.raises(ValueError, match=words):
        MazePool(walls, start, goal)


def test_shapes_are_checked(pool):
    with pytest.raises(ValueError, match=r"walls must be \(M, H, W\)"):
        MazePool(pool.walls[0], pool.start[0], pool.goal[0])
    with pytest.raises(ValueError, match=r"walls must be \(M, H, W\)"):
        MazePool(pool.walls[:0], pool.start[:0], pool.goal[:0])
    with pytest.raises(ValueError, match=r"goal must be \(60, 2\)"):
        MazePool(pool.walls, pool.start, pool.goal[:5])


def test_only_zeros_and_ones_are_walls_and_only_integers_are_cells(pool):
    assert len(MazePool(pool.walls.astype(np.uint8), pool.start.astype(np.int8), pool.goal)) == 60
    with pytest.raises(ValueError, match="walls must be bool, or integers 0"):
        MazePool(pool.walls * 7, pool.start, pool.goal)
    with pytest.raises(ValueError, match="got others, of dtype float64"):
        MazePool(pool.walls * 1.0, pool.start, pool.goal)
    with pytest.raises(TypeError, match="start must be integers"):
        MazePool(pool.walls, pool.start + 0.9, pool.goal)


def test_one_maze_cannot_be_split(pool):
    with pytest.raises(ValueError, match="held_out=1: a pool of one maze"):
        pool[:1].split(1)


def test_the_pool_keeps_its_own_read_only_arrays(pool):
    walls = pool.walls.copy()
    mine = MazePool(walls, pool.start, pool.goal)
    walls[:] = True
    assert not mine.walls.all()
    for name in ("walls", "start", "goal"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(mine, name)[0] = 0


def test_indexing(pool):
    assert pool[-1] == pool[59]
    assert [len(pool[key]) for key in (slice(5, 15), [3, 1], pool.shortest_lengths > 14)] == [
        10, 2, (pool.shortest_lengths > 14).sum(),
    ]  # fmt: skip
    assert pool[[3, 1]][0] == pool[3]
    assert list(pool)[7] == pool[7]
    with pytest.raises(IndexError):
        pool[60]
    with pytest.raises(ValueError, match="at least one maze"):
        pool[60:]


def test_digests_and_lengths_are_those_of_the_layouts(pool):
    assert pool.digests.tolist() == [layout.digest for layout in pool]
    assert pool.shortest_lengths.tolist() == [layout.shortest_path_length for layout in pool]


def test_concatenate_refuses_repetitions_and_other_sizes(pool):
    assert len(MazePool.concatenate([pool[:3], pool[3:5]])) == 5
    with pytest.raises(ValueError, match="maze 3 of the pool repeats maze 0"):
        MazePool.concatenate([pool[:3], pool[:1]])
    with pytest.raises(ValueError, match="one size"):
        MazePool.concatenate([pool, MazePool.generate(1, 5)])
