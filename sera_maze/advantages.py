"""Group advantages: what each rollout's score is multiplied by, and what that makes of the gradient.

The rollouts of one prompt are a group. With N rollouts, K of them successful, success rate ``m = K / N`` and binary
success r, the advantage of a rollout and the expectation of the group's mean of advantage times score are:

| kind | advantage | expected group gradient |
|---|---|---|
| ``"reinforce"`` | r | grad p |
| ``"rloo"`` | r - (K - r) / (N - 1); 0 if N = 1 | grad p |
| ``"grpo"`` | (r - m) / (sqrt(m (1 - m)) + 1e-6) | about grad p / sqrt(p (1 - p)) |
| ``"success_average"`` | r N / K; 0 if K = 0 | (1 - (1 - p)^N) grad log p |
| ``"maxrl"`` | (r - m) / m; 0 if K = 0 | (1 - (1 - p)^(N - 1)) grad log p |

References:
    MaxRL (arXiv 2602.02710): the mean score of the successful rollouts is an unbiased estimate of grad log p as soon as
    there is a success; centring it with the mean of all scores is ``"maxrl"``.
"""

from __future__ import annotations

from difflib import get_close_matches

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sera_maze.checks import as_tensor, check_integers, refuse_first

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
    """Factor by which the expected gradient of a group falls short of that of the log-likelihood, grad log p.

    It is ``1 - (1 - p)^(N - 1)`` for "maxrl" and ``1 - (1 - p)^N`` for "success_average", exact to float64 for any p.
    The other kinds do not estimate the gradient of the log-likelihood.

    Args:
        success_prob: p, in [0, 1], any shape.
        counts: N, integers of at least 0, any shape that broadcasts with p. Without rollouts the factor is 0.
        kind: "maxrl" or "success_average".

    Returns:
        float64 in [0, 1], of the common shape.

    Raises:
        TypeError: if ``counts`` are not integers.
        ValueError: for a p outside [0, 1] or NaN, negative counts, another kind.

    Example:
        >>> attenuation(0.5, [1, 2, 3]).tolist()
        [0.0, 0.5, 0.75]
    """
    _check_kind(kind, ("maxrl", "success_average"))
    prob = as_tensor("success_prob", success_prob, dtype=torch.float64)
    number = as_tensor("counts", counts, device=prob.device)
    check_integers("counts", number)
    refuse_first("success_prob", prob, ~((prob >= 0) & (prob <= 1)), "numbers from 0 to 1")
    refuse_first("counts", number, number < 0, "integers of at least 0")
    exponent = (number - 1 if kind == "maxrl" else number).double()
    return torch.where(exponent > 0, -torch.expm1(exponent * torch.log1p(-prob)), 0.0)


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
        close = get_close_matches(str(kind), allowed, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"kind={kind!r} is not known here; allowed are {', '.join(map(repr, allowed))}{hint}")


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
