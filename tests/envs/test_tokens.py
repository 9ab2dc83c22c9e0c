"""The vocabulary, prompts and answers as tokens, and the verifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sera_maze.envs import tokens
from sera_maze.envs.ground.errors import LayoutError
from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.tokens import TOKENS, VOCABULARY

# #######
# #S#   #
# # # # #
# #   # #
# ### # #
# #    G#
# #######
PROMPT = " ".join(
    """<bos> GRID_START
    WALL WALL WALL WALL WALL WALL WALL NEWLINE
    WALL START WALL PATH PATH PATH WALL NEWLINE
    WALL PATH WALL PATH WALL PATH WALL NEWLINE
    WALL PATH PATH PATH WALL PATH WALL NEWLINE
    WALL WALL WALL PATH WALL PATH WALL NEWLINE
    WALL PATH PATH PATH PATH GOAL WALL NEWLINE
    WALL WALL WALL WALL WALL WALL WALL NEWLINE
    GRID_END PATH_START""".split()
)
MAZE = MazeLayout.from_text("#######\n#S#   #\n# # # #\n#   # #\n### # #\n#    G#\n#######")
IDS = [
    *(1, 4),
    *(9, 9, 9, 9, 9, 9, 9, 12),
    *(9, 11, 9, 8, 8, 8, 9, 12),
    *(9, 8, 9, 8, 9, 8, 9, 12),
    *(9, 8, 8, 8, 9, 8, 9, 12),
    *(9, 9, 9, 8, 9, 8, 9, 12),
    *(9, 8, 8, 8, 8, 10, 9, 12),
    *(9, 9, 9, 9, 9, 9, 9, 12),
    *(5, 6),
]
ANSWER = "DOWN DOWN RIGHT RIGHT DOWN DOWN RIGHT RIGHT DONE <eos>"
CORRIDOR = MazeLayout.from_text("#######\n#S   G#\n#######")
SHORT_PROMPT = (
    "<bos> GRID_START WALL WALL WALL WALL NEWLINE WALL START GOAL WALL NEWLINE WALL WALL WALL WALL NEWLINE "
    "GRID_END PATH_START"
)


class TestVocabulary:
    def test_ids_are_those_of_the_papers(self):
        assert dict(VOCABULARY) == {
            **{"<pad>": 0, "<bos>": 1, "<eos>": 2, "<unk>": 3, "GRID_START": 4, "GRID_END": 5, "PATH_START": 6},
            **{"DONE": 7, "PATH": 8, "WALL": 9, "GOAL": 10, "START": 11, "NEWLINE": 12},
            **{"UP": 13, "DOWN": 14, "LEFT": 15, "RIGHT": 16, "\n": 17},
            **{"RESERVED_0": 18, "RESERVED_1": 19, "RESERVED_2": 20, "RESERVED_3": 21, "RESERVED_4": 22},
            **{"RESERVED_5": 23, "RESERVED_6": 24, "RESERVED_7": 25, "RESERVED_8": 26, "RESERVED_9": 27},
            **{"RESERVED_10": 28, "RESERVED_11": 29, "RESERVED_12": 30, "RESERVED_13": 31},
        }

    def test_tokens_are_indexed_by_id(self):
        assert len(TOKENS) == 32
        assert [VOCABULARY[token] for token in TOKENS] == list(range(32))

    def test_vocabulary_is_read_only(self):
        with pytest.raises(TypeError):
            VOCABULARY["UP"] = 0  # type: ignore[index]


class TestTextAndIds:
    def test_every_token_returns_from_text(self):
        ids = [*range(32), 17, 17, 0]
        assert tokens.text_to_ids(tokens.ids_to_text(ids)).tolist() == ids

    def test_text_is_separated_by_single_spaces(self):
        assert tokens.ids_to_text(np.array([16, 17, 14], np.uint8)) == "RIGHT \n DOWN"
        assert tokens.ids_to_text([]) == ""

    @pytest.mark.parametrize(
        ("text", "ids"),
        [
            ("", []),
            ("UP", [13]),
            ("UP\nDOWN", [13, 17, 14]),
            ("\n\nUP\r\n", [17, 17, 13, 17]),
            ("  UP\t DOWN ", [13, 14]),
            ("up MOON <unk>", [3, 3, 3]),
            ("RESERVED_13 RESERVED_14", [31, 3]),
        ],
    )
    def test_text_to_ids(self, text: str, ids: list[int]):
        result = tokens.text_to_ids(text)
        assert result.dtype == np.int64
        assert result.tolist() == ids

    @pytest.mark.parametrize("bad", [32, -1, 2**70])
    def test_ids_outside_are_refused(self, bad: int):
        with pytest.raises(ValueError, match=rf"ids\[1\]={bad}; allowed are 0 to 31"):
            tokens.ids_to_text([5, bad])

    @pytest.mark.parametrize("bad", [None, 5, 1.5, "UP", b"\x01", [1.0], [True], [None], np.ones((2, 2), int)])
    def test_wrong_types_of_ids(self, bad: Any):
        with pytest.raises(TypeError, match="integers"):
            tokens.ids_to_text(bad)

    @pytest.mark.parametrize("bad", [None, 5, b"UP", ["UP"]])
    def test_wrong_types_of_text(self, bad: Any):
        with pytest.raises(TypeError, match="text is a"):
            tokens.text_to_ids(bad)


class TestEncodePrompt:
    def test_by_hand(self):
        ids = tokens.encode_prompt(MAZE)
        assert ids.dtype == np.int64
        assert ids.tolist() == IDS
        assert tokens.prompt_text(MAZE) == PROMPT

    @pytest.mark.parametrize(("height", "width", "length"), [(17, 17, 310), (7, 7, 60), (3, 7, 28), (7, 3, 32)])
    def test_length(self, height: int, width: int, length: int):
        assert tokens.prompt_length(height, width) == length

    def test_corridor(self):
        assert tokens.prompt_text(CORRIDOR) == (
            "<bos> GRID_START WALL WALL WALL WALL WALL WALL WALL NEWLINE "
            "WALL START PATH PATH PATH GOAL WALL NEWLINE WALL WALL WALL WALL WALL WALL WALL NEWLINE GRID_END PATH_START"
        )

    def test_many_are_each_alone(self):
        turned = MazeLayout(MAZE.walls.T, (1, 1), (5, 5))
        other = MazeLayout(MAZE.walls, (5, 1), (1, 3))
        mazes = [MAZE, turned, other]
        prompts = tokens.encode_prompts(
            np.stack([maze.walls for maze in mazes]),
            np.array([maze.start for maze in mazes], np.uint8),
            np.array([maze.goal for maze in mazes], np.int32),
        )
        assert prompts.dtype == np.uint8
        assert prompts.shape == (3, 60)
        assert [tokens.decode_prompt(prompt) for prompt in prompts] == mazes
        assert prompts.tolist() == [tokens.encode_prompt(maze).tolist() for maze in mazes]

    def test_no_mazes(self):
        none = np.zeros((0, 2), int)
        assert tokens.encode_prompts(np.zeros((0, 3, 7), bool), none, none).shape == (0, 28)

    def test_arguments_are_left_alone(self):
        walls, start, goal = CORRIDOR.walls[None].copy(), np.array([[1, 1]]), np.array([[1, 5]])
        tokens.encode_prompts(walls, start, goal)
        assert np.array_equal(walls[0], CORRIDOR.walls)
        assert (start.tolist(), goal.tolist()) == ([[1, 1]], [[1, 5]])

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"walls": CORRIDOR.walls}, ValueError, r"walls has shape \(3, 7\).*walls\[None\]"),
            ({"walls": CORRIDOR.walls[None].astype(int)}, TypeError, "walls has dtype int64; allowed is bool"),
            ({"start": np.array([1, 1])}, ValueError, r"start has shape \(2,\); allowed is \(1, 2\)"),
            ({"goal": np.array([[1, 5], [1, 5]])}, ValueError, r"goal has shape \(2, 2\)"),
            ({"goal": np.array([[1.0, 5.0]])}, TypeError, "goal has dtype float64"),
            ({"goal": np.array([[1, 7]])}, ValueError, r"goal\[0\]=\[1, 7\] lies outside.*rows 0 to 2, columns 0 to 6"),
            ({"start": np.array([[-1, 1]])}, ValueError, r"start\[0\]=\[-1, 1\] lies outside"),
        ],
    )
    def test_malformed_arrays(self, change: dict[str, Any], error: type[Exception], message: str):
        arguments = {"walls": CORRIDOR.walls[None], "start": np.array([[1, 1]]), "goal": np.array([[1, 5]])}
        with pytest.raises(error, match=message):
            tokens.encode_prompts(**{**arguments, **change})


class TestDecodePrompt:
    @pytest.mark.parametrize(
        "prompt",
        [
            PROMPT,
            PROMPT.removeprefix("<bos> "),
            PROMPT.removesuffix(" PATH_START"),
            PROMPT.removesuffix(" PATH_START") + " <eos> <pad> <pad>",
            PROMPT.removesuffix(" PATH_START") + " " + ANSWER,
            PROMPT.replace("NEWLINE GRID_END", "GRID_END"),
            PROMPT + " " + ANSWER,
            PROMPT + " " + ANSWER + " <pad> <pad>",
            PROMPT + " RIGHT WALL GRID_START DONE",
            "<pad> <pad> " + PROMPT,
            PROMPT.replace("NEWLINE", "NEWLINE\n"),
            "\n" + PROMPT.replace(" ", "  ") + "\n",
        ],
    )
    def test_forms(self, prompt: str):
        assert tokens.decode_prompt(prompt) == MAZE
        assert tokens.decode_prompt(tokens.text_to_ids(prompt)) == MAZE

    @pytest.mark.parametrize("kind", [list, tuple, iter, np.uint8, np.array])
    def test_kinds_of_ids(self, kind: Any):
        assert tokens.decode_prompt(kind(IDS)) == MAZE

    def test_its_answer_verifies(self):
        assert tokens.verify(tokens.decode_prompt(PROMPT), ANSWER)

    def test_through_the_layout(self):
        assert MazeLayout.from_tokens(PROMPT) == MAZE
        assert MazeLayout.from_tokens(MAZE.to_tokens()) == MAZE
        assert MAZE.to_tokens().tolist() == IDS

    # In SHORT_PROMPT, GRID_START is token 1, the rows begin at tokens 2, 7 and 12, and GRID_END is token 17.
    @pytest.mark.parametrize(
        ("old", "new", "token", "row", "column", "problem"),
        [
            ("GRID_START ", "", 1, None, None, "no GRID_START"),
            ("<bos> GRID_START", "GRID_END", 0, None, None, "no GRID_START"),
            ("<bos>", "<bos> <bos>", 1, None, None, "no GRID_START"),
            ("GRID_END PATH_START", "", 17, 3, 0, "no GRID_END"),
            ("NEWLINE GRID_END PATH_START", "", 16, 2, 4, "no GRID_END"),
            ("GRID_END PATH_START", "PATH_START", 17, 3, 0, "not a square"),
            ("START GOAL", "START RIGHT", 9, 1, 2, "not a square"),
            ("START GOAL", "START <unk>", 9, 1, 2, "not a square"),
            ("START GOAL", "START GRID_START", 9, 1, 2, "not a square"),
            ("START GOAL", "START MOON", 9, 1, 2, "unknown token"),
            ("START GOAL", "start GOAL", 8, 1, 1, "unknown token"),
            ("START GOAL WALL", "START GOAL", 10, 1, 3, "ragged rows"),
            ("START GOAL WALL", "START GOAL WALL WALL", 11, 1, 4, "ragged rows"),
            ("NEWLINE GRID_END", "NEWLINE NEWLINE GRID_END", 17, 3, 0, "ragged rows"),
            ("GRID_START WALL", "GRID_START NEWLINE WALL", 3, 1, 0, "ragged rows"),
            ("WALL NEWLINE GRID_END", "GRID_END", 15, 2, 3, "ragged rows"),
            ("START GOAL", "PATH GOAL", 17, None, None, "no START"),
            ("START GOAL", "START PATH", 17, None, None, "no GOAL"),
            ("START GOAL", "START START", 9, 1, 2, "a second START"),
            ("WALL START GOAL", "GOAL START GOAL", 9, 1, 2, "a second GOAL"),
            ("GOAL WALL NEWLINE", "GOAL PATH NEWLINE", 10, 1, 3, "the border is open"),
            ("WALL START GOAL", "START WALL GOAL", 7, 1, 0, "the border is open"),
            ("PATH_START", "PATH_START id", 19, None, None, "unknown token"),
            ("PATH_START", "WALL", 18, None, None, "not the end of a prompt"),
            ("PATH_START", "GRID_START", 18, None, None, "not the end of a prompt"),
        ],
    )
    def test_malformed(self, old: str, new: str, token: int, row: int | None, column: int | None, problem: str):
        assert old in SHORT_PROMPT
        with pytest.raises(LayoutError) as caught:
            tokens.decode_prompt(SHORT_PROMPT.replace(old, new, 1))
        assert caught.value.problem.startswith(f"token {token} (counted from 0): {problem}")
        assert (caught.value.row, caught.value.column) == (row, column)

    def test_unreachable_goal(self):
        # Squares (1, 2) and (5, 4), that is, tokens 2 + 8 + 2 and 2 + 40 + 4, become walls; the goal is token 47.
        ids = list(IDS)
        ids[2 + 3 * 8 + 2] = ids[2 + 5 * 8 + 4] = 9
        with pytest.raises(LayoutError, match=r"token 47 .*goal cannot be reached") as caught:
            tokens.decode_prompt(ids)
        assert (caught.value.row, caught.value.column) == (5, 5)

    def test_line_breaks_do_not_shift_the_positions(self):
        text = SHORT_PROMPT.replace("NEWLINE", "NEWLINE\n").replace("GOAL", "MOON")
        with pytest.raises(LayoutError, match=r"token 10 \(counted from 0\): unknown token at row 1, column 2"):
            tokens.decode_prompt(text)

    @pytest.mark.parametrize("bad", [32, 99, -1])
    def test_id_outside(self, bad: int):
        with pytest.raises(LayoutError, match=rf"token 3 .*unknown token at row 0, column 1: found 'id {bad}'"):
            tokens.decode_prompt([*IDS[:3], bad, *IDS[4:]])
        with pytest.raises(LayoutError, match=rf"token 60 .*unknown token: found 'id {bad}'"):
            tokens.decode_prompt([*IDS, bad])

    @pytest.mark.parametrize(
        ("prompt", "token"), [("", 0), ("\n", 1), ("<bos>", 1), ("<pad> <pad>", 2), ("hello world", 0), (ANSWER, 0)]
    )
    def test_not_a_prompt(self, prompt: str, token: int):
        with pytest.raises(LayoutError, match=rf"token {token} \(counted from 0\): no GRID_START"):
            tokens.decode_prompt(prompt)

    @pytest.mark.parametrize(
        ("prompt", "message"),
        [
            ("GRID_START", "token 1 .*no GRID_END"),
            ("GRID_START GRID_END", "token 1 .*no START before GRID_END: found 0 rows"),
            ("GRID_START WALL START GOAL WALL GRID_END", "token 0 .*too small: found 1x4"),
        ],
    )
    def test_hardly_a_prompt(self, prompt: str, message: str):
        with pytest.raises(LayoutError, match=message):
            tokens.decode_prompt(prompt)

    @pytest.mark.parametrize(
        "bad", [None, 5, 1.5, b"GRID_START", np.array(IDS, float), [*IDS[:-1], "PATH_START"], [True]]
    )
    def test_wrong_types(self, bad: Any):
        with pytest.raises(TypeError, match="integers"):
            tokens.decode_prompt(bad)


@st.composite
def open_mazes(draw: st.DrawFn) -> MazeLayout:
    """Rooms without inner walls but with drawn start, goal and size, so that any pair is connected."""
    height, width = draw(st.integers(3, 9)), draw(st.integers(4, 9))
    cells = st.tuples(st.integers(1, height - 2), st.integers(1, width - 2))
    start, goal = draw(st.lists(cells, min_size=2, max_size=2, unique=True))
    walls = np.ones((height, width), bool)
    walls[1:-1, 1:-1] = False
    return MazeLayout(walls, start, goal)


@settings(max_examples=100, deadline=None)
@given(maze=open_mazes())
def test_any_size_round_trip(maze: MazeLayout):
    ids = tokens.encode_prompt(maze)
    assert len(ids) == tokens.prompt_length(*maze.size)
    assert tokens.decode_prompt(ids) == maze
    assert tokens.decode_prompt(tokens.prompt_text(maze)) == maze
    actions = tokens.path_to_actions(maze.shortest_path())
    assert tokens.verify(maze, tokens.answer_text(actions))
    assert not tokens.verify(maze, tokens.answer_text(actions[:-1]))
