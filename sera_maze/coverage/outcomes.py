"""A fixed number of rollouts for each maze of a pool, to judge a policy by: what `evaluate` counts and draws."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from sera_maze.coverage.solutions import distinct_solutions_by_prompt
from sera_maze.envs.layouts.moves import flat_steps
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.pool import MazePool
from sera_maze.exact.probability import success_probability
from sera_maze.policies.maze import MazePolicy
from sera_maze.sampling.randomness import rollout_keys
from sera_maze.sampling.rollouts import Rollouts, owners
from sera_maze.sampling.sampling import MapSampler, StepSampler
from sera_maze.sampling.walking import Board, walk

# Training numbers its updates from 0, so it never draws the random numbers of this one, whatever its seed's value.
EVALUATION_UPDATE = 2**62
# Both bound memory: about 100 MB and 500 MB in the worst case.
_STEPS_A_PASS = 2**22
_OBSERVED_VALUES_A_PASS = 2**27
_MAZES_A_PASS = 256


class Outcomes(NamedTuple):
    """n rollouts for each of B mazes; rollouts lie maze by maze, their steps one after another, S in all.

    Attributes:
        prompts: (B,) int64, mazes of the pool.
        success: (B, n) bool.
        lengths: (B, n) int64, steps.
        squares: (S,) int64, flat square (row * W + column) where each step began; None if it is not known.
        probability: (B,) float64, exact success probability; None if it was not asked for.
    """

    prompts: NDArray[np.int64]
    success: NDArray[np.bool_]
    lengths: NDArray[np.int64]
    squares: NDArray[np.int64] | None
    probability: NDArray[np.float64] | None

    def paths(self, pool: MazePool) -> list[NDArray[np.int64]]:
        """The B * n paths, each (L, 2) int64, (row, column): the squares where steps began, and the goal if reached."""
        assert self.squares is not None
        width, goal = pool.size[1], pool.goal[self.prompts]
        cells = np.stack(divmod(self.squares, width), axis=1)
        parts = np.split(cells, np.cumsum(self.lengths)[:-1])
        n = self.success.shape[1]
        return [
            np.concatenate([part, goal[r // n][None]]) if done else part
            for r, (part, done) in enumerate(zip(parts, self.success.ravel(), strict=True))
        ]

    def distinct_solutions(self, pool: MazePool) -> NDArray[np.int64] | None:
        """(B,) int64: different successful paths of each maze; None if squares are not known."""
        if self.squares is None:
            return None
        solved, lengths = self.success.ravel(), self.lengths.ravel()
        owner = np.repeat(np.arange(len(self.prompts)), self.success.shape[1])[solved]
        goals = pool.goal[self.prompts] @ (pool.size[1], 1)
        steps = lengths[solved]
        padded = np.zeros((len(steps), int(steps.max(initial=0)) + 1), np.int32)
        padded[np.arange(padded.shape[1]) < steps[:, None]] = self.squares[np.repeat(solved, lengths)]
        padded[np.arange(len(steps)), steps] = goals[owner]
        everyone = np.ones(len(steps), bool)
        return distinct_solutions_by_prompt(padded, steps + 1, everyone, owner, len(self.prompts), goals=goals)


def sample_outcomes(
    policy: ActorCriticPolicy, pool: MazePool, prompts: NDArray[Any], num_samples: int, rules: MazeRules, seed: int,
    *, env: VecEnv | None = None, exact: bool = False,
) -> Iterator[Outcomes]:  # fmt: skip
    """Sample ``num_samples`` rollouts of each of ``prompts``, some mazes at a time, in order.

    The random numbers are keyed by (seed, `EVALUATION_UPDATE`, prompt, rollout number): rollout j of a maze is the same
    however many mazes and rollouts are sampled.

    Args:
        policy: a `MazePolicy`, or with ``env`` any that `StepSampler` can step.
        pool: the mazes.
        prompts: (B,) integers, mazes of the pool.
        num_samples: n, at least 1.
        rules: those of an episode.
        seed: of the rollouts.
        env: environments over the pool's mazes, to step instead of walking through the policy's maps.
        exact: whether to compute the exact success probability, of a `MazePolicy`, on plain mazes.
    """
    chosen = torch.from_numpy(np.array(prompts, np.int64))
    with torch.no_grad(), _evaluation_mode(policy):
        if env is not None:
            yield from _stepped(policy, pool, chosen, num_samples, rules, seed, env, exact)
        else:
            assert isinstance(policy, MazePolicy)
            yield from _walked(policy, pool, chosen.to(policy.device), num_samples, rules, seed, exact)


@contextmanager
def _evaluation_mode(policy: ActorCriticPolicy) -> Iterator[None]:
    was_training = policy.training
    policy.set_training_mode(False)
    try:
        yield
    finally:
        policy.set_training_mode(was_training)


def _walked(
    policy: MazePolicy, pool: MazePool, prompts: Tensor, num_samples: int, rules: MazeRules, seed: int, exact: bool
) -> Iterator[Outcomes]:
    """Walk through the policy's maps: as `MapSampler`, but the maps serve the exact probabilities as well."""
    sampler = MapSampler(pool, rules, seed)
    size = min(_MAZES_A_PASS, max(1, _STEPS_A_PASS // (num_samples * rules.horizon)))
    for part in prompts.split(size):
        walls, goal = sampler.mazes(part)
        log_probs = policy.log_prob_map(walls, goal)  # (B, H, W, 4)
        owner, number = owners(torch.full_like(part, num_samples))
        keys = rollout_keys(seed, EVALUATION_UPDATE, part[owner], number)
        walks = walk(log_probs, sampler.board(part), owner, keys)
        index, probability = part.cpu().numpy(), None
        if exact:
            start = pool.start[index]
            chances = success_probability(log_probs, walls, start, goal, rules.horizon, rules.on_wall)
            probability = chances.cpu().numpy()
        yield Outcomes(
            index, _table(walks.success, num_samples), _table(walks.lengths, num_samples),
            walks.squares.cpu().numpy(), probability,
        )  # fmt: skip


def _stepped(
    policy: ActorCriticPolicy, pool: MazePool, prompts: Tensor, num_samples: int, rules: MazeRules, seed: int,
    env: VecEnv, exact: bool,
) -> Iterator[Outcomes]:  # fmt: skip
    sampler, boards = StepSampler(env, seed), MapSampler(pool, rules, seed)
    values = spaces.flatdim(env.observation_space) * rules.horizon * num_samples  # kept of one maze
    for part in prompts.split(max(1, _OBSERVED_VALUES_A_PASS // values)):
        rollouts = sampler.sample(policy, part, torch.full_like(part, num_samples), EVALUATION_UPDATE)
        squares, probability = replayed_squares(rollouts, boards.board(part)), None
        if exact:
            assert isinstance(policy, MazePolicy)
            chances = success_probability(policy, pool, rules.horizon, rules.on_wall, prompts=part)
            probability = chances.cpu().numpy()
        yield Outcomes(
            part.numpy(), _table(rollouts.success, num_samples), _table(rollouts.lengths, num_samples),
            None if squares is None else squares.numpy(), probability,
        )  # fmt: skip


def _table(values: Tensor, num_samples: int) -> NDArray[Any]:
    return values.cpu().numpy().reshape(-1, num_samples)


def replayed_squares(rollouts: Rollouts, board: Board) -> Tensor | None:
    """Flat square (S,) int64 where each action was taken, by making the moves again in the plain mazes.

    Returns None where that does not give the rollouts' own ends: something between policy and maze changed the moves.
    """
    actions, lengths, owner = rollouts.actions, rollouts.lengths, rollouts.owner
    if actions.ndim != 1 or actions.is_floating_point() or bool(((actions < 0) | (actions > 3)).any()):
        return None
    moves = torch.tensor(flat_steps(board.width))
    first = torch.cumsum(lengths, 0) - lengths
    present, goal = board.start[owner], board.goal[owner]  # (R,)
    squares = torch.empty_like(actions, dtype=torch.int64)
    for step in range(int(lengths.max())):
        alive = (lengths > step).nonzero()[:, 0]
        place = first[alive] + step
        squares[place] = present[alive]
        there = present[alive] + moves[actions[place]]
        hit = board.walls[owner[alive], there] > 0
        present[alive] = torch.where(hit, present[alive], there)
        ended = (present[alive] == goal[alive]) | (hit & (not board.stay)) | (step + 1 == board.horizon)
        if not torch.equal(ended, lengths[alive] == step + 1):
            return None
    return squares if torch.equal(present == goal, rollouts.success) else None
