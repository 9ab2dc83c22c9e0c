"""The weighted loss of a batch of rollouts, of which a `Sampler` makes parts whose cut does not change the gradient.

    loss = -(1 / R) sum over prompts q, rollouts j, steps t of  w_q A_qj log π(a_t | s_t),     w_q = N0 / N_q

with R = B N0 rollouts in the batch: the totals are fixed before anything is cut.

References:
    SERA (arXiv 2609.36552): the multiplicity correction w_q, without which prompt q would count N_q times.
    MaxRL (arXiv 2602.02710): the advantages, see `group_advantages`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from sera_maze.sampling.rollouts import Rollouts
from sera_maze.sampling.team import Alone, Team

MAZES_A_PASS = 64
STEPS_A_PASS = 4096


class Totals(NamedTuple):
    """What a batch holds over all processes: what sums become means by.

    Attributes:
        prompts: B, those without rollouts too.
        rollouts: R.
        steps: S.
        sampled: prompts with rollouts.
    """

    prompts: int
    rollouts: int
    steps: int
    sampled: int

    @classmethod
    def of(cls, rollouts: Rollouts, team: Team | None = None) -> Totals:
        """Of a batch whose prompts all processes share, and of whose rollouts each has some."""
        together = Alone() if team is None else team
        counts = together.sum_(rollouts.counts.clone())
        steps = together.sum_(torch.tensor(rollouts.num_steps, device=counts.device))
        return cls(len(counts), int(counts.sum()), int(steps), int((counts > 0).sum()))


@dataclass(frozen=True)
class LossTerms:
    """What a batch contributes to the loss.

    Attributes:
        rollouts: the batch, or this process's part of it.
        weights: (R,) float32, w_q A_qj / R of each rollout (over its length with ``token_mean``).
        totals: of the whole batch.
        clip_range: None for the plain log-probability; else the ratio to the sampling policy is clipped to
            1 - clip_range .. 1 + clip_range, as PPO does, for several epochs over one batch.
        ent_coef: coefficient of the mean entropy over the steps.
        critic_coef: coefficient of the cross-entropy of the success estimate; 0 leaves it out.
    """

    rollouts: Rollouts
    weights: Tensor
    totals: Totals
    clip_range: float | None = None
    ent_coef: float = 0.0
    critic_coef: float = 0.0

    def critic_loss(self, logits: Tensor, part: Tensor) -> Tensor:
        """Cross-entropy of success logits (N,) with the success rates of prompts part (N,), over all sampled ones."""
        rate = self.rollouts.successes[part] / self.rollouts.counts[part]
        loss = functional.binary_cross_entropy_with_logits(logits, rate.float(), reduction="sum")
        return self.critic_coef * (loss / self.totals.sampled)

    def surrogate(self, log_prob: Tensor, old: Tensor, gain: Tensor, loss: Tensor) -> Tensor:
        """Sum () of weight times log-probability, or of weight times clipped ratio; all arguments of one shape.

        Args:
            log_prob: of actions under the policy.
            old: under the policy that sampled.
            gain: summed weights that are positive.
            loss: summed weights that are negative.
        """
        if self.clip_range is None:
            return ((gain + loss) * log_prob).sum()
        ratio = (log_prob - old).exp()
        return (gain * ratio.clamp(max=1 + self.clip_range) + loss * ratio.clamp(min=1 - self.clip_range)).sum()


def rollout_weights(
    rollouts: Rollouts,
    advantages: Tensor,
    totals: Totals,
    *,
    multiplicity_correction: bool = True,
    token_mean: bool = False,
) -> Tensor:
    """Weight (R,) float32 of each rollout in the loss: w_q A_qj / R.

    Args:
        rollouts: the batch, with R rollouts for B prompts (those without rollouts count).
        advantages: (R,) A_qj.
        totals: of the batch.
        multiplicity_correction: whether w_q = N0 / N_q with N0 = R / B; else 1.
        token_mean: whether each rollout's sum over its steps becomes a mean.
    """
    weights = advantages / totals.rollouts
    if multiplicity_correction:
        per_prompt = totals.rollouts / (totals.prompts * rollouts.counts.clamp(min=1).to(weights.dtype))
        weights = weights * per_prompt[rollouts.owner]
    return (weights / rollouts.lengths if token_mean else weights).float()


def cut(indices: Tensor, size: int) -> tuple[Tensor, ...]:
    """Indices (N,) in parts of at most ``size``; no part if there are none."""
    return indices.split(size) if len(indices) else ()
