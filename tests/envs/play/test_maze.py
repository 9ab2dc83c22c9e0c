"""`MazeEnv`: the rules, the prompts and the errors."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

import sera_maze.envs
from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.play.maze import MazeEnv
from sera_maze.envs.pools.pool import MazePool
from sera_maze.envs.tokens import verify

UP, DOWN, LEFT, RIGHT = range(4)
OBSERVATIONS = ("grid", "local", "tokens", "dict")
ROOM = """
#######
#S    #
# ### #
#    G#
#######
"""


def room_env(**options):
    return MazeEnv(MazePool.from_layouts([MazeLayout.from_text(ROOM)]), **options)


def walk(env, actions):
    results = [env.step(action) for action in actions]
    return results[-1]


@pytest.mark.parametrize(("size", "horizon"), [(17, 180), (9, 50), (33, 678), ((3, 7), 13)])
def test_default_horizon_scales_with_the_squares(size, horizon):
    env = MazeEnv(size=size, on_wall="stay", num_mazes=1)
    env.reset(seed=0)
    for step in range(1, horizon + 1):
        _, reward, terminated, truncated, info = env.step(UP)
        assert (reward, terminated, truncated) == (0.0, False, step == horizon)
    assert info["is_success"] is False


def test_success():
    env = room_env()
    _, info = env.reset()
    layout = MazeLayout.from_text(ROOM)
    assert info == {
        "prompt": 0, "digest": layout.digest, "position": (1, 1), "shortest_path_length": 6, "steps": 0,
    }  # fmt: skip
    _, reward, terminated, truncated, info = walk(env, [RIGHT, RIGHT, RIGHT, RIGHT, DOWN, DOWN])
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info == {
        "prompt": 0, "digest": layout.digest, "position": (3, 5), "shortest_path_length": 6, "steps": 6,
        "is_success": True, "path": ((1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 5), (3, 5)),
    }  # fmt: skip
    assert type(reward) is float
    assert type(terminated) is type(truncated) is type(info["is_success"]) is bool


def test_wall_fails():
    env = room_env()
    env.reset()
    _, reward, terminated, truncated, info = walk(env, [RIGHT, DOWN])
    assert (reward, terminated, truncated, info["is_success"]) == (0.0, True, False, False)
    assert (info["position"], info["path"], info["steps"]) == ((1, 2), ((1, 1), (1, 2)), 2)


def test_wall_stays():
    env = room_env(on_wall="stay")
    env.reset()
    _, reward, terminated, truncated, info = walk(env, [UP, LEFT, DOWN, DOWN, RIGHT, UP, RIGHT, RIGHT, RIGHT])
    assert (reward, terminated, truncated, info["is_success"], info["steps"]) == (1.0, True, False, True, 9)
    assert info["path"] == ((1, 1), (2, 1), (3, 1), (3, 2), (3, 3), (3, 4), (3, 5))


@pytest.mark.parametrize("on_wall", ["fail", "stay"])
def test_goal_on_the_last_allowed_step_is_a_success(on_wall):
    env = room_env(max_steps=6, on_wall=on_wall)
    env.reset()
    assert walk(env, [DOWN, DOWN, RIGHT, RIGHT, RIGHT, RIGHT])[1:4] == (1.0, True, False)
    env = room_env(max_steps=5, on_wall=on_wall)
    env.reset()
    assert walk(env, [DOWN, DOWN, RIGHT, RIGHT, RIGHT])[1:4] == (0.0, False, True)


def test_wall_on_the_last_allowed_step_terminates_or_truncates():
    assert walk_once(room_env(max_steps=1), UP)[2:4] == (True, False)
    assert walk_once(room_env(max_steps=1, on_wall="stay"), UP)[2:4] == (False, True)


def walk_once(env, action):
    env.reset()
    return env.step(action)


def test_success_is_what_the_papers_verifier_says():
    env = MazeEnv(size=5, num_mazes=4, max_steps=12)
    rng = np.random.default_rng(0)
    successes = 0
    for _ in range(1000):
        env.reset()
        actions, over = [], False
        while not over:
            actions.append(int(rng.choice(np.flatnonzero(env.action_masks())) if rng.random() < 0.8 else rng.choice(4)))
            _, _, terminated, truncated, info = env.step(actions[-1])
            over = terminated or truncated
        words = [("UP", "DOWN", "LEFT", "RIGHT")[a] for a in actions]
        assert verify(env.layout, " ".join([*words, "DONE"])) == info["is_success"]
        successes += info["is_success"]
    assert 100 < successes < 900


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_actions_are_checked_and_change_nothing_when_refused(observation):
    env = room_env(observation=observation)
    env.reset()
    for bad in (-1, 4, 10**20, np.int64(-3)):
        with pytest.raises(ValueError, match=r"action=.* 0 UP, 1 DOWN, 2 LEFT, 3 RIGHT"):
            env.step(bad)
    for bad in (1.0, "UP", None, [1], np.array([1]), np.float32(0), True, False, np.True_):
        with pytest.raises(TypeError, match="action="):
            env.step(bad)
    assert env.step(np.array(3))[4]["steps"] == 1
    assert env.step(np.uint8(3))[4]["position"] == (1, 3)


def test_step_needs_a_running_episode():
    env = room_env()
    for call in (lambda: env.step(0), env.action_masks, lambda: env.layout):
        with pytest.raises(ResetNeeded, match="reset"):
            call()
    env.reset()
    env.step(UP)
    with pytest.raises(ResetNeeded, match="reset"):
        env.step(UP)


def test_action_masks():
    env = room_env()
    env.reset()
    assert env.action_masks().tolist() == [False, True, False, True]  # a corner with two exits
    env.step(RIGHT)
    assert env.action_masks().tolist() == [False, False, True, True]


def test_prompts_by_option():
    env = MazeEnv(size=9, num_mazes=20)
    for prompt in (7, np.int64(0), 19):
        _, info = env.reset(options={"prompt": prompt})
        assert info["prompt"] == prompt
        assert info["digest"] == env.pool.digests[prompt]
        assert env.layout == env.pool[int(prompt)]


def test_layout_by_option():
    env = MazeEnv(size=(5, 7), num_mazes=2)
    for layout in (MazeLayout.from_text(ROOM), ROOM):
        observation, info = env.reset(options={"layout": layout})
        assert info["prompt"] == -1
        assert info["digest"] == MazeLayout.from_text(ROOM).digest
        np.testing.assert_array_equal(observation[0], MazeLayout.from_text(ROOM).walls * 255)
        assert env.layout == MazeLayout.from_text(ROOM)
    assert env.reset()[1]["prompt"] in (0, 1)


def test_same_walls_other_start_is_another_observation_and_digest():
    one = MazeLayout.from_text(ROOM)
    other = MazeLayout(one.walls, (3, 1), one.goal)
    env = MazeEnv(MazePool.from_layouts([one, other]))
    (first, info), (second, other_info) = (env.reset(options={"prompt": i}) for i in (0, 1))
    assert info["digest"] != other_info["digest"]
    np.testing.assert_array_equal(first[0], second[0])
    assert (first[1] != second[1]).any()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"prompt": 2}, ValueError, "prompt.*=2 .*0 to 1"),
        ({"prompt": -1}, ValueError, "=-1"),
        ({"prompt": 1.0}, TypeError, "=1.0"),
        ({"prompt": True}, TypeError, "=True"),
        ({"promt": 1}, ValueError, "'promt' is not known.*did you mean 'prompt'"),
        ({"layout": 3}, TypeError, "must be a MazeLayout or its text, got int"),
        ({"layout": "#####\n#S G#\n#####"}, ValueError, r"size \(3, 5\).*\(5, 7\)"),
        ({"layout": ROOM, "prompt": 0}, ValueError, "exclude each other"),
        (5, TypeError, "options=5 is a int; allowed is a dict, or None"),
        ([], TypeError, r"options=\[\] is a list"),
        ("prompt", TypeError, "options='prompt' is a str"),
    ],
)
def test_bad_reset_options_change_nothing(options, error, words):
    env = MazeEnv(size=(5, 7), num_mazes=2)
    env.reset(seed=1)
    env.step(RIGHT) if env.action_masks()[RIGHT] else env.step(DOWN)
    with pytest.raises(error, match=words):
        env.reset(options=options)
    action = int(np.flatnonzero(env.action_masks())[0])
    assert env.step(action)[4]["steps"] == 2


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"seed": 1.0}, TypeError, "seed=1.0 is not an integer"),
        ({"seed": "1"}, TypeError, "seed='1' is not an integer"),
        ({"seed": -1}, ValueError, "seed=-1 is out of range"),
        ({"seed": 2**128 + 1}, ValueError, r"seed=.* is out of range"),
        ({"seed": True}, ValueError, "seed=True"),
        ({"seed": 3, "options": {"prompt": 99}}, ValueError, r"options\['prompt'\]=99"),
    ],
)
def test_bad_resets_leave_the_order_of_prompts_alone(arguments, error, words):
    pool = MazePool.generate(50, 9)
    env, twin = MazeEnv(pool), MazeEnv(pool)
    for one in (env, twin):
        one.reset(seed=7)
    with pytest.raises(error, match=words):
        env.reset(**arguments)
    assert [env.reset()[1]["prompt"] for _ in range(5)] == [twin.reset()[1]["prompt"] for _ in range(5)]
    assert env.np_random.integers(2**60) == twin.np_random.integers(2**60)


def test_seeds_of_any_integer_kind():
    env = MazeEnv(size=9, num_mazes=50)
    assert len({env.reset(seed=seed)[1]["prompt"] for seed in (5, np.int64(5), np.uint8(5))}) == 1
    prompts = [env.reset(seed=2**64 * i + 5)[1]["prompt"] for i in range(9)]
    assert len(set(prompts)) > 3


def test_assigned_prompts_come_in_order_then_drawn_ones():
    env = MazeEnv(size=9, num_mazes=50)
    env.assign([5, 5, 2])
    assert [env.reset()[1]["prompt"] for _ in range(3)] == [5, 5, 2]
    env.assign([9, 8, 7])
    assert env.reset()[1]["prompt"] == 9
    env.assign(np.array([1]))  # replaces what is left
    drawn = [env.reset(seed=4 if i == 1 else None)[1]["prompt"] for i in range(10)]
    assert drawn[0] == 1
    assert len(set(drawn[1:])) > 3
    with pytest.raises(ValueError, match=r"prompts\[1\]=50"):
        env.assign([3, 50])


def test_the_seed_fixes_the_order_of_prompts():
    env, other = MazeEnv(size=9, num_mazes=50), MazeEnv(size=9, num_mazes=50)

    def order(env, seed):
        return [env.reset(seed=seed if i == 0 else None)[1]["prompt"] for i in range(20)]

    assert order(env, 3) == order(other, 3) == order(env, 3)
    assert order(env, 4) != order(env, 3)
    assert order(env, 2**70) == order(other, 2**70)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    order(env, 1)
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_unseeded_environments_differ():
    def order(env):
        return [env.reset()[1]["prompt"] for _ in range(10)]

    assert order(MazeEnv(size=9)) != order(MazeEnv(size=9))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"observation": "gird"}, ValueError, "did you mean 'grid'"),
        ({"on_wall": "bounce"}, ValueError, "on_wall='bounce'.*'fail', 'stay'"),
        (
            {"render_mode": "rgb_arrays"},
            ValueError,
            "render_mode='rgb_arrays'.*'human', 'rgb_array', 'ansi'.*did you mean 'rgb_array'",
        ),
        ({"max_steps": 0}, ValueError, "max_steps=0"),
        ({"max_steps": 1.5}, TypeError, "max_steps=1.5"),
        ({"radius": 0, "observation": "local"}, ValueError, "radius=0"),
        ({"num_mazes": 0}, ValueError, "num_mazes=0"),
        ({"size": 8}, ValueError, "size=8x8"),
        ({"size": 5}, ValueError, "1024 different mazes .* only 4 of 5x5"),
        ({"algorithm": "Prim"}, ValueError, "did you mean 'prim'"),
        ({"size": 9.0}, TypeError, "size=9.0 is not"),
        ({"pool": "prim"}, TypeError, "pool must be a MazePool or FreshMazes, got str"),
        ({"pool_seed": -1}, ValueError, "pool_seed=-1"),
        ({"pool_seed": 1.5}, TypeError, "pool_seed=1.5"),
        ({"cell_size": 0}, ValueError, "cell_size=0 cannot be drawn; allowed for a maze of 9x9 squares are 1 to 1111"),
        ({"cell_size": 2.0}, TypeError, "cell_size=2.0 is not an integer"),
        ({"cell_size": 10**6}, ValueError, "cell_size=1000000 cannot be drawn"),
    ],
)
def test_bad_arguments(options, error, words):
    with pytest.raises(error, match=words):
        MazeEnv(**{"size": 9, **options} if "pool" not in options else options)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"algorithm": "prm"}, ValueError, "did you mean 'prim'"),
        ({"braid": 2}, ValueError, "braid=2"),
        ({"openings": -1}, ValueError, "openings=-1"),
        ({"endpoints": "corner"}, ValueError, "did you mean 'corners'"),
        ({"distance": 4}, ValueError, "distance=4 does not go with endpoints='corners'"),
        ({"pool_seed": "a"}, TypeError, "pool_seed='a'"),
        ({"cell_size": -1}, ValueError, "cell_size=-1"),
    ],
)
def test_arguments_that_a_pool_makes_idle_are_checked(options, error, words):
    for pool in (MazePool.generate(3, 9), MazePool.from_layouts([MazeLayout.from_text("####\n#SG#\n#  #\n####")])):
        with pytest.raises(error, match=words):
            MazeEnv(pool, **options)
        idle = MazeEnv(pool, algorithm="dfs", braid=1, openings=np.int64(2), endpoints="random", pool_seed=np.int64(7))
        assert idle.pool is pool


def test_sizes_of_any_kind_go_with_a_pool():
    pool = MazePool.generate(3, (9, 11))
    for size in ((9, 11), [9, np.int64(11)], np.array([9, 11])):
        assert MazeEnv(pool, size=size).pool is pool
    square = MazePool.generate(3, 9)
    for size in (9, np.int64(9), np.array(9)):
        assert MazeEnv(square, size=size).pool is square
    for size in (9.0, "9", (9,), True):
        with pytest.raises(TypeError, match=r"size=.* is not"):
            MazeEnv(square, size=size)


def test_a_pool_excludes_what_would_contradict_it():
    pool = MazePool.generate(3, 9)
    assert MazeEnv(pool, size=9).num_prompts == gym.make("SeraMaze/Prim-9x9-v0", pool=pool).unwrapped.num_prompts == 3
    with pytest.raises(
        ValueError, match=r"size=\(17, 17\) does not go with a pool of 9x9 mazes; .*id of that size.*MazeEnv\(pool\)"
    ):
        gym.make("SeraMaze/Prim-17x17-v0", pool=pool)
    with pytest.raises(ValueError, match="num_mazes=5 does not go with a pool, which has 3"):
        MazeEnv(pool, num_mazes=5)


def test_public_names():
    for name in sera_maze.envs.__all__:
        assert getattr(sera_maze.envs, name) is not None
    assert dir(sera_maze.envs) == sorted(sera_maze.envs.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = sera_maze.envs.Nothing
