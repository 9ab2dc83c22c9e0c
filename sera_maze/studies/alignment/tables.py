"""The tables of `alignment_study`, in Markdown: means over batches of mazes, and tests that are paired by batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from sera_maze.coverage.tables import markdown_table
from sera_maze.studies.alignment.measuring import ESTIMATORS, EXACT, UNIFORM, Row
from sera_maze.studies.extras import paired_t_test

SIGNIFICANT = 0.01
# Budgets of the tables that do not show all, if they were measured.
_CHOSEN = (8, 32, 128)
_NOT_KNOWN = "-"


def values(
    rows: Iterable[Row], side: int, level: float, budget: int, estimator: str, what: str = "cosine"
) -> NDArray[np.float64]:
    """(batches,) values of a field of one estimator's rows, in the order of the batches."""
    found = [
        row for row in rows if (row.side, row.level, row.budget, row.estimator) == (side, level, budget, estimator)
    ]
    return np.array([getattr(row, what) for row in sorted(found, key=lambda row: row.batch)], float)


def difference(one: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float]:
    """Mean of one - other, paired by batch, and the p-value of a paired t test.

    The p-value is NaN for fewer than two batches, and where all differences are equal.

    Raises:
        ValueError: see `paired_t_test`.
    """
    found = paired_t_test(one, other)
    return found.mean, found.p_value


def policies(rows: Iterable[Row]) -> list[tuple[int, float]]:
    """The side and level of each policy that was measured, the weaker ones of a size first."""
    return sorted({(row.side, row.level) for row in rows})


def budgets_of(rows: Iterable[Row]) -> list[int]:
    """N0, rising."""
    return sorted({row.budget for row in rows})


def median_p(rows: Iterable[Row], side: int, level: float) -> float:
    """Median success probability of a policy: the mean of those of its batches."""
    return float(
        np.mean(list({row.batch: row.median_p for row in rows if (row.side, row.level) == (side, level)}.values()))
    )


def _gap(rows: Sequence[Row], side: int, level: float, budget: int, name: str = EXACT) -> tuple[float, float]:
    return difference(*(values(rows, side, level, budget, which) for which in (name, UNIFORM)))


def cosine_table(rows: Sequence[Row]) -> str:
    """Mean cosines "uniform MaxRL / SERA with exact p", a row for each policy and a column for each budget.

    A star marks a difference with p < 0.01.

    Raises:
        ValueError: see `paired_t_test`.
    """
    budgets = budgets_of(rows)
    lines = []
    for side, level in policies(rows):
        cells = []
        for budget in budgets:
            pair = " / ".join(f"{values(rows, side, level, budget, name).mean():.2f}" for name in (UNIFORM, EXACT))
            cells.append(pair + (" *" if _gap(rows, side, level, budget)[1] < SIGNIFICANT else ""))
        lines.append([*_names(rows, side, level), *cells])
    return markdown_table(["mazes", "median p", *(f"N0={budget}" for budget in budgets)], lines, has_names=True)


def direction_table(rows: Sequence[Row]) -> str:
    """Cosine of the expected estimate and relative variance, "uniform MaxRL / SERA with exact p", for some budgets."""
    budgets = [budget for budget in budgets_of(rows) if budget in _CHOSEN] or budgets_of(rows)
    fields = {"mean_cosine": "cosine of the expected estimate", "variance": "relative variance"}
    lines = []
    for side, level in policies(rows):
        cells = [
            " / ".join(_mean(values(rows, side, level, budget, name, field)) for name in (UNIFORM, EXACT))
            for field in fields
            for budget in budgets
        ]
        lines.append([*_names(rows, side, level), *cells])
    heads = [f"{name}, N0={budget}" if budget == budgets[0] else f"N0={budget}" for name in fields.values()
             for budget in budgets]  # fmt: skip
    return markdown_table(["mazes", "median p", *heads], lines, has_names=True)


def estimators_table(rows: Sequence[Row]) -> str:
    """Mean cosine of every estimator for the least and the largest budget, a pair of columns for each level.

    The means are over sizes, too. The heads tell between which values median p is.
    """
    budgets = budgets_of(rows)
    ends = [budgets[0], budgets[-1]] if len(budgets) > 1 else budgets
    heads, columns = ["estimator"], []
    for level in sorted({row.level for row in rows}):
        sides = [side for side, its_level in policies(rows) if its_level == level]
        medians = sorted(median_p(rows, side, level) for side in sides)
        span = " to ".join(dict.fromkeys(f"{median:.2f}" for median in (medians[0], medians[-1])))
        for budget in ends:
            heads.append(f"median p {span}, N0={budget}")
            columns.append(
                [_mean(np.array([values(rows, side, level, budget, name).mean() for side in sides]))
                 for name in ESTIMATORS]
            )  # fmt: skip
    lines = [[name, *cells] for name, *cells in zip(ESTIMATORS, *columns, strict=True)]
    return markdown_table(heads, lines, has_names=True)


def answer(rows: Sequence[Row], most_p: float = 0.05, most_budget: int = 32) -> str:
    """Where a single estimate by SERA with exact p has a larger cosine than one by uniform MaxRL, in sentences.

    Args:
        rows: of `alignment_study`.
        most_p: policies with a median p up to it are weak, the case that the answer is for; others come after.
        most_budget: N0 up to it are few rollouts.

    Raises:
        ValueError: see `paired_t_test`.
    """
    cases = [(*policy, budget) for policy in policies(rows) for budget in budgets_of(rows)]
    weak = [case for case in cases if median_p(rows, *case[:2]) <= most_p and case[2] <= most_budget]
    others = [case for case in cases if case not in weak]
    parts = []
    for name, group in ((f"With median p up to {most_p:g} and N0 up to {most_budget}", weak), ("Elsewhere", others)):
        above, below, undecided = _sorted_out(rows, group)
        if not group:
            parts.append(f"{name}: nothing was measured.")
            continue
        parts.append(
            f"{name}, SERA with exact p is above uniform MaxRL with p < {SIGNIFICANT:g} in {len(above)} of "
            f"{len(group)} cases ({_listed(rows, above)}), below it in {len(below)} ({_listed(rows, below)}), and not "
            f"told apart in {len(undecided)} ({_listed(rows, undecided)})."
        )
    return "\n".join(parts)


_Case = tuple[int, float, int]


def _sorted_out(rows: Sequence[Row], cases: Sequence[_Case]) -> tuple[list[_Case], list[_Case], list[_Case]]:
    """Those in which SERA is significantly above uniform, below it, and the rest."""
    gaps = {case: _gap(rows, *case) for case in cases}
    clear = [case for case in cases if gaps[case][1] < SIGNIFICANT]
    above = [case for case in clear if gaps[case][0] > 0]
    below = [case for case in clear if gaps[case][0] < 0]
    return above, below, [case for case in cases if case not in clear]


def _listed(rows: Sequence[Row], cases: Sequence[_Case]) -> str:
    parts = []
    for side, level in sorted({case[:2] for case in cases}):
        budgets = ", ".join(str(case[2]) for case in cases if case[:2] == (side, level))
        parts.append(f"{side}\u00d7{side} with median p {median_p(rows, side, level):.2f}: N0={budgets}")
    return "; ".join(parts) or "none"


def _names(rows: Sequence[Row], side: int, level: float) -> list[str]:
    return [f"{side}\u00d7{side}", f"{median_p(rows, side, level):.2f}"]


def _mean(numbers: NDArray[np.float64]) -> str:
    """Mean of those that are known, and how many are, if not all."""
    known = numbers[~np.isnan(numbers)]
    few = "" if len(known) == len(numbers) else f" ({len(known)} of {len(numbers)})"
    return f"{known.mean():.2f}{few}" if len(known) else _NOT_KNOWN
