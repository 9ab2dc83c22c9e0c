"""Random numbers of rollouts, keyed by (seed, update, prompt, rollout number) and the step: the same everywhere.

The same 64-bit arithmetic as `sera_maze.envs.ground.random_bits`, in int64 (which wraps around), so that a CPU kernel,
a GPU and a step-by-step sampler draw the same numbers for a rollout, whatever its place in a batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX_2 = 0x94D049BB133111EB - (1 << 64)
BITS = 32  # random bits of one draw


def rollout_keys(seed: int, update: int, prompts: Tensor, numbers: Tensor) -> Tensor:
    """The key of each rollout.

    Args:
        seed: of the training, any int.
        update: number of the update, 0 or more.
        prompts: (R,) int64.
        numbers: (R,) int64, the rollout's number within its group.

    Returns:
        (R,) int64 on the device of ``prompts``.
    """
    start = torch.tensor([_signed(seed), update], dtype=torch.int64, device=prompts.device)
    key = _mix(start[0] + _GOLDEN) ^ start[1] * _GOLDEN
    key = _mix(key) ^ prompts * _GOLDEN
    return _mix(_mix(key) ^ numbers * _GOLDEN)


def random_bits(keys: Tensor, step: int | Tensor, draw: int = 0) -> Tensor:
    """The random number of one step of each rollout: int64, uniform on 0 .. 2**32 - 1.

    Args:
        keys: (R,) int64, see `rollout_keys`.
        step: number of the step, 0 or more: one for all, or (R,).
        draw: for actions of several dimensions: which.
    """
    state = keys + (_signed((step + 1) * _GOLDEN) if isinstance(step, int) else (step + 1) * _GOLDEN)
    return _shifted(_mix(state if draw == 0 else _mix(state) + _signed(draw * _GOLDEN)), BITS)


def _mix(value: Tensor) -> Tensor:
    value = (value ^ _shifted(value, 30)) * _MIX_1
    value = (value ^ _shifted(value, 27)) * _MIX_2
    return value ^ _shifted(value, 31)


def _shifted(value: Tensor, bits: int) -> Tensor:
    """Shift right without the sign."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    """The int64 with the same low 64 bits."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
