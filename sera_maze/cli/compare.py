"""The command ``sera-maze compare``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.markdown import Markdown

from sera_maze.cli.choices import unless_given
from sera_maze.envs.ground.atomic_files import check_folder, write_text
from sera_maze.envs.ground.checks import check_int

if TYPE_CHECKING:
    from sera_maze.runs.comparison import Comparison

NAME = "comparison"
_ONLY_WITH_TRAIN = (
    "methods", "setting", "seeds", "warm_start", "updates", "rollouts_per_prompt", "num_mazes", "quick", "processes",
)  # fmt: skip


@dataclass(frozen=True)
class Compare:
    """Compare finished runs: final pass@k with intervals, and the way there, in a table and a figure.

    Runs that differ only in their seed are put together. The runs need the same held-out mazes. With --train the runs
    are trained first, into OUT/runs: several methods with several seeds, each pair from the same warm start, with the
    same number of rollouts. What is finished there is kept, so that a stopped study goes on.
    """

    folders: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Folders of the runs."""
    out: Path = Path(NAME)
    """Folder for comparison.png, comparison.md and comparison.json."""
    train: tyro.conf.FlagCreatePairsOff[bool] = False
    """Train runs to compare, on 9x9 mazes (needs the extra "studies")."""
    methods: tuple[
        Literal[
            "uniform", "sera", "uniform-critic", "sera-critic", "sera-critic-history", "sera-posterior", "sera-exact",
            "vip", "knapsack", "rloo", "grpo", "reinforce",
        ], ...
    ] = ("uniform", "sera")  # fmt: skip
    """With --train: what to train; the first one is what the others are compared with."""
    setting: Literal[
        "default", "hard", "easy", "fresh", "small-pool", "large-pool", "graded", "17x17", "more-rollouts",
        "no-threshold", "low-rate", "high-rate", "no-clipping",
    ] = "default"  # fmt: skip
    """With --train: on what; config.json in a run's folder has it all."""
    seeds: int = 10
    """With --train: runs of each method."""
    warm_start: Annotated[int | None, unless_given("that of the setting")] = None
    """With --train: updates of imitation before."""
    updates: Annotated[int | None, unless_given("that of the setting")] = None
    """With --train: updates of the reinforcement learning."""
    rollouts_per_prompt: Annotated[int | None, unless_given("that of the setting")] = None
    """With --train: rollouts a maze, on average."""
    num_mazes: Annotated[int | None, unless_given("that of the setting")] = None
    """With --train: mazes of the training pool."""
    quick: tyro.conf.FlagCreatePairsOff[bool] = False
    """With --train: tiny runs, to try it out."""
    processes: int = 2
    """With --train: trainings at a time."""

    def run(self, console: Console) -> int:
        """Compare, print the table and return the exit status."""
        check_folder("--out", self.out)
        if self.train:
            return self._study(console)
        for name in _ONLY_WITH_TRAIN:
            if getattr(self, name) != getattr(Compare(), name):
                raise ValueError(
                    f"--{name.replace('_', '-')} is for --train, which makes runs; add it or leave this out"
                )
        from sera_maze.runs.comparison import compare  # torch and matplotlib load only here

        comparison = compare(list(self.folders))
        self._write(console, comparison, comparison.markdown(), comparison.to_json())
        return 0

    def _study(self, console: Console) -> int:
        """Train what is not trained yet, and report on all of it."""
        from sera_maze.runs.comparison import compare
        from sera_maze.studies.extras import scipy_stats
        from sera_maze.studies.matched.report import report, to_json
        from sera_maze.studies.matched.study import QUICK, SETTINGS, matched_runs, outcomes

        if self.folders:
            raise ValueError("--train makes the runs that are compared; leave the folders out")
        check_int("seeds", self.seeds, 1, 10_000)
        if self.quick and self.setting != "default":
            raise ValueError(f"--quick has mazes of its own; leave out --setting {self.setting}")
        scipy_stats()  # which says at once if it is missing
        names = ("warm_start", "updates", "rollouts_per_prompt", "num_mazes")
        own = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        base = (QUICK if self.quick else SETTINGS[self.setting]).changed(own)
        runs = self.out / "runs"
        check_folder("--out", runs)
        folders = matched_runs(base, self.methods, self.seeds, runs, processes=self.processes, tell=console.print)
        found = outcomes(base, self.methods, self.seeds, runs)
        self._write(console, compare(folders), report(found), {"methods": to_json(found)})
        return 0

    def _write(self, console: Console, comparison: Comparison, table: str, record: dict[str, Any]) -> None:
        from sera_maze.runs.figure import save_figure

        written = [save_figure(comparison, self.out / f"{NAME}.png")]
        for suffix, text in (("md", table), ("json", json.dumps(record, indent=1, allow_nan=False))):
            written.append(write_text(self.out / f"{NAME}.{suffix}", text + "\n"))
        console.print(Markdown(table))
        for path in written:
            console.print(f"wrote {path}")
