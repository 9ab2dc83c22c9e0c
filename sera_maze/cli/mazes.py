"""The command ``sera-maze mazes``."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import tyro
from rich.console import Console

from sera_maze.cli.choices import load_pool, parse_size, unless_given
from sera_maze.envs.generating.spec import Algorithm, Endpoints
from sera_maze.envs.ground.atomic_files import check_folder, write_text
from sera_maze.envs.ground.checks import check_int

if TYPE_CHECKING:
    from sera_maze.envs.pools.pool import MazePool

# A sheet shows the first mazes of larger pools.
_MAX_DRAWN = 100
_MAX_PROVENANCE = 400  # characters
_GENERATOR_OPTIONS = ("count", "size", "algorithm", "seed", "braid", "openings", "endpoints", "distance")
_OUTPUTS = (".npz", ".png", ".txt", ".jsonl", "")


@dataclass(frozen=True)
class Mazes:
    """Print, draw, count and export mazes: generated ones, a saved pool, a folder of drawings or the papers' sets."""

    count: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 3
    """Number of different mazes to generate."""
    size: str = "17x17"
    """Grid squares, walls included, as HEIGHTxWIDTH or one number; odd."""
    algorithm: Algorithm = "prim"
    """How the mazes are carved."""
    seed: int = 0
    """Which mazes."""
    braid: float = 0.0
    """Probability with which each dead end is opened, 0 to 1."""
    openings: int = 0
    """Number of further walls removed from each maze."""
    endpoints: Endpoints = "corners"
    """Where start and goal lie."""
    distance: Annotated[int | None, unless_given("the endpoints decide")] = None
    """Moves from start to goal, with --endpoints distance."""
    load: Annotated[Path | None, unless_given("mazes are generated")] = None
    """Instead of generating: a file that --out wrote (.npz, .txt, .jsonl), or a folder of drawings (*.txt)."""
    papers: Annotated[Literal["train", "held_out"] | None, unless_given("mazes are generated")] = None
    """Instead of generating: 7,424 training or 256 held-out mazes of the papers' size and kind."""
    show: int = 3
    """Number of mazes to print."""
    style: Literal["ascii", "blocks"] = "ascii"
    """How walls are printed: # or full blocks."""
    out: tuple[Path, ...] = ()
    """Files to write: .npz (pool), .png (drawings), .txt (all drawings), .jsonl (layouts with token prompts), or a
    folder without drawings so far (a drawing in each file)."""

    def run(self, console: Console) -> None:
        """Print a summary and the first mazes, then write the files."""
        for path in self.out:
            _check_output(path)
        check_int("show", self.show, 0, 2**31)
        pool = self._pool()
        for line in summary(pool):
            console.print(line)
        for i in range(min(self.show, len(pool))):
            console.print(f"\nmaze {i}, {pool.shortest_lengths[i]} moves, {pool.digests[i]}")
            console.print(pool[i].to_text(self.style))
        for path in self.out:
            console.print(f"wrote {_export(pool, path)}")

    def _pool(self) -> MazePool:
        from sera_maze.envs.pools.pool import MazePool  # numba loads only here

        if self.load is not None and self.papers is not None:
            raise ValueError("--load and --papers exclude each other; give one")
        if self.load is not None or self.papers is not None:
            self._check_nothing_is_generated("--load" if self.papers is None else "--papers")
        if self.papers is not None:
            return MazePool.papers(self.papers)
        if self.load is not None:
            return load_pool(self.load)
        return MazePool.generate(
            self.count, parse_size(self.size), self.algorithm, self.seed, braid=self.braid, openings=self.openings,
            endpoints=self.endpoints, distance=self.distance,
        )  # fmt: skip

    def _check_nothing_is_generated(self, instead: str) -> None:
        defaults = {field.name: field.default for field in fields(self)}
        for name in _GENERATOR_OPTIONS:
            if getattr(self, name) != defaults[name]:
                raise ValueError(f"--{name} is for mazes that are generated, and {instead} takes others; leave one out")


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


def _check_output(path: Path) -> None:
    """Refuse what could not be written, before the mazes are made."""
    for parent in path.parents:
        if parent.exists() and not parent.is_dir():
            raise ValueError(f"{path}: {parent} is a file, not a folder; choose another name")
    if path.suffix not in _OUTPUTS:
        raise ValueError(f"{path}: {path.suffix} is not known; allowed are .npz, .png, .txt, .jsonl or a folder")
    if path.suffix and path.is_dir():
        raise ValueError(f"{path} is a folder; name a file, or a folder whose name does not end in {path.suffix}")
    if not path.suffix and path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file; end its name in .npz, .png, .txt or .jsonl, or name a folder")
    if not path.suffix and any(path.glob("maze_*.txt")):
        raise ValueError(f"the folder {path} already holds mazes (maze_*.txt); remove them, or name another folder")
    check_folder("--out", path.parent if path.suffix else path)


def _export(pool: MazePool, path: Path) -> Path:
    if path.suffix == ".npz":
        return pool.save(path)
    if path.suffix == ".png":
        return _draw(pool, path)
    if path.suffix == ".txt":
        return write_text(path, "\n\n".join(layout.to_text() for layout in pool) + "\n")
    if path.suffix == ".jsonl":
        from sera_maze.envs.tokens import prompt_text

        rows = ({**json.loads(x.to_json()), "digest": x.digest, "prompt": prompt_text(x)} for x in pool)
        return write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    digits = len(str(len(pool) - 1))
    for i, layout in enumerate(pool):
        write_text(path / f"maze_{i:0{digits}d}.txt", layout.to_text() + "\n")
    return path


def _draw(pool: MazePool, path: Path) -> Path:
    from sera_maze.envs.pictures import sheets as pictures  # pygame is loaded when something is drawn

    drawn = pool[:_MAX_DRAWN]
    labels = [f"maze {i}, {length} moves" for i, length in enumerate(drawn.shortest_lengths)]
    return pictures.save_png(pictures.contact_sheet(list(drawn), labels=labels), path)
