"""The command ``sera-maze align``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from sera_maze.envs.ground.atomic_files import check_folder


@dataclass(frozen=True)
class Align:
    """Measure how well gradient estimates align with the exact likelihood gradient (needs the extra "studies")."""

    quick: bool = False
    """A small version, under a minute."""
    seed: int = 0
    """Fixes mazes, policies and rollouts."""
    processes: int = 2
    """Trainings and batches of mazes at a time, each on one thread; the numbers are the same for any."""
    out: Path = Path("alignment")
    """Folder for alignment.md, .png and .json, and alignment_estimators.png."""

    def run(self, console: Console) -> int:
        """Measure, print the tables, and return the exit status."""
        # torch and matplotlib load only here
        from sera_maze.studies.alignment.report import markdown, write_report
        from sera_maze.studies.alignment.study import QUICK, Setting, alignment_study
        from sera_maze.studies.extras import scipy_stats

        scipy_stats()  # which says at once if scipy is missing
        check_folder("--out", self.out)
        self.out.mkdir(parents=True, exist_ok=True)
        setting = replace(QUICK if self.quick else Setting(), seed=self.seed)
        rows = alignment_study(setting, console.print, processes=self.processes)
        console.print(Markdown(markdown(rows, setting)))
        for path in write_report(rows, setting, self.out):
            console.print(f"wrote {path}")
        return 0
