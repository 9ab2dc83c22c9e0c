"""Mazes that are made when they are asked for."""

import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from sera_maze.envs import FreshMazes, MazeEnv, MazePool, MazeVectorEnv, generate_layouts
from sera_maze.envs.pools.fresh import NUM_FRESH_MAZES


def test_a_maze_is_that_of_the_generator_whatever_its_neighbours():
    mazes = FreshMazes((9, 11), "wilson", 5, endpoints="random")
    expected = generate_layouts(20, (9, 11), "wilson", 5, endpoints="random")
    prompts = [7, 3, 19, 3, 4]
    for array, wanted in zip(mazes.arrays(prompts), expected, strict=True):
        np.testing.assert_array_equal(array, wanted[prompts])
    assert mazes[19].start == tuple(expected.start[19])
    np.testing.assert_array_equal(mazes[19].walls, expected.walls[19])
    last = mazes.arrays([NUM_FRESH_MAZES - 1]).walls[0]
    np.testing.assert_array_equal(last, generate_layouts(1, (9, 11), "wilson", 5, first_index=2**40 - 1).walls[0])


def test_excluded_walls_never_occur():
    """Of the four mazes of 2x2 cells three are held out, so that only one is left, in all places."""
    pool = MazePool.generate(4, 5, "wilson")
    mazes = FreshMazes(5, "wilson", 3, exclude=pool[:3])
    walls = mazes.arrays(range(50)).walls
    assert (walls == pool.walls[3]).all()
    with pytest.raises(ValueError, match="1000 mazes in a row have walls of exclude, which holds 4"):
        FreshMazes(5, "wilson", 3, exclude=pool)[0]


def test_a_maze_that_is_not_excluded_stays_the_same():
    plain = FreshMazes(7, seed=1)
    fewer = FreshMazes(7, seed=1, exclude=MazePool.from_layouts([plain[4]]))
    kept = [i for i in range(10) if plain[i].walls.tobytes() != plain[4].walls.tobytes()]
    np.testing.assert_array_equal(plain.arrays(kept).walls, fewer.arrays(kept).walls)
    assert fewer[4].walls.tobytes() != plain[4].walls.tobytes()


def test_the_environment_plays_them():
    mazes = FreshMazes(9, seed=2)
    env = MazeEnv(mazes)
    assert env.num_prompts == 2**40
    _, info = env.reset(options={"prompt": 123_456_789})
    assert (info["prompt"], info["digest"]) == (123_456_789, mazes[123_456_789].digest)
    assert info["shortest_path_length"] == mazes[123_456_789].shortest_path_length
    env.assign([5, 5])
    assert [env.reset()[1]["digest"] for _ in range(2)] == [mazes[5].digest] * 2
    drawn = {env.reset(seed=s)[1]["prompt"] for s in range(8)}
    assert len(drawn) == 8
    check_env(MazeEnv(mazes), skip_render_check=True)


def test_ids_and_copies():
    env = gym.make("SeraMaze/Prim-9x9-v0", pool=FreshMazes(9, seed=4))
    copied = pickle.loads(pickle.dumps(env.unwrapped.pool))
    assert copied.digest == env.unwrapped.pool.digest
    np.testing.assert_array_equal(copied.arrays([8]).walls, env.unwrapped.pool.arrays([8]).walls)


def test_digests_tell_mazes_apart():
    pool = MazePool.generate(3, 9)
    all_of_them = [
        FreshMazes(9), FreshMazes(9, seed=1), FreshMazes((9, 11)), FreshMazes(9, "dfs"), FreshMazes(9, braid=0.5),
        FreshMazes(9, exclude=pool),
    ]  # fmt: skip
    assert len({mazes.digest for mazes in all_of_them}) == len(all_of_them)


def test_arrays_of_pools_and_of_fresh_mazes():
    pool = MazePool.generate(5, 9)
    np.testing.assert_array_equal(pool.arrays(np.array([3, 3])).goal, pool.goal[[3, 3]])
    assert FreshMazes(9).arrays(np.array([], int)).walls.shape == (0, 9, 9)


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        (lambda: FreshMazes(8), ValueError, "size=8x8"),
        (lambda: FreshMazes(9, "prims"), ValueError, "did you mean 'prim'"),
        (lambda: FreshMazes(9, seed=-1), ValueError, "seed=-1"),
        (lambda: FreshMazes(9, braid=2), ValueError, "braid=2"),
        (lambda: FreshMazes(9, exclude=[MazePool.generate(1, 9)]), TypeError, "MazePool.concatenate"),
        (lambda: FreshMazes(9, exclude=MazePool.generate(1, 7)), ValueError, r"exclude has mazes of size \(7, 7\)"),
        (lambda: FreshMazes(9)[-1], IndexError, "there is no maze -1"),
        (lambda: FreshMazes(9)[2**40], IndexError, "there is no maze 1099511627776"),
        (lambda: FreshMazes(9)[:3], TypeError, r"arrays\(prompts\)"),
        (lambda: list(FreshMazes(9)), TypeError, "too many mazes"),
        (lambda: MazeVectorEnv(2, FreshMazes(9)), TypeError, "needs all mazes at hand"),
        (lambda: MazeEnv(FreshMazes(9), num_mazes=3), ValueError, "leave num_mazes out"),
        (lambda: MazeEnv(FreshMazes(9), size=7), ValueError, "size=7"),
    ],
)
def test_wrong_use(use, error, words):
    with pytest.raises(error, match=words):
        use()
