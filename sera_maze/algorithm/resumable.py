"""`ResumableAlgorithm`: saving, loading and going on, for on-policy algorithms whose batches are made of prompts."""

from __future__ import annotations

import inspect
import io
import os
import signal
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, ConvertCallback
from stable_baselines3.common.logger import TensorBoardOutputFormat
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.utils import get_system_info
from stable_baselines3.common.vec_env import VecEnv
from typing_extensions import Self

from sera_maze.algorithm.batch_log import LearnBar
from sera_maze.algorithm.checkpoint import Saved, read_checkpoint, write_checkpoint
from sera_maze.algorithm.normalization import (
    Normalization,
    check_normalization,
    frozen,
    give_normalization,
    model_normalization,
    normalization_of,
)
from sera_maze.algorithm.prompt_order import PromptOrder
from sera_maze.algorithm.state import BatchStart, PromptState
from sera_maze.allocation.success import SuccessEstimator
from sera_maze.envs.ground.checks import did_you_mean
from sera_maze.policies.asking import settings_of, with_settings
from sera_maze.sampling.plain_mazes import environments_again, environments_record
from sera_maze.sampling.protocol import Sampler
from sera_maze.sampling.team import Alone, Team
from sera_maze.storage.files import POINTER, RUN_CHECKPOINT, remove_versions
from sera_maze.storage.parameters import class_name, load_parameter_state, parameter_state
from sera_maze.storage.run_log import flush_boards, resumed_logger
from sera_maze.storage.zip_files import check_is_own

_COUNTERS = (
    "num_timesteps", "_n_updates", "total_rollouts", "total_updates", "_episode_num", "_current_progress_remaining",
    "_total_timesteps", "_num_timesteps_at_start",
)  # fmt: skip
# Signals by which a training may be stopped, as far as the system has them.
STOPS = [signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if name in signal.Signals.__members__]
_NOT_KEPT = {"policy", "env", "device", "_init_setup_model"}


class ResumableAlgorithm(OnPolicyAlgorithm):
    """The part of `MaxRL` that saves, loads and goes on: also from the middle of a batch, as if it had not begun."""

    algorithms: ClassVar[dict[str, type[ResumableAlgorithm]]] = {}  # that `load` knows, by name
    rollout_sampler: Sampler
    prompt_order: PromptOrder
    success_estimator: SuccessEstimator
    success: str
    team: Team = Alone()
    _setup: dict[str, Any]  # the options that the prompts were set up with
    _batch_start: BatchStart | None = None
    _kept_prompts: PromptState | None = None
    _kept_normalization: Normalization | None = None
    _kept_settings: dict[str, Any] | None = None  # of the policy's variant, in a zip file
    _log_folder: str | None = None

    @staticmethod
    def _wrap_env(env: GymEnv, verbose: int = 0, monitor_wrapper: bool = True) -> VecEnv:
        """SB3's, which takes a `gymnasium.vector.VectorEnv` for something of OpenAI Gym's."""
        if isinstance(env, VectorEnv):
            raise TypeError(
                f"env is a {type(env).__name__}, a vector environment of Gymnasium's, and Stable-Baselines3 has its "
                "own kind: pass MazeVecEnv(num_envs, pool) for mazes, or DummyVecEnv([make_env] * num_envs)"
            )
        return OnPolicyAlgorithm._wrap_env(env, verbose, monitor_wrapper)

    def save(
        self,
        path: str | os.PathLike[str] | io.BufferedIOBase,
        exclude: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
    ) -> None:
        """Save into a folder, from which training goes on bit for bit; or into SB3's zip file.

        A folder is safe to load from anywhere. Loading a zip file unpickles, which can run code that was put into it:
        load only those that you trust. A zip file also holds the prompt order, the success history and the statistics
        of a VecNormalize, but neither mazes nor the state of dropout.

        Args:
            path: a name that ends in ".zip", or an open file, for SB3's format; else a folder, see
                `save_checkpoint`.
                What a folder cannot hold, such as a schedule that is a function, goes to SB3's format, with a warning.
            exclude: for SB3's format: further attributes to leave out.
            include: for SB3's format: attributes to save that are left out otherwise.

        Raises:
            ValueError, TypeError: see `save_checkpoint`.
        """
        replaced: Path | None = None
        if self.team.rank:
            return
        if isinstance(path, str | os.PathLike) and Path(path).suffix != ".zip":
            if exclude is not None or include is not None:
                raise ValueError(f"exclude and include are for SB3's format: leave them out, or save to {path}.zip")
            try:
                self.save_checkpoint(path)
                return
            except TypeError as error:
                # SB3's callbacks, such as EvalCallback, save to names without a suffix: nothing may be lost there.
                replaced = Path(path)
                path = replaced.with_name(replaced.name + ".zip")
                warnings.warn(f"{error}; so it is saved to {path}", stacklevel=2)
        with self.between_batches():
            kept, kept_normalization = self._kept_prompts, self._kept_normalization
            try:
                state = self.prompt_state()
                self._kept_prompts = None if state is None else replace(state, origin="the zip file")
                self._kept_settings = settings_of(self.policy)
                self._kept_normalization = model_normalization(self)
                super().save(path, exclude, include)  # type: ignore[arg-type]
                if replaced is not None:
                    remove_versions(replaced)
            finally:
                self._kept_prompts, self._kept_normalization = kept, kept_normalization

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | io.BufferedIOBase,
        env: GymEnv | None = None,
        device: torch.device | str = "auto",
        custom_objects: dict[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Load what `save` wrote, or the checkpoint of a run that `sera-maze train` or `train_script` made.

        ``MaxRL.load`` gives the class that was saved, MaxRL or SERA. ``SERA.load`` gives a SERA from either; it shares
        rollouts out as the saved model did, also where that was evenly: ``allocator="sera"`` changes it.

        Args:
            path: a folder, that of a run too, or a zip file, with or without ".zip". Loading a zip file can run code
                that is in it.
            env: environments to go on with. None: plain mazes are built again from a folder; from a zip file, and for
                other environments, the model can predict, and learn after `set_env`. Environments in a VecNormalize are
                given those in another one, which gets the saved statistics.
            device: SB3's.
            custom_objects: values to use instead of saved ones, by name.
            print_system_info: SB3's.
            force_reset: SB3's; a batch resets its environments in any case.
            **kwargs: as custom_objects; for a folder only arguments of the constructor.

        Raises:
            FileNotFoundError: if there is nothing at ``path``.
            ValueError: if nothing complete was saved there, or by another algorithm, or it does not fit ``env``.
            TypeError: for something to replace that is no argument of the constructor.
        """
        folder = _folder_of(path)
        if folder is None:
            check_is_own(path, cls.__name__)
            options: dict[str, Any] = {"custom_objects": custom_objects, "print_system_info": print_system_info}
            model = super().load(path, env, device, force_reset=force_reset, **options, **kwargs)  # type: ignore[arg-type]
            if model._kept_settings is not None and "policy_kwargs" not in {**(custom_objects or {}), **kwargs}:
                model.policy = with_settings(model.policy, model._kept_settings)
            return model
        if print_system_info:
            get_system_info()
        saved = read_checkpoint(folder)
        algorithm = cls._saved_class(saved.algorithm, folder)
        return algorithm._from_saved(saved, folder, env, device, {**(custom_objects or {}), **kwargs})

    def save_checkpoint(self, folder: str | os.PathLike[str], config: dict[str, Any] | None = None) -> None:
        """Save into a folder, whole or not at all: until the new checkpoint is complete, the one before stays.

        It holds parameters, optimizer, success estimates, prompt order, counters, the arguments of the constructor,
        torch's random state, the statistics of SB3's VecNormalize, and the mazes with their rules where the
        environments are plain mazes. Other environments are not in it. Saved in the middle of a batch, by a callback
        say, it is the state before that batch. One process at a time may write; others may read meanwhile.

        Args:
            folder: made if it is missing; a checkpoint in it is replaced, other files in it stay.
            config: kept beside the rest, as JSON can hold it; see `read_checkpoint`.

        Raises:
            TypeError: for arguments that JSON cannot hold, such as a schedule that is a function; nothing is written
                then.
            ValueError: if ``folder`` is a file.
            OSError: if it cannot be written.
        """
        if self.team.rank:
            return
        if hasattr(self, "_logger"):
            flush_boards(self.logger)  # training goes on from here: what was logged so far must outlive the process
        with self.between_batches():
            try:
                write_checkpoint(Path(folder), self._saved(config))
            except TypeError as error:
                remedy = "To save it all the same: a name that ends in .zip saves with pickle"
                raise TypeError(f"{error}. {remedy}") from None

    def _saved(self, config: dict[str, Any] | None) -> Saved:
        """All that a checkpoint holds; its tensors are not copied."""
        parameters, optimizers = parameter_state(self)
        environments, pool = (None, None) if self.env is None else environments_record(self.env)
        random = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self.device)
        names = argument_names(type(self))
        return Saved(
            algorithm=type(self).__name__,
            policy=_policy_name(self),
            arguments={name: getattr(self, name if hasattr(self, name) else f"_{name}") for name in names},
            settings=settings_of(self.policy),
            observation_space=self.observation_space,
            action_space=self.action_space,
            num_envs=self.n_envs,
            environments=environments,
            pool=pool,
            counters={name: getattr(self, name) for name in _COUNTERS},
            log_folder=self._log_folder,
            parameters=parameters,
            optimizers=optimizers,
            prompts=self.prompt_state(),
            random=random,
            config=config,
            normalization=model_normalization(self),
        )

    @classmethod
    def _saved_class(cls, name: str, folder: Path) -> type[Self]:
        """The class to load a checkpoint with: that it was saved from, or this one of ``algorithms``, a kind of it."""
        found = cls if cls.__name__ == name else cls.algorithms.get(name)
        if found is None:
            raise ValueError(f"{folder} holds a {name}; load it with the method load of that class")
        if issubclass(cls, found) and cls in cls.algorithms.values():  # its arguments are the same
            return cls
        if not issubclass(found, cls):
            raise ValueError(f"{folder} holds a {name}, not a {cls.__name__}; load it with {name}.load")
        return found

    @classmethod
    def _from_saved(
        cls,
        saved: Saved,
        folder: Path,
        env: GymEnv | None,
        device: torch.device | str,
        replacements: dict[str, Any],
    ) -> Self:
        """A model that goes on where the saved one stopped."""
        if env is None and saved.environments is not None:
            env = environments_again(saved.environments, saved.pool)
        arguments = _arguments(cls, saved, replacements, folder)
        model = cls(env=env, device=device, _init_setup_model=False, **arguments)  # type: ignore[arg-type]
        if model.env is None:
            model.observation_space, model.action_space = saved.observation_space, saved.action_space
            model.n_envs = saved.num_envs
        else:
            check_spaces(model.env, saved.observation_space, saved.action_space)
        model._kept_prompts, model._kept_normalization = saved.prompts, saved.normalization
        model._setup_model()
        load_parameter_state(model, saved.parameters, saved.optimizers)
        try:
            vars(model).update({name: saved.counters[name] for name in _COUNTERS}, _log_folder=saved.log_folder)
        except KeyError as error:
            raise ValueError(f"{folder} lacks a part ({error!r}); save it anew") from error
        if "policy_kwargs" not in replacements:
            model.policy = with_settings(model.policy, saved.settings)
        torch.set_rng_state(saved.random["cpu"])
        if model.device.type == "cuda" and "cuda" in saved.random:
            torch.cuda.set_rng_state(saved.random["cuda"], model.device)
        return model

    def set_env(self, env: GymEnv, force_reset: bool = True) -> None:
        """Go on with other environments of the same spaces, any number of them."""
        wrapped = self._wrap_env(env, self.verbose)
        check_spaces(wrapped, self.observation_space, self.action_space)
        self._kept_prompts = self.prompt_state()
        self.n_envs = wrapped.num_envs  # SB3 wants it unchanged, but groups do not depend on it
        super().set_env(wrapped, force_reset)

    def prompt_state(self) -> PromptState | None:
        """What is known about the prompts; None if there never were environments."""
        if self.env is None:
            return self._kept_prompts
        success = {name: tensor.cpu() for name, tensor in self.success_estimator.state_dict().items()}
        sampler = self.rollout_sampler
        return PromptState(
            sampler.num_prompts, sampler.prompts_digest, self.prompt_order.state_dict(), self._setup["success"], success
        )

    def restore_prompts(self) -> None:
        """Go on with the prompts of the environments before, if those of ``env`` are the same."""
        kept, self._kept_prompts = self._kept_prompts, None
        if kept is None:
            return
        count, digest = self.rollout_sampler.num_prompts, self.rollout_sampler.prompts_digest
        if kept.num_prompts != count or (digest and kept.digest and digest != kept.digest):
            if kept.origin is not None:
                warnings.warn(
                    f"{kept.origin} was saved with {kept.num_prompts} prompts, and the environments have "
                    f"{count}{' others' if kept.num_prompts == count else ''}: success history "
                    "and prompt order start anew. To go on with them, load with the same environments.",
                    stacklevel=2,
                )
            return
        self.prompt_order.load_state_dict(kept.order)
        if kept.estimator == self.success or {kept.estimator, self.success} == {"history", "critic_history"}:
            self.success_estimator.load_state_dict(kept.success)

    def restore_normalization(self) -> None:
        """Give the VecNormalize of ``env`` what was saved of another one.

        Raises:
            ValueError: if ``env`` does not normalise as the environments of the training did.
        """
        kept, self._kept_normalization = self._kept_normalization, None
        if kept is None or self.env is None:
            return
        if not kept.changes_observations and normalization_of(self.env).changes_observations:
            warnings.warn(
                "env is in a VecNormalize that normalises observations, but the model was trained without: it sees "
                "others now than before; leave VecNormalize out, or give it norm_obs=False",
                stacklevel=2,
            )
            return
        check_normalization(self.env, kept)
        give_normalization(self.env, kept)

    def batch_start(self) -> BatchStart:
        """What a batch is about to change."""
        if self.env is None:
            return BatchStart(self.num_timesteps, None, None)
        return BatchStart(self.num_timesteps, self.prompt_order.state_dict(), normalization_of(self.env))

    @contextmanager
    def between_batches(self) -> Iterator[None]:
        """Undo meanwhile what an unfinished batch has changed: what is saved can be gone on from."""
        if self._batch_start is None:
            yield
            return
        present = self.batch_start()
        self._go_to(self._batch_start)
        try:
            yield
        finally:
            self._go_to(present)

    def _init_callback(self, callback: MaybeCallback, progress_bar: bool = False) -> BaseCallback:
        """SB3's, with a progress bar that terminals and notebooks show alike."""
        if not progress_bar:
            return super()._init_callback(callback)
        one = as_one_callback(callback)
        return super()._init_callback([*([] if one is None else [one]), LearnBar()])

    def _go_to(self, start: BatchStart) -> None:
        self.num_timesteps = start.num_timesteps
        if start.order is not None:
            self.prompt_order.load_state_dict(start.order)
        if start.normalization is not None and self.env is not None:
            give_normalization(self.env, start.normalization)

    def _setup_learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        reset_num_timesteps: bool = True,
        tb_log_name: str = "run",
        progress_bar: bool = False,
    ) -> tuple[int, BaseCallback]:
        """SB3's, but a run that goes on logs to its own folder, and shows nothing that was logged beyond its state."""
        folder = self._log_folder
        goes_on = not (
            reset_num_timesteps or self._custom_logger or self.tensorboard_log is None or folder is None
        ) and Path(folder).name.startswith(f"{tb_log_name}_")
        if goes_on:
            formats = ["stdout", "tensorboard"] if self.verbose >= 1 else ["tensorboard"]
            self.set_logger(resumed_logger(str(folder), self.num_timesteps, formats))
        try:
            # SB3 resets the environments of a loaded model here once more, which must not count in their statistics.
            with frozen(self.env):
                total, prepared = super()._setup_learn(
                    total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar
                )
        finally:
            self._custom_logger = self._custom_logger and not goes_on
        if any(isinstance(output, TensorBoardOutputFormat) for output in self.logger.output_formats):
            self._log_folder = self.logger.dir
        return total, prepared

    def _excluded_save_params(self) -> list[str]:
        made_again = ["rollout_sampler", "success_estimator", "prompt_order"]
        return [*super()._excluded_save_params(), "_batch_start", "_setup", "_signs", "team", *made_again]


def as_one_callback(callback: MaybeCallback) -> BaseCallback | None:
    """What ``learn`` takes for a callback, as one of SB3's."""
    if callback is None or isinstance(callback, BaseCallback):
        return callback
    return CallbackList(callback) if isinstance(callback, list) else ConvertCallback(callback)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C, and what means the same, back until the block has ended, so that all of it happens."""
    handlers = {number: handler for number in STOPS if callable(handler := signal.getsignal(number))}
    if threading.current_thread() is not threading.main_thread():
        handlers = {}  # Python cannot set handlers here
    held: list[int] = []
    for number in handlers:
        signal.signal(number, lambda number, frame: held.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])


def check_spaces(env: VecEnv, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
    """Check that environments have the spaces that a model was made for.

    Raises:
        ValueError: if not.
    """
    for name, wanted, found in (
        ("observation", observation_space, env.observation_space), ("action", action_space, env.action_space),
    ):  # fmt: skip
        if wanted != found:
            raise ValueError(
                f"the environments have the {name} space {found}, but the model was made for {wanted}; give others, "
                "of the same spaces. The parameters of a MazePolicy fit mazes of any size: "
                "MaxRL('MazePolicy', env).policy.load_state_dict(model.policy.state_dict())"
            )


def _policy_name(model: ResumableAlgorithm) -> dict[str, str]:
    for alias, policy in model.policy_aliases.items():
        if policy is model.policy_class:
            return {"alias": alias}
    return {"class": class_name(model.policy_class)}


def argument_names(algorithm: type) -> list[str]:
    """Arguments of the constructor that are kept, those of its parents too."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found: dict[str, None] = {}
    for parent in algorithm.__mro__[: algorithm.__mro__.index(ResumableAlgorithm)]:
        if "__init__" in vars(parent):
            parameters = inspect.signature(parent).parameters.values()
            found |= {item.name: None for item in parameters if item.kind in named and item.name not in _NOT_KEPT}
    return list(found)


def _arguments(
    algorithm: type[ResumableAlgorithm], saved: Saved, replacements: dict[str, Any], folder: Path
) -> dict[str, Any]:
    """Arguments of the constructor, the policy among them: the saved ones, replaced where the caller says so."""
    names = [*argument_names(algorithm), "policy"]
    for name in replacements:
        if name not in names:
            near = did_you_mean(name, names)
            raise TypeError(f"{name!r} is no argument of {algorithm.__name__} that can be replaced{near}")
    if unknown := saved.arguments.keys() - set(names):
        raise ValueError(
            f"{folder} was saved by sera_maze {saved.version}, whose {algorithm.__name__} had the "
            f"arguments {sorted(unknown)}; load it with that version"
        )
    arguments = {**saved.arguments, **replacements}
    if "policy" not in arguments:
        arguments["policy"] = _saved_policy(saved.policy, algorithm, folder)
    return arguments


def _saved_policy(record: dict[str, str], algorithm: type[ResumableAlgorithm], folder: Path) -> str:
    alias = record.get("alias")
    if alias in algorithm.policy_aliases:
        return str(alias)
    raise ValueError(
        f"{folder} was saved with the policy {alias or record.get('class')!r}, which is not one of "
        f"{sorted(algorithm.policy_aliases)}; nothing is imported by a name in a file: pass the class, as policy=..."
    )


def _folder_of(path: str | os.PathLike[str] | io.BufferedIOBase) -> Path | None:
    """The folder that a path means; None if it means a zip file."""
    if not isinstance(path, str | os.PathLike):
        return None
    given = Path(path)
    if (given / RUN_CHECKPOINT / POINTER).exists() and not (given / POINTER).exists():
        return given / RUN_CHECKPOINT
    if given.is_dir() and ((given / POINTER).exists() or not given.with_name(given.name + ".zip").exists()):
        return given
    if given.suffix == ".zip" and not given.exists() and given.with_suffix("").is_dir():
        return given.with_suffix("")  # SB3's callbacks save to names without ".zip"
    if not given.exists() and not given.with_name(given.name + ".zip").exists():
        raise FileNotFoundError(f"{given} does not exist, neither as a folder nor as a .zip file; give what was saved")
    return None
