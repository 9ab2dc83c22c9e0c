"""The numba decorators of all kernels, and the folder in which compiled kernels are kept.

numba compiles a kernel anew when the kernel's own file has changed, but a kernel takes in parts from other files too.
So the folder's name holds a digest of all files of ``envs`` with kernels, and a change in any of them leaves behind
everything that was compiled before. (Kernels elsewhere in the package take in parts from their own file and from
there.) The folder lies below the first of these that can be written: ``NUMBA_CACHE_DIR`` where it is set, the package's
``__pycache__``, the user's cache folder (``XDG_CACHE_HOME``, else ``~/.cache``). Where none can, kernels are compiled
in each process, and a warning says so.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba

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
    tried = []
    for place in _places(user_folder):
        folder = place / f"sera_maze-{digest.hexdigest()}"
        if _is_writable(folder):
            return str(folder)
        tried.append(str(place))
    _warn_of_no_folder(f"none of {', '.join(tried)} can be written")
    return None


def _places(user_folder: str) -> Iterator[Path]:
    if user_folder:
        yield Path(user_folder)
    yield _HERE / "__pycache__"
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        if os.path.isabs(os.environ.get(variable, "")):
            yield Path(os.environ[variable])
    try:
        yield Path.home() / ".cache"
    except RuntimeError:  # nobody knows the user's home
        return


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
