"""What a machine gives to trainings: versions, threads, places to write. For reports: a part that fails says so."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from sera_maze.envs.pools.files import package_version

_PACKAGES = (
    "torch", "numpy", "numba", "gymnasium", "stable-baselines3", "pygame", "tensorboard", "matplotlib", "rich", "tyro",
)  # fmt: skip
_VARIABLES = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_DISPLAY_VARIABLES = ("SDL_VIDEODRIVER", "DISPLAY", "WAYLAND_DISPLAY")
_CGROUP = Path("/sys/fs/cgroup/cpu.max")
_SECONDS = 5  # for the answer of a display
# In a process of its own: a display far away may never answer.
_ASK_DISPLAY = (
    "from sera_maze.envs.pictures import window; window.start_display(); "
    "print(window.pygame.display.get_driver())"
)  # fmt: skip


def describe_machine(runs: Path) -> Iterator[tuple[str, str]]:
    """What this machine gives to trainings, as pairs of a name and a line of text.

    A part that cannot be found out says so in its line.

    Args:
        runs: the folder in which runs lie or would lie; nothing is left there.
    """
    parts: dict[str, Callable[[], str]] = {
        "sera-maze": _own, "python": _python, "system": platform.platform, "packages": _packages, "cores": _cores,
        "threads": _threads, "device": _device, "kernels": _kernels, "display": _display,
        "locks": partial(_locks, runs), "disk": partial(_disk, runs), "output": _output,
    }  # fmt: skip
    for name, part in parts.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                text = part()
            except Exception as error:
                text = f"could not be found out: {type(error).__name__}: {error}"
        told = [str(warning.message) for warning in caught if warning.category is RuntimeWarning]
        yield name, " ".join("; ".join([text, *told]).split())


def _own() -> str:
    return f"{package_version()} in {Path(__file__).parents[1]}"


def _python() -> str:
    return f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"


def _packages() -> str:
    return ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _cores() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    text = f"{usable} of {os.cpu_count()} may be used"
    if _CGROUP.is_file():
        quota, _, period = _CGROUP.read_text(encoding="ascii").partition(" ")
        if quota != "max":
            text += f", at most {int(quota) / int(period):g} at a time (cgroup)"
    return text


def _threads() -> str:
    import numba
    import torch

    set_ones = [f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ]
    config: Any = numba.config
    of_numba = config.NUMBA_NUM_THREADS  # get_num_threads() would start them, and change torch's
    return f"torch {torch.get_num_threads()}, numba {of_numba}; {', '.join(set_ones) or 'no variable is set'}"


def _device() -> str:
    import torch

    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return f"{', '.join(f'cuda:{i} {name}' for i, name in enumerate(names))} (CUDA {torch.version.cuda})"
    kind = "mps and cpu" if torch.backends.mps.is_available() else "cpu"
    return f"{kind}, no CUDA" + ("" if torch.version.cuda else " (torch is built without it)")


def _kernels() -> str:
    from sera_maze.envs.ground.kernels import kernel_folder

    folder = kernel_folder()
    if folder is None:
        return "kept nowhere"
    number = sum(1 for _ in Path(folder).rglob("*.nbi"))
    kept = f"{number} compiled ones are kept" if number else "none are compiled so far, which takes some seconds"
    return f"{kept}; {folder} can be written"


def _display() -> str:
    set_ones = ", ".join(f"{name}={os.environ[name]}" for name in _DISPLAY_VARIABLES if name in os.environ)
    where = set_ones or f"none of {', '.join(_DISPLAY_VARIABLES)} is set"
    try:
        asked = subprocess.run(
            [sys.executable, "-c", _ASK_DISPLAY], capture_output=True, text=True, timeout=_SECONDS, check=False,
            stdin=subprocess.DEVNULL, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"the display does not answer within {_SECONDS} s; {where}"
    if asked.returncode:
        reason = (asked.stderr.splitlines() or ["NoDisplayError: a window cannot be opened"])[-1]
        return f"{reason.partition(': ')[2].partition('. Use ')[0]}; {where}"
    driver = (asked.stdout.split() or ["unknown"])[-1]
    if driver in ("dummy", "offscreen"):
        return f"windows open but are not seen, SDL's driver is {driver}; {where}"
    return f"a window could open, SDL's driver is {driver}; {where}"


def _locks(runs: Path) -> str:
    from sera_maze.runs.folder import locked

    place = _existing(runs)
    with tempfile.TemporaryDirectory(dir=place, prefix=".sera-maze-") as folder, locked(Path(folder)):
        try:
            with locked(Path(folder)):
                return f"do not work in {place}: two processes could train in one run"
        except ValueError:
            return f"work in {place}"


def _disk(runs: Path) -> str:
    place = _existing(runs)
    return f"{shutil.disk_usage(place).free / 1e9:.1f} GB free in {place}"


def _output() -> str:
    return f"in {getattr(sys.stdout, 'encoding', None)}, file names in {sys.getfilesystemencoding()}"


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    folder = folder.absolute()
    return next(place for place in (folder, *folder.parents) if place.is_dir())
