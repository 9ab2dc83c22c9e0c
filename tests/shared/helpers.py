"""What tests of several rooms build and look at: small policies and models, and callbacks that keep batches."""

import torch
from stable_baselines3.common.callbacks import BaseCallback

from sera_maze.policies.maze import MazePolicy


def maze_policy(env, seed=0, **options):
    """A small `MazePolicy` for environments."""
    torch.manual_seed(seed)
    options = {"channels": 8, **options}
    return MazePolicy(env.observation_space, env.action_space, lambda _: 1e-3, **options)


def small_model(algorithm, env, policy="MazePolicy", **options):
    """A model whose batches have 3 prompts of 4 rollouts, with a network of 4 channels and 4 iterations."""
    if policy == "MazePolicy" or (isinstance(policy, type) and issubclass(policy, MazePolicy)):
        options = {"policy_kwargs": {"channels": 4, "iterations": 4}, **options}
    return algorithm(policy, env, **{"prompts_per_batch": 3, "rollouts_per_prompt": 4, "seed": 0, **options})


def parameters(model):
    """All parameters of a model's policy in one vector, as they are now."""
    return torch.cat([parameter.detach().flatten() for parameter in model.policy.parameters()])


class Watch(BaseCallback):
    """Keeps the rollouts and the allocation of each batch."""

    def __init__(self):
        super().__init__()
        self.rollouts, self.allocations = [], []

    def _on_rollout_end(self):
        self.rollouts.append(self.locals["rollouts"])
        self.allocations.append(self.locals["allocation"])

    def _on_step(self):
        return True


class Steps(BaseCallback):
    """Does something in each step; the training goes on unless that gives False."""

    def __init__(self, act=lambda callback: None):
        super().__init__()
        self.act, self.calls = act, 0

    def _on_step(self):
        self.calls += 1
        return self.act(self) is not False


def assert_same_rollouts(one, other):
    """The same rollouts, with log-probabilities and entropies to rounding."""
    for name in ("prompts", "counts", "owner", "success", "lengths", "actions"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    for name in ("log_probs", "entropies"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), atol=1e-5, rtol=1e-5)
