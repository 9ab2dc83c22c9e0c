"""The commands ``sera-maze train``, ``eval`` and ``bench``."""

from __future__ import annotations

import datetime
import json
import shlex
import signal
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console
from rich.markdown import Markdown

from sera_maze.envs.atomic_files import check_folder, write_text
from sera_maze.envs.generate import MazeSpec
from sera_maze.envs.layout_files import SUFFIXES, read_layouts
from sera_maze.envs.pool import MazePool
from sera_maze.presets import PRESETS, RunConfig

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
        from sera_maze import run_folder, training  # torch and Stable-Baselines3 load only here

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
        from sera_maze.cli import parse_size

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


@dataclass(frozen=True)
class Eval:
    """Evaluate a trained agent: pass@k with intervals over mazes, success by path length, pictures."""

    folder: tyro.conf.Positional[Path]
    """Folder of the run."""
    load: Path | None = None
    """Mazes to evaluate on: a file of 'sera-maze mazes --out', or a folder of drawings; by default the run's held-out
    mazes."""
    size: str | None = None
    """Instead: mazes of this size, HEIGHTxWIDTH or one number, that the run has never seen."""
    count: int | None = None
    """Number of mazes, with --size; 256 by default."""
    iterations: int | None = None
    """Iterations of the policy; by default as many as the size of the mazes asks for."""
    num_samples: int | None = None
    """Rollouts for each maze; by default as in training."""
    out: Path | None = None
    """Folder for table and pictures; by default one in the run's, by the mazes: eval, eval-33x33 or eval-NAME."""
    device: str = "auto"
    """cpu, cuda or auto."""

    def run(self, console: Console) -> int:
        """Evaluate, and return the exit status."""
        from sera_maze import run_folder, training  # torch and Stable-Baselines3 load only here

        device = run_folder.checked_device(self.device)
        model, config = run_folder.open_run(self.folder, device)
        pool, name = choose_mazes(config, self.load, self.size, self.count)
        if self.num_samples is not None:
            config = config.changed({"num_samples": self.num_samples})
        folder = self.out or self.folder / name
        evaluation = training.evaluate_run(model, pool, config, folder, self.iterations)
        console.print(Markdown(evaluation.markdown()))
        console.print(f"table and pictures: {folder}")
        return 0


@dataclass(frozen=True)
class Bench:
    """Measure the speed of training on this machine, beside Stable-Baselines3's PPO and A2C in the same run."""

    what: tyro.conf.Positional[tuple[Literal["learn", "walk", "allocate", "paper", "growth"], ...]] = (
        "learn", "walk", "allocate", "paper",
    )  # fmt: skip
    """learn: steps per second inside learn(); walk: of walks through tables; allocate: time of an allocation; paper:
    time and memory of an update of the papers' size; growth: time an update for more mazes and more rollouts."""
    threads: int | None = None
    """CPU threads of torch."""
    device: str = "cpu"
    """cpu or cuda."""
    out: Path | None = None
    """JSON file for the figures."""

    def run(self, console: Console) -> int:
        """Measure, print a table for each part, and return the exit status."""
        import torch  # loads only here, like what follows

        from sera_maze import bench, run_folder

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


def choose_mazes(config: RunConfig, load: Path | None, size: str | None, count: int | None) -> tuple[MazePool, str]:
    """The mazes that the options of a command ask for, and a name for the folder of their evaluation.

    Args:
        config: of the run whose held-out mazes are taken if nothing else is asked for.
        load: the option --load.
        size: --size.
        count: --count.

    Raises:
        ValueError: if the options exclude each other, or there are no such mazes.
    """
    from sera_maze import training
    from sera_maze.cli import parse_size

    if load is not None and size is not None:
        raise ValueError("--load and --size exclude each other; give one")
    if count is not None and size is None:
        raise ValueError("--count is for mazes of a given --size; leave it out, or give one")
    if load is not None:
        return load_pool(load), f"eval-{load.stem}"
    if size is None:
        return training.held_out_pool(config), "eval"
    height, width = MazeSpec(parse_size(size)).size
    pool = training.unseen_pool(config, 256 if count is None else count, (height, width))
    return pool, f"eval-{height}x{width}"


def load_pool(path: Path) -> MazePool:
    """Read mazes from a folder of drawings or a file that 'sera-maze mazes --out' wrote.

    Raises:
        FileNotFoundError, ValueError: if there are none.
    """
    if path.is_dir():
        return MazePool.from_folder(path)
    if path.suffix.lower() in SUFFIXES:
        return MazePool.from_layouts(read_layouts(path), provenance={"made_by": "file", "file": path.name})
    return MazePool.load(path)


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _new_folder(preset: str) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{stamp}-{preset}"
