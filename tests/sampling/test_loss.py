"""The loss: weights by hand, and a gradient that no cut, order or sampler changes."""

import numpy as np
import pytest
import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv

from sera_maze.allocation.advantages import group_advantages
from sera_maze.envs import MazeEnv, MazePool
from sera_maze.policies.maze import MazePolicy
from sera_maze.sampling import loss as objective
from sera_maze.sampling.loss import LossTerms, accumulate_gradient, rollout_weights
from sera_maze.sampling.rollouts import Rollouts
from sera_maze.sampling.sampling import MapSampler, StepSampler

POOL = MazePool.generate(10, 7, "prim", seed=1, braid=0.5, endpoints="distance", distance=4)
RULES = MazeEnv(POOL, on_wall="stay", max_steps=12).rules


def make_policy(seed=0):
    env = MazeEnv(POOL)
    torch.manual_seed(seed)
    return MazePolicy(env.observation_space, env.action_space, lambda _: 1e-3, channels=8, iterations=6)


def rollouts_of(success, owner, num_prompts, lengths=None):
    """Rollouts with given outcomes and nothing else."""
    success, owner = torch.tensor(success, dtype=torch.bool), torch.tensor(owner)
    lengths = torch.ones(len(owner), dtype=torch.int64) if lengths is None else torch.tensor(lengths)
    empty = torch.zeros(int(lengths.sum()))
    counts = torch.bincount(owner, minlength=num_prompts)
    return Rollouts(torch.arange(num_prompts), counts, owner, success, lengths, empty.long(), empty, empty)


def test_weights_by_hand():
    """Groups [1,0,0,0] and [1,0]: advantages 3,-1,-1,-1 and 1,-1; equal prompt weight makes them A / (N B)."""
    rollouts = rollouts_of([1, 0, 0, 0, 1, 0], [0, 0, 0, 0, 1, 1], 2)
    advantages = group_advantages(rollouts.success, rollouts.owner)
    weights = rollout_weights(rollouts, advantages)
    np.testing.assert_allclose(weights, [0.375, -0.125, -0.125, -0.125, 0.25, -0.25], rtol=1e-6)
    plain = rollout_weights(rollouts, advantages, multiplicity_correction=False)
    np.testing.assert_allclose(plain, np.array([3, -1, -1, -1, 1, -1]) / 6, rtol=1e-6)


def test_prompts_without_rollouts_count_in_the_denominator():
    """B=3, R=6, N0=2: prompt 0 has 4 rollouts of weight 2/4, prompt 2 has 2 of weight 1; all over R."""
    rollouts = rollouts_of([1, 0, 0, 0, 1, 0], [0, 0, 0, 0, 2, 2], 3)
    weights = rollout_weights(rollouts, group_advantages(rollouts.success, rollouts.owner))
    np.testing.assert_allclose(weights, np.array([1.5, -0.5, -0.5, -0.5, 1, -1]) / 6, rtol=1e-6)


def test_token_mean_divides_by_the_length():
    rollouts = rollouts_of([1, 0], [0, 0], 1, lengths=[4, 2])
    advantages = group_advantages(rollouts.success, rollouts.owner)
    np.testing.assert_allclose(
        rollout_weights(rollouts, advantages, token_mean=True), [1 / 2 / 4, -1 / 2 / 2], rtol=1e-6
    )


def sample(policy, kind="map", seed=0, counts=None):
    prompts = torch.tensor([3, 0, 7, 5, 9])
    counts = torch.tensor([6, 8, 0, 5, 9]) if counts is None else counts
    if kind == "map":
        return MapSampler(POOL, RULES, seed).sample(policy, prompts, counts, 0)
    env = DummyVecEnv([lambda: MazeEnv(POOL, on_wall="stay", max_steps=12)] * 3)
    return StepSampler(env, seed).sample(policy, prompts, counts, 0)


def gradient(policy, rollouts, **options):
    advantages = group_advantages(rollouts.success, rollouts.owner)
    terms = LossTerms(rollouts, rollout_weights(rollouts, advantages), **options)
    policy.zero_grad()
    mazes = MapSampler(POOL, RULES, 0).mazes if rollouts.squares is not None else None
    loss = accumulate_gradient(policy, terms, mazes)
    grads = [torch.zeros(p.numel()) if p.grad is None else p.grad.flatten().clone() for p in policy.parameters()]
    return torch.cat(grads), loss


def mixed_rollouts(policy, kind="map"):
    rollouts = sample(policy, kind)
    rate = rollouts.successes / rollouts.counts.clamp(min=1)
    assert ((rate > 0) & (rate < 1)).sum() >= 2, "choose another seed: the test needs mixed groups"
    return rollouts


@pytest.mark.parametrize("options", [{}, {"ent_coef": 0.3}, {"clip_range": 0.2}, {"clip_range": 0.2, "ent_coef": 0.1}])
def test_map_and_step_rollouts_give_the_same_gradient(options):
    policy = make_policy()
    mapped, loss = gradient(policy, mixed_rollouts(policy), **options)
    stepped, other = gradient(policy, mixed_rollouts(policy, "step"), **options)
    assert mapped.abs().max() > 0
    torch.testing.assert_close(mapped, stepped, atol=1e-5, rtol=1e-4)
    assert loss == pytest.approx(other, abs=1e-5)


def test_gradient_is_that_of_the_formula():
    """Against autograd on the formula itself, rollout by rollout and step by step."""
    policy = make_policy()
    rollouts = mixed_rollouts(policy)
    found, loss = gradient(policy, rollouts)
    policy.zero_grad()
    walls, goal = MapSampler(POOL, RULES, 0).mazes(rollouts.prompts)
    table = policy.log_prob_map(walls, goal).flatten(1, 2)
    advantages = group_advantages(rollouts.success, rollouts.owner)
    total = len(rollouts.owner)
    expected, first = 0.0, 0
    for j, length in enumerate(rollouts.lengths.tolist()):
        q = int(rollouts.owner[j])
        correction = total / 5 / int(rollouts.counts[q])
        for t in range(first, first + length):
            log_prob = table[q, rollouts.squares[t], rollouts.actions[t]]
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
    rollouts = mixed_rollouts(policy, kind)
    whole, loss = gradient(policy, rollouts, **options)
    monkeypatch.setattr(objective, "MAZES_A_PASS", 1)
    monkeypatch.setattr(objective, "STEPS_A_PASS", 7)
    cut, other = gradient(policy, rollouts, **options)
    torch.testing.assert_close(whole, cut, atol=1e-6, rtol=1e-4)
    assert loss == pytest.approx(other, abs=1e-6)


@pytest.mark.parametrize("kind", ["map", "step"])
@pytest.mark.parametrize("options", [{}, {"ent_coef": 0.3}, {"clip_range": 0.2}, {"critic_coef": 0.5}])
def test_large_hidden_states_make_small_passes_and_the_same_gradient(kind, options, monkeypatch):
    """A maze of 7x7 squares has 13 positions, hence 8 channels * 6 iterations * 13 = 624 numbers."""
    policy = make_policy()
    rollouts = mixed_rollouts(policy, kind)
    sizes = []
    maps = policy.maps
    monkeypatch.setattr(policy, "maps", lambda walls, goal: sizes.append(len(walls)) or maps(walls, goal))
    whole, loss = gradient(policy, rollouts, **options)
    assert max(sizes) >= 2
    for limit, largest in ((2 * 624 - 1, 1), (2 * 624, 2)):
        sizes.clear()
        monkeypatch.setattr(objective, "MAX_STATES", limit)
        cut, other = gradient(policy, rollouts, **options)
        assert max(sizes) == largest
        torch.testing.assert_close(whole, cut, atol=1e-6, rtol=1e-4)
        assert loss == pytest.approx(other, abs=1e-5)
    sizes.clear()
    policy.iterations = 12
    monkeypatch.setattr(objective, "MAX_STATES", 1)  # less than one maze needs
    gradient(policy, rollouts, **options)
    assert set(sizes) == {1}


def test_the_order_of_prompts_does_not_change_the_gradient():
    policy = make_policy()
    prompts, counts = torch.tensor([3, 0, 7, 5, 9]), torch.tensor([6, 8, 0, 5, 9])
    sampler = MapSampler(POOL, RULES, 0)
    order = torch.tensor([4, 2, 0, 1, 3])
    one, _ = gradient(policy, sampler.sample(policy, prompts, counts, 0))
    other, _ = gradient(policy, sampler.sample(policy, prompts[order], counts[order], 0))
    torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_dead_groups_give_no_gradient():
    policy = make_policy()
    rollouts = sample(policy)
    failed = Rollouts(**{**vars(rollouts), "success": torch.zeros_like(rollouts.success)})
    found, loss = gradient(policy, failed)
    assert loss == 0.0
    assert not found.any()


def test_clipped_ratio_by_hand():
    """Ratios 1.5 and 0.5 at clip 0.2: a gain stops at 1.2, a loss counts down to 0.8."""
    log_prob, old = torch.tensor([1.5, 1.5, 0.5, 0.5]).log(), torch.zeros(4)
    gain, loss = torch.tensor([2.0, 0.0, 2.0, 0.0]), torch.tensor([0.0, -1.0, 0.0, -1.0])
    expected = 2 * 1.2 - 1.5 + 2 * 0.5 - 0.8
    assert objective._surrogate(log_prob, old, gain, loss, 0.2).item() == pytest.approx(expected)


def test_critic_learns_the_success_rates():
    policy = make_policy()
    rollouts = mixed_rollouts(policy)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    sampler = MapSampler(POOL, RULES, 0)
    weights = torch.zeros(rollouts.num_rollouts)
    for _ in range(150):
        optimizer.zero_grad()
        accumulate_gradient(policy, LossTerms(rollouts, weights, critic_coef=1.0), sampler.mazes)
        optimizer.step()
    walls, goal = sampler.mazes(rollouts.prompts)
    start = sampler.board(rollouts.prompts).start
    chance = policy.maps(walls, goal)[1].flatten(1).gather(1, start[:, None])[:, 0].sigmoid()
    sampled = rollouts.counts > 0
    rate = (rollouts.successes / rollouts.counts.clamp(min=1))[sampled]
    np.testing.assert_allclose(chance[sampled].detach(), rate, atol=0.1)


def test_any_policy_on_steps():
    env = DummyVecEnv([lambda: MazeEnv(POOL, on_wall="stay", max_steps=12)] * 3)
    torch.manual_seed(0)
    policy = ActorCriticPolicy(env.observation_space, env.action_space, lambda _: 1e-3)
    rollouts = StepSampler(env, 0).sample(policy, torch.tensor([3, 0]), torch.tensor([20, 20]), 0)
    found, _ = gradient(policy, rollouts)
    assert found.abs().max() > 0
