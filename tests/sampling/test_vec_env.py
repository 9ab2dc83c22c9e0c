"""A prompt must mean the same in all environments of a VecEnv; `MazeVecEnv` itself is tested with the samplers."""

import copy

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.coverage.evaluation import evaluate
from sera_maze.envs import MazeEnv, MazePool, MazeVectorEnv, PromptQueue
from sera_maze.sampling.vec_env import MazeVecEnv, prompts_digest

POOL = MazePool.generate(6, 5, "prim", seed=1, endpoints="random")
OTHERS = MazePool.generate(6, 5, "prim", seed=2, endpoints="random")
SMALL = {"channels": 4, "iterations": 4}


def maze_env(pool=POOL, max_steps=12):
    return MazeEnv(pool, on_wall="stay", max_steps=max_steps)


def cart_pole(prompts):
    return PromptQueue(gym.make("CartPole-v1"), prompts, lambda episode: episode.steps > 15)


UNEQUAL = {
    "mazes": ([maze_env, maze_env, lambda: maze_env(OTHERS)], "environment 2 has another prompts_digest"),
    "number": ([maze_env, lambda: maze_env(POOL[:5])], r"environment 1 has another num_prompts .*\(5, not 6\)"),
    "rules": ([maze_env, lambda: maze_env(max_steps=7)], "environment 1 has another rules"),
    "order": ([maze_env, lambda: maze_env(POOL[::-1])], "environment 1 has another prompts_digest"),
}


@pytest.mark.parametrize("kind", UNEQUAL)
@pytest.mark.parametrize("sampler", ["auto", "step"])
def test_unequal_environments_are_refused_in_training(kind, sampler):
    makers, words = UNEQUAL[kind]
    with pytest.raises(ValueError, match=f"{words}.*build all with the same prompts"):
        MaxRL("MazePolicy", DummyVecEnv(makers), seed=0, policy_kwargs=SMALL, sampler=sampler)


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [
        (range(6), range(5), "num_prompts"), (range(6), range(1, 7), "prompts_digest"),
        ([0, 1], [1, 0], "prompts_digest"), ([0, {"low": -0.1}], [0, {"low": -0.2}], "prompts_digest"),
    ],
)  # fmt: skip
def test_unequal_prompts_of_any_environment(one, other, name):
    env = DummyVecEnv([lambda: cart_pole(one), lambda: cart_pole(other)])
    with pytest.raises(ValueError, match=f"environment 1 has another {name}"):
        MaxRL("MlpPolicy", env, seed=0)


@pytest.mark.parametrize("kind", UNEQUAL)
def test_unequal_environments_are_refused_in_evaluation(kind):
    makers, words = UNEQUAL[kind]
    model = MaxRL("MazePolicy", maze_env(), seed=0, policy_kwargs=SMALL)
    with pytest.raises(ValueError, match=words):
        evaluate(model.policy, POOL, num_samples=2, ks=(1,), env=DummyVecEnv(makers))


def test_equal_environments_have_one_name():
    envs = [
        DummyVecEnv([maze_env, lambda: maze_env(MazePool.generate(6, 5, "prim", seed=1, endpoints="random"))]),
        MazeVecEnv(3, POOL, on_wall="stay", max_steps=12),
    ]
    names = {prompts_digest(env) for env in envs}
    assert len(names) == 1
    assert None not in names
    assert prompts_digest(DummyVecEnv([lambda: maze_env(OTHERS)])) not in names
    assert prompts_digest(DummyVecEnv([lambda: cart_pole(range(4))] * 2)) == prompts_digest(
        DummyVecEnv([lambda: cart_pole(range(4))])
    )


def both(**options):
    """`MazeVecEnv`, and the same environments side by side."""
    options = {"on_wall": "stay", "max_steps": 12, **options}
    return MazeVecEnv(3, POOL, **options), DummyVecEnv([lambda: MazeEnv(POOL, **options)] * 3)


def played(env):
    env.reset()
    return [info["prompt"] for info in env.reset_infos]


@pytest.mark.parametrize("options", [{"prompt": 3}, [{"prompt": 3}, {}, {"prompt": 1}], None, {}])
def test_options_of_the_next_reset(options):
    found = []
    for env in both():
        env.seed(5)
        env.set_options(options)
        found.append((played(env), played(env)))  # they count once
    assert found[0] == found[1]
    assert options != {"prompt": 3} or found[0][0] == [3, 3, 3]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"prompt": 99}, ValueError, "prompt.*=99 is out of range; allowed are the integers 0 to 5"),
        ({"prompt": None}, TypeError, "prompt.*=None is a NoneType; allowed are the integers 0 to 5"),
        ({"nonsense": 1}, ValueError, "'nonsense'.* is not known; allowed"),
        ([{}, {"prompt": 7}, {}], ValueError, "=7 is out of range"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, error, words):
    for env in both():
        env.set_options(options)
        with pytest.raises(error, match=words):
            env.reset()
    env = both()[0]
    env.set_options([{"prompt": 1}])
    with pytest.raises(ValueError, match="given 1 dicts; give one, or one for each of 3 environments"):
        env.reset()
    with pytest.raises(ValueError, match="'layout' of environment 0 is not known; allowed in a MazeVecEnv is 'prompt'"):
        env.set_options({"layout": POOL[0]}) or env.reset()


def test_assignments_are_left_when_an_option_chooses():
    found = []
    for env in both():
        for n in range(3):
            env.env_method("assign", [n, n], indices=n)
        env.set_options([{"prompt": 5}, {}, {}])
        found.append([played(env), played(env)])
    assert found[0] == found[1] == [[5, 1, 2], [0, 1, 2]]


def test_the_interface_of_stable_baselines3():
    """Method by method, what a user of a DummyVecEnv gets."""
    fast, slow = both(render_mode="rgb_array")
    for env in (fast, slow):
        env.set_options({"prompt": 2})
        env.reset()
    assert fast.metadata["render_fps"] == MazeEnv.metadata["render_fps"] == 10
    assert fast.metadata["render_modes"] == slow.metadata["render_modes"]
    assert fast.render_mode == slow.render_mode
    for name in ("observation_space", "action_space", "num_prompts", "layout", "render_mode", "pool", "rules"):
        assert fast.get_attr(name) == slow.get_attr(name), name
        assert fast.get_attr(name, [2, 0]) == slow.get_attr(name, [2, 0])
        assert fast.get_attr(name, -1) == slow.get_attr(name, -1)
        assert fast.has_attr(name)
    assert not fast.has_attr("nothing")
    assert np.array_equal(fast.env_method("action_masks", indices=[1]), slow.env_method("action_masks", indices=[1]))
    assert np.array_equal(fast.render(), slow.render())
    assert np.array_equal(fast.get_images(), slow.get_images())
    assert fast.env_is_wrapped(Monitor) == slow.env_is_wrapped(Monitor) == [False] * 3
    assert fast.seed(4) == slow.seed(4) == [4, 5, 6]
    for index in (3, -4, [0, 9]):
        for call in (lambda env, i: env.get_attr("pool", i), lambda env, i: env.env_method("assign", [0], indices=i)):
            for env in (fast, slow):
                with pytest.raises(IndexError):
                    call(env, index)


@pytest.mark.parametrize("mode", ["ansi", None])
def test_other_ways_to_render_do_what_a_dummy_does(mode):
    fast, slow = both(render_mode=mode)
    for env in (fast, slow):
        env.set_options({"prompt": 2})
        env.reset()
        if mode is None:
            with pytest.warns(UserWarning, match="no `render_mode`"):
                assert env.render() is None
        else:
            assert env.render() is None
    if mode:
        assert fast.env_method("render") == slow.env_method("render")


@pytest.mark.parametrize(("name", "value"), [("pool", OTHERS), ("rules", MazeEnv(OTHERS).rules)])
def test_mazes_and_rules_cannot_be_changed(name, value):
    """All the rest of an environment was made from them: a later value would be ignored."""
    words = f"the {name} of a Maze(Vector)?Env cannot be changed; build another environment"
    for env in (maze_env(), MazeVectorEnv(2, POOL)):
        before = getattr(env, name)
        with pytest.raises(AttributeError, match=words):
            setattr(env, name, value)
        assert getattr(env, name) is before
        assert isinstance(getattr(copy.deepcopy(env), name), type(before))
    with pytest.raises(AttributeError, match=words):
        DummyVecEnv([maze_env]).set_attr(name, value)
    with pytest.raises(NotImplementedError, match="build another one"):
        MazeVecEnv(2, POOL).set_attr(name, value)
    wrapped = DummyVecEnv([lambda: Monitor(maze_env())])
    wrapped.set_attr(name, value)  # Stable-Baselines3 sets it on the wrapper, which changes nothing
    with pytest.raises(ValueError, match=f"{name} was set on the wrapper Monitor, which changes nothing"):
        MaxRL("MazePolicy", wrapped, seed=0, policy_kwargs=SMALL)


class NamedPrompts:
    """A user's kind of prompts."""

    def __init__(self, seeds):
        self.seeds = list(seeds)

    def __len__(self):
        return len(self.seeds)

    @property
    def digest(self):
        return str(self.seeds)

    def describe(self, index):
        return str(self.seeds[index])


class OwnEnv(gym.Wrapper):
    """A user's promptable environment: `num_prompts`, `assign` and `prompts`, and no ``prompts_digest``."""

    def __init__(self, seeds):
        queue = cart_pole(seeds)
        super().__init__(gym.make("CartPole-v1"))
        self.queue, self.prompts, self.num_prompts = queue, NamedPrompts(seeds), len(seeds)

    def assign(self, prompts):
        self.queue.assign(prompts)

    def reset(self, **options):
        return self.queue.reset(**options)

    def step(self, action):
        return self.queue.step(action)


def test_prompts_of_a_users_environment_are_known_by_their_digest():
    env = DummyVecEnv([lambda: OwnEnv(range(6))] * 2)
    assert prompts_digest(env) == "[0, 1, 2, 3, 4, 5]"
    model = MaxRL("MlpPolicy", env, seed=0, prompts_per_batch=3, rollouts_per_prompt=2)
    model.learn(10**9, total_updates=1)
    assert model.success_estimator.state_dict()["outcomes"].sum() > 0
    model.set_env(OwnEnv(range(10, 16)))
    assert model.success_estimator.state_dict()["outcomes"].sum() == 0
    with pytest.raises(ValueError, match="environment 1 has another prompts_digest"):
        MaxRL("MlpPolicy", DummyVecEnv([lambda: OwnEnv(range(6)), lambda: OwnEnv(range(1, 7))]), seed=0)
