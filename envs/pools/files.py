"""The file format of maze pools: one .npz of packed walls, starts, goals and a JSON text of provenance."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.ground.atomic_files import whole_file

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
    header = {"format": _FORMAT, "version": _FORMAT_VERSION, "shape": list(walls.shape), "provenance": provenance}
    packed = np.packbits(walls.reshape(len(walls), -1), axis=1, bitorder="big")
    text, starts, goals = np.array(json.dumps(header)), start.astype("<u4"), goal.astype("<u4")
    with whole_file(target) as file:
        np.savez_compressed(file, header=text, walls=packed, start=starts, goal=goals)
    return target


def load_arrays(path: str | Path) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64], dict[str, Any]]:
    """Read (walls, start, goal, provenance) of a file that `save_arrays` wrote; runs no code from it.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not a whole pool file.
        MemoryError: if its mazes do not fit into memory.
    """
    source = Path(path)  # open would take a number for an open file
    try:
        with source.open("rb") as stream:
            with zipfile.ZipFile(stream) as whole:
                # Checksums are read first: NumPy would believe a damaged shape and ask for any amount of memory.
                if (bad := whole.testzip()) is not None:
                    raise ValueError(f"its part {bad} is damaged")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                return _read_arrays(file)
    except (FileNotFoundError, MemoryError):
        raise
    except Exception as error:  # zipfile, its decompressors and NumPy fail in many ways on what they were not made for
        is_pickled = "allow_pickle" in str(error)
        reason = "it holds Python objects, which are never loaded" if is_pickled else error
        raise ValueError(
            f"{path} is not a whole pool of mazes ({reason}); make one with MazePool.save or 'sera-maze mazes --out'"
        ) from error


def _read_arrays(
    file: Mapping[str, NDArray[Any]],
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64], dict[str, Any]]:
    if set(file) != _KEYS:
        raise ValueError(f"it should hold the arrays {', '.join(sorted(_KEYS))}")
    header = json.loads(str(file["header"]))
    if (header["format"], header["version"]) != (_FORMAT, _FORMAT_VERSION):
        raise ValueError(f"its format is {header['format']} {header['version']}, not {_FORMAT} {_FORMAT_VERSION}")
    count, height, width = header["shape"]
    packed, start, goal = file["walls"], file["start"], file["goal"]
    if packed.shape != (count, (height * width + 7) // 8) or packed.dtype != np.uint8:
        raise ValueError(f"its walls have shape {packed.shape}, not that of {count} mazes of {height}x{width} squares")
    if start.dtype.kind not in "iu" or goal.dtype.kind not in "iu":
        raise ValueError(f"its cells are of dtype {start.dtype} and {goal.dtype}, not integers")
    if not isinstance(header["provenance"], dict):
        raise ValueError("its provenance is not a dict")
    bits = np.unpackbits(packed, axis=1, count=height * width, bitorder="big")
    walls = bits.reshape(count, height, width).view(bool)
    return walls, start.astype(np.int64), goal.astype(np.int64), header["provenance"]


def package_version() -> str:
    """Version of the installed package, for saved files; "0+unknown" in a source tree that is not installed."""
    try:
        return metadata.version("sera-maze")
    except metadata.PackageNotFoundError:
        return "0+unknown"
