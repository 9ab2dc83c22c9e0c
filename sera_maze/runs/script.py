"""`train_script`: a run's folder for any promptable environment, from a script."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
from rich.console import Console
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import MaybeCallback
from stable_baselines3.common.vec_env import VecEnv

from sera_maze.algorithm.imitation import check_can_imitate
from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.algorithm.resumable import as_one_callback
from sera_maze.coverage.evaluator import check_not_shared, prompts_and_env
from sera_maze.coverage.tables import Evaluation
from sera_maze.envs.ground.atomic_files import check_folder
from sera_maze.envs.ground.checks import shown
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.prompts import Prompts
from sera_maze.runs.config import ScriptConfig, ScriptOptions
from sera_maze.runs.folder import CONFIG
from sera_maze.runs.training import Task, run_task
from sera_maze.storage.plain_values import encode


class ScriptTask(Task):
    """A run whose model, with its environments, a script makes.

    Args:
        model: fresh, with its environments.
        held_out: prompts of the evaluations, or promptable environments over them.
        env: environments over ``held_out``, if these are prompts alone.
        name: what the run is, in the script's words.
        schedule: ``updates``, ``eval_every``, ``num_samples`` and ``warm_start``, see `ScriptConfig`.
        callback: one more of SB3's.

    Raises:
        ValueError, TypeError: for a run that could not be finished, or not be gone on with.
    """

    config: ScriptConfig

    def __init__(
        self,
        model: MaxRL,
        held_out: Prompts | VecEnv | gym.Env[Any, Any],
        env: VecEnv | gym.Env[Any, Any] | None,
        name: str,
        schedule: dict[str, int],
        callback: MaybeCallback = None,
    ):
        _check_model(model)
        _check_callback(callback)
        self.model, self.callback = model, as_one_callback(callback)
        self.held_out, self.env = prompts_and_env(held_out, env)
        check_not_shared(self.env, model.env)
        sampler, rate = model.rollout_sampler, model.learning_rate
        script = ScriptOptions(
            name, type(model).__name__, type(model.policy).__name__,
            _as_json("policy_kwargs", model.policy_kwargs),
            "" if isinstance(rate, int | float) else _as_json("learning_rate", rate),
            sampler.num_prompts, sampler.prompts_digest, len(self.held_out), self.held_out.digest,
            _described(model.env), _described(self.env),
        )  # fmt: skip
        self.config = ScriptConfig(
            script=script, method=model.options, learning_rate=model.lr_schedule(1.0), seed=model.seed or 0, **schedule
        )
        self.evaluator(model)  # refuses what could not be evaluated, before anything is written
        if self.config.warm_start:
            check_can_imitate(sampler)

    def make(self, console: Console) -> MaxRL:
        """See `Task.make`."""
        return self.model

    def load(self, folder: Path) -> MaxRL:
        """See `Task.load`."""
        fresh = self.model
        loaded = type(fresh).load(folder, env=fresh.env, device=fresh.device, policy=fresh.policy_class)
        if loaded.updates > self.config.updates:
            raise ValueError(
                f"updates={self.config.updates}, but the run has done {loaded.updates} already; give as many, or "
                "choose another folder"
            )
        return loaded


def _check_model(model: object) -> None:
    if not isinstance(model, MaxRL):
        raise TypeError(f"make_model must return a MaxRL or SERA, got {type(model).__name__}")
    if model.env is None:
        raise ValueError("make_model returned a model without environments; make it with env=...")


def _check_callback(callback: object) -> None:
    each = callback if isinstance(callback, list) else [callback]
    is_function = callable(callback) and not isinstance(callback, type)
    if callback is not None and not is_function and not all(isinstance(item, BaseCallback) for item in each):
        raise TypeError(
            f"callback must be one of SB3's, a list of them or a function of (locals, globals), got {shown(callback)}"
        )


def _described(env: VecEnv | None) -> str:
    """What environments are, as far as it can be told: spec, rules and spaces."""
    if env is None:
        return ""
    members = getattr(env.unwrapped, "envs", None)  # of a DummyVecEnv; others would have to send them
    spec = members[0].unwrapped.spec if members else None
    parts: dict[str, Any] = {}
    if spec is not None:
        kwargs = json.dumps(spec.kwargs, sort_keys=True, default=lambda value: type(value).__name__)
        parts = {"id": spec.id, "kwargs": kwargs, "steps": spec.max_episode_steps}
    if env.has_attr("rules"):
        rules = env.get_attr("rules", 0)[0]
        parts["rules"] = repr(replace(rules, render_mode=None) if isinstance(rules, MazeRules) else rules)
    parts |= {"observation": repr(env.observation_space), "action": repr(env.action_space)}
    return ", ".join(f"{name} {value}" for name, value in parts.items())


def _as_json(name: str, value: Any) -> str:
    return json.dumps(encode(name, value), sort_keys=True)


def train_script(
    folder: str | Path,
    make_model: Callable[[], MaxRL],
    held_out: Prompts | VecEnv | gym.Env[Any, Any],
    *,
    updates: int,
    env: VecEnv | gym.Env[Any, Any] | None = None,
    eval_every: int = 50,
    num_samples: int = 256,
    warm_start: int = 0,
    name: str = "",
    callback: MaybeCallback = None,
    console: Console | None = None,
) -> Evaluation:
    """Train in a run's folder: checkpoints, TensorBoard, pass@k on held-out prompts, the final table.

    Called again, after a stop or a crash, with the same arguments, it goes on where it was, bit for bit if the
    environments draw what they draw from the seeds of their resets; with more ``updates`` a finished run goes on too.
    ``sera-maze compare`` compares such runs. Of the environments a run knows spec, rules, spaces and prompts, and
    refuses others; not what functions in them do, such as a rule of success: name runs that differ in these, and
    choose another folder.

    Args:
        folder: of the run, made if it is missing.
        make_model: makes the fresh model with its environments; the same at every call.
        held_out: prompts of the evaluations, or promptable environments over them. Not those trained in.
        updates: of the training.
        env: environments over ``held_out``, if these are prompts alone and the policy must be stepped.
        eval_every: updates between evaluations.
        num_samples: rollouts for each held-out prompt.
        warm_start: updates of imitation before, where something can be imitated.
        name: what the run is, kept in its config; runs of other names are not taken for seeds of one another.
        callback: SB3's, as for ``learn``, called after those of the run.
        console: to report to; None: the terminal.

    Returns:
        The final evaluation; evaluation.json and evaluation.md in the folder have it too.

    Raises:
        ValueError: if the folder holds a run of other arguments, naming what differs, or another process trains in it;
            or for what could not be trained, evaluated or gone on with.
        TypeError: for arguments of other types, or a model that cannot be written to a checkpoint.

    Example:
        >>> def model():
        ...     env = PromptQueue(gym.make("CartPole-v1"), range(64), success=lambda episode: episode.steps >= 100)
        ...     return SERA("MlpPolicy", env, prompts_per_batch=16, rollouts_per_prompt=8, seed=0)
        >>> held_out = PromptQueue(gym.make("CartPole-v1"), range(1000, 1032), success=lambda e: e.steps >= 100)
        >>> train_script("runs/cartpole", model, held_out, updates=50, eval_every=10, num_samples=32)
    """
    schedule = {"updates": updates, "eval_every": eval_every, "num_samples": num_samples, "warm_start": warm_start}
    if not callable(make_model):
        raise TypeError(f"make_model must be a function that returns a fresh model, got {type(make_model).__name__}")
    place = Path(folder)
    check_folder("folder", place)
    task = ScriptTask(make_model(), held_out, env, name, schedule, callback)
    resume = (place / CONFIG).exists()
    if resume:
        before = ScriptConfig.load(place / CONFIG)
        if task.model.has_drawn_seed:  # which is another one in every call; the run's own goes on
            task.config = replace(task.config, seed=before.seed)
        task.config.refuse_others(before, place)
    return run_task(task, place, Console() if console is None else console, resume=resume)
