"""Mazes drawn as text: from lines of symbols to walls, start and goal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence, Sized

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.ground.errors import LayoutError

Cell = tuple[int, int]

_WALL_SYMBOLS = "#█▓▒■⬛"
_OPEN_SYMBOLS = " .·░□⬜\u00a0\u3000"
_BLANKS = " \t\r\u00a0\u3000"  # that editors and copies leave behind a row
_SYMBOLS = "'#' (wall), ' ' or '.' (open), 'S' (start), 'G' (goal), or the blocks █▓▒■⬛ (wall) and ░□⬜· (open)"
MIN_SIDE = 3


def parse_text(text: str) -> list[str]:
    """Split a drawing into rows of one character a square: no margins, no doubled squares.

    Raises:
        TypeError: if ``text`` is not a str.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}; for an array use MazeLayout(walls, ...)")
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    lines = _without_margins(_without_trailing_blanks(lines))
    dedented = textwrap.dedent("\n".join(lines)).split("\n") if lines else []
    # An indentation is taken off only if walls stand behind it: else it may be an open border, to be reported.
    rows = dedented if all(row[:1] and row[0] in _WALL_SYMBOLS for row in dedented) else lines
    return _halved(rows) if _is_double_width(rows) else rows


def _without_trailing_blanks(lines: Sequence[str]) -> list[str]:
    """Cut the blanks off that stand behind the drawing. Up to the end of its longest row they are open squares."""
    width = max(len(line.rstrip(_BLANKS)) for line in lines)
    return [line[:width] if line.strip(_BLANKS) else line for line in lines]


def _without_margins(lines: Sequence[str]) -> list[str]:
    """Take the blank lines around a drawing off, except those as long as its rows: these are an open border."""
    drawn = [i for i, line in enumerate(lines) if line.strip()]
    if not drawn:
        return []
    first, last = drawn[0], drawn[-1]
    while first > 0 and len(lines[first - 1]) == len(lines[drawn[0]]):
        first -= 1
    while last + 1 < len(lines) and len(lines[last + 1]) == len(lines[drawn[-1]]):
        last += 1
    return list(lines[first : last + 1])


def parse_rows(rows: Sequence[str]) -> tuple[NDArray[np.bool_], Cell, Cell]:
    """Read rows of one character a square into walls (H, W) bool, start and goal.

    Raises:
        LayoutError: with row and column for ragged rows, unknown symbols, no or two ``S`` or ``G``.
    """
    if not rows:
        raise LayoutError("the text is empty", found="no rows", allowed=f"at least {MIN_SIDE} rows")
    # Before the lengths of rows: what is no drawing at all has rows of all lengths.
    for r, row in enumerate(rows):
        for c, symbol in enumerate(row):
            _check_symbol(symbol, r, c)
    check_rectangle(rows)
    found: dict[str, Cell] = {}
    for r, row in enumerate(rows):
        for c, symbol in enumerate(row):
            if symbol in "SG":
                _note_end(symbol, r, c, found)
    for symbol, name in (("S", "start"), ("G", "goal")):
        if symbol not in found:
            raise LayoutError(
                f"the maze has no {name}", found=f"no {symbol!r} in {len(rows)} rows", allowed=f"one {symbol!r}"
            )
    return np.array([[symbol in _WALL_SYMBOLS for symbol in row] for row in rows]), found["S"], found["G"]


def _check_symbol(symbol: str, row: int, column: int) -> None:
    if symbol not in _WALL_SYMBOLS and symbol not in _OPEN_SYMBOLS and symbol not in "SG":
        hint = f"; did you mean {symbol.upper()!r}?" if symbol in "sg" else ""
        shown = f"{symbol!r} (U+{ord(symbol):04X})"
        raise LayoutError("unknown symbol", row=row, column=column, found=shown, allowed=_SYMBOLS + hint)


def _note_end(symbol: str, row: int, column: int, found: dict[str, Cell]) -> None:
    if symbol in found:
        allowed = f"one, and one stands at row {found[symbol][0]}, column {found[symbol][1]}"
        raise LayoutError(f"a second {symbol!r}", row=row, column=column, found=repr(symbol), allowed=allowed)
    found[symbol] = (row, column)


def _is_double_width(rows: Sequence[str]) -> bool:
    """Whether every square is drawn as two characters, as block drawings in a terminal are.

    Where ``S`` or ``G`` is not doubled, a drawing can also be read with one character a square. Then ``#`` decides for
    one, so that what `MazeLayout.to_text` draws by default is always read back as it was.
    """
    pairs = {row[i : i + 2] for row in rows for i in range(0, len(row), 2)}
    twice = {2 * symbol for symbol in _WALL_SYMBOLS + _OPEN_SYMBOLS + "SG"}
    marks = {"S ", " S", "G ", " G", "S.", ".S", "G.", ".G"} if "##" not in pairs else set()
    return len(rows) > 0 and all(len(row) >= 2 * MIN_SIDE for row in rows) and pairs <= twice | marks


def _halved(rows: Sequence[str]) -> list[str]:
    return ["".join(max(row[i : i + 2], key="SG".find) for i in range(0, len(row), 2)) for row in rows]


def check_rectangle(rows: Sequence[Sized]) -> None:
    """Check that all rows are as long as the first.

    Raises:
        LayoutError: naming the first row that is not, and the column in which the shorter of the two ends.
    """
    for r, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise LayoutError(
                "ragged rows", row=r, column=min(len(row), len(rows[0])), found=f"a row of {len(row)} squares",
                allowed=f"{len(rows[0])} squares, as in row 0",
            )  # fmt: skip
