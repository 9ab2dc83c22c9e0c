"""Pools: distinct mazes, splits that share no walls, what they are made of and what they refuse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sera_maze.envs.generating.generate import generate_layouts
from sera_maze.envs.ground.errors import LayoutError
from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.pools.pool import MazePool

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


def test_a_single_pool_may_be_excluded():
    first = MazePool.generate(3, 5, "wilson")
    assert walls_digests(MazePool.generate(1, 5, "wilson", exclude=first)).isdisjoint(walls_digests(first))
    assert len(MazePool.generate(1, 5, "wilson", exclude=(p for p in [first]))) == 1
    for wrong in (None, 5, "pool"):
        with pytest.raises(TypeError, match=r"exclude=.* allowed is a list of MazePool"):
            MazePool.generate(1, 5, exclude=wrong)
    with pytest.raises(TypeError, match=r"exclude\[1\] is a ndarray; allowed is a MazePool"):
        MazePool.generate(1, 5, exclude=[first, first.walls])


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
    pool = MazePool.generate(40, 5, "wilson", endpoints="random")
    sizes = sorted(np.unique([layout.walls_digest for layout in pool], return_counts=True)[1].tolist())
    assert len(sizes) == 4
    possible = {sum(s for s, taken in zip(sizes, bits, strict=True) if taken) for bits in np.ndindex(2, 2, 2, 2)}
    for number in range(1, 40):
        for seed in range(3):
            if number in possible:
                train, held_out = pool.split(number, seed)
                assert len(held_out) == number
                assert not walls_digests(train) & walls_digests(held_out)
            else:
                with pytest.raises(ValueError, match=rf"held_out={number}: .*4 different walls.*nearest numbers"):
                    pool.split(number, seed)


def test_split_names_the_nearest_numbers_that_work():
    there, back = ((1, 1), (3, 3)), ((3, 3), (1, 1))
    walls = MazePool.generate(3, 5, "wilson").walls
    pairs = [MazeLayout(one, *ends) for one in walls for ends in (there, back)]
    with pytest.raises(ValueError, match=r"held_out=3: .* the 3 different walls .* that work: 2 and 4"):
        MazePool.from_layouts(pairs).split(3)
    with pytest.raises(ValueError, match=r"held_out=1: .* the 1 different walls .* that work: none"):
        MazePool.from_layouts(pairs[:2]).split(1)


@pytest.mark.parametrize("held_out", [0, 60, -1, 1.5, True])
def test_split_refuses_impossible_numbers(pool, held_out):
    with pytest.raises((ValueError, TypeError), match="held_out="):
        pool.split(held_out)


@pytest.mark.parametrize("seed", [None, 1.0, -1, [1, 2], "a"])
def test_split_takes_integer_seeds_only(pool, seed):
    with pytest.raises((ValueError, TypeError), match="seed="):
        pool.split(3, seed)
    assert pool.split(3, np.int64(4))[1].provenance["seed"] == 4


def test_graded_pools_have_their_distances_in_order():
    pool = MazePool.graded(5, [8, 2, 14], 9, "kruskal", seed=1)
    assert pool.shortest_lengths.tolist() == [8] * 5 + [2] * 5 + [14] * 5
    assert len(walls_digests(pool)) == 15  # no walls occur at two distances
    assert MazePool.graded(2, (d for d in (2, np.int64(4))), 9).shortest_lengths.tolist() == [2, 2, 4, 4]


@pytest.mark.parametrize(
    ("distances", "error", "words"),
    [
        ([2, 2], ValueError, r"distances=\[2, 2\]"),
        ([np.int64(2), 2], ValueError, r"distances=\[2, 2\]"),
        ([], ValueError, r"distances=\[\]"),
        (8, TypeError, "distances=8 is a int"),
        ("28", TypeError, "distances='28' is a str"),
        ([2.0], TypeError, r"distances\[0\]=2.0"),
        ([2, 5], ValueError, "distance=5 is odd"),
        ([2, 0], ValueError, r"distances\[1\]=0"),
    ],
)
def test_graded_refuses(distances, error, words):
    with pytest.raises(error, match=words):
        MazePool.graded(2, distances, 9)


def test_from_folder(tmp_path):
    (tmp_path / "b.txt").write_text(CORRIDOR.replace("S   G", "G   S"))
    (tmp_path / "a.txt").write_text(CORRIDOR)
    (tmp_path / "notes.md").write_text("not a maze")
    (tmp_path / "._a.txt").write_bytes(b"\x00\x05\x16\x07\xff")  # as macOS leaves beside copied files
    pool = MazePool.from_folder(tmp_path)
    assert [layout.start for layout in pool] == [(1, 1), (1, 5)]
    assert pool.provenance == {"made_by": "folder", "files": ["a.txt", "b.txt"]}


def test_from_folder_names_the_file_at_fault(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"\*\.txt"):
        MazePool.from_folder(tmp_path)
    (tmp_path / "a.txt").write_text(CORRIDOR)
    (tmp_path / "b.txt").write_text(CORRIDOR)
    with pytest.raises(ValueError, match=r"b\.txt holds the same maze as .*a\.txt.*drop_repeated=True"):
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
    assert len(MazePool.from_layouts(layout for _ in range(1))) == 1
    for drop_repeated in (False, True):
        with pytest.raises(TypeError, match=r"layouts\[1\] is a int; allowed is a MazeLayout"):
            MazePool.from_layouts([layout, 1], drop_repeated=drop_repeated)
        with pytest.raises(TypeError, match=r"layouts\[0\] is a list"):
            MazePool.from_layouts([[1]], drop_repeated=drop_repeated)
    with pytest.raises(TypeError, match=r"layouts\[0\] is a str.*MazeLayout.from_text"):
        MazePool.from_layouts([CORRIDOR])
    for wrong in (CORRIDOR, layout, None):
        with pytest.raises(TypeError, match=r"layouts=.* allowed is a list of MazeLayout"):
            MazePool.from_layouts(wrong)


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
    with pytest.raises(ValueError, match="walls is not an array"):
        MazePool([[[1]], [[1, 2]]], pool.start, pool.goal)
    with pytest.raises(ValueError, match="start is not an array"):
        MazePool(pool.walls, [[1], [1, 2]], pool.goal)
    with pytest.raises(ValueError, match="got others, of dtype"):
        MazePool(np.zeros((1, 3, 5), "i4,i4"), pool.start, pool.goal)
    with pytest.raises(TypeError, match="start must be integers"):
        MazePool(pool.walls, np.zeros((60, 2), "i4,i4"), pool.goal)


def test_one_maze_cannot_be_split(pool):
    with pytest.raises(ValueError, match="held_out=1: a pool of one maze"):
        pool[:1].split(1)


def test_the_pool_keeps_its_own_read_only_arrays(pool):
    walls = pool.walls.copy()
    mine = MazePool(walls, pool.start, pool.goal)
    walls[:] = True
    assert not mine.walls.all()
    for name in ("walls", "start", "goal", "planes", "shortest_lengths", "digests"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(mine, name)[0] = 0


def test_indexing(pool):
    assert pool[-1] == pool[59]
    assert [len(pool[key]) for key in (slice(5, 15), [3, 1], pool.shortest_lengths > 14)] == [
        10, 2, (pool.shortest_lengths > 14).sum(),
    ]  # fmt: skip
    assert pool[[3, 1]][0] == pool[3]
    assert list(pool)[7] == pool[7]
    assert pool[np.array(3)] == pool[np.int8(3)] == pool[3]
    assert list(pool[(3, -1)]) == list(pool[np.array([3, 59], np.uint8)]) == [pool[3], pool[59]]


@pytest.mark.parametrize(
    ("index", "error", "words"),
    [
        (60, IndexError, "there is no maze 60 in a pool of 60; allowed are 0 to 59, or -1 to -60"),
        (-61, IndexError, "there is no maze -61"),
        (2**70, IndexError, "there is no maze 1180591620717411303424"),
        ([3, 60], IndexError, "there is no maze 60"),
        (np.array([2**63], np.uint64), IndexError, "there is no maze 9223372036854775808"),
        (np.ones(59, bool), IndexError, "a mask of 59 bools does not fit a pool of 60"),
        ([], ValueError, r"\[\] selects none of the 60 mazes; a pool holds at least one maze"),
        (slice(99, None), ValueError, r"slice\(99, None, None\) selects none of the 60 mazes"),
        (np.zeros(60, bool), ValueError, "selects none of the 60 mazes"),
        (True, TypeError, "True selects no mazes; allowed are an int, a slice, a list of ints or a mask"),
        (np.True_, TypeError, "selects no mazes"),
        (1.0, TypeError, "1.0 selects no mazes"),
        ("a", TypeError, "'a' selects no mazes"),
        (None, TypeError, "None selects no mazes"),
        ([1.0], TypeError, r"\[1.0\] selects no mazes"),
        ([[1, 2]], TypeError, "selects no mazes"),
        ([[1], [1, 2]], ValueError, "index is not an array"),
    ],
)
def test_bad_indices(pool, index, error, words):
    with pytest.raises(error, match=words):
        pool[index]


def test_digests_and_lengths_are_those_of_the_layouts(pool):
    assert pool.digests.tolist() == [layout.digest for layout in pool]
    assert pool.shortest_lengths.tolist() == [layout.shortest_path_length for layout in pool]


def test_concatenate_refuses_repetitions_and_other_sizes(pool):
    assert len(MazePool.concatenate([pool[:3], pool[3:5]])) == 5
    with pytest.raises(ValueError, match="maze 3 of the pool repeats maze 0"):
        MazePool.concatenate([pool[:3], pool[:1]])
    with pytest.raises(ValueError, match="one size"):
        MazePool.concatenate([pool, MazePool.generate(1, 5)])
    with pytest.raises(ValueError, match="one or more"):
        MazePool.concatenate([])
    for wrong, words in (([1], r"pools\[0\] is a int"), (pool, r"pools\[0\] is a MazeLayout"), (5, "pools=5 is a int")):
        with pytest.raises(TypeError, match=words):
            MazePool.concatenate(wrong)
