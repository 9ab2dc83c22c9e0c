"""The command ``sera-maze train``."""

from __future__ import annotations

import datetime
import shlex
import signal
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console
from rich.markdown import Markdown

from sera_maze.cli.choices import parse_size
from sera_maze.envs.generating.generate import MazeSpec
from sera_maze.envs.ground.atomic_files import check_folder
from sera_maze.runs.config import PRESETS, RunConfig

SOLVED, FAILED = "solved.png", "failed.png"
_STOPPED = 130  # the exit status of a program that Ctrl-C ended


@dataclass(frozen=True)
class Train:
    """Train a maze agent with SERA: warm start, then reinforcement learning, then the coverage table.

    Options that are not given are those of the preset; config.json in the run's folder has them all.
    """

    preset: Literal["default", "quick", "hour", "paper"] | None = None
    """default: 17x17, minutes; quick: 9x9, about a minute; hour: 17x17, many mazes; paper: the papers' setting."""
    out: Path | None = None
    """Folder of the run; by default runs/DATE-PRESET."""
    resume: Path | None = None
    """Go on with the run in this folder; its own config is used."""
    seed: int | None = None
    """Fixes mazes, parameters and rollouts."""
    size: str | None = None
    """Grid squares of the mazes, walls included, as HEIGHTxWIDTH or one number; odd."""
    algorithm: Literal["prim", "dfs", "kruskal", "wilson", "division", "rooms"] | None = None
    """How the mazes are carved."""
    num_mazes: int | None = None
    """Mazes of the training pool."""
    fresh_mazes: tyro.conf.FlagCreatePairsOff[bool] = False
    """Train on mazes that never come twice, instead of a pool; with --success critic, unless another is given."""
    held_out_mazes: int | None = None
    """Mazes that are held out for evaluation."""
    on_wall: Literal["fail", "stay"] | None = None
    """What a move into a wall does."""
    warm_start: int | None = None
    """Updates that imitate shortest paths before."""
    updates: int | None = None
    """Updates of the reinforcement learning."""
    prompts_per_batch: int | None = None
    """Mazes of a batch."""
    rollouts_per_prompt: int | None = None
    """Rollouts a maze, on average."""
    allocator: Literal["sera", "uniform", "sera_posterior", "vip", "knapsack"] | None = None
    """How a batch's rollouts are shared out."""
    advantage: Literal["maxrl", "rloo", "grpo", "reinforce", "success_average"] | None = None
    """The estimator."""
    success: Literal["history", "critic", "critic_history", "exact"] | None = None
    """Where the success probabilities come from."""
    learning_rate: float | None = None
    """Of the first update; it falls linearly to zero."""
    channels: int | None = None
    """Width of the policy."""
    iterations: int | None = None
    """Iterations of the policy."""
    eval_every: int | None = None
    """Updates between evaluations."""
    num_samples: int | None = None
    """Rollouts for each held-out maze."""
    device: str = "auto"
    """cpu, cuda or auto."""
    threads: int | None = None
    """CPU threads of torch; by default as many as cores."""

    def run(self, console: Console) -> int:
        """Train, and return the exit status."""
        from sera_maze.runs import folder as run_folder  # torch and Stable-Baselines3 load only here
        from sera_maze.runs import training

        run_folder.set_threads(self.threads)
        device = run_folder.checked_device(self.device)
        folder = self.resume or self.out or _new_folder(self.preset or "default")
        if folder == Path() and self.resume is None:
            raise ValueError("--out is empty or the present folder; name a folder for the run")
        check_folder("--out" if self.resume is None else "--resume", folder)
        quoted = shlex.quote(str(folder))
        if self.resume is not None:
            self._refuse_changes()
            config = RunConfig.load(run_folder.require_run(folder))
        else:
            if (folder / run_folder.CONFIG).exists():
                raise ValueError(f"{folder} already holds a run; go on with --resume {quoted}, or choose another --out")
            config = self._config()
        console.print(f"run folder: {folder}")
        terminated = signal.signal(signal.SIGTERM, signal.default_int_handler)  # it is a stop, like Ctrl-C
        try:
            evaluation = training.train(config, folder, console, resume=self.resume is not None, device=device)
        except KeyboardInterrupt:
            is_begun = (folder / run_folder.CONFIG).exists()
            console.print(f"stopped; go on with: sera-maze train --resume {quoted}" if is_begun else "stopped")
            return _STOPPED
        finally:
            signal.signal(signal.SIGTERM, terminated)
        console.print(Markdown(evaluation.markdown()))
        pictures = [path for path in (folder / SOLVED, folder / FAILED) if path.exists()]
        console.print(f"pictures: {', '.join(map(str, pictures))}")
        console.print(f"curves: tensorboard --logdir {quoted}")
        return 0

    def _changes(self) -> dict[str, object]:
        names = {field.name for field in fields(RunConfig)} - {"size"}
        given = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return {name: value for name, value in given.items() if value is not None and value is not False}

    def _config(self) -> RunConfig:

        changes = self._changes()
        if self.fresh_mazes and self.success is None:
            changes["success"] = "critic"
        if self.size is not None:
            changes["size"] = MazeSpec(parse_size(self.size)).size
        return PRESETS[self.preset or "default"].changed(changes)

    def _refuse_changes(self) -> None:
        others = [name for name in ("size", "out", "preset") if getattr(self, name) is not None]
        changed = [*self._changes(), *others]
        if changed:
            raise ValueError(f"--resume goes on with the run's own config; leave out --{changed[0].replace('_', '-')}")


def _new_folder(preset: str) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{stamp}-{preset}"
