"""Random numbers of rollouts: keyed in each part, uniform, and giving the actions that a distribution has."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from scipy import stats
from stable_baselines3.common.distributions import make_proba_distribution

from sera_maze.sampling.randomness import action_thresholds, keyed_actions, random_bits, rollout_keys


def test_actions_have_the_policys_probabilities():
    probabilities = torch.tensor([0.1, 0.2, 0.3, 0.4])
    count = 40_000
    keys = rollout_keys(7, 0, torch.arange(count), torch.zeros(count, dtype=torch.int64))
    bits = random_bits(keys, 3)
    actions = (bits[:, None] >= action_thresholds(probabilities.log())).sum(dim=1)
    assert stats.chisquare(torch.bincount(actions), (probabilities * count).numpy()).pvalue > 1e-4


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, 2, 3, 4), (2, 2, 3, 4)), ((1, 2, 3, 4), (1, 3, 3, 4)), ((1, 2, 3, 4), (1, 2, 4, 4)),
        ((1, 2, 3, 4), (1, 2, 3, 5)), ((1, 2, 3, 4), (1, 2, 4, 3)), ((0, 0, 0, 1), (0, 0, 1, 0)),
    ],
)  # fmt: skip
def test_keys_differ_in_each_part(one, other):
    def stream(seed, update, prompt, number):
        key = rollout_keys(seed, update, torch.tensor([prompt]), torch.tensor([number]))
        return [int(random_bits(key, step)) for step in range(4)]

    assert not set(stream(*one)) & set(stream(*other))


def test_random_bits_are_uniform_and_uncorrelated():
    keys = rollout_keys(0, 0, torch.arange(200).repeat_interleave(100), torch.arange(100).repeat(200))
    draws = torch.stack([random_bits(keys, step) for step in range(5)] + [random_bits(keys, 0, 1)]).double() / 2**32
    for row in draws:
        assert stats.kstest(row.numpy(), "uniform").pvalue > 1e-4
    correlation = np.corrcoef(draws.numpy()) - np.eye(6)
    assert np.abs(correlation).max() < 5 / np.sqrt(20_000)


@pytest.mark.parametrize(
    "space",
    [spaces.Discrete(3), spaces.MultiDiscrete([2, 5]), spaces.MultiBinary(3), spaces.Box(-1, 1, (2,), np.float32)],
)
def test_keyed_actions_follow_every_distribution(space):
    """Frequencies, or means and spreads, of 20,000 keyed draws against SB3's own distribution."""
    count = 20_000
    distribution = make_proba_distribution(space)
    width = {"Discrete": 3, "MultiDiscrete": 7, "MultiBinary": 3, "Box": 2}[type(space).__name__]
    parameters = torch.linspace(-1, 1, width).repeat(count, 1)
    spread = (torch.tensor([-0.5, 0.3]),) if isinstance(space, spaces.Box) else ()
    distribution.proba_distribution(parameters, *spread)
    keys = rollout_keys(5, 0, torch.arange(count), torch.zeros(count, dtype=torch.int64))
    actions = keyed_actions(distribution, keys, torch.zeros(count, dtype=torch.int64)).double()
    torch.manual_seed(0)
    own = distribution.sample().double()
    assert actions.shape == own.shape
    assert (actions.mean(0) - own.mean(0)).abs().max() < 0.05
    assert (actions.std(0) - own.std(0)).abs().max() < 0.05
    assert torch.isfinite(distribution.log_prob(actions.to(parameters.dtype))).all()
