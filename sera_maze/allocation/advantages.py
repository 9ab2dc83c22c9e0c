"""Group advantages: what each rollout's score is multiplied by, and what that makes of the gradient.

The rollouts of one prompt are a group. With N rollouts, K of them successful, success rate ``m = K / N`` and binary
success r, the advantage of a rollout and the expectation of the group's mean of advantage times score are:

| kind | advantage | expected group gradient |
|---|---|---|
| ``"reinforce"`` | r | grad p |
| ``"rloo"`` | r - (K - r) / (N - 1); 0 if N = 1 | grad p |
| ``"grpo"`` | (r - m) / (sqrt(m (1 - m)) + 1e-6) | about grad p / sqrt(p (1 - p)); exactly see `attenuation` |
| ``"success_average"`` | r N / K; 0 if K = 0 | (1 - (1 - p)^N) grad log p |
| ``"maxrl"`` | (r - m) / m; 0 if K = 0 | (1 - (1 - p)^(N - 1)) grad log p |

References:
    MaxRL (arXiv 2602.02710): the mean score of the successful rollouts is an unbiased estimate of grad log p as soon as
    there is a success; centring it with the mean of all scores is ``"maxrl"``.
"""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sera_maze.allocation.checks import as_tensor, check_integers, refuse_first
from sera_maze.envs.ground.checks import did_you_mean

KINDS = ("reinforce", "rloo", "grpo", "success_average", "maxrl")
_GRPO_EPSILON = 1e-6


def group_advantages(success: Tensor | ArrayLike, group: Tensor | ArrayLike, kind: str = "maxrl") -> Tensor:
    """Give every rollout its advantage within its group.

    The rollouts may come in any order, and the groups may have any sizes. A group of one rollout has nothing to be
    compared with: under "maxrl" and "rloo" its advantage is 0.

    Args:
        success: (R,) bool, integer or floating point, 1 for a success and 0 for a failure. MaxRL is defined for binary
            success only.
        group: (R,) integers of at least 0, the group of each rollout; they need not be contiguous.
        kind: one of "reinforce", "rloo", "grpo", "success_average", "maxrl"; see the table of this module.

    Returns:
        (R,) on the device of ``success``, float64 if ``success`` is, else float32; computed in float64.

    Raises:
        TypeError: if ``group`` is not of integers, or ``success`` not of real numbers.
        ValueError: for other shapes, a success that is not 0 or 1 (NaN too), a negative group, an unknown kind.

    Example:
        >>> group_advantages([1, 0, 0, 0, 1, 1], [7, 7, 7, 7, 2, 2]).tolist()
        [3.0, -1.0, -1.0, -1.0, 0.0, 0.0]
    """
    _check_kind(kind, KINDS)
    success, group = as_tensor("success", success), as_tensor("group", group)
    if group.dtype in (torch.uint16, torch.uint32, torch.uint64):  # which know no comparisons
        group = group.long()
    _check_rollouts(success, group)
    dtype = torch.float64 if success.dtype == torch.float64 else torch.float32
    if len(success) == 0:
        return success.to(dtype)

    is_success, index = success.bool(), _compact(group)
    counts = torch.bincount(index).double()  # (G,), N; 0 for ids that do not occur
    successes = torch.zeros_like(counts).scatter_add_(0, index, is_success.double())  # (G,), K
    of_success, of_failure = _group_values(counts, successes, kind)
    return torch.where(is_success, of_success[index], of_failure[index]).to(dtype)


def attenuation(success_prob: Tensor | ArrayLike, counts: Tensor | ArrayLike, kind: str = "maxrl") -> Tensor:
    """Factor that the expected gradient of a group has in front of that of the log-likelihood, grad log p.

    With N rollouts it is exactly

    * ``1 - (1 - p)^(N - 1)`` for "maxrl" and ``1 - (1 - p)^N`` for "success_average";
    * ``p`` for "reinforce", and for "rloo" from two rollouts on;
    * ``E[s^2 / (s + 1e-6)] / (1 - p)`` for "grpo", with s the group's standard deviation sqrt(m (1 - m)) and the
      expectation over the binomial number of successes; it can be above 1.

    With exact p (`sera_maze.exact.success_probability`) and the counts of an allocation it is the attenuation that
    every prompt really had; those in an `Allocation` are of the p that it was made from.

    Args:
        success_prob: p, in [0, 1], any shape.
        counts: N, integers of at least 0, any shape that broadcasts with p. Without rollouts the factor is 0.
        kind: as in `group_advantages`.

    Returns:
        float64, of the common shape, without a gradient, exact to rounding for any p; for "grpo" to 9 digits up to
        N = 100,000, with memory that grows with the largest N.

    Raises:
        TypeError: if ``counts`` are not integers.
        ValueError: for a p outside [0, 1] or NaN, negative counts, shapes that do not broadcast, another kind.

    Example:
        >>> attenuation(0.5, [1, 2, 3]).tolist()
        [0.0, 0.5, 0.75]
    """
    _check_kind(kind, KINDS)
    prob = as_tensor("success_prob", success_prob, dtype=torch.float64)
    number = as_tensor("counts", counts, device=prob.device)
    check_integers("counts", number)
    number = number.long()
    refuse_first("success_prob", prob, ~((prob >= 0) & (prob <= 1)), "numbers from 0 to 1")
    refuse_first("counts", number, number < 0, "integers of at least 0")
    try:
        prob, number = torch.broadcast_tensors(prob.detach(), number.double())
    except RuntimeError:
        raise ValueError(
            f"success_prob has shape {tuple(prob.shape)} and counts {tuple(number.shape)}; allowed are shapes that "
            "broadcast"
        ) from None
    if kind in ("reinforce", "rloo"):
        return torch.where(number >= (1 if kind == "reinforce" else 2), prob, 0.0)
    if kind == "grpo":
        return _grpo_attenuation(prob, number)
    exponent = number - 1 if kind == "maxrl" else number
    return torch.where(exponent > 0, -torch.expm1(exponent * torch.log1p(-prob)), 0.0)


def _grpo_attenuation(prob: Tensor, number: Tensor) -> Tensor:
    """See `attenuation`; p and N (...) float64."""
    prob, number = prob[..., None], number[..., None]
    most = int(number.max()) if number.numel() else 0
    successes = torch.arange(1, max(most, 1), dtype=torch.float64, device=prob.device)  # 1 to N - 1: mixed groups
    failures = (number - successes).clamp(min=1.0)
    ways = torch.lgamma(number + 1) - torch.lgamma(successes + 1) - torch.lgamma(failures + 1)
    chance = torch.exp(ways + torch.xlogy(successes, prob) + torch.special.xlog1py(failures - 1, -prob))  # over 1 - p
    square = successes * failures / number.clamp(min=1.0).square()
    terms = chance * square / (square.sqrt() + _GRPO_EPSILON)
    return torch.where(successes < number, terms, 0.0).sum(dim=-1)


def _group_values(counts: Tensor, successes: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """Advantage (G,) of a success and of a failure in each group; no matter what, where a group has none."""
    zero = torch.zeros_like(counts)
    if kind == "reinforce":
        return zero + 1.0, zero
    if kind == "rloo":
        others = (counts - 1.0).clamp(min=1.0)
        of_success = torch.where(counts > 1, 1.0 - (successes - 1.0) / others, 0.0)
        return of_success, torch.where(counts > 1, (0.0 - successes) / others, 0.0)
    if kind == "grpo":
        rate = successes / counts.clamp(min=1.0)
        scale = torch.sqrt(rate * (1.0 - rate)) + _GRPO_EPSILON
        return (1.0 - rate) / scale, (0.0 - rate) / scale
    at_least_one = successes.clamp(min=1.0)
    if kind == "success_average":
        return counts / at_least_one, zero
    return (counts - successes) / at_least_one, torch.where(successes > 0, -1.0, zero)


def _compact(group: Tensor) -> Tensor:
    """Ids that can be used as indices: the given ones, unless they are much larger than the number of rollouts."""
    ids = group.long()
    if int(ids.max()) < 4 * len(ids) + 1024:
        return ids
    return torch.unique(ids, return_inverse=True)[1]


def _check_kind(kind: str, allowed: tuple[str, ...]) -> None:
    if kind not in allowed:
        near = did_you_mean(kind, allowed)
        raise ValueError(f"kind={kind!r} is not known here; allowed are {', '.join(map(repr, allowed))}{near}")


def _check_rollouts(success: Tensor, group: Tensor) -> None:
    if success.ndim != 1 or success.shape != group.shape:
        raise ValueError(
            f"success has shape {tuple(success.shape)} and group {tuple(group.shape)}; allowed: (R,) both, one "
            "number for each rollout"
        )
    if success.device != group.device:
        raise ValueError(f"success is on {success.device} and group on {group.device}; allowed: one device for both")
    if success.is_complex():
        raise TypeError(f"success has dtype {success.dtype}; allowed: bool, integers or floating point")
    check_integers("group", group)
    not_binary = (success != 0) & (success != 1)  # NaN is neither
    refuse_first("success", success, not_binary, "0 and 1, since MaxRL is defined for binary success only")
    refuse_first("group", group, group < 0, "integers of at least 0: every rollout needs a group")
