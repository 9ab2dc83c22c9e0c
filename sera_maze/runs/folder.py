"""The folder of a training run: what lies where, opening it, and keeping a second process out of it."""

from __future__ import annotations

import errno
import os
import re
import shlex
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from filelock import FileLock, Timeout

from sera_maze.algorithm.checkpoint import read_checkpoint
from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.envs.ground.checks import check_int, did_you_mean
from sera_maze.envs.ground.options import differences
from sera_maze.runs.config import Config, RunConfig, config_from_dict, load_config
from sera_maze.storage.files import POINTER, RUN_CHECKPOINT

CHECKPOINT = RUN_CHECKPOINT
CONFIG, LOGS, TABLE, COVERAGE = "config.json", "tensorboard", "evaluation", "coverage.jsonl"
_LOCK = ".lock"
_WINDOWS = os.name == "nt"
_CANNOT_LOCK = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
_DEVICE = re.compile(r"cpu|mps|cuda(:\d+)?")


def as_argument(path: Path) -> str:
    """A path as the shell of this system takes it on a command line."""
    return subprocess.list2cmdline([str(path)]) if _WINDOWS else shlex.quote(str(path))


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
    config = load_config(require_run(folder))
    if not isinstance(config, RunConfig):
        raise ValueError(
            f"{folder} holds a run of a script, which makes its environments; there is {config.script.algorithm}.load "
            "for it, and 'sera-maze compare'"
        )
    if not has_checkpoint(folder):
        raise FileNotFoundError(
            f"{folder} has no checkpoint so far: the run was stopped before its first; 'sera-maze train --resume "
            f"{as_argument(folder)}' starts it again"
        )
    return MaxRL.load(folder / CHECKPOINT, device=device), config


def check_trained_as(config: Config, folder: Path) -> None:
    """Check that a run's checkpoint was trained as its config says, but for the number of updates.

    Checkpoints of earlier versions do not say how they were trained, and pass.

    Raises:
        ValueError: naming the first option that differs.
    """
    trained = read_checkpoint(folder / CHECKPOINT).config
    if trained is None:
        return
    before = config_from_dict(trained)
    if type(before) is not type(config):
        raise ValueError(
            f"{folder / CONFIG} is of another kind of run than the checkpoint; put the file back as it was"
        )
    for name, (said, was) in differences(config, before).items():
        if name != "updates":
            raise ValueError(
                f"{folder / CONFIG} says {name}={said!r}, but the checkpoint was trained with {was!r}: put the file "
                "back as it was (only updates may change), or start another run"
            )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from training in a run's folder; on file systems that cannot lock, only warn.

    Raises:
        ValueError: if one does already.
    """
    lock = FileLock(folder / _LOCK, timeout=0, fallback_to_soft=False)
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
        near = did_you_mean(device, ("auto", "cpu", "cuda", "mps"))
        raise ValueError(
            f"device={device!r} is not known; allowed are auto, cpu, cuda, cuda:0 and so on, and mps{near}"
        )
    kind, _, index = device.partition(":")
    count = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}[kind]
    if int(index or 0) >= count:
        raise ValueError(f"device={device!r}: torch finds {count} devices of this kind here; use auto or cpu")
    return device
