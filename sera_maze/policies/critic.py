"""The success head that any on-policy policy has."""

from __future__ import annotations

from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor

from sera_maze.policies.maze import MazePolicy


def success_logits(policy: ActorCriticPolicy, obs: PyTorchObs) -> Tensor:
    """Logits (N,) of success in N observations by a policy's value head, as success="critic" trains and reads it.

    What the value head of a policy other than `MazePolicy` gives is taken as the logit itself.
    """
    return policy.success_logits(obs) if isinstance(policy, MazePolicy) else policy.predict_values(obs).flatten()
