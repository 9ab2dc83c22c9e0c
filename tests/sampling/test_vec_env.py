"""A prompt must mean the same in all environments of a VecEnv; `MazeVecEnv` itself is tested with the samplers."""

import gymnasium as gym
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.coverage.evaluation import evaluate
from sera_maze.envs import MazeEnv, MazePool, PromptQueue
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
