"""The command ``sera-maze doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console


@dataclass(frozen=True)
class Doctor:
    """Print versions, threads, device, places to write and display, to be pasted into an issue."""

    runs: Path = Path("runs")
    """Folder in which runs lie or would lie."""

    def run(self, console: Console) -> int:
        """Print a line for each part, also for those that fail, and return 0."""
        from sera_maze.runs.machine import describe_machine

        for name, text in describe_machine(self.runs):
            console.print(f"{name + ':':<11}{text}")
        return 0
