"""The bench of `alignment_study`: one batch of mazes and one policy, on which all estimators are measured."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sera_maze.allocation.advantages import attenuation, group_advantages
from sera_maze.allocation.allocation import allocate
from sera_maze.allocation.others import allocate_knapsack, allocate_posterior, allocate_vip
from sera_maze.allocation.success import HIGHEST, LOWEST
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.fresh import FreshMazes
from sera_maze.exact.probability import success_probability
from sera_maze.policies.maze import MazePolicy
from sera_maze.policies.network import MazeNet
from sera_maze.sampling.maps import MapSampler
from sera_maze.sampling.plain_mazes import PlainMazes
from sera_maze.sampling.randomness import rollout_keys
from sera_maze.sampling.rollouts import owners
from sera_maze.sampling.walking import FlatMazes, walk
from sera_maze.studies.alignment.policies import critic_probability, rank_correlation

# Random numbers of the rollouts, and of those that a history was learnt from.
_ROLLOUTS, _HISTORY = 2**61, 2**61 + 2**40
_PRIOR = 0.5  # of a history, for successes and for failures


class Estimator(NamedTuple):
    """A way to estimate the gradient.

    Attributes:
        allocation: "uniform"; SERA's with p that is "exact", of a "history" or of the "critic", or with the "posterior"
            of the history; or, with exact p, "vip" or "knapsack". The history is of N0 earlier rollouts of each maze
            with the same policy; that of a training is older.
        advantage: see `group_advantages`.
        correction: whether rollouts of prompt q weigh N0 / N_q.
    """

    allocation: str
    advantage: str = "maxrl"
    correction: bool = True


ESTIMATORS = {
    "MaxRL, uniform": Estimator("uniform"),
    "SERA, exact p": Estimator("exact"),
    "SERA, history": Estimator("history"),
    "SERA, posterior": Estimator("posterior"),
    "SERA, critic": Estimator("critic"),
    "VIP, exact p": Estimator("vip"),
    "Knapsack, exact p": Estimator("knapsack"),
    "SERA, exact p, no correction": Estimator("exact", correction=False),
    "success average": Estimator("uniform", "success_average"),
    "RLOO": Estimator("uniform", "rloo"),
    "GRPO": Estimator("uniform", "grpo"),
    "REINFORCE": Estimator("uniform", "reinforce"),
}
UNIFORM, EXACT = "MaxRL, uniform", "SERA, exact p"


class Row(NamedTuple):
    """One estimator on one batch of mazes, over D draws of g.

    Attributes:
        side: of the mazes.
        level: median success probability that the policy was to reach.
        median_p: median success probability of the batch's mazes.
        batch: number of the batch.
        budget: N0.
        estimator: a name of `ESTIMATORS`.
        cosine: mean over the draws of cos(g, exact).
        spread: standard deviation of these cosines.
        mean_cosine: cosine of the expected g with the exact gradient, estimated: what bias leaves of the direction.
        variance: expected squared distance of g from its mean, over the squared norm of that mean, estimated.
        norm_ratio: norm of the expected g over that of the exact gradient, estimated.
        attenuation: mean over the mazes of the factor that the estimator's advantage puts before grad log p, see
            `sera_maze.allocation.advantages.attenuation`; 0 for mazes without rollouts.
        mixed: share of the mazes whose group had a success and a failure.
        rank_correlation: of the success probabilities that the allocation used with the exact ones, mean over the
            draws; NaN for uniform shares.
    """

    side: int
    level: float
    median_p: float
    batch: int
    budget: int
    estimator: str
    cosine: float
    spread: float
    mean_cosine: float
    variance: float
    norm_ratio: float
    attenuation: float
    mixed: float
    rank_correlation: float = float("nan")


class Outcomes(NamedTuple):
    """The rollouts of one allocation: R of them with S steps in all.

    Attributes:
        counts: (B,) int64, rollouts of each maze.
        successes: (B,) int64.
        owner: (R,) int64, the maze of each rollout.
        success: (R,) bool.
        rollout: (S,) int64, the rollout of each step.
        place: (S,) int64, where in a flat (B, H, W, 4) table the step is.
    """

    counts: Tensor
    successes: Tensor
    owner: Tensor
    success: Tensor
    rollout: Tensor
    place: Tensor


class Bench:
    """One batch of mazes and one policy: exact quantities, and gradients of weighted log-probabilities.

    Args:
        policy: the policy.
        mazes: where the prompts are from.
        prompts: (B,) int64.
        seed: of the rollouts.
        critic: gives the logits of success; None: the policy's own network.

    Attributes:
        probability: (B,) float64, exact.
        critic: (B,) float64, the critic's estimate of it.
        log_probs: (B, H, W, 4) float32, what the policy does.
        exact: (P,) float64, the exact gradient of (1/B) sum_q log p_q for all P parameters.
    """

    def __init__(
        self, policy: MazePolicy, mazes: FreshMazes, prompts: Tensor, seed: int, critic: MazeNet | None = None
    ):
        self.policy, self.prompts, self.seed = policy, prompts, seed
        rules = MazeRules(mazes.size)
        chosen = mazes.arrays(prompts.numpy())
        sampler = MapSampler(PlainMazes(mazes, rules), seed)
        self.flat: FlatMazes = sampler.flat(sampler.look_up(prompts))
        policy.set_training_mode(False)
        self.critic = critic_probability(policy.net if critic is None else critic, policy, mazes, prompts)
        self.walls, self.goal = torch.from_numpy(chosen.walls), torch.from_numpy(chosen.goal)
        with torch.no_grad():
            self.log_probs = policy.log_prob_map(self.walls, self.goal)
        arguments = (chosen.walls, chosen.start, chosen.goal, rules.horizon, rules.on_wall)
        table = self.log_probs.clone().requires_grad_()
        chances = success_probability(table, *arguments)
        self.probability = chances.detach()
        (slope,) = torch.autograd.grad(chances.clamp(min=LOWEST).log().mean(), table)
        self.exact = self.gradients(slope[None])[0]

    def gradients(self, weights: Tensor) -> Tensor:
        """(D, P) float64: gradients of sum(weights[d] * log_probs) for weights (D, B, H, W, 4)."""
        # Mazes without weight in all draws, such as those that nobody solves, are left out of the passes.
        used = (weights != 0).flatten(2).any(dim=2).any(dim=0)
        parameters = list(self.policy.net.parameters())
        found = torch.zeros(len(weights), sum(value.numel() for value in parameters), dtype=torch.float64)
        if used.any():
            log_probs = self.policy.log_prob_map(self.walls[used], self.goal[used])
            for row, weight in zip(found, weights[:, used].to(log_probs.dtype), strict=True):
                parts = torch.autograd.grad(log_probs, parameters, weight, retain_graph=True)
                row.copy_(torch.cat([part.flatten() for part in parts]))
        return found

    def shares(self, allocation: str, budget: int, draw: int) -> tuple[Tensor, Tensor | None]:
        """Rollouts (B,) of each maze, B * budget in all, and the success probabilities (B,) that they are made from."""
        total, most = budget * len(self.prompts), 4 * budget
        if allocation == "uniform":
            return torch.full_like(self.prompts, budget), None
        if allocation in ("vip", "knapsack"):
            chances = self.probability.clamp(LOWEST, HIGHEST)
            share = allocate_vip if allocation == "vip" else allocate_knapsack
            return share(chances, total, n_max=most).counts, chances
        if allocation in ("history", "posterior"):
            earlier = self.sample(torch.full_like(self.prompts, budget), _HISTORY + draw).successes.double()
            won, lost = earlier + _PRIOR, budget - earlier + _PRIOR
            chances = won / (won + lost)
            if allocation == "posterior":
                return allocate_posterior(won, lost, total, n_max=most).counts, chances
        else:
            chances = self.probability if allocation == "exact" else self.critic
        return allocate(chances.clamp(LOWEST, HIGHEST), total, n_max=most).counts, chances

    def sample(self, counts: Tensor, update: int) -> Outcomes:
        """Sample counts[q] rollouts of each maze."""
        owner, number = owners(counts)
        keys = rollout_keys(self.seed, update, self.prompts[owner], number)
        walks = walk(self.log_probs, self.flat, owner, keys)
        successes = torch.zeros_like(counts).index_add_(0, owner, walks.success.long())
        rollout = torch.repeat_interleave(torch.arange(len(owner)), walks.lengths)
        squares = self.log_probs.shape[1] * self.log_probs.shape[2]
        place = (owner[rollout] * squares + walks.squares) * 4 + walks.actions
        return Outcomes(counts, successes, owner, walks.success, rollout, place)

    def measure(self, budget: int, draws: int, side: int, level: float, batch: int) -> list[Row]:
        """Every estimator at one budget."""
        kept: dict[str, list[Tensor]] = {name: [] for name in ESTIMATORS}
        seen: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ESTIMATORS}
        for draw in range(draws):
            sampled: dict[str, tuple[Outcomes, float]] = {}
            for name, estimator in ESTIMATORS.items():
                if estimator.allocation not in sampled:
                    counts, chances = self.shares(estimator.allocation, budget, draw)
                    rank = float("nan") if chances is None else rank_correlation(chances, self.probability)
                    sampled[estimator.allocation] = self.sample(counts, _ROLLOUTS + draw), rank
                outcomes, rank = sampled[estimator.allocation]
                kept[name].append(self.weights(estimator, outcomes))
                factor = attenuation(self.probability, outcomes.counts, estimator.advantage).mean()
                mixed = (outcomes.successes > 0) & (outcomes.successes < outcomes.counts)
                seen[name].append((float(factor), float(mixed.double().mean()), rank))
        median = float(self.probability.median())
        rows = []
        for name in ESTIMATORS:
            figures = summary(self.gradients(torch.stack(kept[name])), self.exact)
            means = np.mean(seen[name], axis=0).tolist()
            rows.append(Row(side, level, median, batch, budget, name, *figures, *means))
        return rows

    def weights(self, estimator: Estimator, outcomes: Outcomes) -> Tensor:
        """(B, H, W, 4): what each log-probability is weighed with in the estimate."""
        owner, counts = outcomes.owner, outcomes.counts
        weights = group_advantages(outcomes.success, owner, estimator.advantage) / len(owner)
        if estimator.correction:
            weights = weights * (len(owner) / len(counts) / counts[owner].to(weights.dtype))
        table = torch.zeros(self.log_probs.numel(), dtype=weights.dtype)
        return table.index_add_(0, outcomes.place, weights[outcomes.rollout]).view(self.log_probs.shape)


def summary(draws: Tensor, exact: Tensor) -> tuple[float, float, float, float, float]:
    """Mean and spread of the cosine, cosine of the mean, relative variance and norm ratio of draws (D, P).

    The squared norm of the mean of D noisy draws is too large by a Dth of their variance, which is taken off: else a
    noisy estimate would look biased, long and quiet. Where nothing is left, the last three are NaN. A draw of zero has
    no direction and counts as cosine 0: it points nowhere along the gradient.
    """
    norms, number = draws.norm(dim=1), len(draws)
    cosines = torch.where(norms > 0, draws @ exact / (norms.clamp(min=LOWEST) * exact.norm()), 0.0)
    if number < 2:
        return float(cosines.mean()), 0.0, *(float("nan"),) * 3
    mean = draws.mean(0)
    variance = float((draws - mean).square().sum() / (number - 1))
    square = float(mean.square().sum()) - variance / number
    if square <= 0:
        return float(cosines.mean()), float(cosines.std()), *(float("nan"),) * 3
    aligned = float(mean @ exact) / (square**0.5 * float(exact.norm()))
    return (
        float(cosines.mean()), float(cosines.std()), max(-1.0, min(1.0, aligned)), variance / square,
        square**0.5 / float(exact.norm()),
    )  # fmt: skip
