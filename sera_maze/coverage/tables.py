"""`Evaluation`: the outcome of a fixed number of rollouts on each of many prompts, and its tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sera_maze.coverage.unbiased import Coverage, shown_interval
from sera_maze.envs.play.rules import MazeRules
from sera_maze.exact.probability import exact_pass_at_k

_MAX_ROWS = 8
_NOT_KNOWN = "-"


class CoverageRow(NamedTuple):
    """pass@k for one k, as fractions.

    Attributes:
        k: number of rollouts.
        sampled: mean over the mazes of the unbiased estimate.
        low: lower end of the 95 % interval over mazes; NaN for a single maze.
        high: upper end.
        exact: mean over the mazes of 1 - (1 - p)**k; None if p is not known.
    """

    k: int
    sampled: float
    low: float
    high: float
    exact: float | None


class DifficultyRow(NamedTuple):
    """The prompts of about one difficulty, such as mazes whose shortest paths have about one length.

    Attributes:
        least: difficulty of the easiest.
        most: of the hardest.
        prompts: number of prompts.
        success_rate: share of the rollouts that succeed.
        exact: mean success probability; None if it is not known.
        solved_fraction: share of the prompts with at least one success.
    """

    least: int
    most: int
    prompts: int
    success_rate: float
    exact: float | None
    solved_fraction: float


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """The outcome of n rollouts on each of M prompts; ``print`` shows its tables.

    Attributes:
        successes: (M,) int64, successes of each prompt.
        coverage: pass@k, its 95 % intervals over prompts and the solved fraction, from the rollouts.
        steps: (M,) float64, mean steps of a prompt's rollouts.
        difficulty: (M,) int64, how hard each prompt is, of mazes the moves on a shortest path; None if it is not known.
        distinct_solutions: (M,) int64, different solutions; None if they cannot be told apart.
        probability: (M,) float64, exact success probability; None if it was not computed.
        rules: of episodes in mazes; None for other prompts.
        seed: of the rollouts.
        digest: names the prompts; None if they cannot be named.
    """

    successes: NDArray[np.int64]
    coverage: Coverage
    steps: NDArray[np.float64]
    difficulty: NDArray[np.int64] | None
    distinct_solutions: NDArray[np.int64] | None
    probability: NDArray[np.float64] | None
    rules: MazeRules | None
    seed: int
    digest: str | None = None

    def __str__(self) -> str:
        return self.markdown()

    def __repr__(self) -> str:
        ends = [f"pass@{row.k} {row.sampled:.3f}" for row in self.table()]
        shown = ", ".join(ends if len(ends) < 3 else [ends[0], ends[-1]])
        return f"<Evaluation of {len(self.successes)} {self.noun}, {self.num_samples} rollouts each: {shown}>"

    @property
    def noun(self) -> str:
        """What the prompts are, in the plural."""
        return "prompts" if self.rules is None else "mazes"

    @property
    def num_samples(self) -> int:
        """Rollouts of each maze, n."""
        return self.coverage.n

    @property
    def ks(self) -> tuple[int, ...]:
        """The values of k."""
        return self.coverage.ks

    @property
    def success_rate(self) -> NDArray[np.float64]:
        """(M,) float64: share of each maze's rollouts that succeed."""
        return self.successes / self.num_samples

    @property
    def exact_pass_at_k(self) -> NDArray[np.float64] | None:
        """(K,) float64: mean over the mazes of 1 - (1 - p)**k; None if p is not known."""
        if self.probability is None:
            return None
        return exact_pass_at_k(self.probability[:, None], np.array(self.ks)).mean(0)

    @property
    def mean_steps(self) -> float:
        """Mean steps of a rollout."""
        return float(self.steps.mean())

    @property
    def mean_distinct_solutions(self) -> float | None:
        """Different solutions of a prompt, on average; prompts without one count 0."""
        return None if self.distinct_solutions is None else float(self.distinct_solutions.mean())

    def table(self) -> list[CoverageRow]:
        """pass@k, one row for each k."""
        exact = self.exact_pass_at_k
        columns = zip(self.ks, self.coverage.pass_at_k, self.coverage.low, self.coverage.high, strict=True)
        return [
            CoverageRow(k, float(mean), float(low), float(high), None if exact is None else float(exact[i]))
            for i, (k, mean, low, high) in enumerate(columns)
        ]

    def by_difficulty(self) -> list[DifficultyRow]:
        """Success by difficulty, in at most 8 rows of equally wide ranges; empty if it is not known."""
        if self.difficulty is None:
            return []
        bins = difficulty_bins(self.difficulty)
        rows = []
        for number in np.unique(bins):
            chosen = bins == number
            values = self.difficulty[chosen]
            exact = None if self.probability is None else float(self.probability[chosen].mean())
            rate, solved = self.success_rate[chosen].mean(), (self.successes[chosen] > 0).mean()
            rows.append(
                DifficultyRow(int(values.min()), int(values.max()), len(values), float(rate), exact, float(solved))
            )
        return rows

    def summary(self) -> str:
        """One sentence: what was run, and what came of it besides pass@k."""
        distinct, noun = self.mean_distinct_solutions, self.noun
        solutions = "" if distinct is None else f"{distinct:.2f} distinct solutions a {noun.removesuffix('s')}, "
        what, how = f"{len(self.successes)} {noun}", f"seed {self.seed}"
        if self.rules is not None:
            end = "a wall ends the rollout" if self.rules.on_wall == "fail" else "at a wall the agent stays"
            what += f" of {self.rules.size[0]}x{self.rules.size[1]} squares"
            how += f", horizon {self.rules.horizon}, {end}"
        return (
            f"{what}, {self.num_samples} rollouts each ({how}): {_percent(self.coverage.solved_fraction)} of the "
            f"{noun} solved at least once, {solutions}{self.mean_steps:.1f} steps a rollout."
        )

    def markdown(self) -> str:
        """Both tables and the summary as Markdown; percentages with two decimals, intervals by `shown_interval`."""
        coverage_rows = [
            (str(row.k), _percent(row.sampled), _interval(*self._shown_interval(row)), _percent(row.exact))
            for row in self.table()
        ]
        noun, hard = self.noun, "difficulty" if self.rules is None else "shortest path"
        coverage_heads = ("k", "pass@k, sampled", f"95 % interval over {noun}", "pass@k, exact")
        parts = [markdown_table(coverage_heads, coverage_rows), self.summary()]
        if rows := self.by_difficulty():
            difficulty_rows = [
                (
                    str(row.least) if row.least == row.most else f"{row.least}-{row.most}", str(row.prompts),
                    _percent(row.success_rate), _percent(row.exact), _percent(row.solved_fraction),
                )
                for row in rows
            ]  # fmt: skip
            parts.append(markdown_table((hard, noun, "success rate", "exact", "solved at least once"), difficulty_rows))
        return "\n\n".join(parts)

    def _shown_interval(self, row: CoverageRow) -> tuple[float, float]:
        return shown_interval(row.sampled, row.low, row.high, len(self.successes))

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON can hold it: fractions, None for what is not known, lists with one entry a prompt."""
        rules = self.rules
        return {
            "prompts": len(self.successes),
            "digest": self.digest,
            "size": None if rules is None else list(rules.size),
            "num_samples": self.num_samples,
            "seed": self.seed,
            "on_wall": None if rules is None else rules.on_wall,
            "horizon": None if rules is None else rules.horizon,
            "pass_at_k": [_without_nan(row._asdict()) for row in self.table()],
            "solved_fraction": self.coverage.solved_fraction,
            "mean_distinct_solutions": self.mean_distinct_solutions,
            "mean_steps": self.mean_steps,
            "by_difficulty": [row._asdict() for row in self.by_difficulty()],
            "per_prompt": {
                "difficulty": _listed(self.difficulty),
                "successes": self.successes.tolist(),
                "probability": _listed(self.probability),
                "distinct_solutions": _listed(self.distinct_solutions),
                "steps": self.steps.tolist(),
            },
        }


def _listed(values: NDArray[Any] | None) -> list[Any] | None:
    return None if values is None else values.tolist()


def difficulty_bins(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the ranges of difficulties (M,): equally wide, an even number of moves, and at most 8 of them used.

    Start and goal of most mazes lie such that all lengths are even or all odd.
    """
    width = 2
    while len(np.unique(values // width)) > _MAX_ROWS:
        width += 2
    return values // width


def readable_percent(fraction: float, decimals: int = 2) -> str:
    """A probability in percent; one near 0 or 1 is not rounded to what it is not."""
    return f"{percent_number(fraction, decimals)} %"


def readable_probability(fraction: float) -> str:
    """A success probability: "p = 12.00 %", "p < 0.01 %"."""
    percent = readable_percent(fraction)
    return f"p {percent}" if percent[0] in "<>" else f"p = {percent}"


def percent_number(fraction: float, decimals: int = 2) -> str:
    """As `readable_percent`, without the unit: "< 0.01", "1.20", "> 99.99"."""
    shown = f"{100 * fraction:.{decimals}f}"
    if fraction < 1 and float(shown) == 100:
        return f"> {100 - 10**-decimals:.{decimals}f}"
    if fraction > 0 and float(shown) == 0:
        return f"< {10**-decimals:.{decimals}f}"
    return shown


def _percent(fraction: float | None) -> str:
    return _NOT_KNOWN if fraction is None else readable_percent(fraction)


def _interval(low: float, high: float) -> str:
    return _NOT_KNOWN if math.isnan(low) else f"{percent_number(low)} to {percent_number(high)} %"


def _without_nan(row: dict[str, Any]) -> dict[str, Any]:
    return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in row.items()}


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, has_names: bool = False) -> str:
    """A table in Markdown, its columns to the right, but for a first one of names."""
    rule = ["---" if has_names and i == 0 else "--:" for i in range(len(heads))]
    lines = [heads, rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
