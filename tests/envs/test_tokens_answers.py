"""Answers as tokens, the verifier and the actions of a path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sera_maze.envs import tokens
from sera_maze.envs.layouts.layout import MazeLayout

# The answer goes down the left side, through (3, 3), and along the bottom.
MAZE = MazeLayout.from_text("#######\n#S#   #\n# # # #\n#   # #\n### # #\n#    G#\n#######")
ANSWER = "DOWN DOWN RIGHT RIGHT DOWN DOWN RIGHT RIGHT DONE <eos>"
ACTIONS = (1, 1, 3, 3, 1, 1, 3, 3)
CORRIDOR = MazeLayout.from_text("#######\n#S   G#\n#######")


class TestAnswers:
    def test_by_hand(self):
        ids = tokens.encode_answer(ACTIONS)
        assert ids.dtype == np.int64
        assert ids.tolist() == [14, 14, 16, 16, 14, 14, 16, 16, 7, 2]
        assert tokens.answer_text(ACTIONS) == ANSWER

    def test_without_eos(self):
        assert tokens.encode_answer([0, 2], eos=False).tolist() == [13, 15, 7]
        assert tokens.answer_text(np.array([0, 2], np.uint8), eos=False) == "UP LEFT DONE"

    def test_no_actions(self):
        assert tokens.encode_answer([]).tolist() == [7, 2]
        assert tokens.encode_answer([], eos=False).dtype == np.int64

    @pytest.mark.parametrize("bad", [4, -1])
    def test_unknown_action(self, bad: int):
        with pytest.raises(ValueError, match=rf"actions\[2\]={bad}; allowed are 0 UP, 1 DOWN, 2 LEFT, 3 RIGHT"):
            tokens.encode_answer([0, 1, bad])

    @pytest.mark.parametrize("bad", [None, 1, "UP", [1.0], [True], np.array([1.0]), ["UP"]])
    def test_wrong_types_of_actions(self, bad: Any):
        with pytest.raises(TypeError, match=r"actions.*integers"):
            tokens.encode_answer(bad)

    @pytest.mark.parametrize(
        ("answer", "actions"),
        [
            (ANSWER, ACTIONS),
            ("DONE", ()),
            ("UP DOWN LEFT RIGHT DONE", (0, 1, 2, 3)),
            ("UP DONE DOWN DONE", (0,)),
            ("UP DONE moon WALL", (0,)),
            ([13, 7, 99], (0,)),
            (np.array([16, 7, 2, 0, 0], np.uint8), (3,)),
            (iter([15, 7]), (2,)),
        ],
    )
    def test_decode(self, answer: Any, actions: tuple[int, ...]):
        assert tokens.decode_answer(answer) == actions

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            ("", "no DONE in its 0 tokens"),
            ("UP DOWN", "no DONE in its 2 tokens"),
            ("UP done", "no DONE in its 2 tokens"),
            ("UP WALL DONE", r"token 1 \(counted from 0\) is 'WALL'; allowed before DONE are UP, DOWN, LEFT, RIGHT"),
            ("PATH_START UP DONE", "token 0 .*'PATH_START'"),
            ("UP \n DONE", r"token 1 .*'\\n'"),
            ([13, 32, 7], "token 1 .*'id 32'"),
        ],
    )
    def test_malformed(self, answer: Any, message: str):
        with pytest.raises(ValueError, match=message):
            tokens.decode_answer(answer)


class TestVerify:
    @pytest.mark.parametrize(
        ("answer", "is_right"),
        [
            pytest.param(ANSWER, True, id="shortest path"),
            pytest.param("DOWN DOWN RIGHT RIGHT UP UP RIGHT RIGHT DOWN DOWN DOWN DOWN DONE", True, id="other way"),
            pytest.param("DOWN UP " + ANSWER, True, id="detour"),
            pytest.param(ANSWER.removesuffix(" <eos>"), True, id="no eos"),
            pytest.param(ANSWER.removesuffix(" DONE <eos>"), False, id="no DONE"),
            pytest.param(ANSWER.replace("DONE <eos>", "<eos>"), False, id="eos but no DONE"),
            pytest.param("RIGHT " + ANSWER, False, id="wall hit"),
            pytest.param("UP " + ANSWER, False, id="border hit"),
            pytest.param(ANSWER.replace("RIGHT RIGHT DONE", "RIGHT DONE"), False, id="stops short"),
            pytest.param(ANSWER.replace("DONE", "LEFT UP DONE"), True, id="moves after the goal"),
            pytest.param(ANSWER.replace("DONE", "RIGHT RIGHT RIGHT DONE"), True, id="walls after the goal"),
            pytest.param(ANSWER.replace("DONE", "MOON DONE"), False, id="junk after the goal, before DONE"),
            pytest.param(ANSWER.replace("DONE", "<eos> DONE"), False, id="eos before DONE"),
            pytest.param("<bos> " + ANSWER, False, id="bos before the moves"),
            pytest.param("MOON " + ANSWER, False, id="junk before the moves"),
            pytest.param("\n " + ANSWER, False, id="line break before DONE"),
            pytest.param(ANSWER + " MOON DONE WALL", True, id="junk after DONE"),
            pytest.param(ANSWER + "\n", True, id="line break after DONE"),
            pytest.param("DOWN DONE " + ANSWER, False, id="only the first DONE counts"),
            pytest.param(ANSWER.lower(), False, id="lower case"),
            pytest.param("DONE", False, id="no moves"),
            pytest.param("", False, id="empty"),
        ],
    )
    def test_by_hand(self, answer: str, is_right: bool):
        assert tokens.verify(MAZE, answer) is is_right
        assert tokens.verify(MAZE, tokens.text_to_ids(answer)) is is_right

    def test_ids_outside_the_vocabulary_are_wrong(self):
        ids = tokens.encode_answer(ACTIONS).tolist()
        assert tokens.verify(MAZE, [*ids, 99, -1]) is True
        assert tokens.verify(MAZE, [99, *ids]) is False
        assert tokens.verify(MAZE, [-18, *ids]) is False

    def test_non_square(self):
        assert tokens.verify(CORRIDOR, "RIGHT RIGHT RIGHT RIGHT DONE <eos>")
        assert not tokens.verify(CORRIDOR, "DOWN DOWN DOWN DOWN DONE <eos>")
        upright = MazeLayout(CORRIDOR.walls.T, (1, 1), (5, 1))
        assert tokens.verify(upright, "DOWN DOWN DOWN DOWN DONE <eos>")
        assert not tokens.verify(upright, "RIGHT RIGHT RIGHT RIGHT DONE <eos>")

    @pytest.mark.parametrize(
        "bad", [None, 5, 1.5, b"DONE", [16.0, 7.0], np.array([16.0, 7.0]), [None], [True, 7], ["DONE"]]
    )
    def test_wrong_types(self, bad: Any):
        with pytest.raises(TypeError, match=r"answer.*integers"):
            tokens.verify(MAZE, bad)

    @pytest.mark.parametrize("bad", [None, MAZE.to_text(), MAZE.walls])
    def test_wrong_types_of_layout(self, bad: Any):
        with pytest.raises(TypeError, match=r"layout is a .*MazeLayout"):
            tokens.verify(bad, ANSWER)


class TestPathToActions:
    def test_shortest_path_verifies(self):
        path = MAZE.shortest_path()
        actions = tokens.path_to_actions(path)
        assert actions.dtype == np.int64
        assert actions.tolist() == list(ACTIONS)
        assert tokens.verify(MAZE, tokens.encode_answer(actions))

    def test_all_moves(self):
        assert tokens.path_to_actions([(1, 1), (0, 1), (1, 1), (1, 0), (1, 1)]).tolist() == [0, 1, 2, 3]

    def test_unsigned_cells(self):
        assert tokens.path_to_actions(np.array([(1, 1), (0, 1), (0, 0)], np.uint8)).tolist() == [0, 2]

    def test_one_cell(self):
        assert tokens.path_to_actions([(3, 4)]).shape == (0,)

    @pytest.mark.parametrize("cell", [(1, 4), (2, 3), (1, 2), (0, 1), (1, 0)])
    def test_not_a_move(self, cell: tuple[int, int]):
        with pytest.raises(
            ValueError, match=rf"path step 1 \(counted from 0\) goes from cell \[1, 2\] to \[{cell[0]}, {cell[1]}\]"
        ):
            tokens.path_to_actions([(1, 1), (1, 2), cell, (9, 9)])

    @pytest.mark.parametrize("bad", [[], [1, 2], [[1, 2, 3]], np.zeros((0, 2), int), np.zeros((1, 2, 2), int), 5])
    def test_wrong_shapes(self, bad: Any):
        with pytest.raises(ValueError, match="path has shape"):
            tokens.path_to_actions(bad)

    @pytest.mark.parametrize("bad", [[(1.0, 1.0), (1.0, 2.0)], [(True, False)], [("a", "b")]])
    def test_wrong_types(self, bad: Any):
        with pytest.raises(TypeError, match="path has dtype"):
            tokens.path_to_actions(bad)


@settings(max_examples=200, deadline=None)
@given(answer=st.lists(st.integers(-2, 34), max_size=12))
def test_verify_never_fails(answer: list[int]):
    assert tokens.verify(CORRIDOR, answer) is _corridor_rule(answer)


def _corridor_rule(answer: list[int]) -> bool:
    """The papers' rule, written for the 3x7 corridor: columns 1 to 5, LEFT 15, RIGHT 16, UP and DOWN hit walls."""
    if 7 not in answer:
        return False
    moves = answer[: answer.index(7)]
    column = 1
    for i, move in enumerate(moves):
        column += {15: -1, 16: 1}.get(move, -9)
        if column == 5:
            return all(13 <= later <= 16 for later in moves[i:])
        if column < 1:
            return False
    return False
