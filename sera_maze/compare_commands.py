"""The command ``sera-maze compare``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.markdown import Markdown

from sera_maze.envs.atomic_files import whole_file

NAME = "comparison"


@dataclass(frozen=True)
class Compare:
    """Compare finished runs: final pass@k with intervals, and the way there, in a table and a figure.

    Runs that differ only in their seed are put together. The runs need the same held-out mazes.
    """

    folders: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of the runs."""
    out: Path = Path(NAME)
    """Folder for comparison.png, comparison.md and comparison.json."""

    def run(self, console: Console) -> int:
        """Compare, print the table and return the exit status."""
        for place in (self.out, *self.out.parents):
            if place.exists() and not place.is_dir():
                raise ValueError(f"--out {self.out}: {place} is a file; name a folder")
        try:
            from sera_maze.compare_figure import save_figure  # torch and matplotlib load only here
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "matplotlib":
                raise
            raise ValueError("the figure needs the package matplotlib; pip install matplotlib") from None
        from sera_maze.compare import compare

        comparison = compare(self.folders)
        table = comparison.markdown()
        written = [save_figure(comparison, self.out / f"{NAME}.png")]
        for suffix, text in (("md", table), ("json", json.dumps(comparison.to_json(), indent=1, allow_nan=False))):
            path = self.out / f"{NAME}.{suffix}"
            with whole_file(path) as file:
                file.write((text + "\n").encode())
            written.append(path)
        console.print(Markdown(table))
        for path in written:
            console.print(f"wrote {path}")
        return 0
