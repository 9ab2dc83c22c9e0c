"""The policies that `alignment_study` measures: snapshots along a training, each with a critic of its own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.envs.play.maze import MazeEnv
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.fresh import FreshMazes
from sera_maze.exact.probability import success_probability
from sera_maze.policies.maze import MazePolicy, as_maze_policy
from sera_maze.policies.network import MazeNet
from sera_maze.sampling.maps import MapSampler
from sera_maze.sampling.plain_mazes import PlainMazes
from sera_maze.sampling.rollouts import Rollouts
from sera_maze.studies.extras import scipy_stats

# Mazes that no other part of the study sees: of the watch over the training, and of the critics.
_FIRST_WATCHED, _NUM_WATCHED, _FIRST_OF_CRITIC = 2**29, 256, 2**34
_CRITIC_ROLLOUTS = 2**61 + 2**41  # random numbers
_CRITIC_BATCH, _SAMPLES, _CRITIC_RATE, _WARMUP = 32, 32, 3e-3, 20

Parameters = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Training:
    """What fixes the trainings and critics of the study.

    Args:
        levels: median success probabilities.
        prompts: mazes of a batch.
        channels: of the policy.
        critic_updates: with which the critic of each level is fitted, further ones each.
        seed: of mazes, parameters and rollouts.
    """

    levels: tuple[float, ...]
    prompts: int
    channels: int
    critic_updates: int
    seed: int

    def mazes(self, side: int) -> FreshMazes:
        """Mazes of side x side squares."""
        return FreshMazes((side, side), seed=self.seed)

    def model(self, side: int) -> MaxRL:
        """An untrained model with a `MazePolicy`."""
        return MaxRL(
            "MazePolicy", MazeEnv(self.mazes(side)), learning_rate=3e-4, prompts_per_batch=self.prompts,
            success="critic", critic_coef=0.5, policy_kwargs={"channels": self.channels}, seed=self.seed, device="cpu",
        )  # fmt: skip


class Snapshot(NamedTuple):
    """A policy that is measured.

    Attributes:
        side: of its mazes.
        level: median success probability that it was to reach.
        policy: its parameters.
        critic: those of a `MazeNet` whose values are logits of its success.
    """

    side: int
    level: float
    policy: Parameters
    critic: Parameters

    def restored(self, training: Training) -> tuple[MazePolicy, MazeNet]:
        """The policy, in evaluation mode, and the critic."""
        policy = as_maze_policy(training.model(self.side).policy)
        policy.load_state_dict(_tensors(self.policy))
        policy.set_training_mode(False)
        critic = MazeNet(training.channels)
        critic.load_state_dict(_tensors(self.critic))
        return policy, critic


def _tensors(parameters: Parameters) -> dict[str, Tensor]:
    return {name: torch.from_numpy(value) for name, value in parameters.items()}


def _arrays(module: torch.nn.Module) -> Parameters:
    return {name: value.detach().numpy().copy() for name, value in module.state_dict().items()}


def snapshots(training: Training, side: int) -> tuple[list[Snapshot], list[str]]:
    """Train on mazes of one size; the policy and a critic at each level, and what to tell about them."""
    found: list[Snapshot] = []
    lines: list[str] = []
    critic = None
    mazes = training.mazes(side)
    for level, policy in policies_along_a_training(training, side, lines.append):
        # A critic goes on from that of the level before: what makes a maze hard changes slowly.
        critic, done = copy.deepcopy(policy.net) if critic is None else critic, len(found) * training.critic_updates
        fit_critic(critic, policy, mazes, training.seed, range(done, done + training.critic_updates))
        lines.append(f"{side}x{side}, median p near {level:g}: {_how_good(critic, policy, mazes)}")
        found.append(Snapshot(side, level, _arrays(policy), _arrays(critic)))
    return found, lines


def policies_along_a_training(
    training: Training, side: int, tell: Callable[[str], None]
) -> Iterator[tuple[float, MazePolicy]]:
    """A short warm start and MaxRL with a critic; the policy when its median p first reaches each level, in turn.

    The median is over mazes that are not measured. A level that is passed before training begins is measured on the
    policy as it is then.
    """
    model = training.model(side)
    policy = as_maze_policy(model.policy)
    mazes = training.mazes(side)

    def median() -> float:
        return float(_watched_probability(policy, mazes).median())

    imitated = 0
    while median() < min(training.levels) and imitated < 2000:
        _imitate(model, imitated)
        imitated += 5
    tell(f"{side}x{side}: {imitated} updates of imitation, median p {median():.3f}")
    for level in sorted(training.levels):
        updates = model._n_updates
        while median() < level and updates < 5000:
            updates += 2
            model.learn(2**62, total_updates=updates, reset_num_timesteps=False)
        tell(f"{side}x{side}: {updates} updates of MaxRL, median p {median():.3f}")
        yield level, policy


def _imitate(model: MaxRL, done: int) -> None:
    """Five more updates of imitation, each time of other mazes."""
    usual, model.seed = model.seed, (model.seed or 0) + done
    try:
        model.warm_start(5)
    finally:
        model.seed = usual


@torch.no_grad()
def _watched_probability(policy: MazePolicy, mazes: FreshMazes) -> Tensor:
    rules = MazeRules(mazes.size)
    watched = torch.arange(_FIRST_WATCHED, _FIRST_WATCHED + _NUM_WATCHED)
    return success_probability(policy, mazes, rules.horizon, rules.on_wall, prompts=watched)


def fit_critic(critic: MazeNet, policy: MazePolicy, mazes: FreshMazes, seed: int, updates: range) -> None:
    """Fit the values of a network to sampled outcomes of a policy, which stays as it is.

    Each update samples 32 rollouts of each of 32 fresh mazes. The loss is the cross-entropy of the logits of success
    with success rates: from the start of each maze, and from each square that its rollouts have come to, over those
    that came to it. For a memoryless policy both are probabilities of success from there. (From the start alone the
    network learns almost nothing in this time: squares near the goal are what it understands first.)

    Args:
        critic: changed in place; all of its parameters are.
        policy: samples.
        mazes: where the mazes are from.
        seed: of the rollouts.
        updates: numbers of the updates, which fix their mazes.
    """
    sampler = MapSampler(PlainMazes(mazes, MazeRules(mazes.size)), seed)
    optimizer = torch.optim.Adam(critic.parameters(), lr=_CRITIC_RATE)
    counts = torch.full((_CRITIC_BATCH,), _SAMPLES)
    policy.set_training_mode(False)
    for number, update in enumerate(updates):
        for group in optimizer.param_groups:
            group["lr"] = _CRITIC_RATE * min(1.0, (number + 1) / _WARMUP) * (1 - number / len(updates))
        first = _FIRST_OF_CRITIC + update * _CRITIC_BATCH
        prompts = torch.arange(first, first + _CRITIC_BATCH)
        rollouts = sampler.sample(policy, prompts, counts, _CRITIC_ROLLOUTS)
        optimizer.zero_grad()
        walls, start, goal = chosen = sampler.look_up(prompts)
        logits = critic(walls, goal, policy.iterations)[1].flatten(1)  # (B, H * W)
        _critic_loss(logits, rollouts, sampler.squares(rollouts), chosen.squares(start)).backward()
        torch.nn.utils.clip_grad_norm_(critic.parameters(), 1.0)
        optimizer.step()


def _critic_loss(logits: Tensor, rollouts: Rollouts, squares: Tensor, start: Tensor) -> Tensor:
    """See `fit_critic`, for logits (B, H * W), squares (S,) of the steps and starts (B,)."""
    place = rollouts.owner[rollouts.step_owner] * logits.shape[1] + squares  # (S,)
    visits = torch.bincount(place, minlength=logits.numel())
    wins = torch.zeros(logits.numel(), dtype=torch.float32).index_add_(
        0, place, rollouts.success.float()[rollouts.step_owner]
    )
    seen = visits.nonzero()[:, 0]
    loss = functional.binary_cross_entropy_with_logits
    return loss(logits.gather(1, start[:, None])[:, 0], rollouts.successes / rollouts.counts) + loss(
        logits.flatten()[seen], wins[seen] / visits[seen]
    )


@torch.no_grad()
def critic_probability(critic: MazeNet, policy: MazePolicy, mazes: FreshMazes, prompts: Tensor) -> Tensor:
    """Success probabilities (B,) float64 of prompts (B,), as a critic estimates them."""
    sampler = MapSampler(PlainMazes(mazes, MazeRules(mazes.size)), 0)
    walls, start, goal = chosen = sampler.look_up(prompts)
    values = critic(walls, goal, policy.iterations)[1].flatten(1)
    return values.gather(1, chosen.squares(start)[:, None])[:, 0].double().sigmoid()


def rank_correlation(one: Tensor, other: Tensor) -> float:
    """Spearman's correlation of two (B,) tensors, equal values with their mean rank; NaN if all of one are equal.

    Raises:
        ValueError: if scipy is missing.
    """
    if not (one.max() > one.min() and other.max() > other.min()):
        return float("nan")
    return float(scipy_stats().spearmanr(one.cpu(), other.cpu()).statistic)


def _how_good(critic: MazeNet, policy: MazePolicy, mazes: FreshMazes) -> str:
    watched = torch.arange(_FIRST_WATCHED, _FIRST_WATCHED + _NUM_WATCHED)
    guessed, exact = critic_probability(critic, policy, mazes, watched), _watched_probability(policy, mazes)
    loss = functional.binary_cross_entropy
    constant = exact.mean().expand_as(exact)
    return (
        f"the critic's rank correlation with exact p is {rank_correlation(guessed, exact):.2f}, its cross-entropy "
        f"{float(loss(guessed, exact)):.3f} (of a constant {float(loss(constant, exact)):.3f}, of exact p "
        f"{float(loss(exact.clamp(max=1), exact.clamp(max=1))):.3f})"
    )
