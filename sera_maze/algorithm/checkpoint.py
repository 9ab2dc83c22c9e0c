"""Checkpoints: all that a training needs to go on bit for bit, in a folder that is read without running code.

`save_checkpoint` and `load_checkpoint` say what a checkpoint holds, `sera_maze.storage.files` how it lies on the
disk. The random numbers of rollouts and of the prompt order are keyed by seed, update and epoch, so they need no state.
"""

from __future__ import annotations

import difflib
import inspect
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
from torch import Tensor

from sera_maze.algorithm.resumable import PromptState, ResumableAlgorithm, check_spaces
from sera_maze.envs.play.maze import MazeEnv
from sera_maze.envs.pools.files import package_version
from sera_maze.envs.pools.fresh import FreshMazes, Mazes
from sera_maze.envs.pools.pool import MazePool
from sera_maze.policies.maze import MazePolicy
from sera_maze.sampling.plain_mazes import plain_mazes
from sera_maze.sampling.vec_env import MazeVecEnv
from sera_maze.storage.files import Contents, read_version, write_version
from sera_maze.storage.parameters import class_name, load_parameter_state, named_tensors, parameter_state, tensors_of
from sera_maze.storage.plain_values import decode, decode_space, encode, encode_space
from sera_maze.storage.run_log import flush_boards

if TYPE_CHECKING:
    from sera_maze.algorithm.maxrl import MaxRL

__all__ = ["load_as", "load_checkpoint", "read_config", "save_checkpoint"]

_Algorithm = TypeVar("_Algorithm", bound=ResumableAlgorithm)
_COUNTERS = (
    "num_timesteps", "_n_updates", "total_rollouts", "total_updates", "_episode_num", "_current_progress_remaining",
    "_total_timesteps", "_num_timesteps_at_start",
)  # fmt: skip
_NOT_KEPT = {"policy", "env", "device", "_init_setup_model"}
_RULES = ("observation", "radius", "on_wall", "max_steps")
_LIBRARIES = ("torch", "numpy", "gymnasium", "stable-baselines3", "safetensors")


def save_checkpoint(model: ResumableAlgorithm, folder: str | Path, config: dict[str, Any] | None = None) -> Path:
    """Save a model into a folder, whole or not at all: until the new checkpoint is complete, the one before stays.

    It holds parameters, optimizer, success estimates, prompt order, counters, the arguments of the constructor, torch's
    random state, and the mazes with their rules where the environments are plain mazes. Other environments, and the
    statistics of SB3's VecNormalize, are not in it. Saved in the middle of a batch, by a callback say, it is the state
    before that batch. One process at a time may write; others may read meanwhile.

    Args:
        model: a `MaxRL` or `SERA`.
        folder: made if it is missing; a checkpoint in it is replaced, other files in it stay.
        config: what the training was asked for, as JSON can hold it; kept for `read_config`.

    Returns:
        The folder.

    Raises:
        TypeError: for arguments that JSON cannot hold, such as a schedule that is a function; nothing is written then.
        ValueError: if ``folder`` is a file.
        OSError: if it cannot be written.
    """
    path = Path(folder)
    if hasattr(model, "_logger"):
        flush_boards(model.logger)  # training goes on from here: what was logged so far must outlive the process
    with model.between_batches():
        try:
            header, tensors = _header(model)
            header["config"] = encode("config", config)
        except TypeError as error:
            raise TypeError(f"{error}. To save it all the same: a name that ends in .zip saves with pickle") from None
        mazes = None if model.env is None else plain_mazes(model.env).pool
        pool = mazes.exclude if isinstance(mazes, FreshMazes) else mazes
        # Copies, since the format holds only tensors that share no memory.
        copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    write_version(path, Contents(header, copies, pool))
    return path


def read_config(folder: str | Path) -> dict[str, Any] | None:
    """The config that a checkpoint was saved with; None if it was saved without one.

    Raises:
        FileNotFoundError, ValueError: as `load_checkpoint`.
    """
    config: dict[str, Any] | None = decode(read_version(Path(folder)).header.get("config"))
    return config


def load_checkpoint(
    folder: str | Path, env: GymEnv | None = None, *, device: torch.device | str = "auto", **replacements: Any
) -> MaxRL:
    """Load a model that `save_checkpoint` or ``model.save(folder)`` saved. Runs no code from the files.

    ``model.learn(steps, reset_num_timesteps=False)`` goes on where the saved one stopped; on the CPU, with the same
    number of threads, the parameters become bit for bit those of a training without a stop.

    Args:
        folder: that was saved to.
        env: environments with the spaces of the saved ones, any number. None: plain mazes are built again; without them
            the model can predict, and learn after ``set_env``.
        device: SB3's.
        **replacements: arguments of the constructor to use instead of the saved ones; ``policy`` is needed if it is a
            class without an alias.

    Returns:
        A `MaxRL` or `SERA`, as saved.

    Raises:
        FileNotFoundError: if there is no such folder.
        ValueError: if it holds no complete checkpoint, one of another kind or version or a damaged one; if the
            environments have other spaces; if the parameters do not fit the policy.
        TypeError: for replacements that are no arguments of the constructor.
    """
    from sera_maze.algorithm.maxrl import MaxRL  # which builds on this module

    return load_as(MaxRL, Path(folder), env, device, replacements)


def load_as(
    kind: type[_Algorithm], folder: Path, env: GymEnv | None, device: torch.device | str, replacements: dict[str, Any]
) -> _Algorithm:
    """`load_checkpoint` for a class of algorithm, which may be the user's own.

    Raises:
        ValueError: also if something else than a ``kind`` was saved.
    """
    header, tensors, pool = read_version(folder)
    try:
        algorithm = _saved_algorithm(header["algorithm"], kind, folder)
        saved = {name: decode(value) for name, value in header["arguments"].items()}
        observation_space, action_space = (decode_space(header["spaces"][name]) for name in ("observation", "action"))
        prompts = _saved_prompts(header, tensors, folder)
        if env is None and header["environments"] is not None:
            env = _rebuilt(header["environments"], pool)
        optimizers = header["optimizers"]
        counters = {name: header["counters"][name] for name in _COUNTERS}
        num_envs, iterations, log_folder = (header[name] for name in ("num_envs", "iterations", "log_folder"))
        random_state = tensors["random/cpu"]
    except (KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"{folder} lacks a part or has another ({error!r}); save it anew") from error
    arguments = _arguments(algorithm, saved, replacements, header, folder)
    model = algorithm(env=env, device=device, _init_setup_model=False, **arguments)  # type: ignore[arg-type]
    if model.env is None:
        model.observation_space, model.action_space = observation_space, action_space
        model.n_envs = num_envs
    else:
        check_spaces(model.env, observation_space, action_space)
    model._kept_prompts = prompts
    model._setup_model()
    load_parameter_state(model, tensors, optimizers)
    vars(model).update(counters, _log_folder=log_folder)
    if isinstance(model.policy, MazePolicy) and "policy_kwargs" not in replacements:
        model.policy.iterations = iterations
    torch.set_rng_state(random_state)
    if model.device.type == "cuda" and "random/cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random/cuda"], model.device)
    return model


def _header(model: ResumableAlgorithm) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """All that JSON can hold, and all tensors."""
    tensors, optimizers = parameter_state(model)
    header: dict[str, Any] = {
        "package_version": package_version(),
        "libraries": {name: metadata.version(name) for name in _LIBRARIES},
        "algorithm": class_name(type(model)),
        "policy": _policy_name(model),
        "arguments": {
            name: encode(name, getattr(model, name if hasattr(model, name) else f"_{name}"))
            for name in _argument_names(type(model))
        },
        "iterations": model.policy.iterations if isinstance(model.policy, MazePolicy) else None,
        "spaces": {
            "observation": encode_space("observation_space", model.observation_space),
            "action": encode_space("action_space", model.action_space),
        },
        "num_envs": model.n_envs,
        "environments": None if model.env is None else _environments(model.env),
        "counters": {name: encode(name, getattr(model, name)) for name in _COUNTERS},
        "log_folder": model._log_folder,
        "optimizers": optimizers,
        "prompts": None,
    }
    known = model.prompt_state()
    if known is not None:
        header["prompts"] = {
            "num_prompts": known.num_prompts, "mazes": known.mazes, "order": known.order, "estimator": known.estimator
        }  # fmt: skip
        tensors |= named_tensors("success", known.success)
    tensors["random/cpu"] = torch.get_rng_state()
    if model.device.type == "cuda":
        tensors["random/cuda"] = torch.cuda.get_rng_state(model.device)
    return header, tensors


def _environments(env: VecEnv) -> dict[str, Any] | None:
    found = plain_mazes(env)
    if found.rules is None:
        return None
    rules, mazes = found.rules, found.pool
    kind = "MazeVecEnv" if isinstance(env.unwrapped, MazeVecEnv) else "MazeEnv"
    fresh = {"seed": mazes.seed, **mazes.spec.to_dict()} if isinstance(mazes, FreshMazes) else None
    kept = {name: getattr(rules, name) for name in _RULES}
    return {"kind": kind, "num_envs": env.num_envs, "rules": kept, "fresh": fresh}


def _rebuilt(record: dict[str, Any], pool: MazePool | None) -> VecEnv:
    rules, num_envs = {name: record["rules"][name] for name in _RULES}, record["num_envs"]
    mazes: Mazes | None = pool if record["fresh"] is None else FreshMazes(**record["fresh"], exclude=pool)
    if record["kind"] == "MazeVecEnv":
        return MazeVecEnv(num_envs, pool, **rules)
    return DummyVecEnv([lambda: Monitor(MazeEnv(mazes, **rules))] * num_envs)


def _policy_name(model: ResumableAlgorithm) -> dict[str, str]:
    for alias, policy in model.policy_aliases.items():
        if policy is model.policy_class:
            return {"alias": alias}
    return {"class": class_name(model.policy_class)}


def _argument_names(algorithm: type) -> list[str]:
    """Arguments of the constructor that are kept, those of its parents too."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found: dict[str, None] = {}
    for parent in algorithm.__mro__[: algorithm.__mro__.index(ResumableAlgorithm)]:
        if "__init__" in vars(parent):
            parameters = inspect.signature(parent).parameters.values()
            found |= {item.name: None for item in parameters if item.kind in named and item.name not in _NOT_KEPT}
    return list(found)


def _arguments(
    algorithm: type[ResumableAlgorithm],
    saved: dict[str, Any],
    replacements: dict[str, Any],
    header: dict[str, Any],
    folder: Path,
) -> dict[str, Any]:
    """Arguments of the constructor, the policy among them: the saved ones, replaced where the caller says so."""
    names = [*_argument_names(algorithm), "policy"]
    for name in replacements:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{name!r} is no argument of {algorithm.__name__} that can be replaced{hint}")
    if unknown := saved.keys() - set(names):
        raise ValueError(
            f"{folder} was saved by sera_maze {header.get('package_version')}, whose {algorithm.__name__} had the "
            f"arguments {sorted(unknown)}; load it with that version"
        )
    arguments = {**saved, **replacements}
    if "policy" not in arguments:
        arguments["policy"] = _saved_policy(header["policy"], algorithm, folder)
    return arguments


def _saved_policy(record: dict[str, str], algorithm: type[ResumableAlgorithm], folder: Path) -> str:
    alias = record.get("alias")
    if alias in algorithm.policy_aliases:
        return str(alias)
    raise ValueError(
        f"{folder} was saved with the policy {alias or record.get('class')!r}, which is not one of "
        f"{sorted(algorithm.policy_aliases)}; nothing is imported by a name in a file: pass the class, as policy=..."
    )


def _saved_algorithm(name: str, kind: type[_Algorithm], folder: Path) -> type[_Algorithm]:
    from sera_maze.algorithm.maxrl import SERA, MaxRL  # which build on this module

    known: tuple[type[Any], ...] = (kind, MaxRL, SERA)
    for algorithm in known:
        if class_name(algorithm) == name:
            if issubclass(algorithm, kind):
                return algorithm
            raise ValueError(f"{folder} holds a {name}, not a {kind.__name__}; load it with {algorithm.__name__}.load")
    raise ValueError(f"{folder} holds a {name}; load it with the method load of that class")


def _saved_prompts(header: dict[str, Any], tensors: dict[str, Tensor], folder: Path) -> PromptState | None:
    record = header["prompts"]
    if record is None:
        return None
    success = tensors_of("success", tensors)
    return PromptState(
        record["num_prompts"], record["mazes"], record["order"], record["estimator"], success, origin=str(folder)
    )
