"""The success estimators of a training: a critic for any policy, and mazes that never come twice."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from helpers import Watch, parameters, small_model
from sera_maze.algorithm.estimators import ESTIMATORS, make_estimator
from sera_maze.algorithm.maxrl import SERA, MaxRL
from sera_maze.allocation.others import allocate_knapsack, allocate_posterior, allocate_vip
from sera_maze.allocation.registry import ALLOCATORS
from sera_maze.allocation.success import UnknownSuccess
from sera_maze.envs import FreshMazes, MazeEnv, MazePool, PromptQueue
from sera_maze.exact.probability import success_probability
from sera_maze.sampling.choosing import SAMPLERS
from sera_maze.sampling.vec_env import MazeVecEnv

POOL = MazePool.generate(30, 7, "prim", seed=1, endpoints="distance", distance=2)  # near enough to be found
SMALL = {"channels": 8, "iterations": 6}


def maze_env(pool=POOL, **options):
    return MazeEnv(pool, **{"on_wall": "stay", "max_steps": 20, **options})


def make(algorithm=SERA, env=None, policy="MazePolicy", **options):
    if policy == "MazePolicy":
        options = {"policy_kwargs": SMALL, **options}
    return small_model(algorithm, maze_env() if env is None else env, policy, **{"prompts_per_batch": 10, **options})


def test_exact_probabilities_need_a_maze_policy():
    with pytest.raises(ValueError, match="success='exact' needs a MazePolicy on plain mazes"):
        make(SERA, MazeVecEnv(16, POOL, on_wall="stay", max_steps=20), "MlpPolicy", success="exact")


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("policy", ["MlpPolicy", "CnnPolicy"])
def test_the_critic_of_any_policy_learns_which_mazes_are_hard(policy, vector):
    """Half of the mazes cannot be solved within the horizon, so that their success probability is 0."""
    pool, rules = MazePool.graded(10, [2, 6], 7, seed=1), {"on_wall": "stay", "max_steps": 5}
    env = MazeVecEnv(8, pool, **rules) if vector else MazeEnv(pool, **rules)
    model = make(SERA, env, policy, success="critic", learning_rate=3e-3, prompts_per_batch=20)
    model.learn(10**9, total_updates=60)
    estimate = model.estimate(torch.arange(20))
    chances = estimate.probability
    assert chances[:10].mean() > chances[10:].mean() + 0.2
    assert model.allocate(torch.arange(20), estimate).counts.sum() == 20 * 4


def test_the_critic_asks_for_the_observations_of_its_prompts():
    model = make(SERA, DummyVecEnv([maze_env] * 3), "CnnPolicy", success="critic")
    prompts = torch.tensor([4, 20, 4, 11, 0, 29, 3])
    seen = model.rollout_sampler.first_observations(prompts)
    expected = [maze_env().reset(options={"prompt": prompt})[0] for prompt in prompts.tolist()]
    np.testing.assert_array_equal(seen.numpy(), np.stack(expected))


def test_map_and_step_critics_train_alike():
    fast, slow = (make(SERA, success="critic", sampler=sampler) for sampler in ("map", "step"))
    for model in (fast, slow):
        model.learn(10**9, total_updates=5)
    torch.testing.assert_close(parameters(fast), parameters(slow), atol=1e-5, rtol=1e-4)


FRESH = FreshMazes(7, seed=3, endpoints="distance", distance=2)


@pytest.mark.parametrize("sampler", ["map", "step"])
@pytest.mark.parametrize(
    "wanted", [{"success": "critic"}, {"success": "exact"}, {"allocator": "uniform"}], ids=lambda x: next(iter(x))
)
def test_fresh_mazes_in_every_batch(wanted, sampler):
    if wanted.get("success") == "exact" and sampler == "step":
        pytest.skip("exact needs the map")
    model, watch = make(SERA, maze_env(FRESH), sampler=sampler, **wanted), Watch()
    model.learn(10**9, watch, total_updates=4)
    assert torch.equal(torch.cat([rollouts.prompts for rollouts in watch.rollouts]), torch.arange(40))
    assert model.total_rollouts == 4 * 40


def test_fresh_mazes_with_stock_policies_and_worker_processes():
    env = SubprocVecEnv([partial(MazeEnv, FRESH, on_wall="stay", max_steps=20)] * 2)
    model = make(SERA, env, "CnnPolicy", success="critic")
    model.learn(10**9, total_updates=2)
    assert model.total_rollouts == 80
    env.close()


def test_a_history_cannot_learn_about_fresh_mazes():
    with pytest.raises(ValueError, match="use success='critic'"):
        make(SERA, maze_env(FRESH))
    for allocator in ("sera", "uniform"):
        with pytest.raises(ValueError, match=r"success='critic_history' learns .* use success='critic'"):
            make(MaxRL, maze_env(FRESH), allocator=allocator, success="critic_history")


@pytest.mark.parametrize("policy", ["MazePolicy", "MlpPolicy"])
def test_a_history_that_begins_with_the_critic(policy):
    model = make(SERA, MazeVecEnv(8, POOL, on_wall="stay", max_steps=20), policy, success="critic_history")
    prompts = torch.arange(30)

    def critic_says():
        return torch.sigmoid(model.rollout_sampler.success_logits(model.policy, prompts).double())

    critic = critic_says()
    torch.testing.assert_close(model.estimate(prompts).probability, critic)  # nothing has been tried yet
    before = parameters(model)
    model.learn(10**9, total_updates=3)  # one epoch
    assert not torch.equal(parameters(model), before)
    after = critic_says()
    assert not torch.allclose(after, critic)  # the critic is trained
    evidence = model.success_estimator.state_dict()["evidence"]
    assert evidence.sum() == 3 * 40
    won, lost = model.estimate(prompts).posterior
    torch.testing.assert_close(won, evidence[0] + 2 * after)
    torch.testing.assert_close(lost, evidence[1] + 2 * (1 - after))


def test_a_warm_start_with_fresh_mazes():
    model = make(SERA, MazeEnv(FreshMazes(5, "wilson")), success="critic", policy_kwargs={"channels": 16})
    held_out = MazePool.generate(4, 5, "wilson")
    before = success_probability(model.policy, held_out).mean()
    model.warm_start(80)
    assert success_probability(model.policy, held_out).mean() > before + 0.3


def test_endless_seeds_of_any_environment():
    env = PromptQueue(gym.make("CartPole-v1", max_episode_steps=60), range(2**40), lambda e: e.steps >= 20)
    model = make(SERA, env, "MlpPolicy", success="critic", prompts_per_batch=3)
    model.learn(10**9, total_updates=3)
    assert model.prompt_order.position == 9


@pytest.mark.parametrize(
    ("allocator", "share"), [("vip", allocate_vip), ("knapsack", allocate_knapsack), ("sera_posterior", None)]
)
def test_other_allocators_share_out_by_what_is_known_of_the_prompts(allocator, share):
    model = make(MaxRL, allocator=allocator, n_max=9)
    model.learn(10**9, total_updates=4)  # past the first epoch, which is uniform
    prompts = torch.tensor([5, 0, 3, 11])
    estimate = model.estimate(prompts)
    if share is None:
        expected = allocate_posterior(*estimate.posterior, 16, n_max=9)
    else:
        expected = share(estimate.probability, 16, n_max=9)
    assert model.allocate(prompts, estimate).counts.tolist() == expected.counts.tolist()
    fresh = make(MaxRL, allocator=allocator, n_max=9)
    assert fresh.estimate(prompts) is None
    assert fresh.allocate(prompts, None).counts.tolist() == [4, 4, 4, 4]


@pytest.mark.parametrize(
    ("option", "names"),
    [("allocator", list(ALLOCATORS)), ("success", list(ESTIMATORS)), ("sampler", ["auto", *SAMPLERS])],
)
def test_the_options_are_those_that_there_are(option, names):
    """Their names stand in a file that imports nothing, so that the command line can know them."""
    with pytest.raises(ValueError, match=f"{option}='-' is not known; allowed are {', '.join(map(repr, names))}$"):
        make(MaxRL, **{option: "-"})


def test_prompts_without_end_can_do_without_an_estimator_where_the_allocation_is_uniform():
    sampler = make(MaxRL, maze_env(FRESH)).rollout_sampler
    estimator = make_estimator("history", "uniform", sampler, torch.device("cpu"))
    assert isinstance(estimator, UnknownSuccess)
    assert make(MaxRL, maze_env(FRESH)).estimate(torch.tensor([3])) is None
