"""The command ``sera-maze digits``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.markdown import Markdown

from sera_maze.cli.choices import unless_given
from sera_maze.envs.ground.atomic_files import check_folder


@dataclass(frozen=True)
class Digits:
    """Classify handwritten digits by trial and error, against exact cross-entropy (needs the extra "studies")."""

    quick: bool = False
    """A small version, under a minute."""
    seed: int = 0
    """The first of the seeds."""
    seeds: Annotated[int | None, unless_given("5, with --quick 2")] = None
    """Number of seeds."""
    processes: int = 2
    """Trainings at a time, each on one thread."""
    out: Path = Path("digits")
    """Folder for digits.md, .png and .json, and the trainings; finished ones are kept there."""

    def run(self, console: Console) -> int:
        """Train, measure, print the tables, and return the exit status."""
        from sera_maze.studies.digits.report import markdown, write_report
        from sera_maze.studies.digits.study import QUICK, Setting, digits_study  # torch and matplotlib load only here
        from sera_maze.studies.extras import scipy_stats

        scipy_stats()  # which says at once if scipy is missing
        setting = QUICK if self.quick else Setting()
        setting = replace(setting, seed=self.seed, seeds=setting.seeds if self.seeds is None else self.seeds)
        check_folder("--out", self.out)
        self.out.mkdir(parents=True, exist_ok=True)
        runs = digits_study(setting, self.out / "runs", processes=self.processes, tell=console.print)
        console.print(Markdown(markdown(runs, setting)))
        for path in write_report(runs, setting, self.out):
            console.print(f"wrote {path}")
        return 0
