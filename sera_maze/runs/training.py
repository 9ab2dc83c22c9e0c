"""A training run in a folder: pools, warm start, updates, checkpoints, evaluation, and going on after a stop."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.utils import LinearSchedule

from sera_maze.algorithm.checkpoint import load_checkpoint, save_checkpoint
from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.coverage.callback import CoverageCallback
from sera_maze.coverage.evaluation import Evaluation, evaluate
from sera_maze.coverage.path_sheets import FAILED, SOLVED, write_pictures
from sera_maze.coverage.unbiased import KS
from sera_maze.envs.ground.atomic_files import write_text
from sera_maze.envs.layouts.layout import digest_content
from sera_maze.envs.play.maze import MazeEnv
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.fresh import FreshMazes, Mazes
from sera_maze.envs.pools.pool import PAPERS_HELD_OUT_MAZES, PAPERS_SPEC, PAPERS_TRAINING_MAZES, MazePool
from sera_maze.policies.maze import MazePolicy, check_iterations
from sera_maze.policies.network import default_iterations
from sera_maze.runs.config import RunConfig
from sera_maze.runs.folder import CHECKPOINT, CONFIG, COVERAGE, LOGS, TABLE, check_trained_as, has_checkpoint, locked
from sera_maze.storage.run_log import resumed_logger

_SAVE_SECONDS = 30.0
_NO_END = 2**62  # steps; the updates end a run
# Added to a run's seed: for held-out mazes that are not shipped, and for mazes of an evaluation.
_HELD_OUT_STREAM, _EVALUATION_STREAM = 2**32, 2**33


def ks_of(config: RunConfig) -> tuple[int, ...]:
    """The values of k of a run's table: no more than it samples."""
    return tuple(k for k in KS if k <= config.num_samples)


def held_out_pool(config: RunConfig) -> MazePool:
    """The held-out mazes of a run: the shipped ones where they fit, else generated ones."""
    if _is_papers_kind(config) and config.mazes.held_out_mazes == PAPERS_HELD_OUT_MAZES:
        return MazePool.papers("held_out")
    return _generated(config, config.mazes.held_out_mazes, config.seed + _HELD_OUT_STREAM, [])


def _generated(config: RunConfig, count: int, seed: int, exclude: list[MazePool]) -> MazePool:
    mazes = config.mazes
    if mazes.distances is None:
        return MazePool.generate(count, mazes.size, mazes.algorithm, seed, exclude=exclude)
    each = count // len(mazes.distances)
    return MazePool.graded(each, mazes.distances, mazes.size, mazes.algorithm, seed, exclude=exclude)


def pools(config: RunConfig) -> tuple[Mazes, MazePool]:
    """The training mazes and the held-out pool of a run; they share no walls."""
    mazes, held_out = config.mazes, held_out_pool(config)
    if mazes.fresh_mazes:
        return FreshMazes(mazes.size, mazes.algorithm, config.seed, exclude=held_out), held_out
    if _is_papers_kind(config) and (mazes.num_mazes, len(held_out)) == (PAPERS_TRAINING_MAZES, PAPERS_HELD_OUT_MAZES):
        return MazePool.papers("train"), held_out
    return _generated(config, mazes.num_mazes, config.seed, [held_out]), held_out


def unseen_pool(config: RunConfig, count: int, size: tuple[int, int]) -> MazePool:
    """Mazes of any size with the run's algorithm, none of which the run has trained on or is evaluated on."""
    seen = [] if size != config.mazes.size else [pool for pool in pools(config) if isinstance(pool, MazePool)]
    return MazePool.generate(count, size, config.mazes.algorithm, config.seed + _EVALUATION_STREAM, exclude=seen)


def trained_on(model: MaxRL, pool: MazePool) -> int:
    """How many mazes of a pool, by their walls, are in the pool that a model trains on; 0 if that is fresh mazes."""
    training = model.fast_path.pool
    if not isinstance(training, MazePool):
        return 0
    walls = set(digest_content(training.walls))
    return sum(content in walls for content in digest_content(pool.walls))


def _is_papers_kind(config: RunConfig) -> bool:
    kind = (config.mazes.size, config.mazes.algorithm, config.mazes.distances)
    return kind == (PAPERS_SPEC.size, PAPERS_SPEC.algorithm, None)


def build_model(config: RunConfig, pool: Mazes, device: str = "auto") -> MaxRL:
    """A fresh model of a run."""
    return MaxRL(
        "MazePolicy", MazeEnv(pool, on_wall=config.mazes.on_wall), LinearSchedule(config.learning_rate, 0.0, 1.0),
        **asdict(config.method), policy_kwargs=asdict(config.policy), seed=config.seed, device=device,
    )  # fmt: skip


class RunCallback(BaseCallback):
    """Saves checkpoints now and then, and shows the progress: a bar, or lines where there is no terminal."""

    def __init__(self, folder: Path, progress: Progress, coverage: CoverageCallback, config: RunConfig):
        super().__init__()
        self.folder, self.progress, self.coverage, self.config = folder, progress, coverage, config
        self.task = progress.add_task("training", total=config.updates, figures="")
        self._saved = time.monotonic()
        self._told: int | None = None

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        self._show()
        if time.monotonic() - self._saved > _SAVE_SECONDS:
            assert isinstance(self.model, MaxRL)
            _save(self.model, self.folder, self.config)
            self._saved = time.monotonic()

    def _on_training_end(self) -> None:
        self._show()

    def _show(self) -> None:
        assert isinstance(self.model, MaxRL)
        update, values = self.model._n_updates, self.model.last_figures
        figures = f"success {100 * values['success_rate']:.1f} %" if values else ""
        if self.coverage.history:
            last = self.coverage.history[-1]
            shown = [k for k in (1, 128, 256) if f"coverage/pass@{k}" in last]
            figures += "  held out: " + ", ".join(f"pass@{k} {100 * last[f'coverage/pass@{k}']:.1f}" for k in shown)
            console = self.progress.console
            if not console.is_terminal and last["update"] not in (self._told, 0):
                console.print(f"update {update} of {self.config.updates}: {figures}")
                self._told = last["update"]
        self.progress.update(self.task, completed=update, figures=figures)


def train(
    config: RunConfig, folder: Path, console: Console, *, resume: bool = False, device: str = "auto"
) -> Evaluation:
    """Run or go on with a training run, and write its final table and pictures.

    Args:
        config: of the run.
        folder: of the run, see `sera_maze.runs.folder` for what it holds.
        console: to report to.
        resume: whether the folder holds a run to go on with; one that was stopped before its first checkpoint begins
            again.
        device: "cpu", "cuda" or "auto".

    Raises:
        KeyboardInterrupt: after a checkpoint has been saved.
        ValueError: if another process trains in the folder, its config is not that of its checkpoint, or the training
            comes upon numbers that are not finite; the last checkpoint stays then.
    """
    started = time.monotonic()
    new = None if resume else _new(config, console, device)  # which refuses what cannot be, before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        if resume and has_checkpoint(folder):
            check_trained_as(config, folder)
            model, held_out = load_checkpoint(folder / CHECKPOINT, device=device), held_out_pool(config)
            console.print(f"going on after update {model._n_updates} of {config.updates}")
        else:
            model, held_out = new or _new(config, console, device)
            config.save(folder / CONFIG)
            _begin(model, config, console, len(held_out))
            _save(model, folder, config)
        if model.num_timesteps == 0:  # what was logged before a stop is logged again
            shutil.rmtree(folder / LOGS, ignore_errors=True)
            (folder / COVERAGE).unlink(missing_ok=True)
        if model._n_updates < config.updates:  # an earlier, shorter run's table does not belong to this run
            for name in (f"{TABLE}.json", f"{TABLE}.md", SOLVED, FAILED):
                (folder / name).unlink(missing_ok=True)
        _learn(model, held_out, config, folder, console)
        console.print(f"{model._n_updates} updates, {model.total_rollouts} rollouts, {model.num_timesteps} steps")
        evaluation = evaluate_run(model, held_out, config, folder)
    console.print(f"total time {time.monotonic() - started:.0f} s")
    return evaluation


def _new(config: RunConfig, console: Console, device: str) -> tuple[MaxRL, MazePool]:
    """The model of a run that begins, and its held-out mazes."""
    console.print("making mazes")
    pool, held_out = pools(config)
    return build_model(config, pool, device), held_out


def _save(model: MaxRL, folder: Path, config: RunConfig) -> None:
    save_checkpoint(model, folder / CHECKPOINT, asdict(config))


def _begin(model: MaxRL, config: RunConfig, console: Console, held_out: int) -> None:
    """The warm start of a fresh run."""
    started = time.monotonic()
    height, width = config.mazes.size
    kind = "fresh" if config.mazes.fresh_mazes else f"{model.num_prompts}"
    console.print(f"{kind} training mazes and {held_out} held-out ones of {height}x{width} squares")
    if not config.warm_start:
        return
    with _progress(console) as progress:
        task = progress.add_task("warm start", total=config.warm_start, figures="imitating shortest paths")
        model.warm_start(config.warm_start, after_update=lambda update: progress.update(task, completed=update + 1))
    console.print(f"warm start: {config.warm_start} updates in {time.monotonic() - started:.0f} s")


def _learn(model: MaxRL, held_out: MazePool, config: RunConfig, folder: Path, console: Console) -> None:
    model.set_logger(resumed_logger(folder / LOGS, model.num_timesteps, ("tensorboard", "csv")))
    coverage = CoverageCallback(
        held_out, eval_freq_updates=config.eval_every, num_samples=config.num_samples, ks=ks_of(config),
        log_path=folder / COVERAGE,
    )  # fmt: skip
    with _progress(console) as progress:
        callback = RunCallback(folder, progress, coverage, config)
        try:
            model.learn(
                _NO_END, CallbackList([coverage, callback]), reset_num_timesteps=False, total_updates=config.updates
            )
        except (KeyboardInterrupt, SystemExit):  # rich exits when nobody reads its output any more
            # The batch in progress is dropped: what is saved is a state between two batches.
            _save(model, folder, config)
            raise
        finally:
            model.logger.close()
    _save(model, folder, config)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=12), MofNCompleteColumn(),
        TimeRemainingColumn(compact=True), TextColumn("{task.fields[figures]}"), console=console,
        disable=not console.is_terminal,
    )  # fmt: skip


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

    Raises:
        ValueError, TypeError: for iterations out of range.
    """
    assert isinstance(model.policy, MazePolicy)
    usual = model.policy.iterations
    if iterations is None and pool.size != config.mazes.size:
        iterations = default_iterations(*pool.size)
    wanted = usual if iterations is None else check_iterations(iterations)
    folder.mkdir(parents=True, exist_ok=True)
    model.policy.iterations = wanted
    try:
        evaluation = evaluate(
            model.policy, pool, num_samples=config.num_samples, ks=ks_of(config),
            rules=MazeRules(pool.size, on_wall=config.mazes.on_wall), seed=config.seed,
        )  # fmt: skip
        write_pictures(evaluation, model.policy, pool, folder)
    finally:
        model.policy.iterations = usual
    for suffix, text in (("json", json.dumps(evaluation.to_json(), indent=1)), ("md", evaluation.markdown())):
        write_text(folder / f"{TABLE}.{suffix}", text + "\n")
    return evaluation
