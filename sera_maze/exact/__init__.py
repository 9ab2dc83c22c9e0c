"""Exact success probabilities of maze policies, their gradients, and how estimates align with them."""

from sera_maze.allocation.advantages import attenuation
from sera_maze.exact.aligning import Alignment, alignment
from sera_maze.exact.probability import (
    exact_pass_at_k,
    expected_steps,
    log_likelihood_gradient,
    success_probability,
    visits,
)

__all__ = [
    "Alignment",
    "alignment",
    "attenuation",
    "exact_pass_at_k",
    "expected_steps",
    "log_likelihood_gradient",
    "success_probability",
    "visits",
]
