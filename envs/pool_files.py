"""The file format of maze pools: one .npz of packed walls, starts, goals and a JSON text of provenance."""

from __future__ import annotations

import json
import os
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FORMAT = "sera-maze-pool"
_FORMAT_VERSION = 1
_KEYS = {"header", "walls", "start", "goal"}


def save_arrays(
    path: str | Path, walls: NDArray[np.bool_], start: NDArray[np.int64], goal: NDArray[np.int64], provenance: Any
) -> Path:
    """Write a pool atomically: a reader sees the old file or the whole new one.

    Args:
        path: file name ending in ``.npz``; missing folders are made.
        walls: (M, H, W) bool.
        start: (M, 2) integers.
        goal: (M, 2) integers.
        provenance: anything that JSON can hold.
    """
    target = Path(path)
    if target.suffix != ".npz":
        raise ValueError(f"path={str(path)!r} must end in .npz; try {str(target.with_suffix('.npz'))!r}")
    target.parent.mkdir(parents=True, exist_ok=True)
    header = {"format": _FORMAT, "version": _FORMAT_VERSION, "shape": list(walls.shape), "provenance": provenance}
    arrays: dict[str, NDArray[Any]] = {
        "header": np.array(json.dumps(header)),
        "walls": np.packbits(walls.reshape(len(walls), -1), axis=1, bitorder="big"),
        "start": start.astype("<u2"),
        "goal": goal.astype("<u2"),
    }
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return target


def load_arrays(path: str | Path) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64], dict[str, Any]]:
    """Read (walls, start, goal, provenance) of a file that `save_arrays` wrote; runs no code from it.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not a whole pool file.
    """
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            if not hasattr(file, "files") or set(file.files) != _KEYS:
                raise ValueError(f"it should hold the arrays {', '.join(sorted(_KEYS))}")
            header = json.loads(str(file["header"]))
            if (header["format"], header["version"]) != (_FORMAT, _FORMAT_VERSION):
                raise ValueError(
                    f"its format is {header['format']} {header['version']}, not {_FORMAT} {_FORMAT_VERSION}"
                )
            count, height, width = header["shape"]
            bits = np.unpackbits(file["walls"], axis=1, count=height * width, bitorder="big")
            walls = bits.reshape(count, height, width).astype(bool)
            return walls, file["start"].astype(np.int64), file["goal"].astype(np.int64), header["provenance"]
    except FileNotFoundError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is not a whole pool of mazes ({error}); make one with MazePool.save or 'sera-maze mazes --out'"
        ) from error


def package_version() -> str:
    """Version of the installed package, for saved files; "0+unknown" in a source tree that is not installed."""
    try:
        return metadata.version("sera-maze")
    except metadata.PackageNotFoundError:
        return "0+unknown"
