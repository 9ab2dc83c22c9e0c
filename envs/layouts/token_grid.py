"""Mazes as tokens: the papers' vocabulary, and prompts to walls, start and goal and back.

References:
    arXiv 2602.02710 (MaxRL): maze navigation as a token task, and its vocabulary.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.ground.errors import LayoutError
from sera_maze.envs.layouts.moves import ACTION_NAMES

Tokens: TypeAlias = str | Iterable[int]
_Word: TypeAlias = tuple[int, str]  # position and word

# Index = id. The order is the papers'; the reserved ids keep the vocabulary at 32.
TOKENS: tuple[str, ...] = (
    *("<pad>", "<bos>", "<eos>", "<unk>", "GRID_START", "GRID_END", "PATH_START", "DONE"),
    *("PATH", "WALL", "GOAL", "START", "NEWLINE", *ACTION_NAMES, "\n"),
    *(f"RESERVED_{i}" for i in range(14)),
)
VOCABULARY: Mapping[str, int] = MappingProxyType({token: i for i, token in enumerate(TOKENS)})

_SQUARES = ("WALL", "PATH", "START", "GOAL")
_END = "the end of the prompt"
_ANSWER_WORDS = frozenset((*ACTION_NAMES, "DONE", "<eos>", "<pad>"))
# A line break is a token of its own; every other white space only separates.
_WORD = re.compile(r"\n|\S+")


def prompt_length(height: int, width: int) -> int:
    """Number of tokens of the prompt of a maze of ``height`` x ``width`` squares, walls included: 310 for 17x17."""
    return height * (width + 1) + 4


def encode_prompts(
    walls: NDArray[np.bool_], start: NDArray[np.integer], goal: NDArray[np.integer]
) -> NDArray[np.uint8]:
    """Write the prompts of M mazes of one size.

    Args:
        walls: (M, H, W) bool, True where there is a wall.
        start: (M, 2) integers, (row, column) of an open square. Whether it is open is not checked.
        goal: (M, 2) integers, (row, column) of another open square.

    Returns:
        (M, H * (W + 1) + 4) uint8 token ids.

    Raises:
        TypeError: if ``walls`` is not boolean or the cells are not integers.
        ValueError: for another shape, or for a cell outside the grid.
    """
    walls = np.asarray(walls)
    if walls.dtype != bool:
        raise TypeError(f"walls has dtype {walls.dtype}; allowed is bool, True where there is a wall")
    if walls.ndim != 3:
        raise ValueError(
            f"walls has shape {walls.shape}; allowed is (mazes, height, width); for one maze use walls[None]"
        )
    count, height, width = walls.shape
    grid = np.full((count, height, width + 1), VOCABULARY["NEWLINE"], np.uint8)
    grid[:, :, :-1] = np.where(walls, VOCABULARY["WALL"], VOCABULARY["PATH"])
    for name, cells in (("start", start), ("goal", goal)):
        rows, columns = _checked_cells(name, cells, (count, height, width))
        grid[np.arange(count), rows, columns] = VOCABULARY[name.upper()]
    prompts = np.empty((count, prompt_length(height, width)), np.uint8)
    prompts[:, :2] = VOCABULARY["<bos>"], VOCABULARY["GRID_START"]
    prompts[:, 2:-2] = grid.reshape(count, height * (width + 1))
    prompts[:, -2:] = VOCABULARY["GRID_END"], VOCABULARY["PATH_START"]
    return prompts


def ids_to_text(ids: Iterable[int]) -> str:
    """Write token ids as text, separated by single spaces; `text_to_ids` reads it back.

    Raises:
        TypeError: if ``ids`` are not integers.
        ValueError: for an id outside 0 to 31, naming its position.
    """
    numbers = integers("ids", ids)
    for position, number in enumerate(numbers):
        if not 0 <= number < len(TOKENS):
            raise ValueError(f"ids[{position}]={number}; allowed are 0 to {len(TOKENS) - 1}")
    return " ".join(TOKENS[number] for number in numbers)


def text_to_ids(text: str) -> NDArray[np.int64]:
    r"""Read text as (L,) int64 token ids: white space separates, ``"\n"`` is a token, unknown words are ``<unk>``.

    Raises:
        TypeError: if ``text`` is not a str.
    """
    if not isinstance(text, str):
        raise TypeError(f"text is a {type(text).__name__}; allowed is a str")
    return np.array([VOCABULARY.get(word, VOCABULARY["<unk>"]) for word in _WORD.findall(text)], np.int64)


@dataclass(frozen=True)
class TokenGrid:
    """What `MazeLayout.from_tokens` reads off a prompt before it checks the maze.

    Attributes:
        walls: (H, W) bool.
        start: (row, column).
        goal: (row, column).
    """

    walls: NDArray[np.bool_]
    start: tuple[int, int]
    goal: tuple[int, int]
    _words: list[_Word]
    _first: int  # index of the first word behind GRID_START
    _last: int  # index of GRID_END
    _rows: list[list[_Word]]

    @classmethod
    def read(cls, prompt: Tokens) -> TokenGrid:
        """Read a prompt up to GRID_END.

        Raises:
            LayoutError, TypeError: see `MazeLayout.from_tokens`.
        """
        numbered = enumerate([*words_of("prompt", prompt), _END])
        words = [(position, word) for position, word in numbered if word != "\n"]
        first = _grid_start(words)
        rows, last = _read_rows(words, first)
        _check_rectangle(rows)
        start, goal = _find_one("START", rows, words[last][0]), _find_one("GOAL", rows, words[last][0])
        walls = np.array([[word == "WALL" for _, word in row[:-1]] for row in rows])
        return cls(walls, start, goal, words, first, last, rows)

    def located(self, error: LayoutError) -> LayoutError:
        """An error of the maze with the position of its token."""
        row, column = error.row, error.column
        missing = row is None or column is None
        position = self._words[self._first - 1][0] if missing else self._rows[row][column][0]  # type: ignore[index]
        return _fault(error.problem, position, row, column, found=error.found, allowed=error.allowed)

    def check_tail(self) -> None:
        """Check what follows GRID_END: any tokens behind PATH_START, else those of an answer.

        Raises:
            LayoutError: if it is something else.
        """
        _check_tail(self._words[self._last + 1 : -1])


def _checked_cells(
    name: str, cells: NDArray[np.integer], shape: tuple[int, int, int]
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Check M cells against walls of ``shape`` (M, H, W); return their rows (M,) and columns (M,)."""
    cells = np.asarray(cells)
    if not np.issubdtype(cells.dtype, np.integer):
        raise TypeError(f"{name} has dtype {cells.dtype}; allowed are integer cells (row, column)")
    if cells.shape != (shape[0], 2):
        raise ValueError(f"{name} has shape {cells.shape}; allowed is {(shape[0], 2)}, as walls has {shape[0]} mazes")
    outside = np.flatnonzero(((cells < 0) | (cells >= shape[1:])).any(axis=1))
    if len(outside):
        maze = int(outside[0])
        raise ValueError(
            f"{name}[{maze}]={cells[maze].tolist()} lies outside the maze; "
            f"allowed are rows 0 to {shape[1] - 1}, columns 0 to {shape[2] - 1}"
        )
    return cells[:, 0], cells[:, 1]


def integers(name: str, values: Iterable[int]) -> list[int]:
    """The elements of an iterable of integers of any kind as Python ints.

    Raises:
        TypeError: for something else; bools are none.
    """
    items = values.tolist() if isinstance(values, np.ndarray) else values
    if isinstance(items, str | bytes | bytearray) or not isinstance(items, Iterable):
        raise TypeError(f"{name} is a {type(values).__name__}; allowed is a list, array or other iterable of integers")
    return [_integer(f"{name}[{position}]", item) for position, item in enumerate(items)]


def _integer(name: str, item: SupportsIndex) -> int:
    try:
        if not isinstance(item, bool | np.bool_):
            return operator.index(item)
    except TypeError:
        pass
    raise TypeError(f"{name}={item!r} is a {type(item).__name__}; allowed are integers")


def words_of(name: str, tokens: Tokens) -> list[str]:
    """Split tokens into words; an id outside the vocabulary becomes a word that is no token."""
    if isinstance(tokens, str):
        return _WORD.findall(tokens)
    numbers = integers(name, tokens)
    return [TOKENS[number] if 0 <= number < len(TOKENS) else f"id {number}" for number in numbers]


def _fault(
    problem: str, position: int, row: int | None = None, column: int | None = None, *, found: str, allowed: str
) -> LayoutError:
    error = LayoutError(problem, row=row, column=column, found=found, allowed=allowed)
    return error.prefixed(f"token {position} (counted from 0): ")


def _shown(word: str) -> str:
    return word if word == _END else repr(word)


def _grid_start(words: Sequence[_Word]) -> int:
    """Index of the first word behind GRID_START."""
    first = next(i for i, (_, word) in enumerate(words) if word != "<pad>")
    first += words[first][1] == "<bos>"
    position, word = words[first]
    if word != "GRID_START":
        raise _fault(
            "no GRID_START", position, found=_shown(word), allowed="GRID_START, with or without <bos> before it"
        )
    return first + 1


def _read_rows(words: Sequence[_Word], first: int) -> tuple[list[list[_Word]], int]:
    """Read rows, each with the word that ends it, and the index of GRID_END."""
    rows: list[list[_Word]] = [[]]
    for index in range(first, len(words)):
        position, word = words[index]
        if word == "GRID_END" and not rows[-1]:
            return rows[:-1], index
        rows[-1].append((position, word))
        if word == "GRID_END":
            return rows, index
        if word == "NEWLINE":
            rows.append([])
        elif word not in _SQUARES:
            problem = "not a square" if word in VOCABULARY else "unknown token"
            problem = "no GRID_END" if word == _END else problem
            row, column = len(rows) - 1, len(rows[-1]) - 1
            allowed = f"{', '.join(_SQUARES)}, NEWLINE or GRID_END"
            raise _fault(problem, position, row, column, found=_shown(word), allowed=allowed)
    raise AssertionError("the last word is no square")


def _check_rectangle(rows: Sequence[Sequence[_Word]]) -> None:
    for r, row in enumerate(rows):
        width = len(rows[0]) - 1
        if len(row) - 1 != width:
            column = min(len(row) - 1, width)
            found = f"a row of {len(row) - 1} squares"
            raise _fault("ragged rows", row[column][0], r, column, found=found, allowed=f"{width} squares, as in row 0")


def _find_one(name: str, rows: Sequence[Sequence[_Word]], end: int) -> tuple[int, int]:
    places = [(r, c) for r, row in enumerate(rows) for c, (_, word) in enumerate(row) if word == name]
    if not places:
        raise _fault(f"no {name} before GRID_END", end, found=f"{len(rows)} rows without it", allowed=f"one {name}")
    if len(places) > 1:
        (row, column), (r, c) = places[:2]
        allowed = f"one, and one stands at row {row}, column {column}"
        raise _fault(f"a second {name}", rows[r][c][0], r, c, found=repr(name), allowed=allowed)
    return places[0]


def _check_tail(tail: Sequence[_Word]) -> None:
    """Check what follows GRID_END: any tokens behind PATH_START, else those of an answer."""
    has_path_start = bool(tail) and tail[0][1] == "PATH_START"
    for position, word in tail[has_path_start:]:
        if word not in VOCABULARY:
            raise _fault("unknown token", position, found=_shown(word), allowed=f"the {len(TOKENS)} tokens of TOKENS")
        if not has_path_start and word not in _ANSWER_WORDS:
            allowed = "PATH_START, an answer, <eos> or <pad> behind GRID_END"
            raise _fault("not the end of a prompt", position, found=_shown(word), allowed=allowed)
