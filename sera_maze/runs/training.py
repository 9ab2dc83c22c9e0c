"""A training run in a folder: warm start, updates, checkpoints, evaluation, and going on after a stop."""

from __future__ import annotations

import json
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.vec_env import VecEnv

from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.algorithm.normalization import model_normalization
from sera_maze.coverage.callback import CoverageCallback
from sera_maze.coverage.evaluation import check_ks, evaluated
from sera_maze.coverage.evaluator import Evaluator, training_rules
from sera_maze.coverage.path_sheets import FAILED, SOLVED, write_pictures
from sera_maze.coverage.tables import Evaluation
from sera_maze.envs.ground.atomic_files import write_text
from sera_maze.envs.pools.prompts import Prompts
from sera_maze.runs.config import Config
from sera_maze.runs.folder import CHECKPOINT, CONFIG, COVERAGE, LOGS, TABLE, check_trained_as, has_checkpoint, locked
from sera_maze.storage.run_log import resumed_logger

_SAVE_SECONDS = 30.0
_NO_END = 2**62  # steps; the updates end a run


class Task(ABC):
    """What a run trains, on what, and what it is judged by.

    Attributes:
        config: of the run.
        held_out: prompts of the evaluations.
        env: environments over them, where the policy must be stepped; else None.
        callback: one more of SB3's; None for none.
    """

    config: Config
    held_out: Prompts
    env: VecEnv | None = None
    callback: BaseCallback | None = None

    @abstractmethod
    def make(self, console: Console) -> MaxRL:
        """A fresh model; refuses what cannot be, before anything is written."""

    @abstractmethod
    def load(self, folder: Path) -> MaxRL:
        """The model of a checkpoint, ready to learn."""

    def warm_start(self, model: MaxRL, after_update: Callable[[int], object]) -> None:
        """Let a fresh model imitate, for all of the config's updates."""
        model.warm_start(self.config.warm_start, after_update=after_update)

    def describe(self, model: MaxRL) -> str:
        """A line on the prompts, as the run begins."""
        return f"{model.num_prompts} training prompts and {len(self.held_out)} held-out ones"

    def evaluator(self, model: MaxRL) -> Evaluator:
        """Of the model's policy on the held-out prompts."""
        rules = training_rules(self.held_out, self.env, model.get_env())
        return Evaluator(
            model.policy, self.held_out, rules=rules, seed=self.config.seed, env=self.env,
            normalization=model_normalization(model),
        )  # fmt: skip

    def save(self, model: MaxRL, folder: Path) -> None:
        """Save a checkpoint of the run in a folder."""
        model.save_checkpoint(folder / CHECKPOINT, asdict(self.config))


class RunCallback(BaseCallback):
    """Saves checkpoints now and then, and shows the progress: a bar, or lines where there is no terminal."""

    def __init__(self, folder: Path, progress: Progress, coverage: CoverageCallback, task: Task):
        super().__init__()
        self.folder, self.progress, self.coverage, self.of = folder, progress, coverage, task
        self.bar = progress.add_task("training", total=task.config.updates, figures="")
        self._saved = time.monotonic()
        self._told: int | None = None

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        self._show()
        if time.monotonic() - self._saved > _SAVE_SECONDS:
            self.of.save(self.model, self.folder)  # type: ignore[arg-type]
            self._saved = time.monotonic()

    def _on_training_end(self) -> None:
        self._show()

    def _show(self) -> None:
        update, values = self.coverage.updates, getattr(self.model, "last_figures", {})
        said = [f"success {100 * values['rollout/success_rate']:.1f} %"] if values else []
        if self.coverage.history:
            last = self.coverage.history[-1]
            shown = [k for k in (1, 128, 256) if f"coverage/pass@{k}" in last]
            values_of = "/".join(f"{100 * last[f'coverage/pass@{k}']:.1f}" for k in shown)
            said.insert(0, f"pass@{'/'.join(map(str, shown))} {values_of} held out")
            console = self.progress.console
            if not console.is_terminal and last["update"] not in (self._told, 0):
                console.print(f"update {update} of {self.of.config.updates}: {', '.join(said)}", soft_wrap=True)
                self._told = last["update"]
        figures = ", ".join(said)
        self.progress.update(self.bar, completed=update, figures=figures)


def run_task(task: Task, folder: Path, console: Console, *, resume: bool = False) -> Evaluation:
    """Begin or go on with a run, and write its final table and, of mazes, pictures.

    Args:
        task: of the run.
        folder: of the run, see `sera_maze.runs.folder` for what it holds.
        console: to report to.
        resume: whether the folder holds a run to go on with; one that was stopped before its first checkpoint begins
            again.

    Raises:
        KeyboardInterrupt: after a checkpoint has been saved.
        ValueError: if another process trains in the folder, its config is not that of its checkpoint, or the training
            comes upon numbers that are not finite; the last checkpoint stays then.
    """
    started, config = time.monotonic(), task.config
    if not resume and has_checkpoint(folder):
        raise ValueError(
            f"{folder / CHECKPOINT} holds a checkpoint, but the folder has no {CONFIG} of a run: it would be written "
            "over; choose another folder, or move it away"
        )
    new = None if resume else task.make(console)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        if resume and has_checkpoint(folder):
            check_trained_as(config, folder)
            model = task.load(folder / CHECKPOINT)
            config.save(folder / CONFIG)  # with more updates, perhaps
            console.print(f"going on after update {model.updates} of {config.updates}")
        else:
            model = task.make(console) if new is None else new
            config.save(folder / CONFIG)
            console.print(task.describe(model))
            _warm_start(model, task, console)
            task.save(model, folder)
        if model.num_timesteps == 0:  # what was logged before a stop is logged again
            shutil.rmtree(folder / LOGS, ignore_errors=True)
            (folder / COVERAGE).unlink(missing_ok=True)
        if model.updates < config.updates:  # an earlier, shorter run's table does not belong to this run
            for name in (f"{TABLE}.json", f"{TABLE}.md", SOLVED, FAILED):
                (folder / name).unlink(missing_ok=True)
        _learn(model, task, folder, console)
        if model.updates < config.updates:
            console.print(f"a callback stopped the training after update {model.updates} of {config.updates}")
        console.print(f"{model.updates} updates, {model.total_rollouts} rollouts, {model.num_timesteps} steps")
        evaluation = write_evaluation(task.evaluator(model), config, folder)
    console.print(f"total time {time.monotonic() - started:.0f} s")
    return evaluation


def _warm_start(model: MaxRL, task: Task, console: Console) -> None:
    updates = task.config.warm_start
    if not updates:
        return
    started = time.monotonic()
    with _progress(console) as progress:
        bar = progress.add_task("warm start", total=updates, figures="imitating shortest paths")
        task.warm_start(model, lambda update: progress.update(bar, completed=update + 1))
    console.print(f"warm start: {updates} updates in {time.monotonic() - started:.0f} s")


def _learn(model: MaxRL, task: Task, folder: Path, console: Console) -> None:
    config = task.config
    model.set_logger(resumed_logger(folder / LOGS, model.num_timesteps, ("tensorboard", "csv")))
    coverage = CoverageCallback(
        task.held_out, env=task.env, eval_freq_updates=config.eval_every, num_samples=config.num_samples,
        log_path=folder / COVERAGE,
    )  # fmt: skip
    with _progress(console) as progress:
        callbacks = [coverage, RunCallback(folder, progress, coverage, task)]
        if task.callback is not None:
            callbacks.append(task.callback)
        try:
            model.learn(_NO_END, CallbackList(callbacks), reset_num_timesteps=False, total_updates=config.updates)
        except (KeyboardInterrupt, SystemExit):  # rich exits when nobody reads its output any more
            # The batch in progress is dropped: what is saved is a state between two batches.
            task.save(model, folder)
            raise
        finally:
            model.logger.close()
    task.save(model, folder)


def _progress(console: Console) -> Progress:
    # On a narrow terminal the figures are cut off, not the bar, the count and the time left.
    rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    return Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=12), MofNCompleteColumn(),
        TimeRemainingColumn(compact=True), TextColumn("{task.fields[figures]}", table_column=rest), console=console,
        disable=not console.is_terminal, expand=True,
    )  # fmt: skip


def evaluation_of(evaluator: Evaluator, config: Config) -> Evaluation:
    """Evaluate with the config's number of rollouts."""
    return evaluated(evaluator, config.num_samples, check_ks(None, config.num_samples), evaluator.knows_exact)


def write_evaluation(evaluator: Evaluator, config: Config, folder: Path) -> Evaluation:
    """Evaluate and write the table (JSON and Markdown) and, of mazes, the pictures into a folder.

    Args:
        evaluator: of a run's policy.
        config: of the run.
        folder: for the files; made if it is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    evaluation = evaluation_of(evaluator, config)
    if evaluator.mazes is not None:
        write_pictures(evaluation, evaluator, folder)
    for suffix, text in (("json", json.dumps(evaluation.to_json(), indent=1)), ("md", evaluation.markdown())):
        write_text(folder / f"{TABLE}.{suffix}", text + "\n")
    return evaluation
