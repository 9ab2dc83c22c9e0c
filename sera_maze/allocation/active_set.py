"""The active set: which prompts of a batch are worth rollouts, for `allocate`.

A group teaches something only if it is mixed, that is, holds a success and a failure. With N rollouts it is mixed with
probability ``u(p, N) = 1 - (1 - p)^N - p^N``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from sera_maze.allocation.rounding import WholeRollouts
from sera_maze.allocation.waterline import Problem, first_true, search_width, solve

Rounding = Callable[[Problem, Tensor, Tensor, Tensor], WholeRollouts]

# Scores are compared in this unit: p and 1 - p are worth the same, and rounding errors must not tell them apart.
SCORE_UNIT = 2.0**-44
# How far below the threshold a group may fall.
THRESHOLD_TOLERANCE = 1e-12


class Search(NamedTuple):
    """How far the binary search for the number of active prompts has come; each (G, 1) int64."""

    low: Tensor  # fewest that are still open
    high: Tensor  # most that are still open; below low when the search is over
    best: Tensor  # the last that was found enough

    def step(self, middle: Tensor, enough: Tensor) -> Search:
        """Go on in the half of the search that the middle (G, 1) points to, unless the search is over."""
        low, high, best = self
        enough = enough & (low <= high)
        return Search(
            torch.where(enough, middle + 1, low),
            torch.where(enough, high, middle - 1),
            torch.where(enough, middle, best),
        )


def begin(mixed: Tensor, threshold: float, required: int) -> tuple[Tensor, Search]:
    """Rank prompts by the probability of a mixed group, ties by lower index, and begin the search for how many to take.

    Args:
        mixed: (G, B) float64, u of each prompt with n_max rollouts.
        threshold: lowest u of prompts that are eligible.
        required: fewest prompts that can take the budget.

    Returns:
        The rank (G, B) int64 of each prompt, from 0, and the search.
    """
    score = (mixed / SCORE_UNIT).round()
    order = score.sort(dim=1, descending=True, stable=True).indices
    places = torch.arange(mixed.shape[1], device=order.device)
    rank = torch.empty_like(order).scatter_(1, order, places.expand_as(order))
    eligible = (score >= threshold / SCORE_UNIT).sum(dim=1, keepdim=True)  # (G, 1)
    fewest = torch.full_like(eligible, required)
    return rank, Search(fewest, eligible, fewest)


def mixed_probability(success_prob: Tensor, counts: Tensor | float) -> Tensor:
    """Probability u that a group holds a success and a failure, float64.

    Args:
        success_prob: p, float64 in (0, 1).
        counts: N, float64, at least 1; any shape that broadcasts.
    """
    no_success = torch.log1p(-success_prob) * counts
    all_successes = torch.log(success_prob) * counts
    return -(torch.expm1(no_success) + torch.exp(all_successes))


def choose_active(problem: Problem, threshold: float, rounding: Rounding) -> Tensor:
    """Choose the prompts that share the budget: (G, B) bool.

    Prompts are ranked by ``u(p, n_max)``, ties by lower index; those that reach the threshold are eligible. Among the
    prefixes of this order that hold eligible prompts only and can take the budget, a binary search looks for the
    longest in which u reaches the threshold at every prompt's actual count. If it finds none, or if the eligible
    prompts cannot take the budget, as few prompts as can take it are active.

    Args:
        problem: what to solve; the budget is at least ``B * n_min``, so that every prefix can be given its n_min.
        threshold: lowest u, in [0, 1).
        rounding: how actual counts come about.
    """
    num_prompts = problem.decay.shape[1]
    required = -(-problem.budget // problem.n_max)
    rank, search = begin(mixed_probability(problem.success_prob, problem.n_max), threshold, required)

    # Where several problems cost hardly more than one, two steps are taken together: the middle of the search is
    # tried at once with the two middles of which one comes next.
    together = search_width(problem.decay) >= 12
    tried = 3 if together else 1
    repeated, ranks = problem.repeat(tried), rank.repeat_interleave(tried, dim=0)
    least = _least_counts(problem, threshold - THRESHOLD_TOLERANCE).repeat_interleave(tried, dim=0)

    def is_enough(prefixes: Tensor) -> Tensor:  # (G, tried) to (G, tried) bool
        active = ranks < prefixes.reshape(-1, 1)
        rounded = rounding(repeated, active, *solve(repeated, active))
        return rounded.all_reach(least, active).reshape(prefixes.shape)

    num_steps = (num_prompts - required + 1).bit_length()
    for _ in range((num_steps + 1) // 2 if together else num_steps):
        middle = (search.low + search.high) // 2
        if not together:
            search = search.step(middle, is_enough(middle))
            continue
        shorter, longer = (search.low + middle - 1) // 2, (middle + 1 + search.high) // 2
        enough, shorter_enough, longer_enough = is_enough(torch.cat([middle, shorter, longer], dim=1)).split(1, dim=1)
        search = search.step(middle, enough).step(
            torch.where(enough, longer, shorter), torch.where(enough, longer_enough, shorter_enough)
        )
    return rank < search.best


def _least_counts(problem: Problem, threshold: float) -> Tensor:
    """Fewest rollouts with which u is at least the threshold, or n_max if it never is: (G, B) float64."""
    rows = problem.success_prob.reshape(-1, 1)
    one = torch.ones_like(rows, dtype=torch.int64)
    least = first_true(
        one,
        one * problem.n_max,
        span=problem.n_max - 1,
        width=search_width(rows),
        is_true=lambda counts: mixed_probability(rows, counts) >= threshold,
    )
    return least.reshape(problem.success_prob.shape).double()
