"""Imitation of good actions, before reinforcement learning starts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.utils import update_learning_rate
from tqdm import tqdm

from sera_maze.envs.ground.checks import check_int
from sera_maze.policies.asking import imitating
from sera_maze.sampling.protocol import Sampler

_STREAM = 0x57415253  # sets these random numbers apart from those of the prompt order


def check_can_imitate(sampler: Sampler) -> None:
    """Check that there is something to imitate.

    Raises:
        ValueError: if not.
    """
    if not sampler.can_imitate:
        raise ValueError(
            f"warm_start needs a MazePolicy on plain mazes, but {sampler.reason or 'there are none'}; leave it out "
            "(warm_start=0 in a run), or use these"
        )


def warm_start(
    policy: ActorCriticPolicy,
    sampler: Sampler,
    updates: int,
    *,
    batch_size: int = 64,
    learning_rate: float = 2e-3,
    after_update: Callable[[int], object] | None = None,
    seed: int = 0,
    progress_bar: bool = False,
) -> list[float]:
    """Train a policy to take good actions: in mazes, on every open square, the moves of shortest paths.

    The optimizer is one of its own; that of the reinforcement learning is not touched.

    Args:
        policy: that is trained.
        sampler: knows the prompts and what to imitate.
        updates: number of updates, 0 or more.
        batch_size: prompts an update.
        learning_rate: of the first update; it falls linearly to zero.
        after_update: called with the number of each update, from 0, when it is done.
        seed: fixes the prompts of the updates.
        progress_bar: whether to show one.

    Returns:
        The loss of each update; of mazes the mean cross-entropy, in nats a square.

    Raises:
        ValueError: if there is nothing to imitate.
    """
    updates = check_int("updates", updates, 0, 2**31)
    batch_size = check_int("batch_size", batch_size, 1, 2**31)
    check_can_imitate(sampler)
    generator = np.random.default_rng([seed, _STREAM])
    optimizer = torch.optim.Adam(policy.parameters(), lr=learning_rate)
    policy.set_training_mode(True)
    losses = []
    for update in tqdm(range(updates), "warm start", disable=not progress_bar):
        update_learning_rate(optimizer, learning_rate * (1 - update / updates))
        prompts = torch.from_numpy(generator.integers(sampler.num_prompts, size=batch_size)).to(policy.device)
        loss = sampler.imitation_loss(imitating(policy, generator), prompts)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if after_update is not None:
            after_update(update)
    return losses
