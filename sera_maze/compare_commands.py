"""The command ``sera-maze compare``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console
from rich.markdown import Markdown

from sera_maze.envs.atomic_files import check_folder, write_text
from sera_maze.envs.checks import check_int

NAME = "comparison"


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
    """Train runs to compare, on 9x9 mazes."""
    methods: tuple[
        Literal["uniform", "sera", "sera-critic", "sera-exact", "rloo", "grpo", "reinforce"], ...
    ] = ("uniform", "sera")  # fmt: skip
    """With --train: what to train."""
    seeds: int = 10
    """With --train: runs of each method."""
    warm_start: int | None = None
    """With --train: updates of imitation before, 100 if not given."""
    updates: int | None = None
    """With --train: updates of the reinforcement learning, 400 if not given."""
    rollouts_per_prompt: int | None = None
    """With --train: rollouts a maze, on average; 8 if not given."""
    num_mazes: int | None = None
    """With --train: mazes of the training pool, 2,048 if not given."""
    fresh_mazes: tyro.conf.FlagCreatePairsOff[bool] = False
    """With --train: train on mazes that never come twice (for methods that need no history)."""
    quick: tyro.conf.FlagCreatePairsOff[bool] = False
    """With --train: tiny runs, to try it out."""
    processes: int = 2
    """With --train: trainings at a time."""

    def run(self, console: Console) -> int:
        """Compare, print the table and return the exit status."""
        check_folder("--out", self.out)
        folders = self._trained(console) if self.train else list(self.folders)
        from sera_maze.compare import compare  # torch and matplotlib load only here
        from sera_maze.compare_figure import save_figure

        comparison = compare(folders)
        table = comparison.markdown()
        written = [save_figure(comparison, self.out / f"{NAME}.png")]
        for suffix, text in (("md", table), ("json", json.dumps(comparison.to_json(), indent=1, allow_nan=False))):
            written.append(write_text(self.out / f"{NAME}.{suffix}", text + "\n"))
        console.print(Markdown(table))
        for path in written:
            console.print(f"wrote {path}")
        return 0

    def _trained(self, console: Console) -> list[Path]:
        from sera_maze.studies.matched_budget import DEFAULT, QUICK, matched_runs

        if self.folders:
            raise ValueError("--train makes the runs that are compared; leave the folders out")
        if len(set(self.methods)) < max(1, len(self.methods)):
            raise ValueError(f"methods={self.methods}: give one or more, all different")
        check_int("seeds", self.seeds, 1, 10_000)
        check_int("processes", self.processes, 1, 1024)
        names = ("warm_start", "updates", "rollouts_per_prompt", "num_mazes")
        changes = {name: getattr(self, name) for name in names}
        # Which estimator of success a method uses is its own matter: only sera reads a history.
        base = (QUICK if self.quick else DEFAULT).changed({**changes, "success": "exact"})
        base = base.changed({"fresh_mazes": self.fresh_mazes})
        return matched_runs(
            base, self.methods, self.seeds, self.out / "runs", processes=self.processes, tell=console.print
        )
