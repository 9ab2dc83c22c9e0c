"""The loss: weights by hand, and a gradient that no cut, order or sampler changes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv

from helpers import maze_policy
from sera_maze.allocation.advantages import group_advantages
from sera_maze.envs import MazeEnv, MazePool
from sera_maze.sampling.loss import LossTerms, Totals, rollout_weights
from sera_maze.sampling.maps import MapSampler
from sera_maze.sampling.plain_mazes import PlainMazes
from sera_maze.sampling.rollouts import Rollouts
from sera_maze.sampling.steps import StepSampler

POOL = MazePool.generate(10, 7, "prim", seed=1, braid=0.5, endpoints="distance", distance=4)
RULES = {"on_wall": "stay", "max_steps": 12}
PROMPTS, COUNTS = torch.tensor([3, 0, 7, 5, 9]), torch.tensor([6, 8, 0, 5, 9])


def make_policy(seed=0):
    return maze_policy(MazeEnv(POOL), seed, iterations=6)


def rollouts_of(success, owner, num_prompts, lengths=None):
    """Rollouts with given outcomes and nothing else."""
    success, owner = torch.tensor(success, dtype=torch.bool), torch.tensor(owner)
    lengths = torch.ones(len(owner), dtype=torch.int64) if lengths is None else torch.tensor(lengths)
    empty = torch.zeros(int(lengths.sum()))
    counts = torch.bincount(owner, minlength=num_prompts)
    return Rollouts(torch.arange(num_prompts), counts, owner, success, lengths, empty.long(), empty, empty, None)


def weights_of(rollouts, totals=None, **options):
    """Weights of the MaxRL advantages."""
    advantages = group_advantages(rollouts.success, rollouts.owner)
    return rollout_weights(rollouts, advantages, Totals.of(rollouts) if totals is None else totals, **options)


def test_weights_by_hand():
    """Groups [1,0,0,0] and [1,0]: advantages 3,-1,-1,-1 and 1,-1; equal prompt weight makes them A / (N B)."""
    rollouts = rollouts_of([1, 0, 0, 0, 1, 0], [0, 0, 0, 0, 1, 1], 2)
    weights = weights_of(rollouts)
    np.testing.assert_allclose(weights, [0.375, -0.125, -0.125, -0.125, 0.25, -0.25], rtol=1e-6)
    plain = weights_of(rollouts, multiplicity_correction=False)
    np.testing.assert_allclose(plain, np.array([3, -1, -1, -1, 1, -1]) / 6, rtol=1e-6)


def test_prompts_without_rollouts_count_in_the_denominator():
    """B=3, R=6, N0=2: prompt 0 has 4 rollouts of weight 2/4, prompt 2 has 2 of weight 1; all over R."""
    rollouts = rollouts_of([1, 0, 0, 0, 1, 0], [0, 0, 0, 0, 2, 2], 3)
    weights = weights_of(rollouts)
    np.testing.assert_allclose(weights, np.array([1.5, -0.5, -0.5, -0.5, 1, -1]) / 6, rtol=1e-6)


def test_token_mean_divides_by_the_length():
    rollouts = rollouts_of([1, 0], [0, 0], 1, lengths=[4, 2])
    np.testing.assert_allclose(weights_of(rollouts, token_mean=True), [1 / 2 / 4, -1 / 2 / 2], rtol=1e-6)


def make_sampler(kind):
    if kind == "map":
        return MapSampler(PlainMazes(POOL, MazeEnv(POOL, **RULES).rules), 0)
    return StepSampler(DummyVecEnv([lambda: MazeEnv(POOL, **RULES)] * 3), 0)


def gradient(policy, sampler, rollouts, **options):
    """Gradient of all parameters in one vector, and the loss."""
    totals = Totals.of(rollouts)
    terms = LossTerms(rollouts, weights_of(rollouts, totals), totals, **options)
    policy.zero_grad()
    loss = 0.0
    for part in sampler.losses(policy, terms):
        part.backward()
        loss += part.item()
    grads = [torch.zeros(p.numel()) if p.grad is None else p.grad.flatten().clone() for p in policy.parameters()]
    return torch.cat(grads), loss


def mixed_rollouts(policy, kind="map"):
    """A sampler, and rollouts that it made."""
    sampler = make_sampler(kind)
    rollouts = sampler.sample(policy, PROMPTS, COUNTS, 0)
    rate = rollouts.successes / rollouts.counts.clamp(min=1)
    assert ((rate > 0) & (rate < 1)).sum() >= 2, "choose another seed: the test needs mixed groups"
    return sampler, rollouts


def test_totals_are_those_of_the_batch():
    rollouts = rollouts_of([1, 0, 0, 0, 1, 0], [0, 0, 0, 0, 2, 2], 3, lengths=[1, 2, 3, 4, 5, 6])
    assert Totals.of(rollouts) == Totals(prompts=3, rollouts=6, steps=21, sampled=2)


@pytest.mark.parametrize("options", [{}, {"ent_coef": 0.3}, {"clip_range": 0.2}, {"clip_range": 0.2, "ent_coef": 0.1}])
def test_map_and_step_rollouts_give_the_same_gradient(options):
    policy = make_policy()
    mapped, loss = gradient(policy, *mixed_rollouts(policy), **options)
    stepped, other = gradient(policy, *mixed_rollouts(policy, "step"), **options)
    assert mapped.abs().max() > 0
    torch.testing.assert_close(mapped, stepped, atol=1e-5, rtol=1e-4)
    assert loss == pytest.approx(other, abs=1e-5)


def test_gradient_is_that_of_the_formula():
    """Against autograd on the formula itself, rollout by rollout and step by step."""
    policy = make_policy()
    sampler, rollouts = mixed_rollouts(policy)
    found, loss = gradient(policy, sampler, rollouts)
    policy.zero_grad()
    mazes, squares = sampler.look_up(rollouts.prompts), sampler.squares(rollouts)
    table = policy.log_prob_map(mazes.walls, mazes.goal).flatten(1, 2)
    advantages = group_advantages(rollouts.success, rollouts.owner)
    total = len(rollouts.owner)
    expected, first = 0.0, 0
    for j, length in enumerate(rollouts.lengths.tolist()):
        q = int(rollouts.owner[j])
        correction = total / 5 / int(rollouts.counts[q])
        for t in range(first, first + length):
            log_prob = table[q, squares[t], rollouts.actions[t]]
            expected = expected - correction * advantages[j] * log_prob / total
        first += length
    expected.backward()
    wanted = [torch.zeros(p.numel()) if p.grad is None else p.grad.flatten() for p in policy.parameters()]
    torch.testing.assert_close(found, torch.cat(wanted), atol=1e-6, rtol=1e-4)
    assert loss == pytest.approx(float(expected.detach()), abs=1e-5)


@pytest.mark.parametrize("kind", ["map", "step"])
@pytest.mark.parametrize("options", [{}, {"ent_coef": 0.3}])
def test_micro_batches_do_not_change_the_gradient(kind, options, monkeypatch):
    policy = make_policy()
    sampler, rollouts = mixed_rollouts(policy, kind)
    whole, loss = gradient(policy, sampler, rollouts, **options)
    for module, name, size in (
        ("maps", "MAZES_A_PASS", 1), ("steps", "MAZES_A_PASS", 1), ("steps", "STEPS_A_PASS", 7),
    ):  # fmt: skip
        monkeypatch.setattr(f"sera_maze.sampling.{module}.{name}", size)
    cut, other = gradient(policy, sampler, rollouts, **options)
    torch.testing.assert_close(whole, cut, atol=1e-6, rtol=1e-4)
    assert loss == pytest.approx(other, abs=1e-6)


@pytest.mark.parametrize("kind", ["map", "step"])
@pytest.mark.parametrize("options", [{}, {"ent_coef": 0.3}, {"clip_range": 0.2}, {"critic_coef": 0.5}])
def test_large_hidden_states_make_small_passes_and_the_same_gradient(kind, options, monkeypatch):
    """A maze of 7x7 squares has 13 positions, hence 8 channels * 6 iterations * 13 = 624 numbers."""
    policy = make_policy()
    sampler, rollouts = mixed_rollouts(policy, kind)
    sizes = []
    maps = policy.maps
    monkeypatch.setattr(policy, "maps", lambda walls, goal: sizes.append(len(walls)) or maps(walls, goal))
    whole, loss = gradient(policy, sampler, rollouts, **options)
    assert max(sizes) >= 2
    for limit, largest in ((2 * 624 - 1, 1), (2 * 624, 2)):
        sizes.clear()
        monkeypatch.setattr("sera_maze.policies.maze._MAX_STATES", limit)
        cut, other = gradient(policy, sampler, rollouts, **options)
        assert max(sizes) == largest
        torch.testing.assert_close(whole, cut, atol=1e-6, rtol=1e-4)
        assert loss == pytest.approx(other, abs=1e-5)
    sizes.clear()
    monkeypatch.setattr("sera_maze.policies.maze._MAX_STATES", 1)  # less than one maze needs
    gradient(policy.at(iterations=12), sampler, rollouts, **options)
    assert set(sizes) == {1}


def test_the_order_of_prompts_does_not_change_the_gradient():
    policy = make_policy()
    sampler, order = make_sampler("map"), torch.tensor([4, 2, 0, 1, 3])
    one, _ = gradient(policy, sampler, sampler.sample(policy, PROMPTS, COUNTS, 0))
    other, _ = gradient(policy, sampler, sampler.sample(policy, PROMPTS[order], COUNTS[order], 0))
    torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_dead_groups_give_no_gradient():
    policy = make_policy()
    sampler = make_sampler("map")
    rollouts = sampler.sample(policy, PROMPTS, COUNTS, 0)
    failed = replace(rollouts, success=torch.zeros_like(rollouts.success))
    found, loss = gradient(policy, sampler, failed)
    assert loss == 0.0
    assert not found.any()


def test_clipped_ratio_by_hand():
    """Ratios 1.5 and 0.5 at clip 0.2: a gain stops at 1.2, a loss counts down to 0.8."""
    log_prob, old = torch.tensor([1.5, 1.5, 0.5, 0.5]).log(), torch.zeros(4)
    gain, loss = torch.tensor([2.0, 0.0, 2.0, 0.0]), torch.tensor([0.0, -1.0, 0.0, -1.0])
    expected = 2 * 1.2 - 1.5 + 2 * 0.5 - 0.8
    rollouts = rollouts_of([1], [0], 1)
    clipped = LossTerms(rollouts, weights_of(rollouts), Totals.of(rollouts), clip_range=0.2)
    assert clipped.surrogate(log_prob, old, gain, loss).item() == pytest.approx(expected)
    plain = replace(clipped, clip_range=None)
    assert plain.surrogate(log_prob, old, gain, loss).item() == pytest.approx(((gain + loss) * log_prob).sum())


def test_critic_learns_the_success_rates():
    policy = make_policy()
    sampler, rollouts = mixed_rollouts(policy)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    terms = LossTerms(rollouts, torch.zeros(rollouts.num_rollouts), Totals.of(rollouts), critic_coef=1.0)
    for _ in range(150):
        optimizer.zero_grad()
        sum(sampler.losses(policy, terms)).backward()
        optimizer.step()
    chance = sampler.success_logits(policy, rollouts.prompts).sigmoid()
    sampled = rollouts.counts > 0
    rate = (rollouts.successes / rollouts.counts.clamp(min=1))[sampled]
    np.testing.assert_allclose(chance[sampled], rate, atol=0.1)


def test_any_policy_on_steps():
    sampler = make_sampler("step")
    torch.manual_seed(0)
    policy = ActorCriticPolicy(sampler.env.observation_space, sampler.env.action_space, lambda _: 1e-3)
    rollouts = sampler.sample(policy, torch.tensor([3, 0]), torch.tensor([20, 20]), 0)
    found, _ = gradient(policy, sampler, rollouts)
    assert found.abs().max() > 0
