"""Checks of arguments: what they take, and errors that name the argument."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sera_maze.envs.ground.checks import (
    as_integer,
    as_list,
    as_number,
    as_options,
    as_sides,
    check_choice,
    check_int,
    is_zero_or_one,
    shown,
)


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_integers(value):
    assert (as_integer(value), check_int("n", value, 0, 3)) == (3, 3)
    assert type(as_integer(value)) is type(check_int("n", value, 0, 3)) is int


@pytest.mark.parametrize("value", [True, np.True_, 3.0, np.float32(3), "3", None, [3], np.array([3])])
def test_no_integers(value):
    assert as_integer(value) is None
    with pytest.raises((TypeError, ValueError), match="n="):
        check_int("n", value, 0, 3)


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), np.float64(0.5), Fraction(1, 2)])
def test_numbers(value):
    assert as_number("x", value, "a number") == 0.5
    assert type(as_number("x", value, "a number")) is float


def test_huge_numbers():
    assert as_number("x", 10**400, "a number") == math.inf
    assert as_number("x", -(10**400), "a number") == -math.inf


@pytest.mark.parametrize("value", [True, np.True_, "1", None, 1j, [1.0]])
def test_no_numbers(value):
    with pytest.raises(TypeError, match=r"x=.* allowed is a number"):
        as_number("x", value, "a number")


@pytest.mark.parametrize("size", [17, np.int64(17), np.array(17), (17, 17), [17, np.int8(17)], np.array([17, 17])])
def test_sides(size):
    assert as_sides(size) == (17, 17)
    assert {type(side) for side in as_sides(size)} == {int}


@pytest.mark.parametrize(
    "size", [17.0, np.float64(17), "17", b"17", None, True, (17,), (17, 17, 17), (17, 17.0), ("1", "7")]
)
def test_no_sides(size):
    with pytest.raises(TypeError, match=r"size=.* is not \(height, width\) or one int"):
        as_sides(size)


def test_lists():
    for values in ([1, 2], (1, 2), iter([1, 2]), np.array([1, 2]), {1: "a", 2: "b"}.keys()):
        assert as_list("x", values, "a list") == [1, 2]
    for wrong in ("12", b"12", {1: 2}, 5, None, np.array(5)):
        with pytest.raises(TypeError, match=r"x=.* is a \w+; allowed is a list"):
            as_list("x", wrong, "a list")


def test_options():
    options = {"prompt": 1}
    assert (as_options(None), as_options({}), as_options(options)) == ({}, {}, options)
    assert as_options(options) is not options
    for wrong in (5, 0, [], [("prompt", 1)], "prompt"):
        with pytest.raises(TypeError, match=r"options=.* allowed is a dict, or None"):
            as_options(wrong)


@pytest.mark.parametrize("value", ["bat", 5, None, ["cat"], np.array(["cat", "dog"])])
def test_choices(value):
    check_choice("pet", "cat", ("cat", "dog"))
    with pytest.raises(ValueError, match=r"pet=.* is not known; allowed are 'cat', 'dog'"):
        check_choice("pet", value, ("cat", "dog"))


def test_zeros_and_ones():
    assert is_zero_or_one(np.array([0.0, 1.0, 2.0, np.nan])).tolist() == [True, True, False, False]
    assert is_zero_or_one(np.zeros((2, 3), "i4,i4")).tolist() == [[False] * 3] * 2
    assert is_zero_or_one(np.array(["0", "1"])).tolist() == [False, False]


def test_shown_is_short():
    nested = []
    for _ in range(100_000):
        nested = [nested]
    assert shown(nested) == "a deeply nested list"
    assert shown("a") == "'a'"
    assert shown(list(range(100)), 10) == "[0, 1, ..."
