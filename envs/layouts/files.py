"""Mazes in text files: one drawing, many of them, or a layout as JSON on each line."""

from __future__ import annotations

import re
from pathlib import Path

from sera_maze.envs.ground.errors import LayoutError
from sera_maze.envs.layouts.layout import MazeLayout

_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
SUFFIXES = (".txt", ".jsonl")


def read_layout(path: str | Path) -> MazeLayout:
    """Read a file with one drawing (see `MazeLayout.from_text`).

    Raises:
        FileNotFoundError: if there is no such file.
        LayoutError: if it is not a maze in UTF-8; the message starts with the file's name.
    """
    text = _read(path)
    try:
        return MazeLayout.from_text(text)
    except LayoutError as error:
        raise error.prefixed(f"{path}: ") from None


def read_layouts(path: str | Path) -> list[MazeLayout]:
    """Read many mazes: drawings between blank lines (.txt), or one `MazeLayout.to_json` a line (.jsonl).

    Raises:
        FileNotFoundError: if there is no such file.
        LayoutError: for what is not a maze, and without any; the message starts with the file's name and the number
            of the drawing (from 0) or of the line (from 1).
        ValueError: for another suffix.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"path={str(path)!r} must end in {' or '.join(SUFFIXES)}")
    text = _read(path)
    if suffix == ".txt":
        drawings = [part for part in _BLANK_LINES.split("\n" + text) if part.strip()]
        places = [(f"drawing {i}", part) for i, part in enumerate(drawings)]
        read = MazeLayout.from_text
    else:
        places = [(f"line {i}", line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]
        read = MazeLayout.from_json
    if not places:
        raise LayoutError(f"{path}: no mazes", found="an empty file", allowed="at least one layout")
    layouts = []
    for place, part in places:
        try:
            layouts.append(read(part))
        except LayoutError as error:
            raise error.prefixed(f"{path}, {place}: ") from None
    return layouts


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise LayoutError(
            f"{path}: not text in UTF-8", found=f"the byte 0x{error.object[error.start]:02x} at {error.start}",
            allowed="UTF-8; save the file with this encoding",
        ) from None  # fmt: skip
