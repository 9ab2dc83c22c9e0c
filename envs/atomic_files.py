"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
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
    finally:
        part.unlink(missing_ok=True)
