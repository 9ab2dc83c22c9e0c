"""`MapSampler`: walks through the tables of a policy that gives the probabilities of a whole maze in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from sera_maze.envs.layouts.distances import distances_from, shortest_actions
from sera_maze.exact.probability import success_probability
from sera_maze.policies.maze import MazePolicy, as_maze_policy
from sera_maze.sampling.loss import MAZES_A_PASS, LossTerms, cut
from sera_maze.sampling.plain_mazes import PlainMazes, are_mazes, plain_mazes
from sera_maze.sampling.protocol import Report, Sampler, report_rollouts
from sera_maze.sampling.randomness import rollout_keys
from sera_maze.sampling.rollouts import Rollouts, owners
from sera_maze.sampling.solution_keys import path_keys
from sera_maze.sampling.walking import FlatMazes, walk

# Methods between a policy's map and the actions that are taken.
_LOOKED_UP = (
    "forward", "get_distribution", "evaluate_actions", "log_prob_map", "success_logits", "_distribution", "_look_up",
)  # fmt: skip
_STEPS_A_PASS = 2**22  # of rollouts, about 100 MB
_SAMPLED_A_PASS = 256  # mazes in a pass without a gradient


class _Batch(NamedTuple):
    """The mazes of B prompts, on the device of these."""

    walls: Tensor  # (B, H, W) bool
    start: Tensor  # (B, 2) int64
    goal: Tensor  # (B, 2) int64

    def squares(self, cells: Tensor) -> Tensor:
        """Cells (..., 2) as flat squares (...), row * W + column."""
        return cells[..., 0] * self.walls.shape[2] + cells[..., 1]


class _States(NamedTuple):
    """What `MapSampler` keeps of a batch: its mazes, the policy's maps, and where each step began."""

    mazes: _Batch
    log_probs: Tensor  # (B, H, W, 4) float32
    squares: Tensor  # (S,) int64, flat


class MapSampler(Sampler):
    """Samples mazes from a `MazePolicy` without stepping: one forward pass a maze, then walks through the table.

    The loss is summed up on the squares of each maze first, so that a maze costs one pass however many rollouts it has.

    Args:
        mazes: the mazes and the rules of their environment.
        seed: of the training.
    """

    activity = "Walking through maps of the policy"
    is_exact = True
    can_imitate = True

    def __init__(self, mazes: PlainMazes, seed: int):
        self.pool, self.rules = mazes
        self.seed = seed
        self.num_prompts, self.prompts_digest = len(self.pool), self.pool.digest
        self._looked_up: tuple[Tensor, _Batch] | None = None

    def look_up(self, prompts: Tensor) -> _Batch:
        """The mazes of prompts (B,). Those of the last batch are kept, since fresh ones are made when asked for."""
        if self._looked_up is None or not _same(self._looked_up[0], prompts):
            chosen = self.pool.arrays(prompts.cpu().numpy())
            tensors = (
                torch.from_numpy(array).to(prompts.device) for array in (chosen.walls, chosen.start, chosen.goal)
            )
            self._looked_up = prompts.clone(), _Batch(*tensors)  # the caller may change its tensor
        return self._looked_up[1]

    def sample(
        self, policy: ActorCriticPolicy, prompts: Tensor, counts: Tensor, update: int, report: Report | None = None
    ) -> Rollouts:
        """See `Sampler.sample`; ``policy`` must be a `MazePolicy`.

        Raises:
            ValueError: if the policy's parameters are not finite.
        """
        mazes = self.look_up(prompts)
        log_probs, _ = _maps(policy, mazes)
        if log_probs.isnan().any():
            raise ValueError(
                "the policy gives NaN as log-probabilities: its parameters are not finite; go back to a checkpoint"
            )
        owner, number = owners(counts)
        walks = walk(log_probs, self.flat(mazes), owner, rollout_keys(self.seed, update, prompts[owner], number))
        flat = log_probs.flatten(1, 2)  # (B, H * W, 4)
        place = torch.repeat_interleave(owner, walks.lengths) * flat.shape[1] + walks.squares  # (S,)
        entropies = -(flat.exp() * flat).sum(dim=-1).flatten()[place]
        taken = flat.flatten()[place * flat.shape[2] + walks.actions]
        states = _States(mazes, log_probs, walks.squares)
        rollouts = Rollouts(
            prompts, counts, owner, walks.success, walks.lengths, walks.actions, taken, entropies, states
        )
        if report is not None:
            report_rollouts(rollouts, report)
        return rollouts

    def most_prompts(self, num_samples: int) -> int:
        """See `Sampler.most_prompts`."""
        return min(_SAMPLED_A_PASS, max(1, _STEPS_A_PASS // (num_samples * self.rules.horizon)))

    def flat(self, mazes: _Batch) -> FlatMazes:
        """The walkers' view of mazes."""
        walls = mazes.walls.flatten(1).to(torch.uint8)
        start, goal = mazes.squares(mazes.start), mazes.squares(mazes.goal)
        return FlatMazes(walls, start, goal, mazes.walls.shape[2], self.rules.horizon, self.rules.on_wall == "stay")

    def losses(self, policy: ActorCriticPolicy, terms: LossTerms) -> Iterator[Tensor]:
        """See `Sampler.losses`."""
        maze_policy, rollouts = as_maze_policy(policy), terms.rollouts
        mazes, _, squares = _states(rollouts)
        size = (*mazes.walls.shape, 4)
        first_square = rollouts.owner[rollouts.step_owner] * mazes.walls[0].numel()  # (S,)
        place = (first_square + squares) * 4 + rollouts.actions  # (S,) in a flat (B, H, W, 4) table
        step_weights = terms.weights[rollouts.step_owner]

        def spread(values: Tensor) -> Tensor:
            table = torch.zeros(size, dtype=values.dtype, device=place.device)
            return table.view(-1).index_add_(0, place, values).view(size)

        gain, loss = spread(step_weights.clamp(min=0)), spread(step_weights.clamp(max=0))
        old = torch.zeros(size, dtype=rollouts.log_probs.dtype, device=place.device)
        old.view(-1).scatter_(0, place, rollouts.log_probs)
        visits = spread(torch.full_like(step_weights, 1 / max(1, terms.totals.steps))).sum(dim=-1)
        used = ((gain != 0) | (loss != 0)).flatten(1).any(dim=1)
        if terms.ent_coef or terms.critic_coef:
            used = rollouts.counts > 0
        most = maze_policy.most_mazes(*mazes.walls.shape[1:])
        for part in cut(used.nonzero()[:, 0], min(MAZES_A_PASS, most)):
            log_probs, values = maze_policy.maps(mazes.walls[part], mazes.goal[part])
            total = -terms.surrogate(log_probs, old[part], gain[part], loss[part])
            if terms.ent_coef:
                entropy = -(log_probs.exp() * log_probs).sum(dim=-1)
                total = total - terms.ent_coef * (visits[part] * entropy).sum()
            if terms.critic_coef:
                begin = mazes.squares(mazes.start[part])[:, None]
                total = total + terms.critic_loss(values.flatten(1).gather(1, begin)[:, 0], part)
            yield total

    def success_logits(self, policy: ActorCriticPolicy, prompts: Tensor) -> Tensor:
        """See `Sampler.success_logits`."""
        mazes = self.look_up(prompts)
        _, values = _maps(policy, mazes)
        return values.flatten(1).gather(1, mazes.squares(mazes.start)[:, None])[:, 0]

    def success_probability(
        self, policy: ActorCriticPolicy, prompts: Tensor, rollouts: Rollouts | None = None
    ) -> Tensor:
        """See `Sampler.success_probability`."""
        mazes = self.look_up(prompts) if rollouts is None else _states(rollouts).mazes
        log_probs = _maps(policy, mazes)[0] if rollouts is None else _states(rollouts).log_probs
        with torch.no_grad():
            return success_probability(log_probs, *mazes, self.rules.horizon, self.rules.on_wall)

    def imitation_loss(self, policy: ActorCriticPolicy, prompts: Tensor) -> Tensor:
        """Mean cross-entropy () in nats a square with the moves of shortest paths, uniform among ties.

        Args:
            policy: a `MazePolicy`.
            prompts: (B,) int64, repeated or not.
        """
        unique, back = np.unique(prompts.cpu().numpy(), return_inverse=True)
        mazes = self.pool.arrays(unique)
        targets, walls, goal = (
            torch.from_numpy(array[back]).to(prompts.device)
            for array in (shortest_actions(mazes.walls, mazes.goal), mazes.walls, mazes.goal)
        )
        maze_policy = as_maze_policy(policy)
        if maze_policy.reach is not None:
            distances = torch.from_numpy(distances_from(mazes.walls, mazes.goal)[back]).to(prompts.device)  # (B, H, W)
            targets = targets * (distances <= maze_policy.reach)[..., None]
        return -(targets * maze_policy.log_prob_map(walls, goal)).sum() / targets.sum()

    def solutions(self, rollouts: Rollouts) -> NDArray[np.uint64]:
        """See `Sampler.solutions`: the squares of a path."""
        return path_keys(_states(rollouts).squares.cpu().numpy(), rollouts.lengths.cpu().numpy())

    def squares(self, rollouts: Rollouts) -> Tensor:
        """See `Sampler.squares`."""
        return _states(rollouts).squares


def fit_map(policy: BasePolicy, source: VecEnv | PlainMazes, seed: int) -> MapSampler | str:
    """A `MapSampler` for a policy and environments, or the reason why it does not fit."""
    if not isinstance(policy, MazePolicy):
        if isinstance(source, VecEnv) and not are_mazes(source):
            return "each step asks the policy, which is the usual way for environments that are not plain mazes"
        return f"the policy, {type(policy).__name__}, is not a MazePolicy"
    for name in _LOOKED_UP:
        if getattr(type(policy), name) is not getattr(MazePolicy, name):
            return f"{type(policy).__name__} has a method {name} of its own, which the map sampler would skip"
    mazes = plain_mazes(source) if isinstance(source, VecEnv) else source
    return mazes if isinstance(mazes, str) else MapSampler(mazes, seed)


def _maps(policy: ActorCriticPolicy, mazes: _Batch) -> tuple[Tensor, Tensor]:
    """Log-probabilities (B, H, W, 4) and success logits (B, H, W), without their graph."""
    maze_policy = as_maze_policy(policy)
    with torch.no_grad():
        parts = zip(mazes.walls.split(_SAMPLED_A_PASS), mazes.goal.split(_SAMPLED_A_PASS), strict=True)
        log_probs, values = zip(*(maze_policy.maps(*part) for part in parts), strict=True)
        return torch.cat(log_probs), torch.cat(values)


def _states(rollouts: Rollouts) -> _States:
    if not isinstance(rollouts.states, _States):
        raise TypeError("the rollouts are those of another sampler; give them to the one that made them")
    return rollouts.states


def _same(one: Tensor, other: Tensor) -> bool:
    return one is other or (one.device == other.device and torch.equal(one, other))
