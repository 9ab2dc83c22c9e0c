"""`StepSampler`: any policy and environments; who plays what is fixed before, and every rollout is kept."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from scipy import stats
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv

from helpers import assert_same_rollouts, maze_policy
from sera_maze.envs import MazeEnv, MazePool, PromptQueue
from sera_maze.policies.maze import MazePolicy
from sera_maze.sampling.maps import MapSampler
from sera_maze.sampling.plain_mazes import PlainMazes
from sera_maze.sampling.protocol import StoppedByCallback
from sera_maze.sampling.steps import StepSampler
from sera_maze.sampling.vec_env import MazeVecEnv

POOL = MazePool.generate(40, 7, "prim", seed=1, braid=0.5, endpoints="random")


def cart_poles(n=3, limit=30):
    def one():
        return PromptQueue(gym.make("CartPole-v1", max_episode_steps=limit), list(range(10)), lambda e: e.steps >= 20)

    return DummyVecEnv([one] * n)


def test_any_environment_and_policy():
    env = cart_poles()
    torch.manual_seed(0)
    policy = ActorCriticPolicy(env.observation_space, env.action_space, lambda _: 1e-3)
    prompts, counts = torch.tensor([3, 7, 1]), torch.tensor([4, 0, 5])
    rollouts = StepSampler(env, seed=1).sample(policy, prompts, counts, update=0)
    assert rollouts.lengths.sum() == rollouts.num_steps == len(rollouts.states)
    assert torch.equal(rollouts.success, rollouts.lengths >= 20)
    first = rollouts.states[torch.cumsum(rollouts.lengths, 0) - rollouts.lengths]
    expected = [env.envs[0].reset(options={"prompt": p})[0] for p in (3, 1)]
    np.testing.assert_array_equal(first[:4], np.stack([expected[0]] * 4))
    np.testing.assert_array_equal(first[4:], np.stack([expected[1]] * 5))
    _, log_probs, _ = policy.evaluate_actions(rollouts.states, rollouts.actions)
    torch.testing.assert_close(log_probs, rollouts.log_probs)


def test_number_of_environments_does_not_change_rollouts():
    prompts, counts = torch.tensor([3, 7, 1]), torch.tensor([4, 2, 5])
    results = []
    for n in (1, 4, 30):
        env = cart_poles(n)
        torch.manual_seed(0)
        policy = ActorCriticPolicy(env.observation_space, env.action_space, lambda _: 1e-3)
        results.append(StepSampler(env, seed=1).sample(policy, prompts, counts, update=0))
    for other in results[1:]:
        assert_same_rollouts(results[0], other)
        torch.testing.assert_close(results[0].states, other.states)


def test_no_length_bias():
    """A success takes long here, and half of the rollouts succeed: taking the first finished ones would hide it."""
    layout = "#" * 12 + "\n#S" + " " * 8 + "G#\n" + "#" * 12
    pool = MazePool.from_layouts([POOL[0].from_text(layout)])
    env = MazeVecEnv(16, pool)

    class Halved(MazePolicy):
        def maps(self, walls, goal):
            log_probs, values = super().maps(walls, goal)
            table = torch.full_like(log_probs, -40.0)
            table[..., 3] = 0.0  # RIGHT
            table[:, 1, 1] = torch.tensor([0.5, 1e-9, 1e-9, 0.5]).log()  # UP, into the wall, or RIGHT
            return table.log_softmax(-1), values

    policy = Halved(env.observation_space, env.action_space, lambda _: 1e-3)
    rollouts = StepSampler(env, seed=0).sample(policy, torch.tensor([0]), torch.tensor([400]), update=0)
    assert set(rollouts.lengths[rollouts.success].tolist()) == {9}
    assert set(rollouts.lengths[~rollouts.success].tolist()) == {1}
    assert stats.binomtest(int(rollouts.success.sum()), 400, 0.5).pvalue > 1e-4


def test_reports_count_the_rollouts_alive_and_can_stop():
    env = cart_poles(4)
    policy = ActorCriticPolicy(env.observation_space, env.action_space, lambda _: 1e-3)
    sampler, seen = StepSampler(env, 1), []

    def report(alive, values):
        seen.append((alive, sorted(values)))
        return True

    rollouts = sampler.sample(policy, torch.tensor([3, 7]), torch.tensor([3, 4]), 0, report)
    assert sum(alive for alive, _ in seen) == rollouts.num_steps
    names = ["actions", "clipped_actions", "dones", "infos", "log_probs", "new_obs", "obs_tensor", "rewards"]
    assert seen[0] == (4, names)
    with pytest.raises(StoppedByCallback):
        sampler.sample(policy, torch.tensor([3]), torch.tensor([3]), 0, lambda alive, values: False)


def test_environments_that_are_not_promptable():
    with pytest.raises(ValueError, match="PromptQueue"):
        StepSampler(DummyVecEnv([lambda: gym.make("CartPole-v1")]), seed=0)

    class Disobedient(gym.Wrapper):
        def assign(self, prompts):
            pass

    env = DummyVecEnv([lambda: Disobedient(MazeEnv(POOL))])
    env.seed(0)
    policy = maze_policy(env)
    with pytest.raises(RuntimeError, match="environment 0 was assigned prompt 11, but its last info has prompt="):
        StepSampler(env, seed=0).sample(policy, torch.tensor([11]), torch.tensor([4]), update=0)


class Turned(gym.ActionWrapper):
    """Takes each move the other way round."""

    def action(self, action):
        return action ^ 1


def test_squares_are_found_by_making_the_moves_again_or_not_at_all():
    rules = {"on_wall": "stay", "max_steps": 15}
    mazes = PlainMazes(POOL, MazeEnv(POOL, **rules).rules)
    prompts, counts = torch.tensor([3, 17, 30]), torch.tensor([6, 2, 9])
    policy = maze_policy(MazeEnv(POOL))

    def sampled(sampler):
        return sampler, sampler.sample(policy, prompts, counts, 0)

    mapped, walked = sampled(MapSampler(mazes, 1))
    stepped, rollouts = sampled(StepSampler(MazeVecEnv(5, POOL, **rules), 1, mazes))
    assert torch.equal(stepped.squares(rollouts), mapped.squares(walked))
    np.testing.assert_array_equal(stepped.solutions(rollouts), mapped.solutions(walked))
    for env, known in (
        (MazeVecEnv(5, POOL, **rules), None),
        (DummyVecEnv([lambda: Turned(MazeEnv(POOL, **rules))]), mazes),
    ):
        other, rollouts = sampled(StepSampler(env, 1, known))
        assert other.squares(rollouts) is None
        assert other.solutions(rollouts) is None


def test_stepping_computes_nothing_and_has_nothing_to_imitate():
    sampler, policy = StepSampler(cart_poles(), 1), None
    assert not sampler.is_exact
    assert not sampler.can_imitate
    with pytest.raises(NotImplementedError, match="a StepSampler computes no success probabilities"):
        sampler.success_probability(policy, torch.tensor([3]))
    with pytest.raises(NotImplementedError, match="a StepSampler knows nothing to imitate"):
        sampler.imitation_loss(policy, torch.tensor([3]))
