"""Runs that are to be compared: reading what they left, refusing what cannot be compared, and grouping seeds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sera_maze.coverage.callback import read_history
from sera_maze.coverage.unbiased import coverage
from sera_maze.envs.ground.options import differences, leaves
from sera_maze.runs.config import MADE_BY, Config, ScriptConfig, load_config
from sera_maze.runs.folder import COVERAGE, TABLE, as_argument, require_run
from sera_maze.runs.maze_task import held_out_pool


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run.

    Attributes:
        folder: of the run.
        config: of the run.
        ks: values of k of its final table, rising.
        successes: (M,) int64, final successes of each held-out prompt.
        held_out: names the M held-out prompts in their order.
        noun: what these are, in the plural: "mazes" or "prompts".
        history: entries of its `CoverageCallback`, by rising update.
    """

    folder: Path
    config: Config
    ks: tuple[int, ...]
    successes: NDArray[np.int64]
    held_out: str
    noun: str
    history: tuple[dict[str, Any], ...]

    @property
    def rollouts(self) -> int:
        """Rollouts sampled in training."""
        return int(self.history[-1]["rollouts"])


@dataclass(frozen=True, eq=False)
class Group:
    """Runs whose configs differ only in the seed.

    Attributes:
        label: what tells the group from the others.
        runs: by rising seed.
    """

    label: str
    runs: tuple[Run, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, rising."""
        return tuple(run.config.seed for run in self.runs)


def read_run(folder: Path) -> Run:
    """Read a finished run.

    Args:
        folder: of the run.

    Raises:
        FileNotFoundError: if it is not the folder of a run, or the run is not finished.
        ValueError: if its files are not those of one run.
    """
    config = load_config(require_run(folder))
    remedy = f"finish it with: sera-maze train --resume {as_argument(folder)}"
    if isinstance(config, ScriptConfig):
        remedy = "finish it: run its script again"
    path, log = folder / f"{TABLE}.json", folder / COVERAGE
    for needed in (path, log):
        if not needed.is_file():
            raise FileNotFoundError(f"the run in {folder} is not finished, it has no {needed.name}; {remedy}")
    history = tuple(sorted(read_history(log), key=lambda entry: int(entry["update"])))
    if not history or history[-1]["update"] < config.updates:
        last = history[-1]["update"] if history else 0
        raise FileNotFoundError(
            f"the run in {folder} is not finished, {log.name} ends with update {last} of {config.updates}; {remedy}"
        )
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        ks, successes, difficulty = _outcomes(data)
        if data["num_samples"] != config.num_samples:
            raise ValueError("it is of another number of rollouts than config.json says")
        for entry in history:
            _check_entry(entry, ks)
    except (ValueError, TypeError, KeyError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} and {log.name} are not those of the run ({what}); {remedy}") from None
    if isinstance(config, ScriptConfig):
        return Run(folder, config, ks, successes, str(data["digest"] or folder), "prompts", history)
    pool = held_out_pool(config)
    if difficulty.tolist() != pool.shortest_lengths.tolist() or data.get("digest", pool.digest) != pool.digest:
        raise ValueError(f"{path} is not of the held-out mazes of {folder / 'config.json'}; {remedy}")
    return Run(folder, config, ks, successes, pool.digest, "mazes", history)


def read_groups(folders: Sequence[Path]) -> list[Group]:
    """Read runs that can be compared, and put those together that differ only in the seed.

    Args:
        folders: of the runs.

    Returns:
        Groups in the order of their first runs. Two groups share their held-out mazes.

    Raises:
        FileNotFoundError, ValueError: if there is no run, one is no finished run, one comes twice, or they differ in
            the size or choice of their held-out mazes or in the rollouts for each.
    """
    if not folders:
        raise ValueError("there is nothing to compare; name the folders of one or more runs")
    places = [folder.resolve() for folder in folders]
    for i, folder in enumerate(folders):
        if places[i] in places[:i]:
            raise ValueError(f"{folder} is named twice; name each run once")
    runs = [read_run(folder) for folder in folders]
    for run in runs[1:]:
        _check_comparable(runs[0], run)
    together: dict[Config, list[Run]] = {}
    for run in runs:
        together.setdefault(replace(run.config, seed=0), []).append(run)
    groups = [sorted(members, key=lambda run: run.config.seed) for members in together.values()]
    for members in groups:
        for one, other in pairwise(members):
            if one.config.seed == other.config.seed:
                raise ValueError(
                    f"{one.folder} and {other.folder} are the same run by their config.json, seed and all: leave one "
                    "out, or if they differ in what it cannot tell, give their train_script other names"
                )
        _check_same_mazes(groups[0], members)
    labels = _labels(groups)
    return [Group(label, tuple(members)) for label, members in zip(labels, groups, strict=True)]


def per_maze(run: Run, ks: Sequence[int]) -> NDArray[np.float64]:
    """(M, K) float64: estimates of pass@k of each maze."""
    return coverage(run.successes, ks, run.config.num_samples).per_maze


def _outcomes(data: Any) -> tuple[tuple[int, ...], NDArray[np.int64], NDArray[np.int64]]:
    """The ks, successes and difficulties of an `Evaluation.to_json`."""
    if not isinstance(data, dict):
        raise TypeError("it is not an object")
    rows, each = data["pass_at_k"], data["per_prompt"] if "per_prompt" in data else data["per_maze"]
    ks = tuple(sorted({int(row["k"]) for row in rows}))
    successes = np.array(each["successes"])
    difficulty = np.array(each["difficulty"] if "difficulty" in each else each["shortest_length"])
    coverage(successes, ks, data["num_samples"])  # which checks them
    if difficulty.ndim and difficulty.shape != successes.shape:
        raise ValueError(f"it has successes of {len(successes)} prompts and difficulties of {len(difficulty)}")
    return ks, successes.astype(np.int64), difficulty


def _check_entry(entry: dict[str, Any], ks: tuple[int, ...]) -> None:
    for key in ("rollouts", *(f"coverage/pass@{k}" for k in ks)):
        if not isinstance(entry[key], int | float):
            raise TypeError(f"{key} of update {entry['update']} is {entry[key]!r}, not a number")


_OF_MAZES = (
    ("size", "mazes of different sizes"),
    ("algorithm", "different held-out mazes"),
    ("held_out_mazes", "different held-out mazes"),
    ("distances", "different held-out mazes"),
    ("num_samples", "different numbers of rollouts for each held-out maze"),
)
_OF_SCRIPTS = (
    ("held_out", "different held-out prompts"),
    ("num_held_out", "different held-out prompts"),
    ("environment", "different environments"),
    ("held_out_environment", "different environments of the held-out prompts"),
    ("num_samples", "different numbers of rollouts for each held-out prompt"),
)


def _check_comparable(one: Run, other: Run) -> None:
    remedy = "compare runs that are evaluated alike"
    if type(one.config) is not type(other.config):
        made = [MADE_BY[type(run.config)] for run in (one, other)]
        raise ValueError(f"{one.folder} and {other.folder} are runs of {made[0]} and of {made[1]}; {remedy}")
    differing = differences(one.config, other.config)
    for name, what in _OF_SCRIPTS if isinstance(one.config, ScriptConfig) else _OF_MAZES:
        if name in differing:
            first, second = differing[name]
            said = f"{name}={first!r} and {second!r}"
            raise ValueError(f"{one.folder} and {other.folder} have {what} ({said}); {remedy}")
    if not set(one.ks) & set(other.ks):
        raise ValueError(f"{one.folder} and {other.folder} have no k of pass@k in common; {remedy}")


def _check_same_mazes(one: Sequence[Run], other: Sequence[Run]) -> None:
    """Check that two groups are evaluated on the same mazes: held-out mazes that are not shipped follow the seed."""
    known, found = {run.held_out for run in one}, {run.held_out for run in other}
    for group, mazes in ((one, found), (other, known)):
        for run in group:
            if run.held_out not in mazes:
                apart = other[0] if group is one else one[0]
                why, remedy = "which follow the seed in mazes of this kind", "compare runs of the same seeds"
                if isinstance(run.config, ScriptConfig):
                    why, remedy = "as far as can be told", "name them by prompts_digest of their environments"
                raise ValueError(
                    f"{run.folder} (seed {run.config.seed}) and {apart.folder} have different held-out {run.noun}, "
                    f"{why}; {remedy}"
                )


def _labels(groups: Sequence[Sequence[Run]]) -> list[str]:
    """What differs between the groups; of a single one the name of its folder, that of the lowest seed."""
    configs = [members[0].config for members in groups]
    differing = {name for config in configs for name in differences(configs[0], config)} - {"seed"}
    if not differing:
        return [members[0].folder.resolve().name for members in groups]
    told = [{name: value for name, value in leaves(config).items() if name in differing} for config in configs]
    return [", ".join(f"{name}={value}" for name, value in options.items()) for options in told]
