"""From the waterline's continuous rollouts to whole ones: two rules for `allocate`.

Both give every prompt a base, and what is left of the budget goes one each to the prompts of lowest priority number.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sera_maze.allocation.waterline import Problem, first_true, search_width

# Rollouts that are below a whole number by no more than this fraction are whole: rounding errors must not cost one.
TOLERANCE = 1e-12
# Read as integers, the non-negative float64 are ordered as their values are: 0 for 0.0, this for infinity.
_BITS_OF_INFINITY = 0x7FF0_0000_0000_0000


class WholeRollouts(NamedTuple):
    """Counts of G batches of B prompts, of which ``left`` rollouts are still to be handed out, at most one a prompt."""

    base: Tensor  # (G, B) float64, whole numbers; 0 for inactive prompts
    priority: Tensor  # (G, B) float64, the lowest gets the next rollout, ties by lower index; infinite: must get none
    left: Tensor  # (G, 1) float64, whole numbers

    def counts(self) -> Tensor:
        """Hand out what is left: (G, B) float64 that sum to the budget."""
        order = self.priority.sort(dim=1, stable=True).indices
        places = torch.arange(order.shape[1], device=order.device)
        return self.base.scatter_add(1, order, (places < self.left).double())

    def all_reach(self, least: Tensor, active: Tensor) -> Tensor:
        """Tell whether the counts of all active prompts will reach a least count, at less cost than handing out.

        What is left has to last down to the last in the order of priority of those that need one more.

        Args:
            least: (G, B) float64.
            active: (G, B) bool.

        Returns:
            (G, 1) bool.
        """
        needs = (self.base < least) & active
        never = (self.base + 1.0 < least) & active
        places = torch.arange(least.shape[1], device=least.device)
        last_priority = torch.where(needs, self.priority, -torch.inf).amax(dim=1, keepdim=True)
        same = self.priority == last_priority
        last_place = torch.where(needs & same, places, -1).amax(dim=1, keepdim=True)
        up_to_last = (self.priority < last_priority) | (same & (places <= last_place))
        return (up_to_last.sum(dim=1, keepdim=True) <= self.left) & ~never.any(dim=1, keepdim=True)


def round_fidelity(problem: Problem, active: Tensor, tau: Tensor, rollouts: Tensor) -> WholeRollouts:
    """Round down, then add where the squared distance to the level t = 1 - exp(-tau) falls most (the papers' rule).

    The change from N to N + 1 rollouts is ``(kappa(N + 1) - t)^2 - (kappa(N) - t)^2``, taken as
    ``(kappa(N + 1) - kappa(N)) * (kappa(N + 1) + kappa(N) - 2 * t)``. Changes that float64 cannot tell apart, such as
    those between attenuations that all round to 1, are ties.

    Args:
        problem: what to solve.
        active: (G, B) bool.
        tau: (G, 1) float64, from `sera_maze.allocation.waterline.solve`.
        rollouts: (G, B) float64, from there too.
    """
    base = (rollouts * (1.0 + TOLERANCE)).floor_()
    now = torch.expm1((1.0 - base) * problem.decay)  # (G, B), -kappa(N)
    then = torch.expm1(-base * problem.decay)  # (G, B), -kappa(N + 1)
    change = (now - then).mul_(2.0 * torch.expm1(-tau) - now - then)
    priority = torch.where(active & (base < problem.n_max), change, torch.inf)
    return WholeRollouts(base, priority, problem.budget - base.sum(dim=1, keepdim=True))


def round_maxmin(problem: Problem, active: Tensor, tau: Tensor, rollouts: Tensor) -> WholeRollouts:
    """Raise the lowest attenuation as far as whole rollouts can: the exact optimum of the max-min problem.

    The total ``sum(clip(ceil(1 + tau / c), n_min, n_max))`` is a step function of tau, continuous from the left. The
    largest tau at which it is within the budget is a float64, found exactly by bisection over the bit patterns of
    float64. There, more prompts are about to rise than rollouts are left, so the minimum no longer depends on which of
    them do; what is left goes to those of lowest attenuation.

    Args:
        problem: what to solve.
        active: (G, B) bool.
        tau: (G, 1) float64, of the continuous solution; only its shape is used.
        rollouts: (G, B) float64, of the continuous solution; not used.
    """
    smallest, largest = problem.n_min - 1, problem.n_max - 1
    decay = torch.where(active, problem.decay, torch.inf)  # inactive prompts stay at their lower bound
    room = problem.budget - active.sum(dim=1, keepdim=True) + smallest * (~active).sum(dim=1, keepdim=True)  # (G, 1)

    def exceeds(bits: Tensor) -> Tensor:  # (G, W) to (G, W) bool
        level = bits.view(torch.float64)[:, :, None]
        above = (level / decay[:, None, :]).ceil_().clamp_(smallest, largest)  # (G, W, B)
        return above.sum(dim=2) > room

    zero = torch.zeros_like(tau, dtype=torch.int64)
    width = search_width(decay)
    too_high = first_true(zero, zero + _BITS_OF_INFINITY, _BITS_OF_INFINITY, width, exceeds)
    level = (too_high - 1).view(torch.float64)  # (G, 1)
    base = (level / decay).ceil_().clamp_(smallest, largest).add_(1.0).mul_(active)
    priority = torch.where(active & (base < problem.n_max), (base - 1.0) * problem.decay, torch.inf)
    return WholeRollouts(base, priority, problem.budget - base.sum(dim=1, keepdim=True))
