"""The allocators by name: a new one is one function from an `Estimate` to an `Allocation`, and one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from sera_maze.allocation.allocation import Allocation, allocate, allocate_uniform
from sera_maze.allocation.others import allocate_knapsack, allocate_posterior, allocate_vip
from sera_maze.allocation.success import Estimate


class Bounds(NamedTuple):
    """What limits an allocation; see `allocate`.

    Attributes:
        n_min: fewest rollouts of an active prompt.
        n_max: most rollouts of a prompt.
        activation_threshold: of the active set; None keeps all prompts active.
        rounding: "fidelity" or "maxmin".
    """

    n_min: int
    n_max: int
    activation_threshold: float | None
    rounding: str


Allocator = Callable[[Estimate, int, Bounds], Allocation]


def _uniform(estimate: Estimate, budget: int, bounds: Bounds) -> Allocation:
    return allocate_uniform(len(estimate.probability), budget, success_prob=estimate.probability)


def _sera(estimate: Estimate, budget: int, bounds: Bounds) -> Allocation:
    return allocate(estimate.probability, budget, **bounds._asdict())


def _posterior(estimate: Estimate, budget: int, bounds: Bounds) -> Allocation:
    if estimate.posterior is None:
        raise ValueError("allocator='sera_posterior' needs posteriors, which this estimator of success has not")
    n_min, n_max, threshold, _ = bounds
    return allocate_posterior(*estimate.posterior, budget, n_min=n_min, n_max=n_max, activation_threshold=threshold)


def _vip(estimate: Estimate, budget: int, bounds: Bounds) -> Allocation:
    return allocate_vip(estimate.probability, budget, n_min=bounds.n_min, n_max=bounds.n_max)


def _knapsack(estimate: Estimate, budget: int, bounds: Bounds) -> Allocation:
    return allocate_knapsack(estimate.probability, budget, n_min=bounds.n_min, n_max=bounds.n_max)


ALLOCATORS: dict[str, Allocator] = {
    "uniform": _uniform,
    "sera": _sera,
    "sera_posterior": _posterior,
    "vip": _vip,
    "knapsack": _knapsack,
}


def share_out(
    name: str, estimate: Estimate | None, num_prompts: int, budget: int, bounds: Bounds, device: torch.device
) -> Allocation:
    """Share a budget out over the prompts of a batch; evenly as long as nothing is known about them.

    Args:
        name: of `ALLOCATORS`.
        estimate: of the prompts; None if nothing is known.
        num_prompts: B.
        budget: rollouts of the batch.
        bounds: of the allocation.
        device: of the result, where there is no estimate.
    """
    if estimate is None:
        return allocate_uniform(num_prompts, budget, device=device)
    return ALLOCATORS[name](estimate, budget, bounds)
