"""Checks of arguments that every part needs; their errors name the argument, its value and what is allowed."""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import numbers
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

Element = TypeVar("Element")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_LEAST_LIKENESS = 0.5  # of a name that an error suggests, from 0 to 1, as difflib measures it


def check_choice(name: str, value: object, allowed: Sequence[str]) -> None:
    """Raise a ValueError that names the argument, what is allowed and the nearest of it."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(
            f"{name}={shown(value)} is not known; allowed are {', '.join(map(repr, allowed))}"
            f"{did_you_mean(value, allowed)}"
        )


def did_you_mean(value: object, allowed: Iterable[str]) -> str:
    """The end of an error about a name that is not known: the nearest one that is allowed, "" if none is near."""
    names = {name.lower().replace("-", "_"): name for name in allowed}
    near = difflib.get_close_matches(str(value).lower().replace("-", "_"), names, 1, _LEAST_LIKENESS)
    return f"; did you mean {names[near[0]]!r}?" if near else ""


def known_arguments(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let a function refuse an unknown keyword with the nearest name that it has, where Python names none."""
    names = list(inspect.signature(function).parameters)
    owner = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        for name in kwargs:
            if name not in names:
                raise TypeError(f"{name!r} is no argument of {owner}{did_you_mean(name, names)}")
        return function(*args, **kwargs)

    return checked


def check_int(name: str, value: object, low: int, high: int) -> int:
    """``value`` as an int from ``low`` to ``high``, or a TypeError or ValueError that names the argument."""
    number = as_integer(value)
    if number is None and not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}={value!r} is not an integer; give one from {low} to {high}")
    if number is None or not low <= number <= high:
        raise ValueError(f"{name}={value!r} is out of range; give an integer from {low} to {high}")
    return number


def check_flag(name: str, value: object) -> None:
    """Check that an option is a bool.

    Raises:
        TypeError: if not.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}; allowed are True and False")


def as_integer(value: object) -> int | None:
    """``value`` as a Python int, or None if it is no integer; bools are none."""
    try:
        return None if isinstance(value, (bool, np.bool_)) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def as_number(name: str, value: object, allowed: str) -> float:
    """``value`` as a float, perhaps not a finite one.

    Args:
        name: of the argument.
        value: any real number but a bool.
        allowed: what the error says is allowed.

    Raises:
        TypeError: if it is not a real number.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}; allowed is {allowed}")
    try:
        return float(value)
    except OverflowError:  # an integer or a fraction beyond the range of floats
        return math.inf if math.floor(value) > 0 else -math.inf  # type: ignore[operator]


def as_sides(size: object) -> tuple[int, int]:
    """(height, width) of ``size``, which is these two or one int for both.

    Raises:
        TypeError: if it is neither.
    """
    try:
        if isinstance(size, (bool, np.bool_, str, bytes)):
            raise TypeError
        sides = (size, size) if hasattr(size, "__index__") and not np.ndim(size) else size  # type: ignore[arg-type]
        height, width = (operator.index(side) for side in sides)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise TypeError(f"size={size!r} is not (height, width) or one int, in grid squares, walls included") from None
    return height, width


def as_list(name: str, values: Iterable[Element], allowed: str) -> list[Element]:
    """The elements of a list, tuple, array, generator or other iterable.

    Args:
        name: of the argument.
        values: what it is.
        allowed: what the error says is allowed.

    Raises:
        TypeError: if it cannot be iterated over, or is text, a dict or an array without axes.
    """
    wrong = isinstance(values, (str, bytes, bytearray, Mapping)) or not isinstance(values, Iterable)
    if wrong or (isinstance(values, np.ndarray) and values.ndim == 0):
        raise TypeError(f"{name}={shown(values)} is a {type(values).__name__}; allowed is {allowed}")
    return list(values)


def as_options(options: object) -> dict[str, Any]:
    """The options of a reset as a new dict; none for None.

    Raises:
        TypeError: for something else than None and dicts.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise TypeError(f"options={shown(options)} is a {type(options).__name__}; allowed is a dict, or None")
    return dict(options)


def is_zero_or_one(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which elements of an array are 0 or 1, in its shape; none of an array that does not hold numbers."""
    try:
        return np.isin(values, (0, 1))
    except TypeError:  # records, and objects that cannot be compared
        return np.zeros(values.shape, bool)


def shown(value: object, most: int = 80) -> str:
    """The ``repr`` of a value, cut to ``most`` characters, for errors."""
    try:
        text = repr(value)
    except RecursionError:
        text = f"a deeply nested {type(value).__name__}"
    return text if len(text) <= most else text[: most - 3] + "..."
