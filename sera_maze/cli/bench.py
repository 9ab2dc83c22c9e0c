"""The command ``sera-maze bench``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from sera_maze.cli.choices import unless_given
from sera_maze.envs.ground.atomic_files import check_folder, write_text


@dataclass(frozen=True)
class Bench:
    """Measure the speed of training on this machine, beside Stable-Baselines3's PPO and A2C in the same run."""

    what: tyro.conf.Positional[tuple[Literal["learn", "walk", "allocate", "paper", "growth"], ...]] = (
        "learn", "walk", "allocate", "paper",
    )  # fmt: skip
    """learn: steps per second inside learn(); walk: of walks through tables; allocate: time of an allocation; paper:
    time and memory of an update of the papers' size; growth: time an update for more mazes and more rollouts."""
    threads: Annotated[int | None, unless_given("as many as cores")] = None
    """CPU threads of torch."""
    device: str = "cpu"
    """cpu or cuda."""
    out: Annotated[Path | None, unless_given("none is written")] = None
    """JSON file for the figures."""

    def run(self, console: Console) -> int:
        """Measure, print a table for each part, and return the exit status."""
        import torch  # loads only here, like what follows

        from sera_maze.runs import folder as run_folder
        from sera_maze.studies import speed as bench

        if self.out is not None:
            check_folder("--out", self.out.parent)
        run_folder.set_threads(self.threads)
        device = run_folder.checked_device(self.device)
        record: dict[str, Any] = {"threads": torch.get_num_threads(), "device": device, "torch": torch.__version__}
        console.print(f"{record['threads']} threads, {device}; medians of several rounds")
        for name in self.what:
            console.print(f"\n{' '.join((bench.BENCHES[name].__doc__ or '').split())}")
            record[name] = []
            for figure in bench.BENCHES[name](device):
                against = "" if figure.ratio is None else f"   ours is {figure.ratio:,.0f} times that"
                console.print(f"  {figure.name:<44}{_digits(figure.value):>14} {figure.unit:<8}{against}")
                record[name].append(figure._asdict())
        if self.out is not None:
            write_text(self.out, json.dumps(record, indent=1) + "\n")
            console.print(f"wrote {self.out}")
        return 0


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
