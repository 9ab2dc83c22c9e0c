"""Walks through tables of action probabilities: many rollouts of many mazes, without a network or an environment.

Two ways with the same results: a numba kernel for the CPU and torch operations for other devices. A rollout's action is
the number of thresholds at or below its random number, see `action_thresholds`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sera_maze.envs.ground.kernels import kernel
from sera_maze.envs.ground.random_bits import GOLDEN, U32, mix
from sera_maze.envs.layouts.distances import flat_step
from sera_maze.envs.layouts.moves import flat_steps
from sera_maze.sampling.randomness import action_thresholds, random_bits

_CHUNK = 2048  # rollouts a task


class FlatMazes(NamedTuple):
    """The mazes of a batch of B prompts as the walkers need them; squares are flat, row * W + column."""

    walls: Tensor  # (B, H * W) uint8, nonzero where there is a wall
    start: Tensor  # (B,) int64
    goal: Tensor  # (B,) int64
    width: int
    horizon: int
    stay: bool  # whether a move into a wall leaves the agent where it is; else it fails


class Walks(NamedTuple):
    """R walks, S steps in all."""

    success: Tensor  # (R,) bool
    lengths: Tensor  # (R,) int64
    squares: Tensor  # (S,) int64
    actions: Tensor  # (S,) int64


def walk(log_probs: Tensor, mazes: FlatMazes, owner: Tensor, keys: Tensor) -> Walks:
    """Walk R rollouts.

    Args:
        log_probs: (B, H, W, 4) log-probabilities of UP, DOWN, LEFT, RIGHT on every square.
        mazes: where they walk.
        owner: (R,) int64, which maze each rollout is in.
        keys: (R,) int64, see `rollout_keys`.

    Returns:
        The walks, on the device of ``log_probs``.
    """
    thresholds = action_thresholds(log_probs.flatten(1, 2))  # (B, H * W, 3)
    walker = walk_on_cpu if log_probs.device.type == "cpu" else walk_in_torch
    return walker(thresholds, mazes, owner, keys)


def walk_on_cpu(thresholds: Tensor, mazes: FlatMazes, owner: Tensor, keys: Tensor) -> Walks:
    """`walk` for thresholds (B, H * W, 3) by the kernel, on as many threads as torch uses."""
    table = thresholds.numpy().astype(np.uint32, order="C")
    # Always arrays of the same types, contiguous and writable, see `kernel`.
    walls, start, goal, owners, whole_keys = (
        np.array(tensor.numpy(), dtype, order="C")
        for tensor, dtype in (
            (mazes.walls, np.uint8), (mazes.start, np.int64), (mazes.goal, np.int64), (owner, np.int64),
            (keys, np.int64),
        )
    )  # fmt: skip
    seeds = whole_keys.view(np.uint64)
    success, lengths = np.zeros(len(owners), bool), np.zeros(len(owners), np.int64)

    def task(low: int) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
        part = slice(low, low + _CHUNK)
        room = len(owners[part]) * mazes.horizon
        squares, actions = np.empty(room, np.int32), np.empty(room, np.int8)
        steps = _walk(
            table, walls, start, goal, mazes.width, mazes.horizon, mazes.stay, owners[part], seeds[part],
            success[part], lengths[part], squares, actions,
        )  # fmt: skip
        return squares[:steps], actions[:steps]

    def gather(n: int) -> None:
        there = slice(ends[n] - len(parts[n][0]), ends[n])
        squares[there], actions[there] = parts[n]

    lows = range(0, len(owners), _CHUNK)
    with ThreadPoolExecutor(max(1, torch.get_num_threads())) as threads:
        spread = threads.map if len(lows) > 1 and torch.get_num_threads() > 1 else map
        parts = list(spread(task, lows))
        ends = np.cumsum([len(part[0]) for part in parts], dtype=np.int64)
        total = int(ends[-1]) if parts else 0
        squares, actions = np.empty(total, np.int64), np.empty(total, np.int64)
        list(spread(gather, range(len(parts))))
    return Walks(
        torch.from_numpy(success), torch.from_numpy(lengths), torch.from_numpy(squares), torch.from_numpy(actions)
    )


@kernel
def _walk(thresholds, walls, start, goal, width, horizon, stay, owner, keys, success, lengths, squares, actions):  # type: ignore
    """Walk the rollouts of ``owner`` and ``keys``; write where they went and return the number of steps."""
    total = 0
    for r in range(owner.size):
        b = owner[r]
        square, key, aim = start[b], keys[r], goal[b]
        for t in range(horizon):
            key += GOLDEN
            bits = np.uint32(mix(key) >> U32)
            limits = thresholds[b, square]
            action = int(bits >= limits[0]) + int(bits >= limits[1]) + int(bits >= limits[2])
            squares[total] = square
            actions[total] = action
            total += 1
            lengths[r] = t + 1
            there = square + flat_step(action, width)
            if walls[b, there] == 0:
                square = there
                if square == aim:
                    success[r] = True
                    break
            elif not stay:
                break
    return total


def walk_in_torch(thresholds: Tensor, mazes: FlatMazes, owner: Tensor, keys: Tensor) -> Walks:
    """`walk` for thresholds (B, H * W, 3) by torch operations, all rollouts together step by step."""
    moves = torch.tensor(flat_steps(mazes.width), device=owner.device)
    square, goal = mazes.start[owner], mazes.goal[owner]  # (R,)
    success = torch.zeros_like(owner, dtype=torch.bool)
    alive = torch.ones_like(success)
    squares, actions, taken = [], [], []
    for step in range(mazes.horizon):
        action = (random_bits(keys, step)[:, None] >= thresholds[owner, square]).sum(dim=1)
        squares.append(square)
        actions.append(action)
        taken.append(alive)
        there = square + moves[action]
        hit = mazes.walls[owner, there] > 0
        square = torch.where(alive & ~hit, there, square)
        success = success | (alive & (square == goal))
        alive = alive & ~success & (~hit | mazes.stay)
        if step % 16 == 15 and not bool(alive.any()):  # asks the device only now and then
            break
    mask = torch.stack(taken, dim=1)  # (R, T)
    return Walks(
        success, mask.sum(dim=1), torch.stack(squares, dim=1)[mask], torch.stack(actions, dim=1)[mask]
    )  # fmt: skip
