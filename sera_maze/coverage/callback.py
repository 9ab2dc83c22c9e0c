"""`CoverageCallback`: pass@k on held-out prompts while training, for any on-policy algorithm of Stable-Baselines3."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv

from sera_maze.algorithm.normalization import model_normalization
from sera_maze.algorithm.resumable import uninterrupted
from sera_maze.coverage.dashboard import Dashboard, LastBatch
from sera_maze.coverage.evaluation import check_ks, evaluated
from sera_maze.coverage.evaluator import Evaluator, check_not_shared, prompts_and_env, training_rules
from sera_maze.coverage.tables import Evaluation
from sera_maze.coverage.unbiased import interval_over_mazes
from sera_maze.envs.ground.atomic_files import write_text
from sera_maze.envs.ground.checks import check_flag, check_int, known_arguments
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.prompts import Prompts
from sera_maze.exact.probability import exact_pass_at_k
from sera_maze.storage.run_log import is_on_board, tensorboards


class CoverageCallback(BaseCallback):
    """Evaluates the policy on held-out prompts every so many updates, and logs and keeps the outcome.

    It evaluates before the first batch, when ``eval_freq_updates`` more updates are complete, and at the end of the
    training; always between two batches. So the policy has taken every gradient step of the batches so far, the
    logger's step is the steps spent on these, and a MazePolicy runs with its usual number of iterations. (In
    ``on_rollout_end`` the policy would lack the gradient step of the batch whose steps are counted already.)

    Logged at once, in a table of their own: ``coverage/pass@k`` for each k, from a fixed number of rollouts a prompt;
    ``coverage/exact_pass@k``, where success probabilities are known; ``coverage/solved_fraction``;
    ``coverage/distinct_solutions`` a prompt, where they can be told apart; ``coverage/mean_steps`` of a rollout. What
    else waits to be logged goes on waiting. TensorBoard, where the logger writes for it, also gets hyperparameters and
    a layout once in a run, and histograms and pictures with each evaluation; see `Dashboard`.

    The training does not notice: the same random numbers in every evaluation, none of them from a global generator or
    one of the training's, and the policy's mode is put back.

    Args:
        prompts: held-out ones, such as a `MazePool`; or promptable environments over them, which are ``env`` too then.
        eval_freq_updates: batches from one evaluation to the next.
        num_samples: rollouts of each prompt, whatever their outcome.
        ks: values of k for pass@k, see `evaluate`.
        exact: whether to log exact figures too, where they are known: of a `MazePolicy`, if no ``env`` is given.
        rules: of episodes in mazes; None: those of the training's environments, with the default horizon for mazes of
            another size.
        env: for policies that are not a `MazePolicy`: environments over ``prompts``, see `evaluate`. Not those trained
            in. If these are in a VecNormalize, so must ``env`` be: each evaluation gives it the present statistics.
        verbose: 1 also writes a line to the logger's text outputs.
        log_path: JSON lines file of `history`, or None. A training from step 0 on starts it anew; one that goes on
            keeps what was written up to its present step, also in ``history``.
        seed: of the evaluations' rollouts.
        pictures: whether TensorBoard gets pictures; the largest part of its files, and of the time they take.

    Attributes:
        history: one dict an evaluation: ``update`` (updates complete: the model's own count for `MaxRL`, else batches
            since the callback began), ``timesteps``, for `MaxRL` ``rollouts`` sampled so far, what was logged, and
            ``interval``, see `coverage_intervals`.
        evaluation: the last `Evaluation`, or None.

    Raises:
        ValueError, TypeError: for arguments outside these ranges; when the training starts, if the policy needs
            ``env``, or ``env`` is the one trained in or normalises otherwise.

    Example:
        >>> callback = CoverageCallback(MazePool.papers("held_out"), eval_freq_updates=100)
    """

    @known_arguments
    def __init__(
        self,
        prompts: Prompts | VecEnv | gym.Env[Any, Any],
        *,
        eval_freq_updates: int = 50,
        num_samples: int = 256,
        ks: Sequence[int] | None = None,
        exact: bool = True,
        rules: MazeRules | None = None,
        env: VecEnv | gym.Env[Any, Any] | None = None,
        verbose: int = 0,
        log_path: str | os.PathLike[str] | None = None,
        seed: int = 0,
        pictures: bool = True,
    ):
        super().__init__(verbose)
        self.prompts, self.env = prompts_and_env(prompts, env)
        self.exact, self.rules = exact, rules
        self.eval_freq_updates = check_int("eval_freq_updates", eval_freq_updates, 1, 2**62)
        self.num_samples = check_int("num_samples", num_samples, 1, 2**31)
        self.ks, self.seed = check_ks(ks, self.num_samples), seed
        self.log_path = None if log_path is None else Path(log_path)
        self.history: list[dict[str, Any]] = []
        self.evaluation: Evaluation | None = None
        check_flag("pictures", pictures)
        self._dashboard = Dashboard(pictures)
        self._batches = 0
        self._last_batch: LastBatch | None = None
        self._evaluated: int | None = None  # the update that was evaluated last in this training
        self._logged: int | None = None  # the step whose evaluation was logged before this training

    @property
    def updates(self) -> int:
        """Updates complete."""
        return getattr(self.model, "updates", self._batches)

    def _init_callback(self) -> None:
        check_not_shared(self.env, self.training_env)
        self._evaluator()  # which says now if it cannot be

    def _on_training_start(self) -> None:
        now = self.model.num_timesteps
        first, others = self.ks[0], ("solved_fraction", "distinct_solutions")
        metrics = [*(f"coverage/pass@{k}" for k in self.ks), *(f"coverage/{name}" for name in others)]
        self._dashboard.begin(self.model, metrics, self.ks, self.exact and self._evaluator().knows_exact)
        self._last_batch = None
        folders = [output.writer.log_dir for output in tensorboards(self.logger)] if now else []
        self._logged = now if any(is_on_board(folder, f"coverage/pass@{first}", now) for folder in folders) else None
        if now == 0:
            self._batches, self._evaluated = 0, None
            self.history.clear()
            self._evaluate()
            return
        if self.log_path is not None and not self.history and self.log_path.exists():
            self.history.extend(read_history(self.log_path))
        self.history[:] = [entry for entry in self.history if entry["timesteps"] <= now]
        if self.history and (self.history[-1]["update"], self.history[-1]["timesteps"]) == (self.updates, now):
            self._evaluated = self.updates  # and logged, before the training stopped

    def _on_rollout_start(self) -> None:
        if self.updates % self.eval_freq_updates == 0:
            self._evaluate()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self._batches += 1
        self._last_batch = LastBatch.of(self.locals)

    def _on_training_end(self) -> None:
        self._evaluate()

    def _evaluate(self) -> None:
        """Evaluate, log and keep, unless that was done already for this update."""
        update, timesteps = self.updates, self.model.num_timesteps
        if update == self._evaluated:
            return
        self._evaluated = update
        evaluator = self._evaluator()
        self.evaluation = evaluated(evaluator, self.num_samples, self.ks, self.exact and evaluator.knows_exact)
        figures = coverage_figures(self.evaluation)
        entry: dict[str, Any] = {"update": update, "timesteps": timesteps}
        if (rollouts := getattr(self.model, "total_rollouts", None)) is not None:
            entry["rollouts"] = rollouts
        entry |= {**figures, "interval": coverage_intervals(self.evaluation)}
        with uninterrupted():  # after Ctrl-C it is logged everywhere or nowhere
            if timesteps != self._logged:
                self._log(figures)
                self._dashboard.write(self.model, self.evaluation, evaluator, self._last_batch)
            self.history.append(entry)
            if self.log_path is not None:
                write_history(self.log_path, self.history)

    def _evaluator(self) -> Evaluator:
        """Of the policy as it is now, with the rules of the training's environments unless others were given."""
        rules = training_rules(self.prompts, self.env, self.training_env) if self.rules is None else self.rules
        policy = self.model.policy
        if not isinstance(policy, ActorCriticPolicy):
            raise TypeError(f"CoverageCallback needs an on-policy policy, got a {type(policy).__name__}")
        return Evaluator(
            policy, self.prompts, rules=rules, seed=self.seed, env=self.env,
            normalization=model_normalization(self.model),
        )  # fmt: skip

    def _log(self, figures: dict[str, float]) -> None:
        # A logger of its own with the same outputs: a dump of the model's would also write, at a wrong step, what
        # the algorithm has recorded for its next one.
        logger = Logger(self.logger.dir, self.logger.output_formats)
        logger.set_level(self.logger.level)
        if self.verbose >= 1:
            shown = ", ".join(f"pass@{k} {100 * figures[f'coverage/pass@{k}']:.2f} %" for k in self.ks)
            noun = self.evaluation.noun if self.evaluation is not None else "prompts"
            logger.info(f"after {self.updates} updates on {len(self.prompts)} held-out {noun}: {shown}")
        for key, value in figures.items():
            logger.record(key, value)
        logger.record("time/total_timesteps", self.model.num_timesteps, exclude="tensorboard")
        logger.dump(self.model.num_timesteps)


def coverage_figures(evaluation: Evaluation) -> dict[str, float]:
    """The figures of an evaluation under the logger's keys."""
    rows, distinct = evaluation.table(), evaluation.mean_distinct_solutions
    figures = {f"coverage/pass@{row.k}": row.sampled for row in rows}
    figures |= {f"coverage/exact_pass@{row.k}": row.exact for row in rows if row.exact is not None}
    figures["coverage/solved_fraction"] = evaluation.coverage.solved_fraction
    if distinct is not None:
        figures["coverage/distinct_solutions"] = distinct
    figures["coverage/mean_steps"] = evaluation.mean_steps
    return figures


def coverage_intervals(evaluation: Evaluation) -> dict[str, list[float]]:
    """The 95 % intervals over mazes, as in `Coverage`: [low, high] of each "pass@k" and, where known, "exact_pass@k".

    Empty for a single maze.
    """
    if len(evaluation.successes) == 1:
        return {}
    intervals = {f"pass@{row.k}": [row.low, row.high] for row in evaluation.table()}
    if evaluation.probability is not None:
        exact = exact_pass_at_k(evaluation.probability[:, None], np.array(evaluation.ks))  # (M, K)
        _, _, low, high = interval_over_mazes(exact)
        ends = np.stack([low, high], axis=1).tolist()
        intervals |= {f"exact_pass@{k}": pair for k, pair in zip(evaluation.ks, ends, strict=True)}
    return intervals


def read_history(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read the JSON lines file of a `CoverageCallback`.

    Raises:
        ValueError: for a line that is not one of its entries, naming it.
    """
    entries = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {number} is not JSON ({error}); move the file away") from None
        if not isinstance(entry, dict) or not {"update", "timesteps"} <= entry.keys():
            raise ValueError(f"{path}, line {number} is no entry of a CoverageCallback; move the file away")
        entries.append(entry)
    return entries


def write_history(path: Path, history: Sequence[dict[str, Any]]) -> None:
    """Write the JSON lines file, whole or not at all."""
    write_text(path, "".join(json.dumps(entry) + "\n" for entry in history))
