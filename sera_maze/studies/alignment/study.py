"""How well gradient estimates point along the exact likelihood gradient, for estimators, allocations and budgets.

In a maze the success probability p_q of a memoryless policy and its gradient are computable, so an estimate g from
sampled rollouts can be held against the gradient of (1/B) sum_q log p_q itself, which none of the estimators knows.

A policy is measured at several points of one training for each size. Each time a critic of its own, a copy of the
policy's network, is fitted before to sampled outcomes of the same policy on other mazes (`fit_critic`): those of such
short trainings have not learnt to tell mazes apart.

References:
    SERA (arXiv 2609.36552): claims that its gradients align better with the likelihood gradient at a matched budget.
    MaxRL (arXiv 2602.02710): the estimators.
    VIP (arXiv 2602.01601) and Knapsack RL (arXiv 2509.25849): other allocations, see `sera_maze.allocation`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any

import torch

from sera_maze.envs.generating.spec import MazeSpec
from sera_maze.envs.ground.checks import as_number, check_int
from sera_maze.studies.alignment.measuring import ESTIMATORS as ESTIMATORS
from sera_maze.studies.alignment.measuring import EXACT as EXACT
from sera_maze.studies.alignment.measuring import UNIFORM as UNIFORM
from sera_maze.studies.alignment.measuring import Bench, Row
from sera_maze.studies.alignment.policies import Snapshot, Training, snapshots
from sera_maze.studies.extras import check_several
from sera_maze.studies.workers import workers

_LEVEL = "a median success probability, above 0 and below 1"
_FIRST_MAZE = 2**30  # of those that are measured


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
        critic_updates: with which a critic is fitted for each policy.
        seed: fixes everything.
    """

    sides: tuple[int, ...] = (9, 13, 17)
    budgets: tuple[int, ...] = (8, 16, 32, 64, 128)
    levels: tuple[float, ...] = (0.02, 0.25, 0.7)
    batches: int = 10
    prompts: int = 64
    draws: int = 16
    channels: int = 32
    critic_updates: int = 800
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batches", "prompts", "draws", "channels", "critic_updates"):
            check_int(name, getattr(self, name), 1, 2**20)
        for name in ("sides", "budgets", "levels"):
            check_several(name, getattr(self, name))
        check_int("seed", self.seed, 0, 2**32 - 1)
        for side in self.sides:
            MazeSpec((check_int("sides", side, 3, 2**10),) * 2)
        for level in self.levels:
            if not 0 < as_number("levels", level, _LEVEL) < 1:
                raise ValueError(f"levels has {level!r}; allowed is {_LEVEL}")
        for budget in self.budgets:
            check_int("budgets", budget, 2, 2**20)

    @property
    def training(self) -> Training:
        """The part that fixes the policies."""
        return Training(self.levels, self.prompts, self.channels, self.critic_updates, self.seed)


QUICK = Setting(
    sides=(9,), budgets=(8, 32), levels=(0.02, 0.15), batches=2, prompts=32, draws=12, channels=16, critic_updates=100
)


def alignment_study(
    setting: Setting, tell: Callable[[str], None] = lambda line: None, *, processes: int = 1
) -> list[Row]:
    """Measure every estimator at every budget, on batches of mazes that no policy was trained on.

    Args:
        setting: what is measured.
        tell: called with a line of progress now and then.
        processes: trainings and batches at a time, each on one thread; 1 uses no other process. The same numbers for
            any. With more, the calling program needs ``if __name__ == "__main__":`` around what it does.

    Returns:
        One row for each side, level, batch, budget and estimator.

    Raises:
        ValueError, TypeError: if ``processes`` is not from 1 to 1024.
    """
    check_int("processes", processes, 1, 1024)
    rows: list[Row] = []
    measured: Counter[tuple[int, float]] = Counter()
    with workers(processes) as submit:
        # The largest first: their trainings take longest, and smaller ones are measured meanwhile.
        trainings = {submit(snapshots, setting.training, side) for side in sorted(setting.sides, reverse=True)}
        pending: set[Future[Any]] = set(trainings)
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for job in done:
                if job in trainings:
                    policies, lines = job.result()
                    for line in lines:
                        tell(line)
                    pending |= {
                        submit(_measure, setting, policy, batch)
                        for policy in policies
                        for batch in range(setting.batches)
                    }
                    continue
                found = job.result()
                rows += found
                policy = found[0].side, found[0].level
                measured[policy] += 1
                if measured[policy] == setting.batches:
                    tell(
                        f"{policy[0]}x{policy[0]}, median p near {policy[1]:g}: {setting.batches} batches measured "
                        f"({len(rows)} of {number_of_rows(setting)} rows)"
                    )
    return sorted(rows, key=lambda row: (row.side, row.level, row.batch))


def number_of_rows(setting: Setting) -> int:
    """How many rows `alignment_study` gives."""
    cases = len(setting.sides) * len(setting.levels) * setting.batches * len(setting.budgets)
    return cases * len(ESTIMATORS)


def _measure(setting: Setting, snapshot: Snapshot, batch: int) -> list[Row]:
    """All estimators and budgets on one batch of mazes."""
    policy, critic = snapshot.restored(setting.training)
    first = _FIRST_MAZE + batch * setting.prompts
    prompts = torch.arange(first, first + setting.prompts)
    bench = Bench(policy, setting.training.mazes(snapshot.side), prompts, setting.seed, critic)
    rows: list[Row] = []
    for budget in setting.budgets:
        rows += bench.measure(budget, setting.draws, snapshot.side, snapshot.level, batch)
    return rows
