"""`ResumableAlgorithm`: saving, loading and going on, for on-policy algorithms whose batches are made of prompts."""

from __future__ import annotations

import io
import os
import signal
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, ConvertCallback
from stable_baselines3.common.logger import TensorBoardOutputFormat
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.utils import get_system_info
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor
from typing_extensions import Self

from sera_maze.algorithm.batch_log import TimestepsBar
from sera_maze.algorithm.prompt_order import PromptOrder
from sera_maze.allocation.success import SuccessEstimator
from sera_maze.policies.maze import MazePolicy
from sera_maze.storage.files import POINTER, remove_versions
from sera_maze.storage.run_log import resumed_logger


class BatchStart(NamedTuple):
    """What a batch changes before its gradient step.

    Attributes:
        num_timesteps: SB3's count of steps.
        order: of the prompts, see `PromptOrder.state_dict`.
        iterations: of a `MazePolicy`, else None.
    """

    num_timesteps: int
    order: dict[str, int] | None
    iterations: int | None


@dataclass(frozen=True)
class PromptState:
    """What has been learnt about prompts, and which of them come next.

    Attributes:
        num_prompts: how many there are.
        mazes: digest of the mazes or other prompts, if known.
        order: see `PromptOrder.state_dict`.
        estimator: the option ``success``.
        success: see `SuccessEstimator.state_dict`; on the CPU.
        origin: the file that it was read from; None if it was not.
    """

    num_prompts: int
    mazes: str | None
    order: dict[str, int]
    estimator: str
    success: dict[str, Tensor]
    origin: str | None = None


class ResumableAlgorithm(OnPolicyAlgorithm):
    """The part of `MaxRL` that saves, loads and goes on: also from the middle of a batch, as if it had not begun."""

    prompt_order: PromptOrder
    success_estimator: SuccessEstimator
    success: str
    num_prompts: Any
    prompts_digest: str | None  # of the environments, see `sera_maze.sampling.vec_env.prompts_digest`
    _batch_start: BatchStart | None = None
    _kept_prompts: PromptState | None = None
    _log_folder: str | None = None

    def save(
        self,
        path: str | os.PathLike[str] | io.BufferedIOBase,
        exclude: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
    ) -> None:
        """Save into a folder, from which training goes on bit for bit; or into SB3's zip file.

        A folder is safe to load from anywhere. Loading a zip file unpickles, which can run code that was put into it:
        load only those that you trust. A zip file also holds the prompt order and the success history, but neither
        mazes nor the state of dropout.

        Args:
            path: a name that ends in ".zip", or an open file, for SB3's format; else a folder, see `save_checkpoint`.
                What a folder cannot hold, such as a schedule that is a function, goes to SB3's format, with a warning.
            exclude: for SB3's format: further attributes to leave out.
            include: for SB3's format: attributes to save that are left out otherwise.

        Raises:
            ValueError, TypeError: see `save_checkpoint`.
        """
        replaced: Path | None = None
        if isinstance(path, str | os.PathLike) and Path(path).suffix != ".zip":
            from sera_maze.algorithm.checkpoint import save_checkpoint  # which builds on this module

            if exclude is not None or include is not None:
                raise ValueError(f"exclude and include are for SB3's format: leave them out, or save to {path}.zip")
            try:
                save_checkpoint(self, Path(path))
                return
            except TypeError as error:
                # SB3's callbacks, such as EvalCallback, save to names without a suffix: nothing may be lost there.
                replaced = Path(path)
                path = replaced.with_name(replaced.name + ".zip")
                warnings.warn(f"{error}; so it is saved to {path}", stacklevel=2)
        with self.between_batches():
            kept = self._kept_prompts
            try:
                state = self.prompt_state()
                self._kept_prompts = None if state is None else replace(state, origin="the zip file")
                super().save(path, exclude, include)  # type: ignore[arg-type]
                if replaced is not None:
                    remove_versions(replaced)
            finally:
                self._kept_prompts = kept

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
        """Load what `save` wrote.

        Args:
            path: a folder or a zip file, with or without ".zip". Loading a zip file can run code that is in it.
            env: environments to go on with. None: plain mazes are built again from a folder; from a zip file, and for
                other environments, the model can predict, and learn after `set_env`.
            device: SB3's.
            custom_objects: values to use instead of saved ones, by name.
            print_system_info: SB3's.
            force_reset: SB3's; a batch resets its environments in any case.
            **kwargs: as custom_objects; for a folder only arguments of the constructor.

        Raises:
            FileNotFoundError, ValueError, TypeError: see `load_checkpoint`.
        """
        folder = _folder_of(path)
        if folder is None:
            options: dict[str, Any] = {"custom_objects": custom_objects, "print_system_info": print_system_info}
            return super().load(path, env, device, force_reset=force_reset, **options, **kwargs)  # type: ignore[arg-type]
        from sera_maze.algorithm.checkpoint import load_as  # which builds on this module

        if print_system_info:
            get_system_info()
        return load_as(cls, folder, env, device, {**(custom_objects or {}), **kwargs})

    def set_env(self, env: GymEnv, force_reset: bool = True) -> None:
        """Go on with other environments of the same spaces, any number of them."""
        wrapped = self._wrap_env(env, self.verbose)
        check_spaces(wrapped, self.observation_space, self.action_space)
        self._kept_prompts, self._batch_start = self.prompt_state(), None
        self.n_envs = wrapped.num_envs  # SB3 wants it unchanged, but groups do not depend on it
        super().set_env(wrapped, force_reset)

    def prompt_state(self) -> PromptState | None:
        """What is known about the prompts; None if there never were environments."""
        if self.env is None:
            return self._kept_prompts
        success = {name: tensor.cpu() for name, tensor in self.success_estimator.state_dict().items()}
        return PromptState(self.num_prompts, self.prompts_digest, self.prompt_order.state_dict(), self.success, success)

    def restore_prompts(self) -> None:
        """Go on with the prompts of the environments before, if those of ``env`` are the same."""
        kept, self._kept_prompts = self._kept_prompts, None
        if kept is None:
            return
        mazes = self.prompts_digest
        if kept.num_prompts != self.num_prompts or (mazes and kept.mazes and mazes != kept.mazes):
            if kept.origin is not None:
                warnings.warn(
                    f"{kept.origin} was saved with {kept.num_prompts} prompts, and the environments have "
                    f"{self.num_prompts}{' others' if kept.num_prompts == self.num_prompts else ''}: success history "
                    "and prompt order start anew. To go on with them, load with the same environments.",
                    stacklevel=2,
                )
            return
        self.prompt_order.load_state_dict(kept.order)
        if kept.estimator == self.success or {kept.estimator, self.success} == {"history", "critic_history"}:
            self.success_estimator.load_state_dict(kept.success)

    def batch_start(self) -> BatchStart:
        """What a batch is about to change."""
        order = None if self.env is None else self.prompt_order.state_dict()
        iterations = self.policy.iterations if isinstance(self.policy, MazePolicy) else None
        return BatchStart(self.num_timesteps, order, iterations)

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
        """SB3's, with a progress bar that knows how many steps a call stands for."""
        if not progress_bar:
            return super()._init_callback(callback)
        if callback is not None and not isinstance(callback, BaseCallback):
            callback = CallbackList(callback) if isinstance(callback, list) else ConvertCallback(callback)
        return super()._init_callback([*([] if callback is None else [callback]), TimestepsBar()])

    @contextmanager
    def usual_iterations(self) -> Iterator[None]:
        """Run a `MazePolicy` meanwhile with the number of iterations that it had before the present batch."""
        start, policy = self._batch_start, self.policy
        if not isinstance(policy, MazePolicy) or start is None or start.iterations is None:
            yield
            return
        present, policy.iterations = policy.iterations, start.iterations
        try:
            yield
        finally:
            policy.iterations = present

    def _go_to(self, start: BatchStart) -> None:
        self.num_timesteps = start.num_timesteps
        if start.order is not None:
            self.prompt_order.load_state_dict(start.order)
        if isinstance(self.policy, MazePolicy) and start.iterations is not None:
            self.policy.iterations = start.iterations

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
            total, prepared = super()._setup_learn(
                total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar
            )
        finally:
            self._custom_logger = self._custom_logger and not goes_on
        if any(isinstance(output, TensorBoardOutputFormat) for output in self.logger.output_formats):
            self._log_folder = self.logger.dir
        return total, prepared

    def _excluded_save_params(self) -> list[str]:
        made_again = ["prompts_digest", "fast_path", "step_sampler", "success_estimator", "prompt_order"]
        return [*super()._excluded_save_params(), "_batch_start", *made_again]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C, and SIGTERM where it means the same, back until the block has ended, so that all of it happens."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = {number: handler for number in numbers if callable(handler := signal.getsignal(number))}
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


def _folder_of(path: str | os.PathLike[str] | io.BufferedIOBase) -> Path | None:
    """The folder that a path means; None if it means a zip file."""
    if not isinstance(path, str | os.PathLike):
        return None
    given = Path(path)
    if given.is_dir() and ((given / POINTER).exists() or not given.with_name(given.name + ".zip").exists()):
        return given
    if given.suffix == ".zip" and not given.exists() and given.with_suffix("").is_dir():
        return given.with_suffix("")  # SB3's callbacks save to names without ".zip"
    if not given.exists() and not given.with_name(given.name + ".zip").exists():
        raise FileNotFoundError(f"{given} does not exist, neither as a folder nor as a .zip file; give what was saved")
    return None
