"""How many rollouts each prompt of a batch gets: `allocate`, the waterline, and `allocate_uniform`.

Nothing here knows of mazes, policies or Stable-Baselines3. `allocate` maps success probabilities and a budget to
counts, on the device of its input, for anybody's trainer:

    >>> allocation = allocate([0.5, 0.1, 0.02], budget=48)
    >>> allocation.counts.tolist()
    [2, 8, 38]

In the loss, every rollout of prompt q gets the weight `Allocation.weights` of its prompt (the multiplicity correction):

    loss = -(1 / budget) * sum over prompts q and rollouts j of weights[q] * advantage[q, j] * log_prob[q, j]

Prompts without rollouts add nothing and still count in the budget, so that the expected gradient is the mean over all B
prompts of ``attenuation[q] * grad log p[q]``.

References:
    MaxRL (arXiv 2602.02710): the expected gradient of N rollouts is ``1 - (1 - p)^(N - 1)`` times grad log p.
    SERA (arXiv 2609.36552): one attenuation for all prompts at a matched budget, rounding by fidelity, the active set.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sera_maze.allocation.active_set import Rounding, choose_active
from sera_maze.allocation.checks import refuse_first
from sera_maze.allocation.rounding import round_fidelity, round_maxmin
from sera_maze.allocation.waterline import SMALLEST_PROBABILITY, Problem, solve
from sera_maze.envs.ground.checks import did_you_mean

ROUNDINGS: dict[str, Rounding] = {"fidelity": round_fidelity, "maxmin": round_maxmin}
# Up to here TOLERANCE, a fraction, is less than one rollout.
LARGEST_BUDGET = 2**36


class Allocation(NamedTuple):
    """The rollouts of a batch, or of several batches (...), of B prompts.

    Attributes:
        counts: (..., B) int64, rollouts of each prompt; 0 for inactive ones. They sum to the budget.
        weights: (..., B) float64, N0 / N with N0 = budget / B; 0 for inactive prompts.
        active: (..., B) bool, whether a prompt gets rollouts.
        continuous: (..., B) float64, rollouts before rounding; 0 for inactive prompts.
        waterline: (...) float64, exp(-tau), which is 1 less the common attenuation of the prompts between their bounds
            before rounding. None for `allocate_uniform`.
        attenuation: (..., B) float64, ``1 - (1 - p)^(counts - 1)``; 0 for inactive prompts. None if p was not given.
    """

    counts: Tensor
    weights: Tensor
    active: Tensor
    continuous: Tensor
    waterline: Tensor | None
    attenuation: Tensor | None


def allocate(
    success_prob: Tensor | ArrayLike,
    budget: int,
    *,
    n_min: int = 2,
    n_max: int | None = None,
    activation_threshold: float | None = 0.05,
    rounding: str = "fidelity",
) -> Allocation:
    """Divide a budget of rollouts so that every prompt's gradient is attenuated alike.

    The counts N maximise the lowest attenuation ``1 - (1 - p)^(N - 1)`` of the active prompts subject to their sum and
    to ``n_min <= N <= n_max``. Before rounding, ``N = clip(1 + tau / c, n_min, n_max)`` with ``c = -log(1 - p)`` and
    tau such that they sum to the budget.

    A prompt is worth rollouts if a group on it may well be mixed, that is, hold a success and a failure, which has the
    probability ``u(p, N) = 1 - (1 - p)^N - p^N``. Prompts are ranked by u(p, n_max), ties (to 13 decimals) by lower
    index. The active set is a prefix of this ranking, as long as a binary search can find, in which u is at least
    ``activation_threshold`` at every prompt's count. Where the prompts that can reach the threshold are too few to take
    the budget, as few prompts as can take it are active.

    Everything is computed in float64 on the device of ``success_prob``. Nothing is read back from it before the result
    is complete; then one flag is, which tells whether the probabilities were valid.

    Args:
        success_prob: (..., B) floating point, p of each prompt, in (0, 1). Leading dimensions are batches that are
            solved independently, each with this budget. Values below 1e-300 count as 1e-300.
        budget: rollouts of each batch, ``B * n_min`` to ``B * n_max``. In this range every number of active prompts
            that can take the budget can also be given n_min each.
        n_min: fewest rollouts of an active prompt, at least 1. With one rollout a group has no MaxRL advantage.
        n_max: most rollouts of a prompt; None means four times the mean, ``4 * budget / B`` rounded up.
        activation_threshold: probability in [0, 1), or None to keep all prompts active.
        rounding: "fidelity" rounds down and gives what is left to the prompts whose squared distance to the common
            level it lowers most, ties by lower index (the papers' rule). "maxmin" is the exact optimum of the max-min
            problem in whole rollouts; what is left goes to the prompts of lowest attenuation, ties by lower index.

    Returns:
        The allocation, on the device of ``success_prob``.

    Raises:
        TypeError: for probabilities that are not floating point, or numbers of rollouts that are not ints.
        ValueError: for a p outside (0, 1) or NaN, a budget or bounds that cannot be, an unknown rounding.
    """
    prob = _as_float64(success_prob)
    num_prompts = prob.shape[-1]
    budget, n_min, n_max = check_bounds(num_prompts, budget, n_min, n_max)
    threshold = check_threshold(activation_threshold)
    if rounding not in ROUNDINGS:
        near = did_you_mean(rounding, ROUNDINGS)
        raise ValueError(f"rounding={rounding!r} is not known; allowed are 'fidelity' and 'maxmin'{near}")
    allocation, invalid = _solve(prob, budget, n_min, n_max, threshold, ROUNDINGS[rounding])
    _raise_if_any(invalid, prob)
    return allocation


def allocate_uniform(
    shape: int | Sequence[int],
    budget: int,
    *,
    success_prob: Tensor | ArrayLike | None = None,
    device: torch.device | str | None = None,
) -> Allocation:
    """Divide a budget of rollouts equally; if it does not divide, the first prompts get one more.

    Args:
        shape: B, or (..., B) for several batches, such as the shape of a tensor of prompts.
        budget: rollouts of each batch, at least B.
        success_prob: p of each prompt, in (0, 1) and of this shape, if the attenuation is wanted.
        device: of the result; the default is that of ``success_prob``, or PyTorch's.

    Returns:
        The allocation, all prompts active, without a waterline.

    Raises:
        TypeError: for a shape or a budget that is not of ints.
        ValueError: for an empty shape, a budget below B, or probabilities of another shape or outside (0, 1).
    """
    sizes = tuple(_as_int("shape", size) for size in (shape if isinstance(shape, Sequence) else (shape,)))
    if not sizes or sizes[-1] < 1 or min(sizes) < 0:
        raise ValueError(f"shape={shape!r} has no prompts; allowed: the number of prompts, or (..., prompts)")
    num_prompts = sizes[-1]
    budget, _, _ = check_bounds(num_prompts, budget, 1, None)
    prob = None if success_prob is None else _as_float64(success_prob)
    if prob is not None and prob.shape != sizes:
        raise ValueError(f"success_prob has shape {tuple(prob.shape)}, but shape={shape!r}; the two must agree")
    if device is None and prob is not None:
        device = prob.device

    places = torch.arange(num_prompts, device=device)
    counts = (budget // num_prompts + (places < budget % num_prompts).long()).expand(sizes).contiguous()  # (..., B)
    mean = budget / num_prompts
    attenuation = None
    if prob is not None:
        prob = prob.to(counts.device)
        attenuation = -torch.expm1((counts - 1) * torch.log1p(-prob))
        _raise_if_any(_invalid(prob), prob)
    return Allocation(
        counts=counts,
        weights=mean / counts.double(),
        active=torch.ones_like(counts, dtype=torch.bool),
        continuous=torch.full_like(counts, mean, dtype=torch.float64),
        waterline=None,
        attenuation=attenuation,
    )


def _solve(
    prob: Tensor, budget: int, n_min: int, n_max: int, threshold: float | None, rounding: Rounding
) -> tuple[Allocation, Tensor]:
    """Allocate for prob (..., B) float64 and mark what of it is invalid, without waiting for the device."""
    rows = prob.reshape(math.prod(prob.shape[:-1]), prob.shape[-1])  # (G, B)
    problem = Problem.of(rows, budget, n_min, n_max)
    active = torch.ones_like(rows, dtype=torch.bool)
    if threshold is not None:
        active = choose_active(problem, threshold, rounding)
    tau, continuous = solve(problem, active)
    counts = rounding(problem, active, tau, continuous).counts()
    allocation = Allocation(
        counts=counts.long().reshape(prob.shape),
        weights=torch.where(active, budget / prob.shape[-1] / counts, 0.0).reshape(prob.shape),
        active=active.reshape(prob.shape),
        continuous=continuous.reshape(prob.shape),
        waterline=torch.exp(-tau).reshape(prob.shape[:-1]),
        attenuation=torch.where(active, -torch.expm1((1.0 - counts) * problem.decay), 0.0).reshape(prob.shape),
    )
    return allocation, _invalid(prob)


def _invalid(prob: Tensor) -> Tensor:
    return ~((prob > 0) & (prob < 1))  # NaN is neither


def _raise_if_any(invalid: Tensor, prob: Tensor) -> None:
    remedy = "clamp estimates that reach an end, to 1e-300 and 1 - 1e-16 at the furthest"
    refuse_first("success_prob", prob, invalid, f"numbers above 0 and below 1 ({remedy})")


def _as_float64(success_prob: Tensor | ArrayLike) -> Tensor:
    if isinstance(success_prob, Tensor):
        prob = success_prob.detach()
        is_float = prob.is_floating_point()
    else:
        try:
            array = np.array(success_prob)  # a copy, which PyTorch may take over
        except ValueError as error:
            raise ValueError(f"success_prob is not an array: {error}; allowed: numbers of shape (..., B)") from None
        is_float = np.issubdtype(array.dtype, np.floating)
        prob = torch.from_numpy(array.astype(np.float64)) if is_float else torch.empty(array.shape)
    if not is_float:
        dtype = success_prob.dtype if isinstance(success_prob, Tensor) else array.dtype
        raise TypeError(f"success_prob has dtype {dtype}; allowed is floating point, numbers above 0 and below 1")
    if prob.ndim == 0 or prob.shape[-1] == 0:
        raise ValueError(f"success_prob has shape {tuple(prob.shape)}; allowed: (..., B) with B of at least 1")
    return prob.double()


def _as_int(name: str, value: object) -> int:
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}; allowed is an int") from None


def check_bounds(num_prompts: int, budget: int, n_min: int, n_max: int | None) -> tuple[int, int, int]:
    """Check numbers of rollouts; return budget, n_min and n_max.

    Raises:
        ValueError, TypeError: as `allocate`.
    """
    budget, n_min = _as_int("budget", budget), _as_int("n_min", n_min)
    if n_min < 1:
        raise ValueError(f"n_min={n_min}; allowed is 1 or more (2 for a MaxRL advantage)")
    least, most, bounds = num_prompts * n_min, LARGEST_BUDGET, f"n_min={n_min}"
    if n_max is not None:
        n_max = _as_int("n_max", n_max)
        if n_max > LARGEST_BUDGET:
            raise ValueError(f"n_max={n_max} is out of range; allowed is at most {LARGEST_BUDGET}, or None")
        if n_max < n_min:
            raise ValueError(f"n_max={n_max} is below n_min={n_min}; allowed is n_min or more")
        most, bounds = min(num_prompts * n_max, most), f"{bounds} and n_max={n_max}"
    if not least <= budget <= most:
        raise ValueError(
            f"budget={budget} does not suit {num_prompts} prompts with {bounds}; allowed are {least} to {most} rollouts"
        )
    return budget, n_min, -(-4 * budget // num_prompts) if n_max is None else n_max


def check_probabilities(success_prob: Tensor | ArrayLike) -> Tensor:
    """Check success probabilities (..., B) and return them as float64, those below 1e-300 as 1e-300.

    Raises:
        ValueError, TypeError: as `allocate`.
    """
    prob = _as_float64(success_prob)
    _raise_if_any(_invalid(prob), prob)
    return prob.clamp(min=SMALLEST_PROBABILITY)


def check_threshold(threshold: float | None) -> float | None:
    """Check an activation threshold.

    Raises:
        ValueError, TypeError: if it is neither None nor a number from 0 to below 1.
    """
    if threshold is None:
        return None
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.integer | np.floating):
        raise TypeError(f"activation_threshold={threshold!r}; allowed is a float or None (all prompts active)")
    if not 0 <= threshold < 1:
        raise ValueError(f"activation_threshold={threshold!r}; allowed is 0 or more and below 1, or None (all active)")
    return float(threshold)
