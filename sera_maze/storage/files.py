"""The folder of a checkpoint: written so that a crash at any moment leaves the last complete one in place.

    FOLDER/latest.json                    names the complete version and the digest of its header
    FOLDER/v00000007/checkpoint.json      the header: all that JSON can hold, and the digests of the other files
    FOLDER/v00000007/tensors.safetensors  all tensors
    FOLDER/v00000007/pool.npz             the mazes, where there are plain ones

A version is written beside the old one under another name, flushed to the disk, renamed, and only then does latest.json
change, in one rename; the old version goes last. Reading checks every digest and runs nothing from the files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
from torch import Tensor

from sera_maze.envs.pools.pool import MazePool

POINTER, HEADER, TENSORS, POOL = "latest.json", "checkpoint.json", "tensors.safetensors", "pool.npz"
RUN_CHECKPOINT = "checkpoint"  # in the folder of a run
FORMAT, FORMAT_VERSION, READABLE_VERSIONS = "sera-maze-checkpoint", 2, (1, 2)
_VERSION = re.compile(r"v\d{8,}")
_PART = re.compile(r"\.v\d{8,}\.[0-9a-f]{32}\.part")
_READ_ATTEMPTS = 5
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


class Contents(NamedTuple):
    """What a checkpoint holds.

    Attributes:
        header: everything that JSON can hold.
        tensors: by name, on the CPU.
        pool: the mazes, or those that fresh mazes exclude; or None.
    """

    header: dict[str, Any]
    tensors: dict[str, Tensor]
    pool: MazePool | None


def write_version(folder: Path, contents: Contents) -> None:
    """Write a version into ``folder``, make it the one to read, and remove the others.

    Tensors must be contiguous, on the CPU, and share no memory.

    Raises:
        ValueError: if ``folder`` is a file.
        OSError: if it cannot be written; the version before stays in place.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; a checkpoint is a folder: choose another name, or one that ends in .zip")
    folder.mkdir(parents=True, exist_ok=True)
    taken = [int(entry.name[1:]) for entry in folder.iterdir() if _VERSION.fullmatch(entry.name)]
    name = f"v{max(taken, default=0) + 1:08d}"
    part = folder / f".{name}.{uuid.uuid4().hex}.part"
    part.mkdir()
    try:
        _write_tensors(part / TENSORS, contents.tensors)
        pool = None if contents.pool is None else _write_pool(folder, part, contents.pool)
        files = {file.name: _flush(file) for file in sorted(part.iterdir())}
        header = {"format": FORMAT, "format_version": FORMAT_VERSION, "files": files, "pool": pool, **contents.header}
        _write_json(part / HEADER, header)
        digest = _flush(part / HEADER)
        _flush_folder(part)
        os.rename(part, folder / name)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    _flush_folder(folder)
    _replace_pointer(folder, {"format": FORMAT, "format_version": FORMAT_VERSION, "version": name, "sha256": digest})
    _remove_others(folder, name)


def read_version(folder: Path) -> Contents:
    """Read the last complete version; while another process writes new ones, that one may be any of them.

    Raises:
        FileNotFoundError: if there is no such folder.
        ValueError: if it is not the folder of a checkpoint, or a file in it is missing or damaged.
    """
    if not folder.exists():
        raise FileNotFoundError(f"{folder} does not exist; give the folder that a checkpoint was saved to")
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file; a checkpoint is a folder (MaxRL.load also reads .zip files)")
    pointer = _read_pointer(folder)
    for _ in range(_READ_ATTEMPTS):
        try:
            return _read(folder / pointer["version"], pointer["sha256"])
        except FileNotFoundError as error:
            # A training run may have replaced this version in the meantime.
            before, pointer = pointer, _read_pointer(folder)
            if pointer == before:
                raise _damaged(Path(error.filename), "it is missing") from None
    raise OSError(f"{folder} is being written faster than it can be read; try again later")


def _write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    try:
        safetensors.torch.save_file(tensors, path)
    except safetensors.SafetensorError as error:  # as which it reports every error of the system
        found = _OS_ERROR.search(str(error))
        if found is None:
            raise
        raise OSError(int(found[1]), os.strerror(int(found[1])), str(path)) from None


def _write_pool(folder: Path, part: Path, pool: MazePool) -> dict[str, str]:
    """Write the pool, or link to the file of the version before if that holds the same; returns its digests."""
    provenance = hashlib.sha256(json.dumps(pool.provenance).encode()).hexdigest()
    record = {"mazes": pool.digest, "provenance": provenance}
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        before = folder / json.loads((folder / POINTER).read_text(encoding="utf-8"))["version"]
        header = json.loads((before / HEADER).read_text(encoding="utf-8"))
        if header["pool"] == record and _digest(before / POOL) == header["files"][POOL]:
            os.link(before / POOL, part / POOL)
            return record
    pool.save(part / POOL)
    return record


def _read_pointer(folder: Path) -> dict[str, str]:
    path = folder / POINTER
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        above = f"; {folder.parent} does" if (folder.parent / POINTER).is_file() else ""
        raise ValueError(
            f"{folder} holds no complete checkpoint, it has no {POINTER}{above}: it is another folder, or its first "
            "save was cut short; give the folder that a checkpoint was saved to"
        ) from None
    pointer = _parse(path, raw)
    version, digest = pointer.get("version"), pointer.get("sha256")
    if not isinstance(version, str) or not _VERSION.fullmatch(version) or not isinstance(digest, str):
        raise _damaged(path, f"it names version={version!r} and sha256={digest!r}")
    return {"version": version, "sha256": digest}


def _read(version: Path, header_digest: str) -> Contents:
    raw = (version / HEADER).read_bytes()
    if hashlib.sha256(raw).hexdigest() != header_digest:
        raise _damaged(version / HEADER, "its content has changed since it was saved")
    header = _parse(version / HEADER, raw)
    files = {name: (version / name).read_bytes() for name in header["files"] if name in (TENSORS, POOL)}
    for name, content in files.items():
        if hashlib.sha256(content).hexdigest() != header["files"][name]:
            raise _damaged(version / name, "its content has changed since it was saved")
    tensors = {name: tensor.clone() for name, tensor in safetensors.torch.load(files[TENSORS]).items()}
    pool = MazePool.load(version / POOL) if POOL in files else None
    return Contents(header, tensors, pool)


def _parse(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        data = json.loads(raw)
    except ValueError as error:
        raise _damaged(path, str(error)) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(
            f"{path} is not part of a checkpoint of sera_maze; give the folder that a checkpoint was saved to"
        )
    if data.get("format_version") not in READABLE_VERSIONS:
        raise ValueError(
            f"{path} has format version {data.get('format_version')!r}, this sera_maze reads up to {FORMAT_VERSION}; "
            "use the version of sera_maze that wrote it"
        )
    return data


def _damaged(path: Path, problem: str) -> ValueError:
    return ValueError(f"{path} is damaged: {problem}; restore it from a copy, or load another checkpoint")


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _replace_pointer(folder: Path, pointer: dict[str, Any]) -> None:
    part = folder / f".{POINTER}.{uuid.uuid4().hex}.part"
    try:
        _write_json(part, pointer)
        _flush(part)
        os.replace(part, folder / POINTER)
    finally:
        part.unlink(missing_ok=True)
    _flush_folder(folder)


def remove_versions(folder: Path) -> None:
    """Remove the checkpoint in a folder, if there is one, and the folder if nothing else is in it."""
    if folder.is_dir():
        (folder / POINTER).unlink(missing_ok=True)
        _remove_others(folder, POINTER)
        with contextlib.suppress(OSError):
            folder.rmdir()


def _remove_others(folder: Path, name: str) -> None:
    """Remove older versions, and what writes that were cut short have left; another program's files stay."""
    for entry in folder.iterdir():
        if entry.name.startswith(f".{POINTER}.") and entry.name.endswith(".part"):
            entry.unlink(missing_ok=True)
        elif entry.name != name and (_VERSION.fullmatch(entry.name) or _PART.fullmatch(entry.name)):
            shutil.rmtree(entry, ignore_errors=True)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _flush(path: Path) -> str:
    """Make sure that a file is on the disk; returns the SHA-256 of its content."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    return _digest(path)


def _flush_folder(folder: Path) -> None:
    """Make sure that names in a folder are on the disk, where the system can do so."""
    with contextlib.suppress(OSError):  # Windows opens no folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
