"""Other ways to share out a budget of rollouts, behind the interface of `sera_maze.allocation.allocate`.

`allocate_vip` and `allocate_knapsack` are those of two papers, as references for SERA's waterline; `allocate_posterior`
is the waterline for success probabilities that are known as Beta posteriors only.

All three give the next rollout to the prompt that gains most by it, until the budget is spent. Since no prompt gains
more by a later rollout than by an earlier one, that is the optimum. The gains of all rollouts are laid out and sorted:
B times (n_max - n_min) numbers, which suits batches of training and not millions of prompts.

References:
    VIP (arXiv 2602.01601): least total variance of the gradients, which for a group is p (1 - p) / (N - 1).
    Knapsack RL (arXiv 2509.25849): a prompt's value is its probability of a mixed group times p (1 - p)^2.
    SERA (arXiv 2609.36552): the waterline and the active set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sera_maze.allocation.active_set import THRESHOLD_TOLERANCE, begin
from sera_maze.allocation.advantages import attenuation
from sera_maze.allocation.allocation import Allocation, check_bounds, check_probabilities, check_threshold
from sera_maze.allocation.checks import as_tensor, refuse_first

_MOST_GAINS = 2**24


class _Ranked(NamedTuple):
    """Rollouts beyond n_min of G batches of B prompts, the most useful first; of equal ones the earlier, then by index.

    Attributes:
        prompt: (G, B * K) int64, whose rollout it is, K = n_max - n_min for each prompt.
        num_prompts: B.
        n_min: fewest rollouts of an active prompt.
        budget: rollouts of each batch.
    """

    prompt: Tensor
    num_prompts: int
    n_min: int
    budget: int

    @classmethod
    def of(cls, gains: Tensor, n_min: int, budget: int) -> _Ranked:
        """Rank gains (G, B, K) of the rollouts after the n_min-th of each prompt, which do not rise along K."""
        falling = gains.cummin(dim=2).values  # rounding must not let a later rollout come first
        order = falling.transpose(1, 2).flatten(1).sort(dim=1, descending=True, stable=True).indices
        return cls(order % gains.shape[1], gains.shape[1], n_min, budget)

    def counts(self, active: Tensor) -> Tensor:
        """Share the budget out over the active prompts (G, B) bool: (G, B) int64."""
        left = self.budget - self.n_min * active.sum(dim=1, keepdim=True)
        usable = active.gather(1, self.prompt)
        taken = usable & (usable.cumsum(dim=1) <= left)
        return (self.n_min * active).scatter_add(1, self.prompt, taken.long())


def allocate_vip(
    success_prob: Tensor | ArrayLike, budget: int, *, n_min: int = 2, n_max: int | None = None
) -> Allocation:
    """Divide a budget for the least sum of the groups' gradient variances, p (1 - p) / (N - 1) each.

    That is the variance of RLOO's estimate where all rollouts have scores of one size. Before rounding and bounds,
    N - 1 is proportional to sqrt(p (1 - p)).

    Args:
        success_prob: as in `allocate`.
        budget: as there.
        n_min: as there; all prompts are active.
        n_max: as there.

    Returns:
        The allocation, without a waterline.

    Raises:
        TypeError, ValueError: as `allocate`; ValueError also if B * (n_max - n_min) is over 2**24.

    References:
        VIP (arXiv 2602.01601); its Gaussian process for p is left to the caller.
    """

    def gains(p: Tensor, later: Tensor) -> Tensor:
        variance = p * (1.0 - p)
        return variance / (later - 2.0) - variance / (later - 1.0)  # infinite for the second rollout

    return _with_all_active(check_probabilities(success_prob), budget, n_min, n_max, gains)


def allocate_knapsack(
    success_prob: Tensor | ArrayLike, budget: int, *, n_min: int = 2, n_max: int | None = None
) -> Allocation:
    """Divide a budget for the largest sum of values, each ``(1 - p^N - (1 - p)^N) * p (1 - p)^2``.

    The first factor is the probability of a mixed group, the second approximates how much an update raises p.

    Args:
        success_prob: as in `allocate`.
        budget: as there.
        n_min: as there; all prompts are active.
        n_max: as there.

    Returns:
        The allocation, without a waterline.

    Raises:
        TypeError, ValueError: as `allocate`; ValueError also if B * (n_max - n_min) is over 2**24.

    References:
        Knapsack RL (arXiv 2509.25849); its fallback for prompts without any success is left out.
    """

    def gains(p: Tensor, later: Tensor) -> Tensor:
        # (1 - p^N - (1 - p)^N) less the same for N - 1.
        rise = torch.exp((later - 1.0) * p.log()) * (1.0 - p) + torch.exp((later - 1.0) * torch.log1p(-p)) * p
        return rise * p * (1.0 - p).square()

    return _with_all_active(check_probabilities(success_prob), budget, n_min, n_max, gains)


def allocate_posterior(
    successes: Tensor | ArrayLike,
    failures: Tensor | ArrayLike,
    budget: int,
    *,
    n_min: int = 2,
    n_max: int | None = None,
    activation_threshold: float | None = 0.05,
) -> Allocation:
    """The waterline averaged over what is not known about p: raise the lowest *expected* attenuation.

    With p from Beta(a, b), a group of N rollouts has the expected attenuation ``1 - E[(1 - p)^(N - 1)]``, with
    ``E[(1 - p)^n] = product over i < n of (b + i) / (a + b + i)``. It rises with N later than at the mean of p, since
    what p there may be below the mean weighs more. The counts are the exact max-min optimum in whole rollouts; the
    active set is that of `allocate`, with the expected probability of a mixed group.

    Args:
        successes: (..., B) real numbers, a of each prompt's posterior, prior included, above 0.
        failures: (..., B) real numbers, b.
        budget: as in `allocate`.
        n_min: as there.
        n_max: as there.
        activation_threshold: as there.

    Returns:
        The allocation, without a waterline, with expected attenuations.

    Raises:
        TypeError, ValueError: as `allocate`; ValueError also for a or b that are not above 0 and finite, different
            shapes, or if B * (n_max - n_min) is over 2**24.

    Example:
        >>> allocate_posterior([8.5, 0.5], [0.5, 8.5], 16, activation_threshold=None).counts.tolist()
        [2, 14]
    """
    for name, value in (("successes", successes), ("failures", failures)):
        if isinstance(value, Tensor) and value.is_complex():
            raise TypeError(f"{name} has dtype {value.dtype}; allowed are real numbers")
    won = as_tensor("successes", successes, dtype=torch.float64).detach()
    lost = as_tensor("failures", failures, dtype=torch.float64, device=won.device).detach()
    if won.shape != lost.shape or won.ndim == 0 or won.shape[-1] == 0:
        raise ValueError(
            f"successes has shape {tuple(won.shape)} and failures {tuple(lost.shape)}; allowed: (..., B) both, with B "
            "of at least 1"
        )
    for name, value in (("successes", won), ("failures", lost)):
        refuse_first(name, value, ~((value > 0) & torch.isfinite(value)), "finite numbers above 0, prior included")
    threshold = check_threshold(activation_threshold)
    budget, n_min, n_max = check_bounds(won.shape[-1], budget, n_min, n_max)
    _later_rollouts(won, n_min, n_max)
    a, b = (numbers.reshape(-1, won.shape[-1]) for numbers in (won, lost))  # (G, B)
    none = _log_moments(a, b, n_max)  # (G, B, n_max + 1), log E[(1 - p)^n]
    # The rollout after the N-th goes first to the prompt of least attenuation with N.
    ranked = _Ranked.of(none[:, :, n_min - 1 : n_max - 1], n_min, budget)
    active = torch.ones_like(a, dtype=torch.bool)
    if threshold is not None:
        mixed = -torch.expm1(none) - torch.exp(_log_moments(b, a, n_max))  # (G, B, n_max + 1)
        active = _active_prefix(mixed, ranked, n_max, threshold)
    counts = ranked.counts(active)
    expected = -torch.expm1(none.gather(2, (counts - 1).clamp(min=0)[:, :, None]))[:, :, 0]
    return _allocation(won.shape, counts, torch.where(active, expected, 0.0), budget)


def _log_moments(a: Tensor, b: Tensor, largest: int) -> Tensor:
    """Log E[(1 - p)^n] for n = 0 to largest and p from Beta(a, b): (G, B, largest + 1)."""
    draws = torch.arange(largest, dtype=torch.float64, device=a.device)
    logs = -torch.log1p(a[:, :, None] / (b[:, :, None] + draws)).cumsum(dim=2)
    return torch.nn.functional.pad(logs, (1, 0))


def _active_prefix(mixed: Tensor, ranked: _Ranked, n_max: int, threshold: float) -> Tensor:
    """The active set (G, B) of `choose_active`, for mixed (G, B, n_max + 1) by number of rollouts.

    The same search: the largest prefix found by bisection in which every group reaches the threshold at its count.
    """
    required = -(-ranked.budget // n_max)
    rank, search = begin(mixed[:, :, n_max], threshold, required)
    for _ in range((rank.shape[1] - required + 1).bit_length()):
        middle = (search.low + search.high) // 2
        active = rank < middle
        reached = mixed.gather(2, ranked.counts(active)[:, :, None])[:, :, 0] >= threshold - THRESHOLD_TOLERANCE
        search = search.step(middle, (reached | ~active).all(dim=1, keepdim=True))
    return rank < search.best


def _later_rollouts(prompts: Tensor, n_min: int, n_max: int) -> Tensor:
    """Numbers (K,) float64 of the rollouts after the n_min-th of each prompt: n_min + 1 to n_max.

    Raises:
        ValueError: if there are too many, for prompts (..., B).
    """
    if prompts.numel() * (n_max - n_min) > _MOST_GAINS:
        raise ValueError(
            f"{prompts.numel()} prompts with up to {n_max} rollouts are too many for this allocator; allowed are "
            f"{_MOST_GAINS} possible rollouts: lower n_max, or use allocate()"
        )
    return torch.arange(n_min + 1, n_max + 1, dtype=torch.float64, device=prompts.device)


def _with_all_active(
    prob: Tensor, budget: int, n_min: int, n_max: int | None, gains: Callable[[Tensor, Tensor], Tensor]
) -> Allocation:
    """Share out where all prompts are active.

    Args:
        prob: (..., B), p.
        budget: as in `allocate`.
        n_min: as there.
        n_max: as there.
        gains: maps p (G, B, 1) and the numbers (K,) of rollouts to what each rollout gains (G, B, K).
    """
    num_prompts = prob.shape[-1]
    budget, n_min, n_max = check_bounds(num_prompts, budget, n_min, n_max)
    most = min(n_max, budget - (num_prompts - 1) * n_min)  # more no prompt can get
    rows = prob.reshape(-1, num_prompts)
    ranked = _Ranked.of(gains(rows[:, :, None], _later_rollouts(prob, n_min, most)), n_min, budget)
    counts = ranked.counts(torch.ones_like(rows, dtype=torch.bool))
    return _allocation(prob.shape, counts, attenuation(rows, counts), budget)


def _allocation(shape: torch.Size, counts: Tensor, factor: Tensor, budget: int) -> Allocation:
    active = counts > 0
    weights = torch.where(active, budget / shape[-1] / counts.clamp(min=1).double(), 0.0)
    return Allocation(
        counts=counts.reshape(shape),
        weights=weights.reshape(shape),
        active=active.reshape(shape),
        continuous=counts.double().reshape(shape),
        waterline=None,
        attenuation=factor.reshape(shape),
    )
