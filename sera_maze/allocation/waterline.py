"""The waterline: the continuous solution of the max-min problem that `allocate` rounds to whole rollouts.

A group of N rollouts attenuates the gradient of its prompt to ``1 - exp(-(N - 1) * c)`` of what it should be, with the
prompt's decay ``c = -log(1 - p)``. Giving every prompt ``clip(1 + tau / c, n_min, n_max)`` rollouts puts all that are
not clipped at one level, the waterline ``exp(-tau)``; no other division of the budget has a higher lowest attenuation.

Everything here works on G independent batches of B prompts in rows, and never waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# Below this p the sums of 1 / c would overflow.
SMALLEST_PROBABILITY = 1e-300


class Problem(NamedTuple):
    """G batches of B prompts that have the same budget and bounds, with all that does not depend on who is active."""

    success_prob: Tensor  # (G, B) float64, p
    decay: Tensor  # (G, B) float64, c = -log(1 - p)
    inverse: Tensor  # (G, B) float64, 1 / c
    low: Tensor  # (G, B) float64, the tau up to which a prompt stays at n_min
    high: Tensor  # (G, B) float64, the tau from which a prompt stays at n_max
    breakpoints: Tensor  # (G, 2B) float64, all of low and high, rising
    budget: int
    n_min: int
    n_max: int

    @classmethod
    def of(cls, success_prob: Tensor, budget: int, n_min: int, n_max: int) -> Problem:
        """Set up for success_prob (G, B) float64 in (0, 1)."""
        prob = success_prob.clamp(min=SMALLEST_PROBABILITY)
        decay = torch.log1p(-prob).neg_()
        low, high = (n_min - 1) * decay, (n_max - 1) * decay
        breakpoints = torch.cat([low, high], dim=1).sort(dim=1).values
        return cls(prob, decay, decay.reciprocal(), low, high, breakpoints, budget, n_min, n_max)

    def repeat(self, times: int) -> Problem:
        """Repeat every batch: G * times of them."""
        return Problem.of(self.success_prob.repeat_interleave(times, dim=0), self.budget, self.n_min, self.n_max)


def solve(problem: Problem, active: Tensor) -> tuple[Tensor, Tensor]:
    """Divide the budget of every batch among its active prompts.

    The total ``sum(clip(1 + tau / c, n_min, n_max))`` is piecewise linear in tau. The search finds the segment between
    two neighbouring breakpoints in which it reaches the budget; there, tau is one division. Every total is summed anew
    over the prompts: differences of running sums of 1 / c would lose all digits when p spans many orders of magnitude.

    Args:
        problem: what to solve.
        active: (G, B) bool, the prompts that take part. If they are k, the budget lies between ``k * n_min`` and
            ``k * n_max``.

    Returns:
        tau (G, 1) float64, the smallest that uses up the budget, and rollouts (G, B) float64, 0 for inactive prompts.
    """
    smallest, largest = problem.n_min - 1, problem.n_max - 1
    mask = active.double()
    inverse = problem.inverse * mask
    num_active = mask.sum(dim=1, keepdim=True)  # (G, 1)
    above_one = problem.budget - num_active  # (G, 1), what is to be divided beyond one rollout for each
    # The sum below clips inactive prompts to their bound too.
    enough = above_one + smallest * (active.shape[1] - num_active)

    def reaches(index: Tensor) -> Tensor:  # (G, W) to (G, W) bool
        tau = problem.breakpoints.gather(1, index)
        above = (inverse[:, None, :] * tau[:, :, None]).clamp_(smallest, largest)  # (G, W, B)
        return above.sum(dim=2) >= enough

    last_index = problem.breakpoints.shape[1] - 1
    zero = torch.zeros_like(num_active, dtype=torch.int64)
    index = first_true(zero, zero + last_index, last_index, search_width(problem.decay), reaches)
    left = problem.breakpoints.gather(1, (index - 1).clamp_(min=0))
    right = problem.breakpoints.gather(1, index)  # the budget is reached in left < tau <= right

    is_low, is_high = problem.low >= right, problem.high <= left
    clipped = is_low.double().mul_(smallest).add_(is_high, alpha=largest).mul_(mask).sum(dim=1, keepdim=True)
    slope = torch.where(is_low | is_high, 0.0, inverse).sum(dim=1, keepdim=True)
    # A segment too far on, where rounding let the search miss the right one, brings tau to the same breakpoint from the
    # other side. Where all active prompts are clipped, the slope is 0, and tau is an end of the segment.
    tau = ((above_one - clipped) / slope.clamp_(min=torch.finfo(torch.float64).tiny)).clamp_(left, right)

    return tau, (inverse * tau).clamp_(smallest, largest).add_(1.0).mul_(mask)


def search_width(prompts: Tensor) -> int:
    """How many places a search should try at once, for prompts of shape (G, B): one if they are many, 31 if few."""
    at_once = 2**15 if prompts.device.type == "cpu" else 2**22  # so many numbers cost hardly more than one
    return min(max(at_once // max(prompts.numel(), 1), 1), 31)


def first_true(start: Tensor, stop: Tensor, span: int, width: int, is_true: Callable[[Tensor], Tensor]) -> Tensor:
    """Find the first integer from start to stop for which a condition is true, in many rows at once.

    The number of rounds depends on ``span`` and ``width`` alone, so that nothing waits for the device.

    Args:
        start: (G, 1) int64.
        stop: (G, 1) int64; the answer if the condition is false for all integers before.
        span: at least the largest ``stop - start``.
        width: W, how many integers are tried in a round, which divides the span by W + 1.
        is_true: maps (G, W) integers to (G, W) bool; once true in a row, it stays true for larger ones.

    Returns:
        (G, 1) int64.
    """
    places = torch.arange(1, width + 1, device=start.device)  # (W,)
    while span > 0:
        step = (stop - start) // (width + 1) + 1  # (G, 1)
        trials = torch.minimum(start + step * places - 1, stop)  # (G, W)
        num_false = width - is_true(trials).sum(dim=1, keepdim=True)
        start = start + step * num_false
        stop = torch.minimum(start + (step - 1), stop)
        start = torch.minimum(start, stop)
        span //= width + 1
    return stop
