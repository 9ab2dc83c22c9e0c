"""The command ``sera-maze align``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown


@dataclass(frozen=True)
class Align:
    """Measure how well gradient estimates align with the exact likelihood gradient (needs the extra "studies")."""

    quick: bool = False
    """A small version, under a minute."""
    seed: int = 0
    """Fixes mazes, policies and rollouts."""
    threads: int | None = None
    """CPU threads of torch."""
    out: Path = Path("alignment")
    """Folder for alignment.md, .png and .json."""

    def run(self, console: Console) -> int:
        """Measure, print the tables, and return the exit status."""
        from dataclasses import replace

        from sera_maze.run_folder import set_threads  # torch and matplotlib load only here, like what follows
        from sera_maze.studies.alignment import QUICK, Setting, alignment_study
        from sera_maze.studies.alignment_report import difference, markdown, write_report

        set_threads(self.threads)
        import numpy as np

        difference(np.array([0.0, 1.0]), np.zeros(2))  # which says at once if scipy is missing
        for place in (self.out, *self.out.parents):
            if place.exists() and not place.is_dir():
                raise ValueError(f"--out {self.out}: {place} is a file; name a folder")
        self.out.mkdir(parents=True, exist_ok=True)
        setting = replace(QUICK if self.quick else Setting(), seed=self.seed)
        rows = alignment_study(setting, console.print)
        console.print(Markdown(markdown(rows, setting)))
        for path in write_report(rows, setting, self.out):
            console.print(f"wrote {path}")
        return 0
