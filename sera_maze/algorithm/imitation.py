"""Imitation of shortest paths, before reinforcement learning starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from stable_baselines3.common.utils import update_learning_rate
from torch import Tensor

from sera_maze.envs.generating.generate import LayoutArrays, check_int
from sera_maze.envs.layouts.distances import distances_from
from sera_maze.envs.pools.fresh import Mazes, arrays_of
from sera_maze.envs.pools.pool import MazePool
from sera_maze.policies.maze import MazePolicy

if TYPE_CHECKING:
    from sera_maze.algorithm.maxrl import MaxRL

_STREAM = 0x57415253  # sets these random numbers apart from those of the prompt order


def shortest_actions(pool: MazePool | LayoutArrays) -> np.ndarray:
    """(M, H, W, 4) float32: uniform over the moves that begin a shortest path; zero in walls and at the goal."""
    distances = distances_from(pool.walls, pool.goal)
    reached = distances > 0
    far = np.where(distances < 0, np.iinfo(np.int32).max, distances)
    best = np.zeros((*distances.shape, 4), np.float32)
    best[:, 1:, :, 0] = far[:, :-1] == far[:, 1:] - 1
    best[:, :-1, :, 1] = far[:, 1:] == far[:, :-1] - 1
    best[:, :, 1:, 2] = far[:, :, :-1] == far[:, :, 1:] - 1
    best[:, :, :-1, 3] = far[:, :, 1:] == far[:, :, :-1] - 1
    best *= reached[..., None]
    return best / np.maximum(best.sum(axis=-1, keepdims=True), 1)


def warm_start(
    model: MaxRL,
    updates: int,
    *,
    batch_size: int = 64,
    learning_rate: float = 2e-3,
    after_update: Callable[[int], object] | None = None,
) -> list[float]:
    """Train the policy to take the moves of shortest paths, uniformly among ties, on every open square.

    The mazes are those of the model's pool. The optimizer is one of its own; that of the reinforcement learning is not
    touched.

    Args:
        model: a `MaxRL` with a MazePolicy on plain mazes.
        updates: number of updates, 0 or more.
        batch_size: mazes an update.
        learning_rate: of the first update; it falls linearly to zero.
        after_update: called with the number of each update, from 0, when it is done.

    Returns:
        The mean cross-entropy (nats a square) of each update.

    Raises:
        ValueError: for another policy or environment.
    """
    updates = check_int("updates", updates, 0, 2**31)
    batch_size = check_int("batch_size", batch_size, 1, 2**31)
    policy, pool = model.policy, model.fast_path.pool
    if not isinstance(policy, MazePolicy) or pool is None:
        raise ValueError(f"warm_start needs a MazePolicy on plain mazes, but {model.fast_path.reason}")
    generator = np.random.default_rng([model.seed or 0, _STREAM])
    optimizer = torch.optim.Adam(policy.parameters(), lr=learning_rate)
    policy.set_training_mode(True)
    losses = []
    for update in range(updates):
        update_learning_rate(optimizer, learning_rate * (1 - update / updates))
        chosen = generator.integers(len(pool), size=batch_size)
        with policy.varied_iterations(generator):
            loss = _imitation_loss(policy, pool, chosen)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if after_update is not None:
            after_update(update)
    return losses


def _imitation_loss(policy: MazePolicy, pool: Mazes, chosen: np.ndarray) -> Tensor:
    unique, back = np.unique(chosen, return_inverse=True)
    part = arrays_of(pool, unique)
    targets = torch.from_numpy(shortest_actions(part)[back]).to(policy.device)
    walls = torch.from_numpy(part.walls[back]).to(policy.device)
    log_probs = policy.log_prob_map(walls, torch.from_numpy(part.goal[back]).to(policy.device))
    return -(targets * log_probs).sum() / targets.sum()
