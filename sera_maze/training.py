"""A training run in a folder: pools, warm start, updates, checkpoints, evaluation, and going on after a stop."""

from __future__ import annotations

import json
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.utils import LinearSchedule

from sera_maze.callbacks import CoverageCallback
from sera_maze.checkpoint import load_checkpoint, save_checkpoint
from sera_maze.envs.atomic_files import whole_file
from sera_maze.envs.fresh_mazes import FreshMazes, Mazes
from sera_maze.envs.generate import check_int
from sera_maze.envs.maze import MazeEnv
from sera_maze.envs.pool import PAPERS_HELD_OUT_MAZES, PAPERS_SPEC, MazePool
from sera_maze.envs.rules import MazeRules
from sera_maze.evaluation import Evaluation, evaluate
from sera_maze.evaluation_pictures import write_pictures
from sera_maze.maxrl import MaxRL
from sera_maze.network import default_iterations
from sera_maze.policies import MazePolicy
from sera_maze.presets import RunConfig
from sera_maze.run_log import resumed_logger

CONFIG, CHECKPOINT, LOGS, TABLE, COVERAGE = "config.json", "checkpoint", "tensorboard", "evaluation", "coverage.jsonl"
KS = (1, 8, 32, 128, 256)
_SAVE_SECONDS = 30.0
_NO_END = 2**62  # steps; the updates end a run
_HELD_OUT_STREAM = 2**32  # added to a run's seed for held-out mazes that are not shipped


def ks_of(config: RunConfig) -> tuple[int, ...]:
    """The values of k of a run's table: no more than it samples."""
    return tuple(k for k in KS if k <= config.num_samples)


def held_out_seed(config: RunConfig) -> int:
    """Seed of the held-out mazes of a run, where they are not the shipped ones."""
    return config.seed + _HELD_OUT_STREAM


def held_out_pool(config: RunConfig) -> MazePool:
    """The held-out mazes of a run: the shipped ones where they fit, else generated ones."""
    spec = (config.size, config.algorithm)
    if spec == (PAPERS_SPEC.size, PAPERS_SPEC.algorithm) and config.held_out_mazes == PAPERS_HELD_OUT_MAZES:
        return MazePool.papers("held_out")
    return MazePool.generate(config.held_out_mazes, *spec, held_out_seed(config))


def pools(config: RunConfig) -> tuple[Mazes, MazePool]:
    """The training mazes and the held-out pool of a run; they share no walls."""
    held_out = held_out_pool(config)
    if config.fresh_mazes:
        return FreshMazes(config.size, config.algorithm, config.seed, exclude=held_out), held_out
    pool = MazePool.generate(config.num_mazes, config.size, config.algorithm, config.seed, exclude=[held_out])
    return pool, held_out


def build_model(config: RunConfig, pool: Mazes, device: str = "auto") -> MaxRL:
    """A fresh model of a run."""
    return MaxRL(
        "MazePolicy", MazeEnv(pool, on_wall=config.on_wall), LinearSchedule(config.learning_rate, 0.0, 1.0),
        prompts_per_batch=config.prompts_per_batch, rollouts_per_prompt=config.rollouts_per_prompt,
        allocator=config.allocator, advantage=config.advantage, success=config.success, n_max=config.n_max,
        policy_kwargs={"channels": config.channels, "iterations": config.iterations}, seed=config.seed, device=device,
    )  # fmt: skip


class RunCallback(BaseCallback):
    """Saves checkpoints now and then, and shows the progress."""

    def __init__(self, folder: Path, progress: Progress, coverage: CoverageCallback, updates: int):
        super().__init__()
        self.folder, self.progress, self.coverage = folder, progress, coverage
        self.task = progress.add_task("training", total=updates, figures="")
        self._saved = time.monotonic()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        assert isinstance(self.model, MaxRL)
        values = self.model.last_figures
        figures = f"train {100 * values['success_rate']:.1f} %" if values else ""
        if self.coverage.history:
            last = self.coverage.history[-1]
            figures += "  pass " + " ".join(
                f"@{k} {100 * last[f'coverage/pass@{k}']:.1f}" for k in (1, 128, 256) if f"coverage/pass@{k}" in last
            )
        self.progress.update(self.task, completed=self.model._n_updates, figures=figures)
        if time.monotonic() - self._saved > _SAVE_SECONDS:
            save_checkpoint(self.model, self.folder / CHECKPOINT)
            self._saved = time.monotonic()


def train(
    config: RunConfig, folder: Path, console: Console, *, resume: bool = False, device: str = "auto"
) -> Evaluation:
    """Run or go on with a training run, and write its final table and pictures.

    Args:
        config: of the run.
        folder: of the run, see the module's constants for what it holds.
        console: to report to.
        resume: whether the folder holds a run to go on with.
        device: "cpu", "cuda" or "auto".

    Raises:
        KeyboardInterrupt: after a checkpoint has been saved.
    """
    started = time.monotonic()
    pool, held_out = pools(config)
    if resume:
        model = load_checkpoint(folder / CHECKPOINT, MazeEnv(pool, on_wall=config.on_wall), device=device)
        console.print(f"going on after update {model._n_updates} of {config.updates}")
    else:
        folder.mkdir(parents=True, exist_ok=True)
        config.save(folder / CONFIG)
        model = build_model(config, pool, device)
        height, width = pool.size
        kind = "fresh" if config.fresh_mazes else f"{len(pool)}"
        console.print(f"{kind} training mazes and {len(held_out)} held-out ones of {height}x{width} squares")
        model.warm_start(config.warm_start)
        console.print(f"warm start: {config.warm_start} updates in {time.monotonic() - started:.0f} s")
        save_checkpoint(model, folder / CHECKPOINT)
    model.set_logger(resumed_logger(folder / LOGS, model.num_timesteps, ("tensorboard", "csv")))
    coverage = CoverageCallback(
        held_out, eval_freq_updates=config.eval_every, num_samples=config.num_samples, ks=ks_of(config),
        log_path=folder / COVERAGE,
    )  # fmt: skip
    columns = (
        BarColumn(bar_width=12), MofNCompleteColumn(), TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[figures]}"),
    )  # fmt: skip
    with Progress(*columns, console=console) as progress:
        callback = RunCallback(folder, progress, coverage, config.updates)
        try:
            model.learn(
                _NO_END, CallbackList([coverage, callback]), reset_num_timesteps=False, total_updates=config.updates
            )
        finally:
            # After Ctrl-C the batch in progress is dropped: what is saved is a state between two batches.
            save_checkpoint(model, folder / CHECKPOINT)
    console.print(f"{model._n_updates} updates, {model.total_rollouts} rollouts, {model.num_timesteps} steps")
    evaluation = evaluate_run(model, held_out, config, folder)
    console.print(f"total time {time.monotonic() - started:.0f} s")
    return evaluation


def evaluate_run(
    model: MaxRL, pool: MazePool, config: RunConfig, folder: Path, iterations: int | None = None
) -> Evaluation:
    """Evaluate a run's policy and write the table (JSON and Markdown) and the pictures into a folder.

    Args:
        model: of the run.
        pool: mazes of any size.
        config: of the run.
        folder: for the files.
        iterations: of the policy; None: as in training, and on other sizes `default_iterations`.
    """
    assert isinstance(model.policy, MazePolicy)
    folder.mkdir(parents=True, exist_ok=True)
    usual = model.policy.iterations
    if iterations is None and pool.size != config.size:
        iterations = default_iterations(*pool.size)
    model.policy.iterations = usual if iterations is None else iterations
    try:
        evaluation = evaluate(
            model.policy, pool, num_samples=config.num_samples, ks=ks_of(config),
            rules=MazeRules(pool.size, on_wall=config.on_wall), seed=config.seed,
        )  # fmt: skip
        write_pictures(evaluation, model.policy, pool, folder)
    finally:
        model.policy.iterations = usual
    for suffix, text in (("json", json.dumps(evaluation.to_json(), indent=1)), ("md", evaluation.markdown())):
        with whole_file(folder / f"{TABLE}.{suffix}") as file:
            file.write((text + "\n").encode())
    return evaluation


def require_run(folder: Path) -> Path:
    """The config file of a run's folder.

    Raises:
        FileNotFoundError: if it is not the folder of a run.
    """
    if not (folder / CONFIG).is_file():
        raise FileNotFoundError(f"{folder} is not the folder of a run, it has no {CONFIG}; 'sera-maze train' makes one")
    return folder / CONFIG


def open_run(folder: Path, device: str = "auto") -> tuple[MaxRL, RunConfig]:
    """The model and the config of a run's folder.

    Raises:
        FileNotFoundError, ValueError: if it is not the folder of a run.
    """
    config = RunConfig.load(require_run(folder))
    return load_checkpoint(folder / CHECKPOINT, device=device), config


def set_threads(threads: int | None) -> None:
    """Let torch use so many CPU threads; None leaves its choice."""
    if threads is not None:
        torch.set_num_threads(check_int("threads", threads, 1, 1024))
