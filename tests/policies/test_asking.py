"""What is asked of any policy: MazePolicy answers by methods of its own, SB3's by what all have."""

import numpy as np
import pytest
import torch
from stable_baselines3.common.policies import ActorCriticPolicy

from helpers import maze_policy
from sera_maze.envs import MazeEnv, MazePool
from sera_maze.policies.asking import most_observations, settings_of, success_logits, varied, with_settings

ENV = MazeEnv(MazePool.generate(3, 7, "prim", seed=1))


@pytest.fixture
def stock():
    torch.manual_seed(0)
    return ActorCriticPolicy(ENV.observation_space, ENV.action_space, lambda _: 1e-3)


def observations():
    return torch.from_numpy(np.stack([ENV.reset(options={"prompt": prompt})[0] for prompt in range(3)]))


def test_a_stock_policy_does_not_vary_and_its_value_is_the_logit(stock):
    assert varied(stock, np.random.default_rng(0)) is stock
    assert settings_of(stock) == {}
    assert with_settings(stock, {}) is stock
    assert most_observations(stock, 77) == 77
    with torch.no_grad():
        logits = success_logits(stock, observations())
        assert torch.equal(logits, stock.predict_values(observations())[:, 0])


def test_a_maze_policy_answers_for_itself():
    policy = maze_policy(ENV, iterations=20)
    variant = varied(policy, np.random.default_rng(1))
    assert variant.iterations == policy.varied(np.random.default_rng(1)).iterations != 20
    assert settings_of(variant) == {"iterations": variant.iterations}
    assert with_settings(policy, settings_of(variant)).iterations == variant.iterations
    assert policy.iterations == 20
    # 13 positions of 8 channels, kept 20 times
    assert most_observations(policy, 77) == 2**26 // (13 * 8 * 20)
    logits = success_logits(policy, observations())
    torch.testing.assert_close(logits.sigmoid(), policy.predict_values(observations())[:, 0])
