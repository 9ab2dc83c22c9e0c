"""The error of malformed mazes."""

from __future__ import annotations

import pickle

import pytest

from sera_maze.envs.ground.errors import LayoutError


@pytest.mark.parametrize(
    "error",
    [
        LayoutError("unknown symbol", row=3, column=4, found="'x'", allowed="'#'"),
        LayoutError("ragged rows", row=3, found="4", allowed="5"),
        LayoutError("the text is empty", found="no rows", allowed="rows"),
    ],
)
def test_pickles(error: LayoutError):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is LayoutError
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_message():
    error = LayoutError("unknown symbol", row=3, column=4, found="'x'", allowed="'#'")
    expected = "unknown symbol at row 3, column 4: found 'x'; allowed: '#' (rows and columns count from 0)"
    assert str(error) == expected
    assert str(error.prefixed("maze 7: ")) == "maze 7: " + expected
    assert isinstance(error, ValueError)
