"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of ``path`` at the end of the block, unless an error comes up.

    Readers see the old file or the whole new one; so do other threads and processes that write the same path at the
    same time. Folders that are missing are made.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            yield file
        os.replace(part, target)
    except OSError as error:
        if error.filename == str(part):
            error.filename = str(target)  # which is what the user named
        raise
    finally:
        part.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file in UTF-8, whole or not at all; return its path. Folders that are missing are made."""
    with whole_file(path) as file:
        file.write(text.encode())
    return Path(path)


def check_folder(name: str, folder: Path) -> None:
    """Check that a folder can be written, which need not exist.

    Args:
        name: of the argument.
        folder: to be made or used.

    Raises:
        ValueError: if it, or a part of its path, is a file, or nothing can be written there.
    """
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise ValueError(f"{name} {folder}: {place} is a file; name a folder")
    nearest = next(place for place in (folder, *folder.parents) if place.is_dir())
    try:
        with tempfile.TemporaryDirectory(dir=nearest):
            pass
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"{name} {folder}: nothing can be written in {nearest} ({reason}); name another one") from None
