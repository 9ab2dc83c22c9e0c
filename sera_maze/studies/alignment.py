"""How well gradient estimates point along the exact likelihood gradient, for estimators, allocations and budgets.

In a maze the success probability p_q of a memoryless policy and its gradient are computable, so an estimate g from
sampled rollouts can be held against the gradient of (1/B) sum_q log p_q itself, which none of the estimators knows.

References:
    SERA (arXiv 2609.36552): claims that its gradients align better with the likelihood gradient at a matched budget.
    MaxRL (arXiv 2602.02710): the estimators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sera_maze.advantages import group_advantages
from sera_maze.allocation import allocate
from sera_maze.envs.fresh_mazes import FreshMazes, arrays_of
from sera_maze.envs.generate import check_int
from sera_maze.envs.maze import MazeEnv
from sera_maze.envs.rules import MazeRules
from sera_maze.exact import success_probability
from sera_maze.maxrl import MaxRL
from sera_maze.policies import MazePolicy
from sera_maze.randomness import rollout_keys
from sera_maze.rollouts import owners
from sera_maze.sampling import MapSampler
from sera_maze.success import HIGHEST, LOWEST
from sera_maze.walking import Board, walk

# Random numbers of the rollouts, of those that a history was learnt from, and of the mazes of a batch.
_ROLLOUTS, _HISTORY, _FIRST_MAZE = 2**61, 2**61 + 2**40, 2**30
_PRIOR = 0.5  # of a history, for successes and for failures


class Estimator(NamedTuple):
    """A way to estimate the gradient.

    Attributes:
        allocation: "uniform", or SERA's with p that is "exact", of a "history" or of the "critic". The history is
            of N0 earlier rollouts of each maze with the same policy; that of a training is older.
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
    "SERA, critic": Estimator("critic"),
    "SERA, exact p, no correction": Estimator("exact", correction=False),
    "success average": Estimator("uniform", "success_average"),
    "RLOO": Estimator("uniform", "rloo"),
    "GRPO": Estimator("uniform", "grpo"),
    "REINFORCE": Estimator("uniform", "reinforce"),
}
UNIFORM, EXACT = "MaxRL, uniform", "SERA, exact p"


@dataclass(frozen=True)
class Setting:
    """What is measured, validated.

    Args:
        sides: mazes of side x side squares.
        budgets: rollouts N0 a maze.
        levels: median success probabilities; the training's first policy that reaches each is measured.
        batches: batches of mazes for each policy.
        prompts: mazes B of a batch.
        draws: gradient estimates of each batch.
        channels: of the policy.
        seed: fixes everything.
    """

    sides: tuple[int, ...] = (9, 13, 17)
    budgets: tuple[int, ...] = (8, 16, 32, 64, 128)
    levels: tuple[float, ...] = (0.02, 0.25, 0.7)
    batches: int = 5
    prompts: int = 64
    draws: int = 30
    channels: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batches", "prompts", "draws", "channels"):
            check_int(name, getattr(self, name), 1, 2**20)
        for side in self.sides:
            MazeRules((side, side))
        for budget in self.budgets:
            check_int("budgets", budget, 2, 2**20)


QUICK = Setting(sides=(9,), budgets=(8, 32), levels=(0.02, 0.25), batches=2, prompts=32, draws=12, channels=16)


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
        attenuation: mean over the mazes of the expected factor 1 - (1 - p)^(N - 1), with 0 for mazes without rollouts.
        mixed: share of the mazes whose group had a success and a failure.
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


def alignment_study(setting: Setting, tell: Callable[[str], None] = lambda line: None) -> list[Row]:
    """Measure every estimator at every budget, on batches of mazes that no policy was trained on.

    Args:
        setting: what is measured.
        tell: called with a line of progress now and then.

    Returns:
        One row for each side, level, batch, budget and estimator.
    """
    rows: list[Row] = []
    for side in setting.sides:
        mazes = FreshMazes((side, side), seed=setting.seed)
        for level, policy in policies_along_a_training(mazes, setting, tell):
            for batch in range(setting.batches):
                first = _FIRST_MAZE + (batch + 1) * setting.prompts
                bench = Bench(policy, mazes, torch.arange(first, first + setting.prompts), setting.seed)
                for budget in setting.budgets:
                    rows += bench.measure(budget, setting.draws, side, level, batch)
            tell(f"{side}x{side}, median p near {level:g}: {setting.batches} batches measured")
    return rows


def policies_along_a_training(
    mazes: FreshMazes, setting: Setting, tell: Callable[[str], None]
) -> Iterator[tuple[float, MazePolicy]]:
    """A short warm start and MaxRL with a critic; the policy when its median p first reaches each level, in turn.

    The median is over a batch of mazes that is not measured. A level that is passed before training begins is measured
    on the policy as it is then.
    """
    model = MaxRL(
        "MazePolicy", MazeEnv(mazes), learning_rate=3e-4, prompts_per_batch=setting.prompts, success="critic",
        critic_coef=0.5, policy_kwargs={"channels": setting.channels}, seed=setting.seed,
    )  # fmt: skip
    policy = model.policy
    assert isinstance(policy, MazePolicy)
    watched = torch.arange(_FIRST_MAZE, _FIRST_MAZE + setting.prompts)
    rules = MazeRules(mazes.size)

    def median() -> float:
        with torch.no_grad():
            return float(success_probability(policy, mazes, rules.horizon, rules.on_wall, prompts=watched).median())

    imitated = 0
    while median() < min(setting.levels) and imitated < 2000:
        _imitate(model, imitated)
        imitated += 5
    tell(f"{mazes.size[0]}x{mazes.size[1]}: {imitated} updates of imitation, median p {median():.3f}")
    for level in sorted(setting.levels):
        updates = model._n_updates
        while median() < level and updates < 5000:
            updates += 2
            model.learn(2**62, total_updates=updates, reset_num_timesteps=False)
        tell(f"{mazes.size[0]}x{mazes.size[1]}: {updates} updates of MaxRL, median p {median():.3f}")
        yield level, policy


def _imitate(model: MaxRL, done: int) -> None:
    """Five more updates of imitation, each time of other mazes."""
    usual, model.seed = model.seed, (model.seed or 0) + done
    try:
        model.warm_start(5)
    finally:
        model.seed = usual


class Bench:
    """One batch of mazes and one policy: exact quantities, and gradients of weighted log-probabilities.

    Args:
        policy: the policy.
        mazes: where the prompts are from.
        prompts: (B,) int64.
        seed: of the rollouts.

    Attributes:
        probability: (B,) float64, exact.
        exact: (P,) float64, the exact gradient of (1/B) sum_q log p_q for all P parameters.
    """

    def __init__(self, policy: MazePolicy, mazes: FreshMazes, prompts: Tensor, seed: int):
        self.policy, self.prompts, self.seed = policy, prompts, seed
        rules = MazeRules(mazes.size)
        chosen = arrays_of(mazes, prompts.numpy())
        sampler = MapSampler(mazes, rules, seed)
        self.board: Board = sampler.board(prompts)
        policy.set_training_mode(False)
        logits, values = policy.net(torch.from_numpy(chosen.walls), torch.from_numpy(chosen.goal), policy.iterations)
        self.log_probs = logits.log_softmax(dim=-1)  # (B, H, W, 4), with its graph
        begin = self.board.start[:, None]
        self.critic = values.detach().flatten(1).gather(1, begin)[:, 0].double().sigmoid()
        self.parameters = list(policy.net.parameters())
        arguments = (chosen.walls, chosen.start, chosen.goal, rules.horizon, rules.on_wall)
        table = self.log_probs.detach().requires_grad_()
        chances = success_probability(table, *arguments)
        self.probability = chances.detach()
        (slope,) = torch.autograd.grad(chances.clamp(min=LOWEST).log().mean(), table)
        self.exact = self.gradients(slope[None])[0]

    def gradients(self, weights: Tensor) -> Tensor:
        """(D, P) float64: gradients of sum(weights[d] * log_probs) for weights (D, B, H, W, 4)."""
        found = []
        for row in weights:
            parts = torch.autograd.grad(
                self.log_probs, self.parameters, row.to(self.log_probs.dtype), retain_graph=True
            )
            found.append(torch.cat([part.flatten() for part in parts]).double())
        return torch.stack(found)

    def counts(self, allocation: str, budget: int, draw: int) -> Tensor:
        """Rollouts (B,) of each maze, B * budget in all."""
        total = budget * len(self.prompts)
        if allocation == "uniform":
            return torch.full_like(self.prompts, budget)
        if allocation == "exact":
            chances = self.probability
        elif allocation == "critic":
            chances = self.critic
        else:
            successes = self.sample(torch.full_like(self.prompts, budget), _HISTORY + draw)[0]
            chances = (successes + _PRIOR) / (budget + 2 * _PRIOR)
        return allocate(chances.clamp(LOWEST, HIGHEST), total, n_max=4 * budget).counts

    def sample(self, counts: Tensor, update: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Successes (B,), owner (R,), success (R,), and (2, S): each step's rollout and place in the table."""
        owner, number = owners(counts)
        keys = rollout_keys(self.seed, update, self.prompts[owner], number)
        walks = walk(self.log_probs.detach(), self.board, owner, keys)
        successes = torch.zeros_like(counts).index_add_(0, owner, walks.success.long())
        rollout = torch.repeat_interleave(torch.arange(len(owner)), walks.lengths)
        squares = self.log_probs.shape[1] * self.log_probs.shape[2]
        place = (owner[rollout] * squares + walks.squares) * 4 + walks.actions
        return successes, owner, walks.success, torch.stack([rollout, place])

    def measure(self, budget: int, draws: int, side: int, level: float, batch: int) -> list[Row]:
        """Every estimator at one budget."""
        kept: dict[str, list[Tensor]] = {name: [] for name in ESTIMATORS}
        factors: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
        mixed: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
        for draw in range(draws):
            sampled: dict[str, tuple[Tensor, tuple[Tensor, Tensor, Tensor, Tensor]]] = {}
            for name, estimator in ESTIMATORS.items():
                if estimator.allocation not in sampled:
                    counts = self.counts(estimator.allocation, budget, draw)
                    sampled[estimator.allocation] = counts, self.sample(counts, _ROLLOUTS + draw)
                counts, rollouts = sampled[estimator.allocation]
                kept[name].append(self._weights(estimator, counts, rollouts))
                factors[name].append(float(self._attenuation(counts).mean()))
                mixed[name].append(float(((rollouts[0] > 0) & (rollouts[0] < counts)).double().mean()))
        rows = []
        for name in ESTIMATORS:
            figures = _summary(self.gradients(torch.stack(kept[name])), self.exact)
            median = float(self.probability.median())
            rows.append(
                Row(
                    side, level, median, batch, budget, name, *figures, float(np.mean(factors[name])),
                    float(np.mean(mixed[name])),
                )
            )  # fmt: skip
        return rows

    def _attenuation(self, counts: Tensor) -> Tensor:
        return torch.where(counts > 0, -torch.expm1((counts - 1) * torch.log1p(-self.probability)), 0.0)

    def _weights(self, estimator: Estimator, counts: Tensor, rollouts: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
        """(B, H, W, 4): what each log-probability is weighed with in the estimate."""
        _, owner, success, (rollout, place) = rollouts[0], rollouts[1], rollouts[2], rollouts[3]
        weights = group_advantages(success, owner, estimator.advantage) / len(owner)
        if estimator.correction:
            weights = weights * (len(owner) / len(counts) / counts[owner].to(weights.dtype))
        table = torch.zeros(self.log_probs.numel(), dtype=weights.dtype)
        return table.index_add_(0, place, weights[rollout]).view(self.log_probs.shape)


def _summary(draws: Tensor, exact: Tensor) -> tuple[float, float, float, float, float]:
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
