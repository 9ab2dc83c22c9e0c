"""The Markov chain of a memoryless policy in a maze, in plain torch operations, on any device.

The numbers are those of `markov_kernels`. All squares of a maze are moved at once. Squares are flat, row * W + column,
with W zeros before and after, so that the neighbours of all squares are shifted views. The border of every maze is
wall, so no shift carries over an edge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from sera_maze.envs.layouts.moves import flat_steps

# Mazes are taken in chunks whose tensors stay below this many bytes.
_CHUNK_BYTES = 2**28
_FLOAT_BYTES = 8


class _Moves(NamedTuple):
    """Where the actions lead in a chunk of m mazes."""

    outflow: Tensor  # (4, m, H * W) float64: probabilities; 0 in walls and on the goal and, unless bounced, into walls
    blocked: Tensor  # (4, m, H * W) bool: a wall is there
    inflow: Tensor  # (4, m, H * W) float64: probability with which an action comes in from the square behind
    bounce: Tensor | None  # (m, H * W) float64: probability to stay at a wall, or None where that ends the episode
    start: Tensor  # (m, 1) int64
    goal: Tensor  # (m, 1) int64
    shifts: tuple[int, ...]  # flat step of each action


def occupancy(
    log_probs: Tensor, walls: Tensor, start: Tensor, goal: Tensor, horizon: int, stay: bool
) -> tuple[Tensor, Tensor]:
    """Push the occupancy of M mazes through the policy; see `sera_maze.exact.kernels.occupancy`.

    Args:
        log_probs: (M, H, W, 4) float.
        walls: (M, H, W) bool.
        start: (M, 2) int64.
        goal: (M, 2) int64.
        horizon: number of moves.
        stay: whether a move into a wall leaves the agent where it is.

    Returns:
        visits (M, H, W) float64 and unfinished (M,) float64.
    """
    visits = torch.zeros(walls.shape, dtype=torch.float64, device=walls.device)
    unfinished = torch.zeros(len(walls), dtype=torch.float64, device=walls.device)
    for part in _chunks(walls, 40):
        moves = _moves(log_probs[part], walls[part], start[part], goal[part], stay)
        width, total = walls.shape[2], visits[part].view(moves.outflow.shape[1:])
        old, new = _padded(total.shape, total, width), _padded(total.shape, total, width)
        _inner(old, width).scatter_(1, moves.start, 1.0)
        total += _inner(old, width)
        for _ in range(horizon):
            _push(old, new, moves, width)
            total += _inner(new, width)
            old, new = new, old
        unfinished[part] = _inner(old, width).scatter(1, moves.goal, 0.0).sum(1)
    return visits, unfinished


def gradient(
    log_probs: Tensor, walls: Tensor, start: Tensor, goal: Tensor, horizon: int, stay: bool, scale: Tensor
) -> Tensor:
    """Gradient of sum over m of scale[m] * p[m]; see `sera_maze.exact.kernels.gradient`.

    Args:
        log_probs: (M, H, W, 4) float.
        walls: (M, H, W) bool.
        start: (M, 2) int64.
        goal: (M, 2) int64.
        horizon: number of moves.
        stay: whether a move into a wall leaves the agent where it is.
        scale: (M,) float64.

    Returns:
        (M, H, W, 4) float64.
    """
    result = torch.empty(log_probs.shape, dtype=torch.float64, device=walls.device)
    for part in _chunks(walls, horizon + 40):
        moves = _moves(log_probs[part], walls[part], start[part], goal[part], stay)
        width, (_, count, squares) = walls.shape[2], moves.outflow.shape
        occupied = _padded((horizon, count, squares), moves.outflow, width)  # (T, m, W + H * W + W)
        _inner(occupied[0], width).scatter_(1, moves.start, 1.0)
        for t in range(1, horizon):
            _push(occupied[t - 1], occupied[t], moves, width)
        total = torch.zeros_like(moves.outflow)
        gain = torch.empty_like(total)  # (4, m, H * W): pi(a|s) * V(s')
        value = _padded((count, squares), total, width)
        reward = scale[part, None].to(torch.float64)
        for t in range(horizon - 1, -1, -1):
            inner = _inner(value, width)
            inner.scatter_(1, moves.goal, reward)
            for a, shift in enumerate(moves.shifts):
                ahead = _inner(value, width, shift)
                if moves.bounce is not None:
                    ahead = torch.where(moves.blocked[a], inner, ahead)
                torch.mul(moves.outflow[a], ahead, out=gain[a])
            total.addcmul_(_inner(occupied[t], width), gain)
            inner.copy_(gain.sum(0))
        result[part] = total.permute(1, 2, 0).reshape(result[part].shape)
    return result


def _chunks(walls: Tensor, arrays_per_maze: int) -> Iterator[slice]:
    size = _CHUNK_BYTES // (walls[0].numel() * arrays_per_maze * _FLOAT_BYTES) if len(walls) else 0
    return (slice(low, low + max(1, size)) for low in range(0, len(walls), max(1, size)))


def _moves(log_probs: Tensor, walls: Tensor, start: Tensor, goal: Tensor, stay: bool) -> _Moves:
    count, height, width = walls.shape
    shifts = flat_steps(width)
    starts, goals = start[:, :1] * width + start[:, 1:], goal[:, :1] * width + goal[:, 1:]
    is_wall = walls.view(count, height * width)
    ended = is_wall.scatter(1, goals, True)
    # Chosen, not multiplied: in walls the policy may say anything, NaN among it.
    probs = log_probs.to(torch.float64).exp().view(count, height * width, 4)
    probs = torch.where(ended[..., None], 0.0, probs).permute(2, 0, 1)  # (4, m, H * W)
    blocked = torch.stack([is_wall.roll(-shift, 1) for shift in shifts])
    moving = torch.where(blocked, 0.0, probs)
    inflow = torch.stack([moving[a].roll(shift, 1) for a, shift in enumerate(shifts)])
    bounce = torch.where(blocked, probs, 0.0).sum(0) if stay else None
    return _Moves(probs.contiguous() if stay else moving, blocked, inflow, bounce, starts, goals, shifts)


def _push(old: Tensor, new: Tensor, moves: _Moves, width: int) -> None:
    """One step of the occupancy, from old to new, both (m, W + H * W + W)."""
    to = _inner(new, width)
    torch.mul(moves.inflow[0], _inner(old, width, -moves.shifts[0]), out=to)
    for a in range(1, len(moves.shifts)):
        to.addcmul_(moves.inflow[a], _inner(old, width, -moves.shifts[a]))
    if moves.bounce is not None:
        to.addcmul_(moves.bounce, _inner(old, width))


def _padded(shape: Sequence[int], like: Tensor, width: int) -> Tensor:
    """Zeros of the type and device of ``like`` for squares of shape (..., H * W): (..., W + H * W + W)."""
    return like.new_zeros((*shape[:-1], shape[-1] + 2 * width))


def _inner(padded: Tensor, width: int, shift: int = 0) -> Tensor:
    """The (..., H * W) squares of a padded tensor, moved by ``shift``."""
    return padded[..., width + shift : padded.shape[-1] - width + shift]
