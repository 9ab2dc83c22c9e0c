"""The folder of a training run: what lies where, opening it, and keeping a second process out of it."""

from __future__ import annotations

import errno
import os
import re
import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from sera_maze.algorithm.checkpoint import load_checkpoint
from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.envs.ground.checks import check_int
from sera_maze.runs.config import RunConfig
from sera_maze.storage.files import POINTER

CONFIG, CHECKPOINT, LOGS, TABLE, COVERAGE = "config.json", "checkpoint", "tensorboard", "evaluation", "coverage.jsonl"
_LOCK = ".lock"
_CANNOT_LOCK = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
_POLICY = ("channels", "iterations")
_OPTIONS = (
    "prompts_per_batch", "rollouts_per_prompt", "n_max", "allocator", "advantage", "success", "activation_threshold",
    "max_grad_norm", "seed",
)  # fmt: skip
_DEVICE = re.compile(r"cpu|mps|cuda(:\d+)?")


def require_run(folder: Path) -> Path:
    """The config file of a run's folder.

    Raises:
        FileNotFoundError: if it is not the folder of a run.
    """
    if not (folder / CONFIG).is_file():
        raise FileNotFoundError(f"{folder} is not the folder of a run, it has no {CONFIG}; 'sera-maze train' makes one")
    return folder / CONFIG


def has_checkpoint(folder: Path) -> bool:
    """Whether a checkpoint of the run was completed."""
    return (folder / CHECKPOINT / POINTER).exists()


def open_run(folder: Path, device: str = "auto") -> tuple[MaxRL, RunConfig]:
    """The model and the config of a run's folder.

    Raises:
        FileNotFoundError, ValueError: if it is not the folder of a run, or there is no checkpoint in it so far.
    """
    config = RunConfig.load(require_run(folder))
    if not has_checkpoint(folder):
        raise FileNotFoundError(
            f"{folder} has no checkpoint so far: the run was stopped before its first; 'sera-maze train --resume "
            f"{shlex.quote(str(folder))}' starts it again"
        )
    return load_checkpoint(folder / CHECKPOINT, device=device), config


def check_same_run(model: MaxRL, expected: MaxRL, folder: Path) -> None:
    """Check that a checkpoint was trained as the run's config says, but for the number of updates.

    Args:
        model: from the checkpoint.
        expected: made anew from the config.
        folder: of the run.

    Raises:
        ValueError: naming the first option that differs.
    """
    one, other = model.policy_kwargs or {}, expected.policy_kwargs or {}
    pairs: list[tuple[str, Any, Any]] = [(name, one.get(name), other.get(name)) for name in _POLICY]
    for name in _OPTIONS:
        pairs.append((name, getattr(model, name), getattr(expected, name)))
    pairs.append(("learning_rate", model.lr_schedule(1.0), expected.lr_schedule(1.0)))
    trained_rules, said_rules = model.fast_path.rules, expected.fast_path.rules
    assert trained_rules is not None
    assert said_rules is not None
    pairs.append(("on_wall", trained_rules.on_wall, said_rules.on_wall))
    known, wanted = model.prompt_state(), expected.prompt_state()
    assert known is not None
    assert wanted is not None
    pairs.append(("mazes", known.mazes, wanted.mazes))
    for name, trained, said in pairs:
        if trained != said:
            raise ValueError(
                f"{folder / CONFIG} says {name}={said!r}, but the checkpoint was trained with {trained!r}: put the "
                "file back as it was (only updates may change), or start another run"
            )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from training in a run's folder; on file systems that cannot lock, only warn.

    Raises:
        ValueError: if one does already.
    """
    lock = FileLock(folder / _LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise ValueError(f"another process is training in {folder}; wait for it, or name another one") from None
    except (NotImplementedError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _CANNOT_LOCK:
            raise
        warnings.warn(
            f"{folder} is on a file system that cannot lock files: see that no other process trains there ({error})",
            RuntimeWarning,
            stacklevel=3,  # where the block is entered, past contextlib
        )
    try:
        yield
    finally:
        lock.release()


def set_threads(threads: int | None) -> None:
    """Let torch use so many CPU threads; None leaves its choice.

    Raises:
        ValueError, TypeError: for more than the machine has cores, or less than 1.
    """
    if threads is not None:
        torch.set_num_threads(check_int("threads", threads, 1, max(1, os.cpu_count() or 1)))


def checked_device(device: str) -> str:
    """Check that torch can use a device.

    Raises:
        ValueError: if not.
    """
    if device == "auto":
        return device
    if not _DEVICE.fullmatch(device):
        raise ValueError(f"device={device!r} is not known; allowed are auto, cpu, cuda, cuda:0 and so on, and mps")
    kind, _, index = device.partition(":")
    count = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}[kind]
    if int(index or 0) >= count:
        raise ValueError(f"device={device!r}: torch finds {count} devices of this kind here; use auto or cpu")
    return device
