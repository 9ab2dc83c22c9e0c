"""The weighted loss of a batch of rollouts, and its gradient in micro-batches whose cut does not change it.

    loss = -(1 / R) sum over prompts q, rollouts j, steps t of  w_q A_qj log π(a_t | s_t),     w_q = N0 / N_q

with R = B N0 rollouts in the batch: the denominator is fixed before anything is cut. Rollouts of a `MapSampler` are
summed up on the squares of their maze first, so that a maze costs one pass however many rollouts it has.

References:
    SERA (arXiv 2609.36552): the multiplicity correction w_q, without which prompt q would count N_q times.
    MaxRL (arXiv 2602.02710): the advantages, see `group_advantages`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor
from torch.nn import functional

from sera_maze.policies.critic import success_logits
from sera_maze.policies.maze import MazePolicy
from sera_maze.sampling.rollouts import Rollouts

MAZES_A_PASS = 64
STEPS_A_PASS = 4096
# Numbers in the hidden states of a MazePolicy that one pass may keep for its gradient: 256 MiB of float32.
MAX_STATES = 2**26


@dataclass(frozen=True)
class LossTerms:
    """What a batch contributes to the loss.

    Attributes:
        rollouts: the batch.
        weights: (R,) float32, w_q A_qj / R of each rollout (over its length with ``token_mean``).
        clip_range: None for the plain log-probability; else the ratio to the sampling policy is clipped to
            1 - clip_range .. 1 + clip_range, as PPO does, for several epochs over one batch.
        ent_coef: coefficient of the mean entropy over the steps.
        critic_coef: coefficient of the cross-entropy of the success estimate; 0 leaves it out.
    """

    rollouts: Rollouts
    weights: Tensor
    clip_range: float | None = None
    ent_coef: float = 0.0
    critic_coef: float = 0.0


def rollout_weights(
    rollouts: Rollouts, advantages: Tensor, *, multiplicity_correction: bool = True, token_mean: bool = False
) -> Tensor:
    """Weight (R,) of each rollout in the loss: w_q A_qj / R.

    Args:
        rollouts: the batch, with R rollouts for B prompts (those without rollouts count).
        advantages: (R,) A_qj.
        multiplicity_correction: whether w_q = N0 / N_q with N0 = R / B; else 1.
        token_mean: whether each rollout's sum over its steps becomes a mean.
    """
    total = rollouts.num_rollouts
    weights = advantages / total
    if multiplicity_correction:
        per_prompt = total / (len(rollouts.prompts) * rollouts.counts.clamp(min=1).to(weights.dtype))
        weights = weights * per_prompt[rollouts.owner]
    return (weights / rollouts.lengths if token_mean else weights).float()


def accumulate_gradient(
    policy: ActorCriticPolicy, terms: LossTerms, mazes: Callable[[Tensor], tuple[Tensor, Tensor]] | None
) -> float:
    """Add the gradient of the loss to the parameters' ``grad``, micro-batch by micro-batch; return the loss.

    Args:
        policy: any on-policy policy of SB3's, a `MazePolicy` if the rollouts are those of a `MapSampler`.
        terms: the batch.
        mazes: for rollouts of a `MapSampler`: prompts (B,) to walls and goals, see `MapSampler.mazes`.
    """
    parts = _step_losses(policy, terms) if mazes is None else _map_losses(policy, terms, mazes)
    total = 0.0
    for loss in parts:
        loss.backward()
        total += float(loss.detach())
    return total


def _surrogate(log_prob: Tensor, old: Tensor, gain: Tensor, loss: Tensor, clip_range: float | None) -> Tensor:
    """Sum of weight times log-probability, or of weight times clipped ratio.

    Args:
        log_prob: of actions under the policy.
        old: under the policy that sampled.
        gain: summed weights that are positive.
        loss: summed weights that are negative.
        clip_range: see `LossTerms`.
    """
    if clip_range is None:
        return ((gain + loss) * log_prob).sum()
    ratio = (log_prob - old).exp()
    return (gain * ratio.clamp(max=1 + clip_range) + loss * ratio.clamp(min=1 - clip_range)).sum()


def _map_losses(
    policy: ActorCriticPolicy, terms: LossTerms, mazes: Callable[[Tensor], tuple[Tensor, Tensor]]
) -> Iterator[Tensor]:
    assert isinstance(policy, MazePolicy)
    rollouts = terms.rollouts
    walls, goal = mazes(rollouts.prompts)
    height, width = walls.shape[1:]
    assert rollouts.squares is not None
    size = (len(rollouts.prompts), height, width, 4)
    place = (rollouts.owner[rollouts.step_owner] * height * width + rollouts.squares) * 4 + rollouts.actions
    step_weights = terms.weights[rollouts.step_owner]

    def spread(values: Tensor) -> Tensor:
        return torch.zeros(size, device=place.device).view(-1).index_add_(0, place, values).view(size)

    gain, loss = spread(step_weights.clamp(min=0)), spread(step_weights.clamp(max=0))
    old = torch.zeros(size, device=place.device).view(-1).scatter_(0, place, rollouts.log_probs).view(size)
    visits = spread(torch.full_like(step_weights, 1 / max(1, rollouts.num_steps))).sum(dim=-1)
    used = ((gain != 0) | (loss != 0)).flatten(1).any(dim=1)
    if terms.ent_coef or terms.critic_coef:
        used = rollouts.counts > 0
    for part in _cut(used.nonzero()[:, 0], min(MAZES_A_PASS, _most_mazes(policy, height * width))):
        log_probs, values = policy.maps(walls[part], goal[part])
        total = -_surrogate(log_probs, old[part], gain[part], loss[part], terms.clip_range)
        if terms.ent_coef:
            entropy = -(log_probs.exp() * log_probs).sum(dim=-1)
            total = total - terms.ent_coef * (visits[part] * entropy).sum()
        if terms.critic_coef:
            logits = values.flatten(1).gather(1, _begin(rollouts)[part][:, None])[:, 0]
            total = total + terms.critic_coef * _critic_loss(logits, rollouts, part)
        yield total


def _first_steps(rollouts: Rollouts) -> Tensor:
    """Place (R,) among all steps of each rollout's first one."""
    return torch.cumsum(rollouts.lengths, 0) - rollouts.lengths


def _begin(rollouts: Rollouts) -> Tensor:
    """Flat square (B,) on which the rollouts of each prompt begin; 0 for prompts without rollouts."""
    assert rollouts.squares is not None
    return torch.zeros_like(rollouts.counts).scatter_(0, rollouts.owner, rollouts.squares[_first_steps(rollouts)])


def _critic_loss(logits: Tensor, rollouts: Rollouts, part: Tensor) -> Tensor:
    """Cross-entropy of success logits with the success rates of some prompts, over the number of all sampled ones."""
    rate = rollouts.successes[part] / rollouts.counts[part]
    count = int((rollouts.counts > 0).sum())
    return functional.binary_cross_entropy_with_logits(logits, rate.float(), reduction="sum") / count


def _step_losses(policy: ActorCriticPolicy, terms: LossTerms) -> Iterator[Tensor]:
    rollouts = terms.rollouts
    step_weights = terms.weights[rollouts.step_owner]
    used = (
        torch.arange(rollouts.num_steps, device=step_weights.device) if terms.ent_coef else step_weights.nonzero()[:, 0]
    )
    size = STEPS_A_PASS
    if isinstance(policy, MazePolicy):  # each step costs the pass of a whole maze
        size = min(size, _most_mazes(policy, math.prod(policy.maze_size)))
    for part in _cut(used, size):
        _, log_prob, entropy = policy.evaluate_actions(_rows(rollouts.observations, part), rollouts.actions[part])
        weights = step_weights[part]
        total = -_surrogate(
            log_prob, rollouts.log_probs[part], weights.clamp(min=0), weights.clamp(max=0), terms.clip_range
        )
        if terms.ent_coef:
            surprise = -log_prob if entropy is None else entropy
            total = total - terms.ent_coef * surprise.sum() / rollouts.num_steps
        yield total
    if terms.critic_coef:
        sampled = (rollouts.counts > 0).nonzero()[:, 0]
        first_rollout = torch.cumsum(rollouts.counts, 0) - rollouts.counts
        begin = _first_steps(rollouts)
        for part in _cut(sampled, min(MAZES_A_PASS, size)):
            logits = success_logits(policy, _rows(rollouts.observations, begin[first_rollout[part]]))
            yield terms.critic_coef * _critic_loss(logits, rollouts, part)


def _most_mazes(policy: MazePolicy, squares: int) -> int:
    """How many mazes of so many squares a pass may take; a hidden state has a position for four squares."""
    return max(1, MAX_STATES // (policy.channels * policy.iterations * (squares // 4 + 1)))


def _cut(indices: Tensor, size: int) -> tuple[Tensor, ...]:
    return indices.split(size) if len(indices) else ()


def _rows(observations: Any, part: Tensor) -> Any:
    return {k: v[part] for k, v in observations.items()} if isinstance(observations, dict) else observations[part]
