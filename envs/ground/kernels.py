"""The numba decorators of all kernels, and the folder in which compiled kernels are kept.

numba compiles a kernel anew when the kernel's own file has changed, but a kernel takes in parts from other files too.
So the folder's name holds a digest of all files of ``envs`` with kernels, and a change in any of them leaves behind
everything that was compiled before. (Kernels elsewhere in the package take in parts from their own file and from
there.) The folder lies below the first of these that can be written: ``NUMBA_CACHE_DIR`` where it is set, the package's
``__pycache__``, the user's cache folder (``XDG_CACHE_HOME``, else ``~/.cache``), a folder of the user's own among the
temporary ones. Kernels in an earlier place that cannot be written, as in an image that was built by another user, are
copied into it. Where no place can be written, kernels are compiled in each process, and a warning says so.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import os
import stat
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba

from sera_maze.envs.ground.atomic_files import whole_file

_HERE = Path(__file__).parents[1]  # of all rooms that have kernels
_config: Any = numba.config
_has_warned = False

# numba knows one cache folder for the whole process, so only one thread at a time may change it for a moment. A fork
# waits for that moment to pass: the child would inherit the changed folder, and a lock that nobody opens.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call, to run without the GIL, and keep it on disk.

    It must always be called with arguments of the same types, which includes whether arrays are contiguous and
    writable: where processes compile one function for different types at the same time, numba may mix up what it keeps.
    """
    with _lock:
        user_folder = _config.CACHE_DIR
        folder = _folder(str(user_folder))
        if folder is None:
            return kernel_part(function)
        _config.CACHE_DIR = folder
        try:
            return numba.njit(cache=True, nogil=True)(function)
        except (RuntimeError, OSError) as error:  # numba can keep nothing for this file, as it is not where it was
            _warn_of_no_folder(str(error))
            return kernel_part(function)
        finally:
            _config.CACHE_DIR = user_folder


def kernel_part(function: Callable[..., Any]) -> Any:
    """Compile a function that only kernels call, with arguments of any types; it is kept as a part of theirs."""
    return numba.njit(nogil=True)(function)


def kernel_folder() -> str | None:
    """The folder in which compiled kernels are kept, which exists then; None if there is none."""
    return _folder(str(_config.CACHE_DIR))


def has_kernels() -> bool:
    """Whether any compiled kernel is kept already: the first calls of a process without take half a minute."""
    folder = kernel_folder()
    return folder is not None and any(Path(folder).glob("*/*.nbi"))


@functools.cache
def _folder(user_folder: str) -> str | None:
    """The folder for compiled kernels, which exists then; None if there is none."""
    sources = {path.relative_to(_HERE).as_posix(): path.read_bytes() for path in sorted(_HERE.rglob("*.py"))}
    if not sources:
        _warn_of_no_folder(f"{_HERE} holds no source files")
        return None
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for name, content in sources.items():
        if b"@kernel" in content:
            digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    name = f"sera_maze-{digest.hexdigest()}"
    tried: list[Path] = []
    for place in _places(user_folder):
        if _is_writable(place / name):
            for earlier in tried:
                _copy_kernels(earlier / name, place / name)
            return str(place / name)
        tried.append(place)
    _warn_of_no_folder(f"none of {', '.join(map(str, tried))} can be written")
    return None


def _places(user_folder: str) -> Iterator[Path]:
    if user_folder:
        yield Path(user_folder)
    yield _HERE / "__pycache__"
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        if os.path.isabs(os.environ.get(variable, "")):
            yield Path(os.environ[variable])
    with suppress(RuntimeError):  # nobody knows the user's home
        yield Path.home() / ".cache"
    with suppress(OSError):  # there is none, or somebody else has taken the name
        yield _own_temporary_folder()


def _own_temporary_folder() -> Path:
    """A temporary folder that nobody else can write: what lies in a folder for kernels is run.

    Raises:
        OSError: if there can be none.
    """
    if not hasattr(os, "getuid"):  # Windows, where each user has temporary folders of their own
        return Path(tempfile.gettempdir())
    folder = Path(tempfile.gettempdir()) / f"sera_maze-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} is not the user's own")
    return folder


def _copy_kernels(source: Path, target: Path) -> None:
    """Copy the compiled kernels that a folder has and the other one lacks; other processes may do so at the same time.

    numba finds a kernel by its index (.nbi), which so comes after the code that it names (.nbc).
    """
    with suppress(OSError):  # what cannot be copied is compiled
        for index in sorted(source.glob("*/*.nbi")):
            place = target / index.parent.name
            if not (place / index.name).exists():
                for file in (*index.parent.glob(f"{glob.escape(index.stem)}.*.nbc"), index):
                    with whole_file(place / file.name) as copy:
                        copy.write(file.read_bytes())


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
    except OSError:
        return False
    return True


def _warn_of_no_folder(reason: str) -> None:
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warnings.warn(
            f"compiled kernels cannot be kept, as {reason}: every process compiles them anew, which takes some "
            "seconds; set NUMBA_CACHE_DIR to a folder that can be written",
            RuntimeWarning,
            stacklevel=2,
        )
