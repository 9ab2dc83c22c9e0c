"""The tables of a matched-budget study: coverage against the first method, pair by pair, and what the allocator did."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sera_maze.coverage.callback import read_history
from sera_maze.coverage.tables import markdown_table
from sera_maze.runs.config import RunConfig
from sera_maze.runs.folder import COVERAGE, LOGS
from sera_maze.studies.extras import scipy_stats

KS = (1, 32, 256)
ALONG = 32  # the k of the mean over the run
_RESAMPLES = 10_000
_FIGURES = (
    "groups/all_fail_fraction", "groups/all_success_fraction", "allocation/active_fraction", "allocation/count_max",
    "allocation/attenuation_min",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the runs of one method, one for each of S seeds, came to.

    Attributes:
        method: its name.
        final: k -> (S,) exact pass@k on the held-out mazes after the last update.
        along: (S,) exact pass@32, mean over the evaluations after the warm start.
        log: name -> (S,) mean over the updates of what was logged; NaN where it never was.
    """

    method: str
    final: dict[int, NDArray[np.float64]]
    along: NDArray[np.float64]
    log: dict[str, NDArray[np.float64]]


class Difference(NamedTuple):
    """Mean of paired differences with the ends of its 95 % interval."""

    mean: float
    low: float
    high: float


def read_outcome(method: str, runs: Mapping[Path, RunConfig]) -> Outcome:
    """Read the finished runs of a method, one for each seed.

    Args:
        method: its name.
        runs: folder to config.

    Raises:
        ValueError: if a file of a run is missing, cut short or without exact figures, naming it and what to do.
    """
    histories = [_evaluations(folder, config) for folder, config in runs.items()]
    ks = [k for k in KS if all(f"coverage/exact_pass@{k}" in history[-1] for history in histories)]
    final = {k: np.array([history[-1][f"coverage/exact_pass@{k}"] for history in histories]) for k in ks}
    key = f"coverage/exact_pass@{min(ALONG, max(ks))}"
    along = np.array([np.mean([entry[key] for entry in history[1:]]) for history in histories])
    logged = [_means(folder, config) for folder, config in runs.items()]
    log = {name: np.array([row[name] for row in logged]) for name in _FIGURES}
    return Outcome(method, final, along, log)


def _evaluations(folder: Path, config: RunConfig) -> list[dict[str, Any]]:
    """The evaluations of a run, all of those that its config asks for."""
    path = folder / COVERAGE
    history = read_history(path) if path.exists() else []
    wanted = [*range(0, config.updates, config.eval_every), config.updates]
    if [entry["update"] for entry in history] != wanted:
        raise _damaged(path, f"it has not the evaluations after the updates {wanted[0]}, {wanted[1]} to {wanted[-1]}")
    if any("coverage/exact_pass@1" not in entry for entry in history):
        raise _damaged(path, "it has no exact pass@1")
    return history


def _means(folder: Path, config: RunConfig) -> dict[str, float]:
    """Means over the rows of SB3's CSV log in which a figure is given."""
    path = folder / LOGS / "progress.csv"
    rows: list[dict[str, str]] = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    values = {name: [float(row[name]) for row in rows if row.get(name)] for name in _FIGURES}
    if len(values["allocation/count_max"]) != config.updates:
        raise _damaged(path, f"it has {len(values['allocation/count_max'])} of {config.updates} updates")
    if config.method.advantage != "maxrl":
        values["allocation/attenuation_min"] = []  # of another gradient
    return {name: float(np.mean(found)) if found else math.nan for name, found in values.items()}


def _damaged(path: Path, what: str) -> ValueError:
    run = path.parent if path.name == COVERAGE else path.parent.parent
    return ValueError(f"{path} is not that of a finished run, {what}; move {run} away, and run the study again")


def difference(one: NDArray[np.float64], other: NDArray[np.float64]) -> Difference:
    """Mean of one - other over pairs (S,), with scipy's bootstrap interval (BCa) over the pairs.

    Of ten pairs of normal differences such an interval holds the true mean about 9 times in 10, of five 8 times; of two
    or three it says little. The ends are NaN for fewer than two pairs, and the mean where all differences are equal.

    Raises:
        ValueError: if scipy is missing, which the extra ``studies`` brings.
    """
    stats = scipy_stats()
    gap = one - other
    mean = float(gap.mean())
    if len(gap) < 2 or np.ptp(gap) < 1e-12:  # BCa divides by the spread
        end = mean if len(gap) > 1 else math.nan
        return Difference(mean, end, end)
    generator = np.random.default_rng(0)
    ends = stats.bootstrap((gap,), np.mean, n_resamples=_RESAMPLES, rng=generator).confidence_interval
    return Difference(mean, float(ends.low), float(ends.high))


def coverage_table(outcomes: Sequence[Outcome]) -> str:
    """Exact pass@k of each method, with the difference from the first one, in percent and points, as Markdown."""
    rows = []
    for outcome in outcomes:
        log_pass = -np.log(np.maximum(outcome.final[max(outcome.final)], np.finfo(float).tiny))
        rows.append([outcome.method, *_cells(outcome, outcomes[0]), f"{log_pass.mean():.3f}"])
    heads = [*_heads(outcomes[0]), f"-log pass@{max(outcomes[0].final)}"]
    return markdown_table(["", *heads], rows, has_names=True)


def pairs_table(outcomes: Sequence[Outcome], pairs: Sequence[tuple[str, str]]) -> str:
    """Differences of exact pass@k of pairs of methods, the first less the second, in points, as Markdown."""
    by_method = {outcome.method: outcome for outcome in outcomes}
    rows = []
    for one, other in pairs:
        both = _figures(by_method[one], by_method[other])
        rows.append([f"{one} less {other}", *(_points(*pair) for pair in both)])
    return markdown_table(["", *_heads(outcomes[0])], rows, has_names=True)


def settings_table(studies: Mapping[str, Sequence[Outcome]]) -> str:
    """The same for several settings, a row for each setting and method; the first method is what others differ from."""
    rows = []
    for setting, outcomes in studies.items():
        for number, outcome in enumerate(outcomes):
            rows.append([setting if not number else "", outcome.method, *_cells(outcome, outcomes[0])])
    first = next(iter(studies.values()))[0]
    return markdown_table(["", "", *_heads(first)], rows, has_names=True)


def _heads(outcome: Outcome) -> list[str]:
    return [*(f"pass@{k}" for k in outcome.final), f"pass@{ALONG} along the run"]


def _figures(outcome: Outcome, base: Outcome) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Those of a row, by seed, beside those that they differ from."""
    return [*((outcome.final[k], base.final[k]) for k in base.final), (outcome.along, base.along)]


def _cells(outcome: Outcome, base: Outcome) -> list[str]:
    means = [f"{100 * values.mean():.1f}" for values, _ in _figures(outcome, base)]
    if outcome is base:
        return means
    return [f"{mean} ({_points(*pair)})" for mean, pair in zip(means, _figures(outcome, base), strict=True)]


def allocation_table(outcomes: Sequence[Outcome]) -> str:
    """What the groups and the allocation were like, means over updates and seeds, as Markdown."""
    heads = [
        "groups without a success, %", "without a failure, %", "mazes with rollouts, %", "largest count",
        "lowest attenuation",
    ]  # fmt: skip
    rows = []
    for outcome in outcomes:
        values = [float(outcome.log[name].mean()) for name in _FIGURES]
        shares = [f"{100 * value:.1f}" for value in values[:3]]
        lowest = "" if math.isnan(values[4]) else f"{values[4]:.2f}"
        rows.append([outcome.method, *shares, f"{values[3]:.1f}", lowest])
    return markdown_table(["", *heads], rows, has_names=True)


def caption(outcomes: Sequence[Outcome]) -> str:
    """What the figures of both tables are."""
    seeds = len(outcomes[0].along)
    return (
        f"Exact pass@k on held-out mazes after the last update, in percent, means over {seeds} seeds; in brackets the "
        f"difference from {outcomes[0].method} in points, paired by seed, with its 95 % bootstrap interval over the "
        f"seeds (BCa, {_RESAMPLES:,} resamples, scipy; of ten seeds it holds the true mean about 9 times in 10, of "
        "five or fewer less often), not corrected for the number of comparisons. Along the run: mean over the "
        "evaluations after the warm start. In the second table a group's rates count the mazes that got rollouts; the "
        "lowest attenuation is by what the method knew of p, for the MaxRL advantage, and left out where it knew "
        "nothing."
    )


def _points(values: NDArray[np.float64], base: NDArray[np.float64]) -> str:
    gap = Difference(*(100 * end for end in difference(values, base)))
    ends = "" if math.isnan(gap.low) else f" [{gap.low:+.1f}, {gap.high:+.1f}]"
    return f"{gap.mean:+.1f}{ends}"


def report(outcomes: Sequence[Outcome]) -> str:
    """Both tables and what they are."""
    return "\n\n".join((coverage_table(outcomes), allocation_table(outcomes), caption(outcomes))) + "\n"


def to_json(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Everything by seed, as JSON can hold it."""
    return [
        {
            "method": outcome.method,
            "pass_at_k": {str(k): values.tolist() for k, values in outcome.final.items()},
            "along_the_run": outcome.along.tolist(),
            "log": {
                name: [None if math.isnan(v) else v for v in values.tolist()] for name, values in outcome.log.items()
            },
        }
        for outcome in outcomes
    ]
