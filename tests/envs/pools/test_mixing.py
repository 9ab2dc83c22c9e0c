"""Mazes of several kinds and sizes as mazes of one size."""

import json

import gymnasium as gym
import numpy as np
import pytest

from sera_maze import FreshMazes, MazePool
from sera_maze.envs.generating.generate import generate_from_spec
from sera_maze.envs.generating.spec import FAMILIES, MazeSpec
from sera_maze.envs.layouts.layout import digest_content
from sera_maze.envs.pools.fresh import fresh_part, mazes_again
from sera_maze.envs.pools.mixing import fitting, largest, mixed_pool, walled_in

KINDS = [
    MazeSpec((9, 9), "prim", endpoints="random"),
    MazeSpec((11, 13), "dfs", braid=1.0),
    MazeSpec((7, 7), "wilson", endpoints="random"),
]


def test_walls_are_added_to_the_right_and_below():
    walls = walled_in(np.zeros((2, 3, 4), bool), (5, 4))
    assert walls.shape == (2, 5, 4)
    assert not walls[:, :3].any()
    assert walls[:, 3:].all()


def test_the_largest_kind_has_both_sides():
    assert largest(KINDS) == KINDS[1]
    with pytest.raises(ValueError, match="no kind has 11x9 squares"):
        largest([MazeSpec((11, 5)), MazeSpec((5, 9))])
    with pytest.raises(TypeError, match="one or more MazeSpec"):
        FreshMazes.mixed([])
    with pytest.raises(ValueError, match=r"FreshMazes\.mixed"):
        FreshMazes((9, 9), kinds=(KINDS[1],))


def test_fresh_mazes_come_kind_after_kind_whatever_is_asked_for_with_them():
    mazes = FreshMazes.mixed(KINDS, seed=3)
    prompts = np.array([7, 0, 4, 2**40 - 1, 7])
    arrays = mazes.arrays(prompts)
    assert mazes.size == (11, 13)
    assert arrays.walls.shape == (5, 11, 13)
    for row, prompt in enumerate(prompts.tolist()):
        kind = KINDS[prompt % 3]
        own = generate_from_spec(kind, 1, 3, first_index=prompt // 3)
        height, width = kind.size
        np.testing.assert_array_equal(arrays.walls[row, :height, :width], own.walls[0])
        assert arrays.walls[row, height:].all()
        assert arrays.walls[row, :, width:].all()
        np.testing.assert_array_equal(arrays.start[row], own.start[0])
        np.testing.assert_array_equal(arrays.goal[row], own.goal[0])
        assert mazes[prompt].shortest_path_length is not None


def test_one_kind_is_what_fresh_mazes_of_it_are():
    assert FreshMazes.mixed(KINDS[:1], 5).digest == FreshMazes(9, endpoints="random", seed=5).digest


def test_mixed_fresh_mazes_are_made_again_from_their_parts():
    held_out = mixed_pool(9, KINDS, 1)
    mazes = FreshMazes.mixed(KINDS, 2, held_out)
    fresh, pool = fresh_part(mazes)
    again = mazes_again(json.loads(json.dumps(fresh)), pool)
    assert again.digest == mazes.digest != FreshMazes.mixed(KINDS[:2], 2, held_out).digest
    np.testing.assert_array_equal(again.arrays([1, 2, 3]).walls, mazes.arrays([1, 2, 3]).walls)


def test_excluded_walls_are_replaced_by_mazes_of_the_same_kind():
    kinds = [MazeSpec((5, 5), "prim"), MazeSpec((9, 9), "prim")]  # there are 4 trees of 5x5 squares
    excluded = mixed_pool(5, kinds, 0)[:3]
    mazes = FreshMazes.mixed(kinds, 0, excluded)
    walls = mazes.arrays(range(0, 80, 2)).walls
    assert {walls[:, :5, :5][i].tobytes() for i in range(40)} == {walls[0, :5, :5].tobytes()}
    assert walls[:, 5:].all()
    assert not set(digest_content(walls)) & set(digest_content(excluded.walls))


def test_a_mixed_pool_holds_different_mazes_of_every_kind_and_none_that_is_excluded():
    first = mixed_pool(32, KINDS, 4)
    second = mixed_pool(31, KINDS, 4, [first])
    assert first.size == (11, 13)
    sizes = [[len(fitting(pool, size) or ()) for size in ((7, 7), (9, 9), (11, 13))] for pool in (first, second)]
    assert sizes == [[10, 21, 32], [10, 21, 31]]
    assert not set(digest_content(first.walls)) & set(digest_content(second.walls))
    assert MazePool.concatenate([first, second]).provenance["parts"][0]["made_by"] == "mixed"


def test_fitting_gives_the_small_mazes_without_their_surroundings():
    kinds = [MazeSpec((5, 5)), MazeSpec((9, 9))]
    pool = mixed_pool(4, kinds, 0)
    np.testing.assert_array_equal(fitting(pool, (5, 5)).walls, MazePool.generate(2, 5).walls)
    assert fitting(MazePool.generate(3, 9), (5, 5)) is None


def test_the_families_are_those_of_the_ids_and_braided_mazes_with_long_paths():
    of_ids = {}
    for name, spec in gym.registry.items():
        if name.startswith("SeraMaze/"):
            of_ids[name[9:].split("-")[0].lower()] = (spec.kwargs["algorithm"], spec.kwargs.get("braid", 0.0))
    assert of_ids | {"braid_dfs": ("dfs", 1.0)} == FAMILIES
