"""`MazeLayout`: one immutable maze, that is, its walls, its start and its goal."""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sera_maze.envs.ground.checks import check_choice, is_zero_or_one, shown
from sera_maze.envs.ground.errors import LayoutError
from sera_maze.envs.layouts.distances import distances_from
from sera_maze.envs.layouts.moves import ACTION_STEPS, action_masks
from sera_maze.envs.layouts.text import MIN_SIDE, Cell, check_rectangle, parse_rows, parse_text
from sera_maze.envs.layouts.token_grid import TokenGrid, Tokens, encode_prompts

_JSON_FORMAT = "sera-maze-layout"
_JSON_VERSION = 1


class MazeLayout:
    r"""One immutable maze. Equal layouts have equal walls, start and goal; layouts are hashable.

    Sizes count grid squares, walls included: the papers' 17x17 mazes have 8x8 cells.

    Args:
        walls: (H, W) booleans (or 0 and 1), True where there is a wall; H and W at least 3, in any ratio, odd or even.
            The border must be wall.
        start: (row, column) of an open square.
        goal: (row, column) of another open square that can be reached from the start.

    Attributes:
        walls: (H, W) bool, read-only.
        start: (row, column).
        goal: (row, column).

    Raises:
        LayoutError: for any maze that breaks these rules, naming row and column.

    Example:
        >>> MazeLayout.from_text("#######\n#S   G#\n#######").shortest_path_length
        4
    """

    __slots__ = ("_digest", "_walls_digest", "goal", "start", "walls")
    walls: NDArray[np.bool_]
    start: Cell
    goal: Cell
    _digest: str
    _walls_digest: str

    def __init__(self, walls: ArrayLike, start: Sequence[int], goal: Sequence[int]):
        grid = _as_grid(walls)
        _check_border(grid)
        start_cell, goal_cell = _as_cell("start", start, grid), _as_cell("goal", goal, grid)
        if start_cell == goal_cell:
            raise LayoutError(
                "start and goal are one square", row=start_cell[0], column=start_cell[1], found="both", allowed="one"
            )
        self._set(grid, start_cell, goal_cell)
        if self.distances(start_cell)[goal_cell] < 0:
            raise LayoutError(
                "the goal cannot be reached from the start",
                row=goal_cell[0],
                column=goal_cell[1],
                found="a goal walled off",
                allowed=f"a goal connected with the start at row {start_cell[0]}, column {start_cell[1]}",
            )

    @classmethod
    def _trusted(cls, walls: NDArray[np.bool_], start: Cell, goal: Cell) -> MazeLayout:
        """Build without checks, for mazes that a generator or a checked pool made."""
        layout = cls.__new__(cls)
        layout._set(walls.copy(), start, goal)
        return layout

    def _set(self, walls: NDArray[np.bool_], start: Cell, goal: Cell) -> None:
        walls.setflags(write=False)
        for name, value in (("walls", walls), ("start", start), ("goal", goal), ("_digest", ""), ("_walls_digest", "")):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"MazeLayout is immutable: cannot set {name!r}; build a new layout instead")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"MazeLayout is immutable: cannot delete {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return MazeLayout._trusted, (np.array(self.walls), self.start, self.goal)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MazeLayout):
            return NotImplemented
        return (self.start, self.goal) == (other.start, other.goal) and np.array_equal(self.walls, other.walls)

    def __hash__(self) -> int:
        return hash((self.walls.shape, self.walls.tobytes(), self.start, self.goal))

    def __repr__(self) -> str:
        height, width = self.size
        return f"MazeLayout({height}x{width}, start={self.start}, goal={self.goal}, digest={self.digest[:8]})"

    def __str__(self) -> str:
        return self.to_text()

    @property
    def size(self) -> Cell:
        """(height, width) in grid squares, walls included."""
        return self.walls.shape[0], self.walls.shape[1]

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that name this maze (walls, start and goal), the same on every platform."""
        if not self._digest:
            content = digest_content(self.walls[None], [self.start], [self.goal])[0]
            object.__setattr__(self, "_digest", digest_of(content))
        return self._digest

    @property
    def walls_digest(self) -> str:
        """32 hexadecimal digits that name the walls alone: the same for other starts and goals."""
        if not self._walls_digest:
            object.__setattr__(self, "_walls_digest", digest_of(digest_content(self.walls[None])[0]))
        return self._walls_digest

    def distances(self, source: Sequence[int] | None = None) -> NDArray[np.int32]:
        """Moves from every square to ``source`` (default: the goal), as (H, W) int32; -1 where it cannot be reached.

        Raises:
            LayoutError: if ``source`` is not an open square.
        """
        cell = self.goal if source is None else _as_cell("source", source, self.walls)
        return distances_from(self.walls[None], np.array([cell]))[0]

    @property
    def shortest_path_length(self) -> int:
        """Number of moves on a shortest path from start to goal."""
        return int(self.distances()[self.start])

    def shortest_path(self) -> NDArray[np.int64]:
        """One shortest path as (L + 1, 2) cells from start to goal; ties go to UP, DOWN, LEFT, RIGHT in this order."""
        distances = self.distances()
        path = [self.start]
        while path[-1] != self.goal:
            row, column = path[-1]
            path.append(
                next(
                    (row + down, column + right)
                    for down, right in ACTION_STEPS
                    if distances[row + down, column + right] == distances[row, column] - 1
                )
            )
        return np.array(path, np.int64)

    def num_shortest_paths(self) -> int:
        """Number of different shortest paths from start to goal, exact at any size."""
        distances = self.distances()
        flat = distances.ravel().tolist()
        width = self.size[1]
        goal = self.goal[0] * width + self.goal[1]
        start = self.start[0] * width + self.start[1]
        counts = {goal: 1}
        for square in np.argsort(distances, axis=None, kind="stable").tolist():
            if 0 < flat[square] <= flat[start]:
                neighbours = (square - width, square + width, square - 1, square + 1)
                counts[square] = sum(counts[n] for n in neighbours if flat[n] == flat[square] - 1)
        return counts[start]

    def action_masks(self) -> NDArray[np.bool_]:
        """(H, W, 4) bool: which of UP, DOWN, LEFT, RIGHT lead from a square to an open one; all False in walls."""
        return action_masks(self.walls[None])[0]

    def to_text(self, style: str = "ascii") -> str:
        r"""Draw with one character a square: ``#``, space, ``S``, ``G`` (style "ascii") or ``█`` for walls ("blocks").

        Raises:
            ValueError: for another style.
        """
        check_choice("style", style, ("ascii", "blocks"))
        symbols = np.where(self.walls, "#" if style == "ascii" else "█", " ")
        symbols[self.start], symbols[self.goal] = "S", "G"
        return "\n".join("".join(row) for row in symbols)

    @classmethod
    def from_text(cls, text: str) -> MazeLayout:
        r"""Read a drawing with one character a square: ``#`` wall, space or ``.`` open, ``S`` start, ``G`` goal.

        The Unicode blocks that people paste work too, also where every square is drawn two characters wide (``██``).
        A drawing in blocks that can be read both ways is read as two characters wide.
        Blank lines around the drawing and a common indentation are ignored.

        Raises:
            LayoutError: with row and column for ragged rows, unknown symbols, no or two ``S`` or ``G``, an open border,
                a goal that cannot be reached.
        """
        return cls(*parse_rows(parse_text(text)))

    def to_json(self) -> str:
        """Write as JSON text that `from_json` reads: format, version and the rows as strings."""
        return json.dumps({"format": _JSON_FORMAT, "version": _JSON_VERSION, "rows": self.to_text().split("\n")})

    @classmethod
    def from_json(cls, text: str | bytes) -> MazeLayout:
        """Read what `to_json` wrote.

        Raises:
            LayoutError: for text that is not such JSON, or a maze that breaks the rules.
            TypeError: if ``text`` is neither str nor bytes.
        """
        allowed = f'{{"format": "{_JSON_FORMAT}", "version": {_JSON_VERSION}, "rows": ["#####", "#S G#", "#####"]}}'
        if not isinstance(text, (str, bytes, bytearray)):
            raise TypeError(f"text must be a str or bytes, got {type(text).__name__}")
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise LayoutError("not JSON", found=str(error), allowed=allowed) from None
        if not isinstance(data, dict) or (data.get("format"), data.get("version")) != (_JSON_FORMAT, _JSON_VERSION):
            raise LayoutError("not a layout of this format", found=shown(data), allowed=allowed)
        rows = data.get("rows")
        if not isinstance(rows, list) or not rows or not all(isinstance(row, str) for row in rows):
            raise LayoutError("'rows' is not a list of strings", found=shown(rows), allowed=allowed)
        return cls(*parse_rows(rows))

    def to_tokens(self) -> NDArray[np.int64]:
        """Write the papers' prompt, ``<bos> GRID_START ... GRID_END PATH_START``, as (H * (W + 1) + 4,) token ids."""
        prompt = encode_prompts(self.walls[None], np.array([self.start]), np.array([self.goal]))[0]
        return prompt.astype(np.int64)

    @classmethod
    def from_tokens(cls, prompt: Tokens) -> MazeLayout:
        r"""Read the maze of a prompt.

        Padding and ``<bos>`` in front, the ``NEWLINE`` behind the last row, ``PATH_START`` and an answer with ``<eos>``
        and padding may be there or not. What follows ``PATH_START`` is not read, except that it must be tokens. Line
        breaks (``"\n"``) are skipped, so that a prompt can be written on several lines.

        Args:
            prompt: text, or token ids (any iterable of integers).

        Raises:
            LayoutError: for anything else, naming the position of the token and, within the grid, its row and column.
            TypeError: if ``prompt`` is neither text nor integers.
        """
        grid = TokenGrid.read(prompt)
        try:
            layout = cls(grid.walls, grid.start, grid.goal)
        except LayoutError as error:
            raise grid.located(error) from None
        grid.check_tail()
        return layout


def digest_content(walls: NDArray[np.bool_], start: ArrayLike | None = None, goal: ArrayLike = ()) -> list[bytes]:
    """What a digest is taken of, for M mazes: shape, packed walls and, if given, start and goal.

    Args:
        walls: (M, H, W) bool.
        start: (M, 2) integers or None.
        goal: (M, 2) integers, if start is given.
    """
    count, height, width = walls.shape
    parts = [np.broadcast_to(np.array([height, width], "<u4").view(np.uint8), (count, 8))]
    parts.append(np.packbits(walls.reshape(count, height * width), axis=1, bitorder="big"))
    if start is not None:
        parts.append(np.concatenate([start, goal], axis=1).astype("<u4").view(np.uint8))
    content = np.concatenate(parts, axis=1)
    whole, length = content.tobytes(), content.shape[1]
    return [whole[i : i + length] for i in range(0, count * length, length)]


def digest_of(content: bytes) -> str:
    """32 hexadecimal digits that name what `digest_content` gave; the same on every platform."""
    return hashlib.blake2b(content, digest_size=16, person=b"sera-maze-1").hexdigest()


def _as_grid(walls: ArrayLike) -> NDArray[np.bool_]:
    try:
        grid = np.asarray(walls)
    except ValueError as error:
        if isinstance(walls, list | tuple) and all(isinstance(row, Sized) for row in walls):
            check_rectangle(walls)
        raise LayoutError("walls are not a grid", found=str(error), allowed="a rectangle of squares") from None
    if grid.ndim != 2:
        raise LayoutError(
            "walls are not a grid", found=f"an array of shape {grid.shape}", allowed="shape (height, width)"
        )
    if min(grid.shape) < MIN_SIDE:
        raise LayoutError(
            "the maze is too small", found=f"{grid.shape[0]}x{grid.shape[1]} squares, walls included",
            allowed=f"at least {MIN_SIDE}x{MIN_SIDE + 1}",
        )  # fmt: skip
    if grid.dtype != bool:
        bad = np.argwhere(~is_zero_or_one(grid))
        if len(bad):
            row, column = (int(i) for i in bad[0])
            raise LayoutError(
                "not a wall value",
                row=row,
                column=column,
                found=repr(grid[row, column]),
                allowed="0 (open) or 1 (wall)",
            )
    return np.array(grid, dtype=bool)


def _check_border(grid: NDArray[np.bool_]) -> None:
    border = np.ones(grid.shape, bool)
    border[1:-1, 1:-1] = False
    gaps = np.argwhere(border & ~grid)
    if len(gaps):
        raise LayoutError(
            "the border is open", row=int(gaps[0][0]), column=int(gaps[0][1]), found="an open square", allowed="a wall"
        )


def _as_cell(name: str, cell: Sequence[int], grid: NDArray[np.bool_]) -> Cell:
    try:
        row, column = (operator.index(i) for i in cell)
    except (TypeError, ValueError):
        raise LayoutError(f"{name} is not a cell", found=repr(cell), allowed="two integers (row, column)") from None
    height, width = grid.shape
    if not (0 <= row < height and 0 <= column < width):
        raise LayoutError(
            f"the {name} lies outside", row=row, column=column, found=f"a maze of {height}x{width} squares",
            allowed=f"rows 0 to {height - 1}, columns 0 to {width - 1}",
        )  # fmt: skip
    if grid[row, column]:
        raise LayoutError(
            f"the {name} lies in a wall", row=row, column=column, found="a wall", allowed="an open square"
        )
    return row, column
