"""`MazeVectorEnv` plays bit for bit the episodes of `MazeEnv`."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.play.maze import MazeEnv
from sera_maze.envs.play.vector import MazeVectorEnv
from sera_maze.envs.pools.pool import MazePool

OBSERVATIONS = ("grid", "local", "tokens", "dict")
MODES = tuple(AutoresetMode)
N = 7


def assert_equal(one, other):
    """Equal values, types and masks, nested as Gymnasium nests infos; under a mask only what it shows."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            mask = one.get(f"_{key}")
            if mask is None or isinstance(value, dict):
                assert_equal(value, other[key])
            else:
                assert_equal([value[n] for n in np.flatnonzero(mask)], [other[key][n] for n in np.flatnonzero(mask)])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_equal(a, b)
    else:
        np.testing.assert_array_equal(one, other)
        if isinstance(one, np.ndarray) and one.dtype != object:
            assert one.dtype == np.asarray(other).dtype


@pytest.mark.parametrize("on_wall", ["fail", "stay"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_same_episodes_as_single_environments(observation, mode, on_wall):
    """Thousands of random steps against Gymnasium's own SyncVectorEnv of N single environments."""
    pool = MazePool.generate(20, 7, "prim", seed=1, braid=0.5, endpoints="random")
    options = {"observation": observation, "on_wall": on_wall, "max_steps": 25, "radius": 2}
    fast = MazeVectorEnv(N, pool, autoreset_mode=mode, record_paths=True, **options)
    plain = SyncVectorEnv([lambda: MazeEnv(pool, **options)] * N, autoreset_mode=mode)
    assert fast.observation_space == plain.observation_space
    assert fast.action_space == plain.action_space
    assert fast.metadata["autoreset_mode"] == plain.metadata["autoreset_mode"]
    rng = np.random.default_rng(7)
    assert_equal(plain.reset(seed=11), fast.reset(seed=11))
    ends = successes = 0
    for step in range(600):
        if step % 100 == 50:
            assigned = [rng.integers(0, 20, size=rng.integers(0, 6)) for _ in range(N)]
            fast.assign(assigned)
            for env, prompts in zip(plain.envs, assigned, strict=True):
                env.assign(prompts)
        # Mostly open moves, so that episodes of all three ends occur.
        masks = fast.action_masks()
        np.testing.assert_array_equal(masks, [env.action_masks() for env in plain.envs])
        actions = np.array([rng.choice(4) if rng.random() < 0.1 else rng.choice(np.flatnonzero(m)) for m in masks])
        one, other = plain.step(actions), fast.step(actions)
        for a, b in zip(one, other, strict=True):
            assert_equal(a, b)
        over = one[2] | one[3]
        ends += over.sum()
        successes += (one[1] > 0).sum()
        if mode == AutoresetMode.DISABLED and over.any():
            assert_equal(
                plain.reset(options={"reset_mask": over}), fast.reset(options={"reset_mask": over})
            )  # fmt: skip
    assert ends > 100
    assert successes > 20


def test_results_do_not_depend_on_the_neighbours():
    pool = MazePool.generate(20, 7)
    many, few = MazeVectorEnv(50, pool), MazeVectorEnv(3, pool)
    many.reset(seed=5)
    few.reset(seed=5)
    actions = np.random.default_rng(0).integers(0, 4, (100, 50))
    for row in actions:
        for a, b in zip(many.step(row)[:4], few.step(row[:3])[:4], strict=True):
            np.testing.assert_array_equal(a[:3], b)


def test_large_batch_matches_single_environments():
    pool = MazePool.generate(500, 17)
    env = MazeVectorEnv(500, pool, max_steps=40)
    observations, infos = env.reset(options={"prompt": np.arange(500)})
    singles = [MazeEnv(pool, max_steps=40) for _ in range(500)]
    for i, single in enumerate(singles):
        np.testing.assert_array_equal(single.reset(options={"prompt": i})[0], observations[i])
    np.testing.assert_array_equal(infos["digest"], pool.digests)
    actions = np.random.default_rng(1).integers(0, 4, 500)
    observations, rewards, terminated, _, _ = env.step(actions)
    for i, single in enumerate(singles):
        observation, reward, over, _, _ = single.step(int(actions[i]))
        np.testing.assert_array_equal(observation, observations[i])
        assert (reward, over) == (rewards[i], terminated[i])


def test_copy_switch():
    pool = MazePool.generate(4, 9)
    for copy in (True, False):
        env = MazeVectorEnv(2, pool, copy=copy, on_wall="stay")
        first, _ = env.reset(options={"prompt": 0})
        before = first.copy()
        action = int(np.flatnonzero(env.action_masks()[0])[0])
        second = env.step(np.full(2, action))[0]
        assert (second is first) is not copy
        assert np.array_equal(first, before) is copy


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_final_observations_are_kept(observation):
    pool = MazePool.generate(4, 9)
    env = MazeVectorEnv(2, pool, observation=observation, autoreset_mode="SameStep", max_steps=1, copy=False)
    env.reset(seed=0)
    final = env.step([0, 0])[4]["final_obs"]
    kept = [{k: v.copy() for k, v in f.items()} if isinstance(f, dict) else f.copy() for f in final]
    env.step([1, 3])
    for one, other in zip(final, kept, strict=True):
        assert_equal(one, other)


def test_paths_are_recorded_on_request():
    layout = MazeLayout.from_text("#######\n#S   G#\n#######")
    for record in (True, False):
        env = MazeVectorEnv(2, MazePool.from_layouts([layout]), record_paths=record)
        env.reset()
        for action in ([3, 3], [3, 3], [3, 0]):
            infos = env.step(np.array(action))[4]
        assert infos["_is_success"].tolist() == [False, True]
        assert ("path" in infos) is record
        if record:
            assert infos["path"].tolist() == [None, ((1, 1), (1, 2), (1, 3))]


def test_number_of_assigned_prompts_left():
    env = MazeVectorEnv(2, MazePool.generate(4, 9))
    env.assign([[0, 1, 2], []])
    assert env.num_assigned.tolist() == [3, 0]
    env.reset(seed=0)
    assert env.num_assigned.tolist() == [2, 0]
    with pytest.raises(ValueError, match=r"prompts\[1\]\[2\]=4"):
        env.assign([[0], [1, 2, 4]])
    with pytest.raises(ValueError, match="prompts has 1 lists"):
        env.assign([[0]])
    assert env.num_assigned.tolist() == [2, 0]


def test_none_keeps_what_is_left_of_an_assignment():
    env = MazeVectorEnv(3, MazePool.generate(4, 9))
    env.assign([[0, 1, 2], [3], [2]])
    env.reset(seed=0)
    env.assign([None, (p for p in [1, 1]), None])
    assert env.num_assigned.tolist() == [2, 2, 0]
    prompts = [env.reset()[1]["prompt"].tolist()[:2] for _ in range(2)]
    assert prompts == [[1, 1], [2, 1]]


def test_assignments_of_any_iterable():
    env = MazeVectorEnv(2, MazePool.generate(4, 9))
    for prompts in (np.array([[0, 1], [2, 3]]), ([0, 1], range(2, 4)), (row for row in ([0, 1], {2: 0, 3: 0}.keys()))):
        env.assign(prompts)
        assert [env.reset()[1]["prompt"].tolist() for _ in range(2)] == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("prompts", "words"),
    [
        ([1, 2], r"prompts\[0\]=1 is a int; allowed is a list of the prompts of one environment, or None"),
        (np.array([1, 2]), r"prompts\[0\]=.* allowed is a list"),
        ([[0], "12"], r"prompts\[1\]='12' is a str"),
        ([[0], np.array(1)], r"prompts\[1\]=array\(1\) is a ndarray"),
        ([[0], [1.0]], r"prompts\[1\]\[0\]=1.0"),
        (None, "prompts=None is a NoneType; allowed is 2 lists of prompts"),
        (3, "prompts=3 is a int"),
        ("ab", "prompts='ab' is a str"),
        ({0: [1], 1: [2]}, "prompts=.* is a dict"),
    ],
)
def test_assignments_of_other_things_change_nothing(prompts, words):
    env = MazeVectorEnv(2, MazePool.generate(4, 9))
    env.assign([[3], [3, 3]])
    with pytest.raises(TypeError, match=words):
        env.assign(prompts)
    assert env.num_assigned.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("actions", "error", "words"),
    [
        ([0, 4], ValueError, r"actions\[1\]=4"),
        ([-1, 0], ValueError, r"actions\[0\]=-1"),
        ([0.0, 1.0], TypeError, "dtype float64"),
        ([True, False], TypeError, "dtype bool"),
        ([0], ValueError, r"shape \(2,\), got \(1,\)"),
        ([[0, 0]], ValueError, r"got \(1, 2\)"),
        (0, ValueError, r"got \(\)"),
        (["UP", "UP"], TypeError, "dtype"),
        ([[0], [0, 1]], ValueError, r"shape \(2,\), got what is no array"),
        (np.array([0, 2**63 + 1], np.uint64), ValueError, r"actions\[1\]=9223372036854775809"),
        (np.zeros(2, "i4,i4"), TypeError, "dtype"),
    ],
)
def test_bad_actions_change_nothing(actions, error, words):
    env = MazeVectorEnv(2, MazePool.generate(4, 9))
    env.reset(seed=0)
    with pytest.raises(error, match=words):
        env.step(actions)
    assert env.step(np.array([1, 1], np.uint8))[4]["steps"].tolist() == [1, 1]


def test_calls_out_of_order():
    env = MazeVectorEnv(2, MazePool.generate(4, 9), autoreset_mode="Disabled")
    for call in (lambda: env.step([0, 0]), env.action_masks):
        with pytest.raises(ResetNeeded, match="reset"):
            call()
    with pytest.raises(ResetNeeded, match="first reset"):
        env.reset(options={"reset_mask": np.array([True, False])})
    env.reset()
    env.step([0, int(np.flatnonzero(env.action_masks()[1])[0])])
    with pytest.raises(ResetNeeded, match=r"environment 0 is over.*reset_mask"):
        env.step([0, 0])


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"options": {"layout": 1}}, ValueError, "'layout' is not known.*MazePool.from_layouts"),
        ({"options": {"prompt": 9}}, ValueError, r"\['prompt'\]\[0\]=9"),
        ({"options": {"prompt": [0, 1, 2]}}, ValueError, r"options\['prompt'\] holds 3 prompts; give one, or 2"),
        ({"options": {"prompt": [[0], [0, 1]]}}, TypeError, r"options\['prompt'\]\[0\]=\[0\]"),
        ({"options": {"prompt": None}}, TypeError, r"options\['prompt'\]\[0\]=None"),
        ({"options": {"prompt": "ab"}}, TypeError, r"options\['prompt'\]='ab'"),
        ({"options": {"prompt": 1.0}}, TypeError, r"options\['prompt'\]\[0\]=1.0"),
        ({"options": {"reset_mask": None}}, ValueError, "bool array"),
        ({"options": 5}, TypeError, "options=5 is a int; allowed is a dict, or None"),
        ({"options": []}, TypeError, r"options=\[\] is a list"),
        ({"seed": 1.0}, TypeError, "seed=1.0 is a float; allowed is an int, or a list"),
        ({"seed": "ab"}, TypeError, "seed='ab' is a str"),
        ({"seed": [0, 1.0]}, TypeError, r"seed\[1\]=1.0"),
        ({"seed": 2**128 + 1}, ValueError, "seed="),
        ({"options": {"prompt": [0, 1.5]}}, TypeError, "prompt"),
        ({"options": {"reset_mask": [True, True]}}, ValueError, "bool array"),
        ({"options": {"reset_mask": np.zeros(2, bool)}}, ValueError, "at least one True"),
        ({"options": {"reset_mask": np.ones(3, bool)}}, ValueError, r"\(2,\) bool"),
        ({"seed": [1, 2, 3]}, ValueError, "seed has 3 entries"),
        ({"seed": -1}, ValueError, "seed=-1"),
        ({"seed": [0, -1]}, ValueError, r"seed\[1\]=-1"),
    ],
)
def test_bad_resets(arguments, error, words):
    pool = MazePool.generate(4, 9)
    env, twin = MazeVectorEnv(2, pool), MazeVectorEnv(2, pool)
    for one in (env, twin):
        one.reset(seed=7)
    with pytest.raises(error, match=words):
        env.reset(**{"seed": 3, **arguments})
    for _ in range(5):  # nothing changed
        assert env.reset()[1]["prompt"].tolist() == twin.reset()[1]["prompt"].tolist()


def test_the_caller_keeps_the_options():
    env = MazeVectorEnv(2, MazePool.generate(4, 9))
    env.reset(seed=0)
    options = {"reset_mask": np.array([True, False]), "prompt": 3}
    _, infos = env.reset(options=options)
    assert set(options) == {"reset_mask", "prompt"}
    assert infos["prompt"][0] == 3
    assert infos["_prompt"].tolist() == [True, False]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_envs": 0}, "num_envs=0"),
        ({"render_mode": "human"}, "'rgb_array' and 'ansi'"),
        ({"autoreset_mode": "SameStop"}, "did you mean 'SameStep'"),
        ({"observation": "pixels"}, "observation='pixels'"),
        ({"max_episode_steps": 0}, "max_episode_steps=0"),
        ({"max_episode_steps": 5, "max_steps": 6}, "max_episode_steps=5 is another name of max_steps=6"),
        ({"cell_size": 0}, "cell_size=0"),
        ({"pool_seed": -1}, "pool_seed=-1"),
    ],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        MazeVectorEnv(**{"num_envs": 2, "size": 9, **arguments})


@pytest.mark.parametrize("name", ["SeraMaze/Prim-9x9-v0", "SeraMaze/Rooms-17x17-v0"])
def test_make_vec(name):
    envs = gym.make_vec(name, 3, vectorization_mode="vector_entry_point", num_mazes=10)
    assert isinstance(envs, MazeVectorEnv)
    assert envs.num_envs == 3
    wrapped = wrappers.RecordEpisodeStatistics(envs)
    wrapped.reset(seed=1)
    lengths = []
    for _ in range(30):
        infos = wrapped.step(wrapped.action_space.sample())[4]
        if "episode" in infos:
            lengths += infos["episode"]["l"][infos["_episode"]].tolist()
    assert min(lengths) >= 1
    wrapped.close()
    assert gym.make_vec(name, 2, vectorization_mode="sync", num_mazes=10).reset(seed=1)[0].shape[0] == 2


def test_make_vec_with_max_episode_steps():
    envs = gym.make_vec("SeraMaze/Prim-9x9-v0", 3, max_episode_steps=5, num_mazes=10, on_wall="stay")
    envs.reset(seed=0)
    for step in range(1, 6):
        _, _, terminated, truncated, infos = envs.step(np.zeros(3, int))
        assert (truncated.tolist(), terminated.tolist()) == ([step == 5] * 3, [False] * 3)
    assert infos["is_success"].tolist() == [False] * 3
    assert MazeVectorEnv(1, size=9, num_mazes=1, max_episode_steps=5, max_steps=5).rules.max_steps == 5


def test_info_as_a_list_of_dicts():
    envs = wrappers.DictInfoToList(MazeVectorEnv(2, MazePool.generate(4, 9)))
    _, infos = envs.reset(options={"prompt": [1, 3]})
    assert [info["prompt"] for info in infos] == [1, 3]
    infos = envs.step(np.array([0, 0]))[4]
    assert [bool(info["is_success"]) for info in infos] == [False, False]


@pytest.mark.parametrize("mode", ["rgb_array", "ansi"])
def test_render_gives_one_picture_for_each_environment(mode):
    env = MazeVectorEnv(3, MazePool.generate(4, (5, 9)), render_mode=mode, cell_size=4)
    env.reset(seed=0)
    pictures = env.render()
    assert len(pictures) == 3
    if mode == "ansi":
        assert all(picture.count("A") == 1 for picture in pictures)
    else:
        assert {picture.shape for picture in pictures} == {(20, 36, 3)}
