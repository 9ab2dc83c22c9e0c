"""The command line, ``sera-maze``: one frozen dataclass of options for each command."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rich.console import Console

from sera_maze import __version__
from sera_maze.envs.pool import MazePool

# A sheet shows the first mazes of larger pools.
_MAX_DRAWN = 100
_MAX_PROVENANCE = 400  # characters
_USER_ERRORS = (ValueError, TypeError, OSError)


@dataclass(frozen=True)
class Mazes:
    """Print, draw, count and export mazes: generated ones, a saved pool, a folder of drawings or the papers' sets."""

    count: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 3
    """Number of different mazes to generate."""
    size: str = "17x17"
    """Grid squares, walls included, as HEIGHTxWIDTH or one number; odd."""
    algorithm: Literal["prim", "dfs", "kruskal", "wilson", "division", "rooms"] = "prim"
    """How the mazes are carved."""
    seed: int = 0
    """Which mazes."""
    braid: float = 0.0
    """Share of the dead ends that are opened, 0 to 1."""
    openings: int = 0
    """Number of further walls removed from each maze."""
    endpoints: Literal["corners", "random", "farthest", "distance"] = "corners"
    """Where start and goal lie."""
    distance: int | None = None
    """Moves from start to goal, with --endpoints distance."""
    load: Path | None = None
    """Instead of generating: a pool file (.npz) or a folder of drawings (*.txt)."""
    papers: Literal["train", "held_out"] | None = None
    """Instead of generating: 7,424 training or 256 held-out mazes of the papers' size and kind."""
    show: int = 3
    """Number of mazes to print."""
    style: Literal["ascii", "blocks"] = "ascii"
    """How walls are printed: # or full blocks."""
    out: tuple[Path, ...] = ()
    """Files to write: .npz (pool), .png (drawings), .txt (all drawings), .jsonl (layouts with token prompts), or a
    folder (a drawing in each file)."""

    def run(self, console: Console) -> None:
        """Print a summary and the first mazes, then write the files."""
        pool = self._pool()
        for line in summary(pool):
            console.print(line)
        for i in range(min(self.show, len(pool))):
            console.print(f"\nmaze {i}, {pool.shortest_lengths[i]} moves, {pool.digests[i]}")
            console.print(pool[i].to_text(self.style))
        for path in self.out:
            console.print(f"wrote {_export(pool, path)}")

    def _pool(self) -> MazePool:
        if self.load is not None and self.papers is not None:
            raise ValueError("--load and --papers exclude each other; give one")
        if self.papers is not None:
            return MazePool.papers(self.papers)
        if self.load is not None:
            return MazePool.from_folder(self.load) if self.load.is_dir() else MazePool.load(self.load)
        return MazePool.generate(
            self.count, parse_size(self.size), self.algorithm, self.seed, braid=self.braid, openings=self.openings,
            endpoints=self.endpoints, distance=self.distance,
        )  # fmt: skip


COMMANDS: dict[str, Any] = {"mazes": Mazes}


def parse_size(text: str) -> tuple[int, int]:
    """Read "17x17" or "17" as (height, width).

    Raises:
        ValueError: for other text.
    """
    match = re.fullmatch(r"(\d+)(?:[xX](\d+))?", text.strip())
    if match is None:
        raise ValueError(f"size {text!r} is not HEIGHTxWIDTH or one number; try 17x17")
    return int(match[1]), int(match[2] or match[1])


def summary(pool: MazePool) -> list[str]:
    """What a pool holds, in a few lines of text."""
    lengths = pool.shortest_lengths
    is_open = ~pool.walls
    ways = sum(np.roll(is_open, shift, axis).astype(int) for axis in (1, 2) for shift in (1, -1))
    dead_ends = (is_open & (ways == 1)).sum(axis=(1, 2))
    height, width = pool.size
    source = json.dumps({key: value for key, value in pool.provenance.items() if value is not None})
    return [
        f"{len(pool)} different mazes of {height}x{width} squares ({height // 2}x{width // 2} cells)",
        f"shortest path: {lengths.min()} to {lengths.max()} moves, median {np.median(lengths):g}",
        f"dead ends a maze: {dead_ends.mean():.1f}; open squares: {is_open.sum(axis=(1, 2)).mean():.1f}",
        f"provenance: {textwrap.shorten(source, _MAX_PROVENANCE, placeholder=' ...')}",
    ]


def _export(pool: MazePool, path: Path) -> Path:
    if path.suffix == ".npz":
        return pool.save(path)
    if path.suffix == ".png":
        return _draw(pool, path)
    if path.suffix == ".txt":
        return _write(path, "\n\n".join(layout.to_text() for layout in pool) + "\n")
    if path.suffix == ".jsonl":
        from sera_maze.envs.tokens import prompt_text

        rows = ({**json.loads(x.to_json()), "digest": x.digest, "prompt": prompt_text(x)} for x in pool)
        return _write(path, "".join(json.dumps(row) + "\n" for row in rows))
    if path.suffix:
        raise ValueError(f"{path}: {path.suffix} is not known; allowed are .npz, .png, .txt, .jsonl or a folder")
    digits = len(str(len(pool) - 1))
    for i, layout in enumerate(pool):
        _write(path / f"maze_{i:0{digits}d}.txt", layout.to_text() + "\n")
    return path


def _draw(pool: MazePool, path: Path) -> Path:
    from sera_maze.envs import pictures  # pygame is loaded when something is drawn

    drawn = pool[:_MAX_DRAWN]
    labels = [f"maze {i}, {length} moves" for i, length in enumerate(drawn.shortest_lengths)]
    return pictures.save_png(pictures.contact_sheet(list(drawn), labels=labels), path)


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status: 0, or 2 for wrong input, which is told without a traceback."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if arguments == ["--version"]:
        console.print(f"sera-maze {__version__}")
        return 0
    command = tyro.extras.subcommand_cli_from_dict(
        COMMANDS, prog="sera-maze", description="Mazes for likelihood-style reinforcement learning.", args=arguments
    )
    try:
        command.run(console)
    except _USER_ERRORS as error:
        Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(f"sera-maze: error: {error}")
        return 2
    return 0
