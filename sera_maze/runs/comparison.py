"""`Comparison`: pass@k of groups of runs with intervals, their paired difference, and the tables of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sera_maze.coverage.tables import markdown_table, percent_number
from sera_maze.coverage.unbiased import coverage, shown_interval
from sera_maze.runs.config import RunConfig
from sera_maze.runs.finished import Group, per_maze, read_groups

RESAMPLES = 10_000
_PERCENTILES = (0.025, 0.975)
_STREAM = 20260  # of the bootstrap's random numbers, which are the same in every comparison
_MAX_HEAD = 24  # characters of a column's head
_MAX_CELLS = 2**22  # numbers of mazes' resamples held at a time


class Interval(NamedTuple):
    """A figure for each k with its 95 % interval.

    Attributes:
        mean: (K,) float64, over mazes and seeds.
        low: (K,) float64; NaN for a single run on a single maze.
        high: (K,) float64; likewise.
    """

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


class Curve(NamedTuple):
    """pass@k for one k in the course of the training.

    Attributes:
        rollouts: (T,) float64, rollouts spent until each evaluation, averaged over the seeds.
        mean: (T,) float64, pass@k, averaged over the seeds.
        low: (T,) float64: of the lowest seed; of a single run the lower end of its 95 % interval over mazes, NaN where
            the run has not recorded it.
        high: (T,) float64, likewise.
    """

    rollouts: NDArray[np.float64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Groups of runs side by side.

    Attributes:
        groups: G of them.
        ks: K values of k that all runs have, rising.
        pass_at_k: final pass@k of each group.
        difference: of two groups, the first less the second, on the same mazes; None for another number of groups.
    """

    groups: tuple[Group, ...]
    ks: tuple[int, ...]
    pass_at_k: tuple[Interval, ...]
    difference: Interval | None

    @property
    def size(self) -> tuple[int, int] | None:
        """(height, width) of the mazes in grid squares; None for other prompts."""
        config = self.groups[0].runs[0].config
        return config.mazes.size if isinstance(config, RunConfig) else None

    @property
    def noun(self) -> str:
        """What the held-out prompts are, in the plural."""
        return self.groups[0].runs[0].noun

    @property
    def prompts(self) -> int:
        """Held-out prompts of each run, M."""
        return len(self.groups[0].runs[0].successes)

    @property
    def num_samples(self) -> int:
        """Rollouts of each held-out maze in an evaluation, n."""
        return self.groups[0].runs[0].config.num_samples

    @property
    def exact_curves(self) -> bool:
        """Whether all runs recorded exact pass@k, which unlike sampled pass@k does not become 1 by chance."""
        runs = [run for group in self.groups for run in group.runs]
        return all(f"coverage/exact_pass@{k}" in entry for run in runs for entry in run.history for k in self.ks)

    def curve(self, group: int, k: int) -> Curve:
        """pass@k of a group at those updates that all its runs were evaluated at; exact where ``exact_curves``.

        Args:
            group: its number, from 0.
            k: one of ``ks``.
        """
        by_update = [{entry["update"]: entry for entry in run.history} for run in self.groups[group].runs]
        updates = sorted(set.intersection(*(set(entries) for entries in by_update)))
        rows = [[entries[update] for update in updates] for entries in by_update]
        key = f"exact_pass@{k}" if self.exact_curves else f"pass@{k}"
        rollouts = np.array([[entry["rollouts"] for entry in row] for row in rows], float)
        values = np.array([[entry[f"coverage/{key}"] for entry in row] for row in rows], float)  # (S, T)
        low, high = values.min(0), values.max(0)
        if len(rows) == 1:
            ends = [entry.get("interval", {}).get(key, (math.nan, math.nan)) for entry in rows[0]]
            low, high = np.array(ends, float).T
        return Curve(rollouts.mean(0), values.mean(0), low, high)

    def shown(self, group: int) -> Interval:
        """Final pass@k of a group with the intervals to show.

        Of a single run see `shown_interval`. Where all mazes of several seeds are alike there is none, NaN: nothing
        varies that could be resampled.

        Args:
            group: its number, from 0.
        """
        mean, low, high = self.pass_at_k[group]
        if len(self.groups[group].runs) == 1:
            rows = zip(mean.tolist(), low.tolist(), high.tolist(), strict=True)
            low, high = np.array([shown_interval(*row, self.prompts) for row in rows]).T
            return Interval(mean, low, high)
        return _without_points(Interval(mean, low, high))

    def markdown(self) -> str:
        """The table, a column for each group and one for their difference, and what its figures are.

        More than two groups, and long labels, are listed before the table.
        """
        heads, columns = [group.label for group in self.groups], []
        for number, group in enumerate(self.groups):
            rollouts = sorted({run.rollouts for run in group.runs})
            spent = f"{rollouts[0]:,}" if len(rollouts) == 1 else f"{rollouts[0]:,} to {rollouts[-1]:,}"
            cells = [_percent(*ends) for ends in zip(*self.shown(number), strict=True)]
            columns.append([str(len(group.runs)), *cells, f"{100 * _solved(group):.2f}", spent])
        if self.difference is not None:
            heads.append("difference")
            difference = zip(*_without_points(self.difference), strict=True)
            columns.append(["", *(_points(*ends) for ends in difference), "", ""])
        lead = ""
        if len(self.groups) > 2 or max(map(len, heads)) > _MAX_HEAD:
            lead = "".join(f"{i}. {group.label}\n" for i, group in enumerate(self.groups, 1)) + "\n"
            heads[: len(self.groups)] = [str(i) for i in range(1, len(self.groups) + 1)]
        names = ["seeds", *(f"pass@{k}, %" for k in self.ks), "solved, %", "rollouts"]
        rows = list(zip(names, *columns, strict=True))
        return f"{lead}{markdown_table(['', *heads], rows, has_names=True)}\n\n{self.caption()}"

    def caption(self) -> str:
        """What the table's figures and intervals are."""
        what = f"{self.prompts} held-out {self.noun}"
        if self.size is not None:
            what += f" of {self.size[0]}x{self.size[1]} squares"
        seeds = [len(group.runs) for group in self.groups]
        parts = [
            f"Final pass@k on {what}, {self.num_samples} rollouts each; solved are {self.noun} with at least one "
            "success; rollouts are those that the training spent on each seed."
        ]
        if min(seeds) == 1:
            parts.append(
                f"Brackets of a single seed: 95 % interval over {self.noun} (normal approximation, near 0 and 100 % "
                "widened to Wilson's), blind to what another seed would give."
            )
        if max(seeds) > 1:
            parts.append(
                f"Brackets of several seeds: 95 % interval over seeds and {self.noun} (both resampled, "
                f"{RESAMPLES:,} bootstrap resamples), too narrow for two or three seeds; none where all are alike."
            )
        if self.difference is not None:
            first, second = (group.label for group in self.groups)
            over = self.noun if max(seeds) == 1 else f"seeds and {self.noun}"
            parts.append(
                f"Difference: {first} less {second} in percentage points, paired {self.noun[:-1]} by {self.noun[:-1]}"
                f"{' and seed by seed' if _same_seeds(*self.groups) and seeds[0] > 1 else ''}, with its 95 % bootstrap "
                f"interval over {over}."
            )
        return " ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON can hold it: fractions, and None for what is not known."""
        return {
            "size": None if self.size is None else list(self.size),
            "prompts": self.prompts,
            "num_samples": self.num_samples,
            "resamples": RESAMPLES,
            "groups": [self._group_json(i) for i in range(len(self.groups))],
            "difference": None if self.difference is None else _rows(self.ks, self.difference),
            "caption": self.caption(),
        }

    def _group_json(self, number: int) -> dict[str, Any]:
        group = self.groups[number]
        curves = {str(k): self.curve(number, k)._asdict() for k in self.ks}
        return {
            "label": group.label,
            "folders": [str(run.folder) for run in group.runs],
            "seeds": list(group.seeds),
            "interval_over": self.noun if len(group.runs) == 1 else f"seeds and {self.noun}",
            "pass_at_k": _rows(self.ks, self.pass_at_k[number]),
            "pass_at_k_of_seeds": [per_maze(run, self.ks).mean(0).tolist() for run in group.runs],
            "solved_fraction": _solved(group),
            "rollouts": [run.rollouts for run in group.runs],
            "curves_are_exact": self.exact_curves,
            "curves": {k: {name: _plain(values) for name, values in curve.items()} for k, curve in curves.items()},
        }


def compare(folders: Sequence[Path], resamples: int = RESAMPLES) -> Comparison:
    """Compare finished runs.

    Args:
        folders: of the runs.
        resamples: of the bootstrap.

    Raises:
        FileNotFoundError, ValueError: see `read_groups`.
    """
    groups = read_groups(folders)
    runs = [run for group in groups for run in group.runs]
    ks = tuple(sorted(set.intersection(*(set(run.ks) for run in runs))))
    values = [np.stack([per_maze(run, ks) for run in group.runs]) for group in groups]  # (S, M, K) each
    paired = len(groups) == 2 and _same_seeds(*groups)
    replicates = [
        _replicates(value, _share_mazes(group), 0 if paired else i, resamples)
        for i, (group, value) in enumerate(zip(groups, values, strict=True))
    ]
    intervals = []
    for group, value, replicate in zip(groups, values, replicates, strict=True):
        if len(group.runs) == 1:
            over_mazes = coverage(group.runs[0].successes, ks, group.runs[0].config.num_samples)
            intervals.append(Interval(over_mazes.pass_at_k, over_mazes.low, over_mazes.high))
        else:
            intervals.append(_interval(value.mean((0, 1)), replicate))
    difference = None
    if len(groups) == 2:
        mean = values[0].mean((0, 1)) - values[1].mean((0, 1))
        difference = _interval(mean, replicates[0] - replicates[1])
        if len(runs) == 2 and len(runs[0].successes) == 1:
            difference = Interval(mean, np.full(len(ks), np.nan), np.full(len(ks), np.nan))
    return Comparison(tuple(groups), ks, tuple(intervals), difference)


def _replicates(
    values: NDArray[np.float64], share_mazes: bool, stream: int, resamples: int
) -> NDArray[np.float64]:  # fmt: skip
    """(R, K) float64: means over resampled seeds and mazes.

    S seeds are drawn with replacement, and M mazes: for all seeds the same ones if these share their mazes, else anew
    for each seed drawn. All calls draw the same mazes, and those of one ``stream`` the same seeds, so that the
    difference of two groups' replicates is that of pairs.

    Args:
        values: (S, M, K) float64, pass@k of each seed and maze.
        share_mazes: whether maze m is the same for all seeds.
        stream: of the seeds' random numbers.
        resamples: R.

    References:
        Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 2007: both ways of a crossed table resampled,
        intervals that are rather too wide than too narrow where both are many.
    """
    seeds, mazes, ks = values.shape
    maze_random, seed_random = np.random.default_rng([_STREAM, 0]), np.random.default_rng([_STREAM, 1, stream])
    by_maze = values.transpose(1, 0, 2).reshape(mazes, seeds * ks)
    draws = 1 if share_mazes else seeds  # of mazes in a replicate
    chosen = seed_random.integers(seeds, size=(resamples, seeds))
    result = np.empty((resamples, ks))
    step = max(1, _MAX_CELLS // (draws * mazes))
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn = maze_random.integers(mazes, size=(rows * draws, mazes)) + mazes * np.arange(rows * draws)[:, None]
        times = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
        means = (times @ by_maze / mazes).reshape(rows, draws, seeds, ks)
        taken = means[np.arange(rows)[:, None], np.arange(seeds) % draws, chosen[start : start + rows]]  # (rows, S, K)
        result[start : start + rows] = taken.mean(1)
    return result


def _interval(mean: NDArray[np.float64], replicates: NDArray[np.float64]) -> Interval:
    low, high = np.quantile(replicates, _PERCENTILES, axis=0)
    return Interval(mean, low, high)


def _share_mazes(group: Group) -> bool:
    return len({run.held_out for run in group.runs}) == 1


def _same_seeds(one: Group, other: Group) -> bool:
    return one.seeds == other.seeds


def _solved(group: Group) -> float:
    return float(np.mean([(run.successes > 0).mean() for run in group.runs]))


def _without_points(interval: Interval) -> Interval:
    """With NaN for the ends where they are the same."""
    mean, low, high = interval
    return Interval(mean, *(np.where(low < high, end, np.nan) for end in (low, high)))


def _percent(mean: float, low: float, high: float) -> str:
    ends = "" if math.isnan(low) else f" [{percent_number(low)}, {percent_number(high)}]"
    return f"{percent_number(mean)}{ends}"


def _points(mean: float, low: float, high: float) -> str:
    ends = "" if math.isnan(low) else f" [{100 * low:+.2f}, {100 * high:+.2f}]"
    return f"{100 * mean:+.2f}{ends}"


def _plain(values: NDArray[np.float64]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


def _rows(ks: tuple[int, ...], interval: Interval) -> list[dict[str, Any]]:
    columns = zip(ks, *map(_plain, interval), strict=True)
    return [{"k": k, "mean": mean, "low": low, "high": high} for k, mean, low, high in columns]
