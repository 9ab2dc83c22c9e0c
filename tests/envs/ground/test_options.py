"""Options that are checked by their types, and trees of them."""

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
import pytest

from sera_maze.envs.ground.options import Number, Whole, changed, check_options, descriptions, differences, leaves


@dataclass(frozen=True)
class Inner:
    """Inside.

    Args:
        count: how many; a second sentence,
            on a second line.
        mode: how.

    Raises:
        ValueError: never described as an option.
    """

    count: Annotated[int, Whole(1, 10)] = 3
    mode: Literal["fast", "exact"] = "fast"

    def __post_init__(self):
        check_options(self)


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    rate: Annotated[float, Number("a number above 0, at most 1", 0, 1, "(]")] = 0.5
    limit: Annotated[float, Number("a number of at least 0")] | None = None
    norm: Annotated[float, Number("a number above 0", ends="(]")] = 1.0
    flag: bool = False

    def __post_init__(self):
        check_options(self)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"count": 0}, ValueError, "count=0 is out of range; give an integer from 1 to 10"),
        ({"count": 1.5}, TypeError, "count=1.5 is not an integer"),
        ({"count": None}, TypeError, "count=None is not an integer"),
        ({"mode": "exakt"}, ValueError, "mode='exakt' is not known; allowed are 'fast', 'exact'; did you mean 'ex"),
        ({"rate": 0}, ValueError, "rate=0 is out of range; allowed is a number above 0, at most 1"),
        ({"rate": 1.01}, ValueError, "rate=1.01 is out of range"),
        ({"rate": math.nan}, ValueError, "rate=nan is out of range"),
        ({"rate": "x"}, TypeError, "rate='x' is a str; allowed is a number above 0"),
        ({"rate": None}, TypeError, "rate=None is a NoneType"),
        ({"limit": math.inf}, ValueError, "limit=inf is out of range"),
        ({"limit": -1}, ValueError, "limit=-1 is out of range"),
        ({"flag": 1}, TypeError, "flag=1 is a int; allowed are True and False"),
        ({"inner": {}}, TypeError, "inner={} is a dict; allowed is Inner"),
        ({"norn": 1.0}, TypeError, "'norn' is no option of Outer; did you mean 'norm'?"),
    ],
)  # fmt: skip
def test_what_is_not_allowed_is_named(options, error, words):
    with pytest.raises(error) as caught:
        Outer(**options) if "inner" in options else changed(Outer(), options)
    assert words in str(caught.value)


def test_what_lies_at_the_ends_is_allowed():
    tree = changed(Outer(), {"count": np.int64(10), "rate": 1, "limit": 0, "norm": math.inf})
    assert leaves(tree) == {"count": 10, "mode": "fast", "rate": 1.0, "limit": 0.0, "norm": math.inf, "flag": False}
    assert type(tree.inner.count) is int
    assert differences(tree, Outer()).keys() == {"count", "rate", "limit", "norm"}


def test_descriptions_are_those_of_the_arguments():
    assert descriptions(Inner) == {"count": "how many; a second sentence, on a second line.", "mode": "how."}
    assert descriptions(Outer) == {}
