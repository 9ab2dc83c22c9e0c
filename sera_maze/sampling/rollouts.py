"""`Rollouts`: the episodes of one batch, in groups, ragged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rollouts:
    """One batch of B prompts and R rollouts, S steps in all. The steps of a rollout follow one another.

    Attributes:
        prompts: (B,) int64.
        counts: (B,) int64, the rollouts of each prompt; R in all.
        owner: (R,) int64, rising: which of the B prompts a rollout belongs to.
        success: (R,) bool.
        lengths: (R,) int64, steps of each rollout.
        actions: (S,) int64, or (S, ...) for actions of other spaces.
        log_probs: (S,) float32, log-probability of each action when it was taken.
        entropies: (S,) float32, entropy of the policy where each action was taken.
        states: what the sampler that made them needs to take their loss back; for it alone.
        returns: (R,) float32, sum of the rewards of each rollout; None if it is 1 for a success and else 0.
    """

    prompts: Tensor
    counts: Tensor
    owner: Tensor
    success: Tensor
    lengths: Tensor
    actions: Tensor
    log_probs: Tensor
    entropies: Tensor
    states: Any
    returns: Tensor | None = None

    @property
    def num_rollouts(self) -> int:
        """R."""
        return len(self.owner)

    @property
    def num_steps(self) -> int:
        """S."""
        return len(self.actions)

    @cached_property
    def step_owner(self) -> Tensor:
        """(S,) int64: which of the R rollouts a step belongs to."""
        return torch.repeat_interleave(torch.arange(self.num_rollouts, device=self.lengths.device), self.lengths)

    @cached_property
    def first_steps(self) -> Tensor:
        """(R,) int64: place of each rollout's first step among all steps."""
        return torch.cumsum(self.lengths, 0) - self.lengths

    @cached_property
    def successes(self) -> Tensor:
        """(B,) int64: successes of each prompt."""
        return torch.zeros_like(self.counts).index_add_(0, self.owner, self.success.long())

    def mean_over_prompts(self, values: Tensor) -> Tensor:
        """Mean of values (R,) in each group, then over the groups that have rollouts; () float64."""
        total = torch.zeros(len(self.counts), dtype=torch.float64, device=self.counts.device)
        total.index_add_(0, self.owner, values.double())
        sampled = self.counts > 0
        return (total[sampled] / self.counts[sampled]).mean()


def owners(counts: Tensor) -> tuple[Tensor, Tensor]:
    """For counts (B,) the prompt (R,) that each rollout belongs to, and its number (R,) within its group."""
    owner = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
    first = torch.cumsum(counts, 0) - counts
    return owner, torch.arange(len(owner), device=counts.device) - first[owner]
