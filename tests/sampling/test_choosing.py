"""Which sampler is used: the first that fits, with the reasons why those before it do not."""

import gymnasium as gym
import pytest
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv

from helpers import maze_policy, small_model
from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.envs import MazeEnv, MazePool, PromptQueue
from sera_maze.sampling.choosing import SAMPLERS, choose_sampler, register_sampler
from sera_maze.sampling.maps import MapSampler
from sera_maze.sampling.plain_mazes import PlainMazes, plain_mazes
from sera_maze.sampling.steps import StepSampler
from sera_maze.sampling.vec_env import MazeVecEnv

POOL = MazePool.generate(6, 5, "prim", seed=1, endpoints="random")


def vec_env():
    return MazeVecEnv(4, POOL, on_wall="stay", max_steps=12)


def other_policy(env):
    return ActorCriticPolicy(env.observation_space, env.action_space, lambda _: 1e-3)


class OwnSampler(MapSampler):
    """A user's kind of sampler."""


def fit_own(policy, source, seed):
    mazes = source if isinstance(source, PlainMazes) else plain_mazes(source)
    return OwnSampler(mazes, seed)


@pytest.fixture(autouse=True)
def registry():
    """The registry as it is at first: what other tests and these register is taken away meanwhile."""
    before = dict(SAMPLERS)
    for name in before.keys() - {"map", "step"}:
        del SAMPLERS[name]
    yield SAMPLERS
    SAMPLERS.clear()
    SAMPLERS.update(before)


def test_the_map_sampler_where_it_fits_and_stepping_elsewhere():
    env = vec_env()
    fast = choose_sampler(maze_policy(env), env, 3)
    assert type(fast) is MapSampler
    assert (fast.reason, fast.seed, fast.num_prompts, fast.prompts_digest) == ("", 3, 6, POOL.digest)
    slow = choose_sampler(other_policy(env), env, 3)
    assert type(slow) is StepSampler
    assert slow.reason == "the policy, ActorCriticPolicy, is not a MazePolicy"
    assert (slow.seed, slow.num_prompts, slow.prompts_digest) == (3, 6, POOL.digest)


def test_environments_that_are_not_mazes_are_stepped_as_is_usual(capsys):
    env = DummyVecEnv([lambda: PromptQueue(gym.make("CartPole-v1"), [0, 1, 2], lambda e: e.steps >= 20)])
    model = small_model(MaxRL, env, "MlpPolicy", verbose=1)
    usual = "each step asks the policy, which is the usual way for environments that are not plain mazes"
    assert model.rollout_sampler.reason == usual
    assert f"Stepping the environments: {usual}.\n" in capsys.readouterr().out


def test_one_that_is_wanted():
    env = vec_env()
    policy = maze_policy(env)
    slow = choose_sampler(policy, env, 0, "step")
    assert type(slow) is StepSampler
    assert slow.reason == "sampler='step' was asked for"
    with pytest.raises(ValueError, match="sampler='map' cannot be used: the policy, ActorCriticPolicy, is"):
        choose_sampler(other_policy(env), env, 0, "map")


def test_mazes_without_environments_can_be_walked_only():
    mazes = PlainMazes(POOL, MazeEnv(POOL).rules)
    assert type(choose_sampler(maze_policy(MazeEnv(POOL)), mazes, 0)) is MapSampler
    with pytest.raises(
        ValueError,
        match="the policy cannot be sampled: the policy, ActorCriticPolicy, is not a MazePolicy; there are no envi",
    ):
        choose_sampler(other_policy(MazeEnv(POOL)), mazes, 0)


def test_a_sampler_that_is_added_is_tried_first(registry):
    register_sampler("own", fit_own)
    assert list(registry) == ["own", "map", "step"]
    env = vec_env()
    for policy in (maze_policy(env), other_policy(env)):
        found = choose_sampler(policy, env, 0)
        assert type(found) is OwnSampler
        assert found.reason == ""
    model = small_model(MaxRL, env)
    assert type(model.rollout_sampler) is OwnSampler
    model.learn(10**9, total_updates=1)
    assert model.total_rollouts == 12
    assert type(choose_sampler(maze_policy(env), env, 0, "map")) is MapSampler
    register_sampler("map", fit_own)  # in the place of one that there is
    assert list(registry) == ["map", "own", "step"]


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ValueError, "name='auto' cannot be that of a sampler", ("auto", fit_own)),
        (ValueError, "name=3 cannot be that of a sampler", (3, fit_own)),
        (TypeError, "fit must be a function such as fit_step, got str", ("own", "fit_own")),
    ],
)
def test_what_is_no_sampler_is_refused(registry, error, message, arguments):
    with pytest.raises(error, match=message):
        register_sampler(*arguments)
    assert list(registry) == ["map", "step"]


def test_the_reasons_are_those_of_all_that_were_tried_before(registry):
    register_sampler("own", lambda policy, source, seed: "there is no moon")
    env = vec_env()
    mapped, stepped = choose_sampler(maze_policy(env), env, 0), choose_sampler(other_policy(env), env, 0)
    assert (type(mapped), mapped.reason) == (MapSampler, "there is no moon")
    assert type(stepped) is StepSampler
    assert stepped.reason == "there is no moon; the policy, ActorCriticPolicy, is not a MazePolicy"
    model = small_model(MaxRL, env, "MlpPolicy")
    assert model.rollout_sampler.reason == stepped.reason
    with pytest.raises(
        ValueError, match="success='exact' needs a MazePolicy on plain mazes, but there is no moon; the"
    ):
        small_model(MaxRL, env, "MlpPolicy", success="exact")
    with pytest.raises(ValueError, match="warm_start needs a MazePolicy on plain mazes, but there is no moon; the"):
        model.warm_start(1)


def test_the_registry_is_as_it_was():
    """What the tests above added is gone, and what is tried first fits fewer."""
    assert list(SAMPLERS) == ["map", "step"]
    assert isinstance(choose_sampler(maze_policy(vec_env()), vec_env(), 0), MapSampler)


def test_a_function_that_returns_neither_is_named():
    register_sampler("own", lambda policy, source, seed: None)
    with pytest.raises(TypeError, match="function of the sampler 'own' returned a NoneType; it must return a Sampler"):
        choose_sampler(other_policy(vec_env()), vec_env(), 0)
    with pytest.raises(ValueError, match="name='' cannot be that of a sampler"):
        register_sampler("", fit_own)
