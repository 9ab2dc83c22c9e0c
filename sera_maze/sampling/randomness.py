"""Random numbers of rollouts, keyed by (seed, update, prompt, rollout number) and the step: the same everywhere.

The same 64-bit arithmetic as `sera_maze.envs.ground.random_bits`, in int64 (which wraps around), so that a CPU kernel,
a GPU and a step-by-step sampler draw the same numbers for a rollout, whatever its place in a batch.
"""

from __future__ import annotations

import torch
from stable_baselines3.common.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    DiagGaussianDistribution,
    Distribution,
    MultiCategoricalDistribution,
)
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


def action_thresholds(log_probs: Tensor) -> Tensor:
    """Thresholds (..., A - 1) int64 for log-probabilities (..., A): P(bits >= threshold i) is that of actions over i.

    Probabilities are resolved to 2**-32.
    """
    cumulative = log_probs.double().exp().cumsum(dim=-1)
    scaled = cumulative[..., :-1] / cumulative[..., -1:] * (1 << BITS)
    return scaled.round().long().clamp(max=(1 << BITS) - 1)


def keyed_actions(distribution: Distribution, keys: Tensor, steps: Tensor) -> Tensor:
    """Sample actions of N environments from SB3's distribution with the random numbers of their rollouts.

    Args:
        distribution: over N actions: categorical, multi-categorical, Bernoulli or diagonal Gaussian.
        keys: (N,) int64, see `rollout_keys`.
        steps: (N,) int64, the step of each rollout.

    Raises:
        NotImplementedError: for another distribution.
    """
    steps = steps.to(keys.device)
    if isinstance(distribution, CategoricalDistribution):
        return _categories(distribution.distribution.logits, random_bits(keys, steps))
    if isinstance(distribution, MultiCategoricalDistribution):
        parts = enumerate(distribution.distribution)
        return torch.stack([_categories(part.logits, random_bits(keys, steps, i)) for i, part in parts], dim=1)
    if isinstance(distribution, BernoulliDistribution):
        return (_uniforms(keys, steps, distribution.distribution.probs) < distribution.distribution.probs).float()
    if isinstance(distribution, DiagGaussianDistribution):
        normal = distribution.distribution
        return normal.mean + normal.stddev * torch.special.ndtri(_uniforms(keys, steps, normal.mean)).float()
    raise NotImplementedError(f"the step sampler has no keyed sampling for {type(distribution).__name__} (gSDE is one)")


def _categories(logits: Tensor, bits: Tensor) -> Tensor:
    return (bits[:, None] >= action_thresholds(logits)).sum(dim=1)


def _uniforms(keys: Tensor, steps: Tensor, like: Tensor) -> Tensor:
    """(N, D) float64 strictly between 0 and 1 for a tensor of N actions of D dimensions."""
    columns = [random_bits(keys, steps, i) for i in range(like.shape[1])]
    return (torch.stack(columns, dim=1).double() + 0.5) / (1 << BITS)
