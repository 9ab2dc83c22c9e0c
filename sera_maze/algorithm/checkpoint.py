"""What a checkpoint holds: all that a training needs to go on bit for bit, read without running code from its files.

`sera_maze.storage.files` says how it lies on the disk. The random numbers of rollouts and of the prompt order are keyed
by seed, update and epoch, so they need no state.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from sera_maze.algorithm.normalization import Normalization
from sera_maze.algorithm.state import PromptState
from sera_maze.envs.pools.files import package_version
from sera_maze.envs.pools.pool import MazePool
from sera_maze.storage.files import Contents, read_version, write_version
from sera_maze.storage.parameters import named_tensors, tensors_of
from sera_maze.storage.plain_values import decode, decode_space, encode, encode_space

_LIBRARIES = ("torch", "numpy", "gymnasium", "stable-baselines3", "safetensors")
_NAMESPACES = ("success/", "random/", "normalization/")  # of tensors that are no parameters


@dataclass(frozen=True)
class Saved:
    """A model between two batches.

    Attributes:
        algorithm: name of its class, such as "MaxRL".
        policy: {"alias": ...} or, for a class without one, {"class": ...}.
        arguments: of the constructor.
        settings: of the policy, see `settings_of`.
        observation_space: of the environments.
        action_space: of the environments.
        num_envs: how many environments there were.
        environments: see `environments_record`; None where they cannot be made again.
        pool: likewise.
        counters: attributes that are numbers.
        log_folder: SB3's TensorBoard folder of the run, or None.
        parameters: see `parameter_state`.
        optimizers: likewise.
        prompts: what is known of the prompts; None without environments.
        random: torch's random state, "cpu" and perhaps "cuda".
        config: what the owner of the model wants to find again, as JSON can hold it; None for nothing.
        version: of this package, that wrote it.
        normalization: of the environments; None if nothing is known of it.
    """

    algorithm: str
    policy: dict[str, str]
    arguments: dict[str, Any]
    settings: dict[str, Any]
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    num_envs: int
    environments: dict[str, Any] | None
    pool: MazePool | None
    counters: dict[str, Any]
    log_folder: str | None
    parameters: dict[str, Tensor]
    optimizers: dict[str, Any]
    prompts: PromptState | None
    random: dict[str, Tensor]
    config: dict[str, Any] | None = None
    version: str = ""
    normalization: Normalization | None = None


def write_checkpoint(folder: Path, saved: Saved) -> None:
    """Write into a folder, whole or not at all: until the new checkpoint is complete, the one before stays.

    Args:
        folder: made if it is missing; a checkpoint in it is replaced, other files in it stay.
        saved: its tensors may still be in use.

    Raises:
        TypeError: for arguments that JSON cannot hold, such as a schedule that is a function; nothing is written then.
        ValueError: if ``folder`` is a file.
        OSError: if it cannot be written.
    """
    tensors = saved.parameters | named_tensors("random", saved.random)
    header: dict[str, Any] = {
        "package_version": package_version(),
        "libraries": {name: metadata.version(name) for name in _LIBRARIES},
        "algorithm": saved.algorithm,
        "policy": saved.policy,
        "arguments": {name: encode(name, value) for name, value in saved.arguments.items()},
        "settings": saved.settings,
        "spaces": {
            "observation": encode_space("observation_space", saved.observation_space),
            "action": encode_space("action_space", saved.action_space),
        },
        "num_envs": saved.num_envs,
        "environments": saved.environments,
        "counters": {name: encode(name, value) for name, value in saved.counters.items()},
        "log_folder": saved.log_folder,
        "optimizers": saved.optimizers,
        "prompts": None,
        "config": encode("config", saved.config),
        "normalization": None,
    }
    if saved.normalization is not None:
        header["normalization"] = encode("VecNormalize", saved.normalization.settings)
        arrays = {name: torch.from_numpy(array) for name, array in saved.normalization.statistics.items()}
        tensors |= named_tensors("normalization", arrays)
    if saved.prompts is not None:
        known = saved.prompts
        header["prompts"] = {
            "num_prompts": known.num_prompts, "digest": known.digest, "order": known.order, "estimator": known.estimator
        }  # fmt: skip
        tensors |= named_tensors("success", known.success)
    # Copies, since the format holds only tensors that share no memory.
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    write_version(folder, Contents(header, copies, saved.pool))


def read_checkpoint(folder: Path) -> Saved:
    """Read what `write_checkpoint` wrote; of earlier versions too.

    Raises:
        FileNotFoundError: if there is no such folder.
        ValueError: if it holds no complete checkpoint, one of another kind or version, or a damaged one.
    """
    header, tensors, pool = read_version(folder)
    try:
        settings = header["settings"] if "settings" in header else _settings_of_version_1(header)
        return Saved(
            algorithm=header["algorithm"].rpartition(".")[2],  # version 1 had the module before it
            policy=header["policy"],
            arguments={name: decode(value) for name, value in header["arguments"].items()},
            settings=settings,
            observation_space=decode_space(header["spaces"]["observation"]),
            action_space=decode_space(header["spaces"]["action"]),
            num_envs=header["num_envs"],
            environments=header["environments"],
            pool=pool,
            counters=header["counters"],
            log_folder=header["log_folder"],
            parameters={name: value for name, value in tensors.items() if not name.startswith(_NAMESPACES)},
            optimizers=header["optimizers"],
            prompts=_prompts(header["prompts"], tensors, folder),
            random={"cpu": tensors["random/cpu"], **tensors_of("random", tensors)},
            config=decode(header.get("config")),
            version=header.get("package_version", ""),
            normalization=_normalization(header.get("normalization"), tensors),
        )
    except (KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"{folder} lacks a part or has another ({error!r}); save it anew") from error


def _settings_of_version_1(header: dict[str, Any]) -> dict[str, Any]:
    return {} if header["iterations"] is None else {"iterations": header["iterations"]}


def _normalization(settings: dict[str, Any] | None, tensors: dict[str, Tensor]) -> Normalization | None:
    if settings is None:
        return None
    arrays = {name: tensor.numpy() for name, tensor in tensors_of("normalization", tensors).items()}
    return Normalization(decode(settings), arrays)


def _prompts(record: dict[str, Any] | None, tensors: dict[str, Tensor], folder: Path) -> PromptState | None:
    if record is None:
        return None
    digest = record["digest"] if "digest" in record else record["mazes"]  # as version 1 called it
    success = tensors_of("success", tensors)
    return PromptState(record["num_prompts"], digest, record["order"], record["estimator"], success, origin=str(folder))
