"""One maze: its rules, its text, JSON, pickle and digest, and what its errors say."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sera_maze
from sera_maze.envs.ground.errors import LayoutError
from sera_maze.envs.layouts.layout import MazeLayout

CORRIDOR = MazeLayout.from_text("#######\n#S   G#\n#######")
LOOP_TEXT = "######\n#S   #\n# ## #\n#  G #\n######"
LOOP = MazeLayout.from_text(LOOP_TEXT)


def squares(text: str) -> list[list[int]]:
    return [[int(symbol == "#") for symbol in row] for row in text.split("\n")]


class TestCorridor:
    def test_fields(self):
        assert CORRIDOR.size == (3, 7)
        assert (CORRIDOR.start, CORRIDOR.goal) == ((1, 1), (1, 5))
        assert CORRIDOR.walls.dtype == bool
        assert CORRIDOR.walls.tolist() == [[True] * 7, [True, *[False] * 5, True], [True] * 7]

    def test_shortest_path(self):
        assert CORRIDOR.shortest_path_length == 4
        assert CORRIDOR.shortest_path().tolist() == [[1, 1], [1, 2], [1, 3], [1, 4], [1, 5]]
        assert CORRIDOR.num_shortest_paths() == 1

    def test_upright(self):
        upright = MazeLayout(CORRIDOR.walls.T, (1, 1), (5, 1))
        assert upright.size == (7, 3)
        assert upright.to_text() == "###\n#S#\n# #\n# #\n# #\n#G#\n###"
        assert upright.shortest_path().tolist() == [[1, 1], [2, 1], [3, 1], [4, 1], [5, 1]]


class TestConstruction:
    @pytest.mark.parametrize("walls", [squares("####\n#..#\n####"), np.array(squares("####\n#..#\n####"), float)])
    def test_zeros_and_ones(self, walls: Any):
        maze = MazeLayout(walls, [1, 1], np.array([1, 2]))
        assert maze.walls.dtype == bool
        assert maze.to_text() == "####\n#SG#\n####"
        assert {type(i) for i in (*maze.start, *maze.goal)} == {int}

    @pytest.mark.parametrize("size", [(3, 4), (4, 3), (4, 4), (4, 6), (6, 5)])
    def test_even_and_small_sizes(self, size: tuple[int, int]):
        walls = np.ones(size, bool)
        walls[1:-1, 1:-1] = False
        maze = MazeLayout(walls, (1, 1), (size[0] - 2, size[1] - 2))
        assert maze.size == size
        assert maze.shortest_path_length == size[0] + size[1] - 6

    @pytest.mark.parametrize(
        ("walls", "start", "goal", "row", "column", "problem"),
        [
            (squares("#####\n#...#\n#####"), (1, 2), (1, 2), 1, 2, "start and goal are one square"),
            (squares("#####\n#.#.#\n#####"), (1, 2), (1, 3), 1, 2, "the start lies in a wall"),
            (squares("#####\n#.#.#\n#####"), (1, 1), (1, 2), 1, 2, "the goal lies in a wall"),
            (squares("#####\n#.#.#\n#####"), (1, 1), (0, 4), 0, 4, "the goal lies in a wall"),
            (squares("#####\n#.#.#\n#####"), (1, 1), (1, 3), 1, 3, "the goal cannot be reached from the start"),
            (squares("#####\n#...#\n#####"), (1, 1), (3, 1), 3, 1, "the goal lies outside"),
            (squares("#####\n#...#\n#####"), (-2, 1), (1, 3), -2, 1, "the start lies outside"),
            (squares("#####\n#...#\n#####"), (1, 1), (1, 5), 1, 5, "the goal lies outside"),
            (squares("##.##\n#...#\n#####"), (1, 1), (1, 3), 0, 2, "the border is open"),
            (squares("#####\n#....\n#####"), (1, 1), (1, 3), 1, 4, "the border is open"),
            (squares("#####\n....#\n#####"), (1, 1), (1, 3), 1, 0, "the border is open"),
            (squares("#####\n#...#\n###.#"), (1, 1), (1, 3), 2, 3, "the border is open"),
            ([[1, 1, 1, 1], [1, 0, 2, 1], [1, 1, 1, 1]], (1, 1), (1, 2), 1, 2, "not a wall value"),
            ([[1, 1, 1, 1], [1, 0.5, 0, 1], [1, 1, 1, 1]], (1, 1), (1, 2), 1, 1, "not a wall value"),
            ([[1, 1, 1, 1], [1, 0, np.nan, 1], [1, 1, 1, 1]], (1, 1), (1, 2), 1, 2, "not a wall value"),
            ([["#", "#", "#"], ["#", " ", "#"], ["#", "#", "#"]], (1, 1), (1, 1), 0, 0, "not a wall value"),
            ([["1", "1", "1"], ["1", "0", "1"], ["1", "1", "1"]], (1, 1), (1, 1), 0, 0, "not a wall value"),
            (np.zeros((3, 4), "i4,i4"), (1, 1), (1, 2), 0, 0, "not a wall value"),
            ([[1, 1, 1, 1], [1, 0, 0], [1, 1, 1, 1]], (1, 1), (1, 2), 1, 3, "ragged rows"),
            ([[1, 1, 1, 1], [1, 0, 0, 1], [1, 1, 1, 1, 1]], (1, 1), (1, 2), 2, 4, "ragged rows"),
        ],
    )
    def test_malformed(self, walls: Any, start: Any, goal: Any, row: int, column: int, problem: str):
        with pytest.raises(LayoutError) as caught:
            MazeLayout(walls, start, goal)
        assert (caught.value.problem, caught.value.row, caught.value.column) == (problem, row, column)
        assert f"{problem} at row {row}, column {column}: found " in str(caught.value)

    @pytest.mark.parametrize(
        ("walls", "found"),
        [
            (np.ones((2, 5)), "2x5 squares"),
            (np.ones((5, 2)), "5x2 squares"),
            (np.ones((1, 1)), "1x1 squares"),
            (np.ones((0, 5)), "0x5 squares"),
            (np.ones(9), r"an array of shape \(9,\)"),
            (np.ones((1, 3, 5)), r"an array of shape \(1, 3, 5\)"),
            ([], r"an array of shape \(0,\)"),
            (None, r"an array of shape \(\)"),
            ("#######\n#S   G#\n#######", r"an array of shape \(\)"),
            ([[1, 1, 1], 5, [1, 1, 1]], "setting an array element"),
        ],
    )
    def test_not_a_grid(self, walls: Any, found: str):
        with pytest.raises(LayoutError, match=f"found {found}.*; allowed: ") as caught:
            MazeLayout(walls, (1, 1), (1, 3))
        assert (caught.value.row, caught.value.column) == (None, None)

    @pytest.mark.parametrize("cell", [None, 5, (1,), (1, 2, 3), (1.0, 1), "11", ("1", "1"), (None, 1)])
    def test_not_a_cell(self, cell: Any):
        walls = squares("#####\n#...#\n#####")
        for name, arguments in (("start", (cell, (1, 3))), ("goal", ((1, 1), cell))):
            with pytest.raises(LayoutError, match=f"{name} is not a cell: .* allowed: two integers"):
                MazeLayout(walls, *arguments)


class TestText:
    def test_ascii_and_blocks(self):
        assert LOOP.to_text() == str(LOOP) == LOOP_TEXT
        assert LOOP.to_text("blocks") == "██████\n█S   █\n█ ██ █\n█  G █\n██████"
        assert MazeLayout.from_text(LOOP.to_text("blocks")) == LOOP

    def test_unknown_style(self):
        with pytest.raises(ValueError, match="style='dots' is not known; allowed are 'ascii', 'blocks'"):
            LOOP.to_text("dots")

    @pytest.mark.parametrize(
        "text",
        [
            "#######\n#S...G#\n#######",
            "\n\n#######\n#S   G#\n#######\n\n",
            "#######\r\n#S   G#\r\n#######\r\n",
            "\n    #######\n    #S   G#\n    #######\n    ",
            "\t#######\n\t#S   G#\n\t#######",
            "⬛⬛⬛⬛⬛⬛⬛\n⬛S⬜⬜⬜G⬛\n⬛⬛⬛⬛⬛⬛⬛",
            "▓▓▓▓▓▓▓\n▓S░·□G▓\n▒▒▒▒▒▒▒",
            "██████████████\n██S       G ██\n██████████████",
            "██████████████\n██ S       G██\n██████████████",
            "██████████████\n██SS......GG██\n██████████████",
            "##############\n##SS      GG##\n##############",
            "    ██████████████\n    ██S       G ██\n    ██████████████",
        ],
    )
    def test_drawings_of_the_corridor(self, text: str):
        assert MazeLayout.from_text(text) == CORRIDOR

    @pytest.mark.parametrize(
        "text",
        [
            "#####\n#S G#\n#####  ", "#####  \n#S G#  \n#####  ", "##### \n#S G#\t\n#####",
            "#####\n#S G#\u00a0\n#####\n",
            "#####\u3000\n#S G#\n#####\r\n", "  #####\n  #S G#   \n  #####", "#####\n#S G#\n#####\n            \n",
            "##########\n##SS  GG##   \n##########",
        ],
    )  # fmt: skip
    def test_blanks_behind_a_row_are_no_part_of_it(self, text):
        assert MazeLayout.from_text(text).to_text() == "#####\n#S G#\n#####"

    def test_default_drawing_with_squares_in_pairs(self):
        # Read as two characters a square, these would be the 3x4 maze with start and goal side by side.
        text = "########\n##S G ##\n########"
        maze = MazeLayout.from_text(text)
        assert (maze.size, maze.start, maze.goal, maze.to_text()) == ((3, 8), (1, 2), (1, 4), text)
        assert MazeLayout.from_text(text.replace("#", "█")).to_text() == "####\n#SG#\n####"

    @pytest.mark.parametrize(
        ("text", "row", "column", "problem"),
        [
            ("#####\n#S G\n#####", 1, 4, "ragged rows"),
            ("#####\n#S G##\n#####", 1, 5, "ragged rows"),
            ("#####\n#S G#\n#### ", 2, 4, "the border is open"),
            ("#####  \n#S G \n#####", 1, 4, "the border is open"),
            ("#####\n\n#S G#\n#####", 1, 0, "ragged rows"),
            ("#####\n#SxG#\n#####", 1, 2, "unknown symbol"),
            ("#####\n#S G\n###x#", 2, 3, "unknown symbol"),
            ("#####\n#s G#\n#####", 1, 1, "unknown symbol"),
            ("#####\n#S\tG#\n#####", 1, 2, "unknown symbol"),
            ("#####\n#SSG#\n#####", 1, 2, "a second 'S'"),
            ("#####\n#S G#\n#G  #\n#####", 2, 1, "a second 'G'"),
            ("#####\n#S G \n#####", 1, 4, "the border is open"),
            ("#####\n S G#\n#####", 1, 0, "the border is open"),
            (" ####\n#S G#\n#####", 0, 0, "the border is open"),
            ("     \n#S G#\n#####", 0, 0, "the border is open"),
            ("#####\n#S G#\n     ", 2, 0, "the border is open"),
            ("#####\n#S G#\n###.#", 2, 3, "the border is open"),
            ("##S##\n#  G#\n#####", 0, 2, "the border is open"),
            ("#####\n#S#G#\n#####", 1, 3, "the goal cannot be reached from the start"),
        ],
    )
    def test_malformed(self, text: str, row: int, column: int, problem: str):
        with pytest.raises(LayoutError) as caught:
            MazeLayout.from_text(text)
        assert (caught.value.problem, caught.value.row, caught.value.column) == (problem, row, column)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "the text is empty: found no rows"),
            ("  \n \n", "the text is empty: found no rows"),
            ("#####\n#  G#\n#####", "the maze has no start: found no 'S' in 3 rows; allowed: one 'S'"),
            ("#####\n#S  #\n#####", "the maze has no goal: found no 'G' in 3 rows; allowed: one 'G'"),
            ("#", "the maze has no start"),
            ("SG", "too small: found 1x2 squares, walls included; allowed: at least 3x4"),
            ("####\n#SG#", "too small: found 2x4 squares"),
            ("#####\n#s G#\n#####", "did you mean 'S'?"),
            ("#####\n#SxG#\n#####", r"found 'x' \(U\+0078\)"),
            ("#####\n#SSG#\n#####", "one stands at row 1, column 1"),
            ("#####\n#S G\n#####", "found a row of 4 squares; allowed: 5 squares, as in row 0"),
        ],
    )
    def test_messages(self, text: str, message: str):
        with pytest.raises(LayoutError, match=message):
            MazeLayout.from_text(text)

    @pytest.mark.parametrize("text", [None, 5, b"#####", CORRIDOR.walls, ["#####"]])
    def test_wrong_types(self, text: Any):
        with pytest.raises(TypeError, match=r"text must be a str, got .*MazeLayout\(walls"):
            MazeLayout.from_text(text)


class TestJson:
    def test_by_hand(self):
        assert json.loads(CORRIDOR.to_json()) == {
            "format": "sera-maze-layout",
            "version": 1,
            "rows": ["#######", "#S   G#", "#######"],
        }
        assert MazeLayout.from_json(CORRIDOR.to_json()) == CORRIDOR
        assert MazeLayout.from_json(CORRIDOR.to_json().encode()) == CORRIDOR

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("", "not JSON"),
            ("#######", "not JSON"),
            (b"\xff\xfe\xff", "not JSON"),
            ("[" * 100_000, "not JSON"),
            ("[]", "not a layout of this format"),
            ("{}", "not a layout of this format"),
            ('{"format": "other", "version": 1, "rows": ["####", "#SG#", "####"]}', "not a layout of this format"),
            ('{"format": "sera-maze-layout", "version": 2, "rows": []}', "not a layout of this format"),
            ('{"format": "sera-maze-layout", "version": 1}', "'rows' is not a list of strings"),
            ('{"format": "sera-maze-layout", "version": 1, "rows": []}', "'rows' is not a list of strings"),
            ('{"format": "sera-maze-layout", "version": 1, "rows": "####"}', "'rows' is not a list of strings"),
            ('{"format": "sera-maze-layout", "version": 1, "rows": [1]}', "'rows' is not a list of strings"),
        ],
    )
    def test_malformed(self, text: str | bytes, problem: str):
        with pytest.raises(LayoutError, match=rf"^{problem}: found .*; allowed: "):
            MazeLayout.from_json(text)

    def test_rows_are_checked(self):
        with pytest.raises(LayoutError, match="ragged rows at row 1, column 6"):
            MazeLayout.from_json(CORRIDOR.to_json().replace("G#", "G"))


class TestIdentity:
    def test_equality_and_hash(self):
        same = MazeLayout(CORRIDOR.walls.copy(), (1, 1), (1, 5))
        assert same == CORRIDOR
        assert hash(same) == hash(CORRIDOR)
        assert len({same, CORRIDOR}) == 1

    @pytest.mark.parametrize(
        "other",
        [
            MazeLayout(CORRIDOR.walls, (1, 2), (1, 5)),
            MazeLayout(CORRIDOR.walls, (1, 1), (1, 4)),
            MazeLayout(CORRIDOR.walls, (1, 5), (1, 1)),
            MazeLayout.from_text("########\n#S   G #\n########"),
            MazeLayout.from_text("#######\n#S   G#\n#   ###\n#######"),
        ],
    )
    def test_different_mazes(self, other: MazeLayout):
        assert other != CORRIDOR
        assert hash(other) != hash(CORRIDOR)
        assert other.digest != CORRIDOR.digest

    def test_other_types_are_unequal(self):
        assert CORRIDOR != CORRIDOR.to_text()
        assert (CORRIDOR == None) is False  # noqa: E711  the operator is under test

    @pytest.mark.parametrize("name", ["walls", "start", "goal", "other"])
    def test_immutable(self, name: str):
        with pytest.raises(AttributeError, match=f"immutable: cannot set '{name}'"):
            setattr(CORRIDOR, name, (1, 2))
        with pytest.raises(AttributeError, match=f"immutable: cannot delete '{name}'"):
            delattr(CORRIDOR, name)

    def test_walls_are_read_only_and_copied(self):
        walls = np.ones((3, 5), bool)
        walls[1, 1:4] = False
        maze = MazeLayout(walls, (1, 1), (1, 3))
        with pytest.raises(ValueError, match="read-only"):
            maze.walls[1, 2] = True
        walls[1, 2] = True
        assert maze.to_text() == "#####\n#S G#\n#####"
        assert walls.flags.writeable

    @pytest.mark.parametrize("again", [lambda m: pickle.loads(pickle.dumps(m)), copy.copy, copy.deepcopy])
    def test_copies(self, again: Any):
        maze = again(LOOP)
        assert maze == LOOP
        assert maze.digest == LOOP.digest
        assert not maze.walls.flags.writeable
        with pytest.raises(AttributeError, match="immutable"):
            maze.start = (1, 2)

    def test_repr(self):
        assert repr(CORRIDOR) == "MazeLayout(3x7, start=(1, 1), goal=(1, 5), digest=445f21b3)"


class TestDigest:
    # Saved pools and the split into train and held-out rest on these: a change of the digest breaks both.
    PINNED = (
        ("#######\n#S   G#\n#######", "445f21b3231790950ce4d291d6edd6e6", "1d48e770e1d6f38c7026221cc666a679"),
        (LOOP_TEXT, "9d21ca9bddc431cc9551c8c2f65174e3", "aac20cab4207041cfd306c8a26a9c9e0"),
    )

    @pytest.mark.parametrize(("text", "digest", "walls_digest"), PINNED)
    def test_pinned(self, text: str, digest: str, walls_digest: str):
        maze = MazeLayout.from_text(text)
        assert (maze.digest, maze.walls_digest) == (digest, walls_digest)

    def test_same_in_another_process(self):
        program = "; ".join(
            [
                "import json, sys",
                "from sera_maze.envs.layouts.layout import MazeLayout",
                "mazes = [MazeLayout.from_text(text) for text in json.load(sys.stdin)]",
                "json.dump([[maze.digest, maze.walls_digest] for maze in mazes], sys.stdout)",
            ]
        )
        texts = json.dumps([text for text, _, _ in self.PINNED])
        root = Path(sera_maze.__file__).parents[1]
        done = subprocess.run(
            [sys.executable, "-c", program], input=texts, capture_output=True, text=True, check=True, cwd=root
        )
        assert json.loads(done.stdout) == [[digest, walls_digest] for _, digest, walls_digest in self.PINNED]

    def test_another_start_has_the_same_walls(self):
        other = MazeLayout(LOOP.walls, (3, 1), LOOP.goal)
        assert other.walls_digest == LOOP.walls_digest
        assert other.digest != LOOP.digest

    def test_shape_counts(self):
        # Row after row, both have squares 9 and 10 of 24 open.
        flat, tall = np.ones((4, 6), bool), np.ones((6, 4), bool)
        flat.flat[[9, 10]] = tall.flat[[9, 10]] = False
        assert MazeLayout(flat, (1, 3), (1, 4)).walls_digest != MazeLayout(tall, (2, 1), (2, 2)).walls_digest


@st.composite
def grids(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int, int], tuple[int, int]]:
    """Any walls with a closed border, and two open squares, connected or not."""
    height, width = draw(st.integers(3, 8)), draw(st.integers(3, 8))
    inner = draw(st.lists(st.booleans(), min_size=(height - 2) * (width - 2), max_size=(height - 2) * (width - 2)))
    walls = np.ones((height, width), bool)
    walls[1:-1, 1:-1] = np.reshape(inner, (height - 2, width - 2))
    cells = [(int(row), int(column)) for row, column in np.argwhere(~walls)]
    assume(len(cells) >= 2)
    start, goal = draw(st.lists(st.sampled_from(cells), min_size=2, max_size=2, unique=True))
    return walls, start, goal


def reachable(walls: np.ndarray, start: tuple[int, int]) -> set[tuple[int, int]]:
    seen, queue = {start}, deque([start])
    while queue:
        row, column = queue.popleft()
        for cell in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            if not walls[cell] and cell not in seen:
                seen.add(cell)
                queue.append(cell)
    return seen


@settings(max_examples=300, deadline=None)
@given(grid=grids())
def test_accepted_if_connected_and_returns_from_every_form(grid: Any):
    walls, start, goal = grid
    if goal not in reachable(walls, start):
        with pytest.raises(LayoutError, match="the goal cannot be reached") as caught:
            MazeLayout(walls, start, goal)
        assert (caught.value.row, caught.value.column) == goal
        return
    maze = MazeLayout(walls, start, goal)
    assert (maze.start, maze.goal) == (start, goal)
    assert np.array_equal(maze.walls, walls)
    assert MazeLayout.from_text(maze.to_text()) == maze
    assert MazeLayout.from_json(maze.to_json()) == maze
    assert pickle.loads(pickle.dumps(maze)) == maze
    assert MazeLayout.from_tokens(maze.to_tokens()) == maze
    blocks = maze.to_text("blocks")
    double = "".join(symbol if symbol == "\n" else symbol * 2 for symbol in blocks)
    assert MazeLayout.from_text(double) == maze
    marked = double.replace("SS", "S ").replace("GG", "G ")
    assert MazeLayout.from_text(marked) == maze
    if maze.size[1] % 2:
        assert MazeLayout.from_text(blocks) == maze
