"""Options as frozen dataclasses that nest: types say what is allowed, the ``Args`` of the docstrings what it is.

    @dataclass(frozen=True)
    class Options:
        count: Annotated[int, Whole(1, 100)] = 3
        rate: Annotated[float, Number("a number above 0, at most 1", 0, 1, "(]")] = 0.5
        mode: Literal["fast", "exact"] = "fast"

        def __post_init__(self) -> None:
            check_options(self)

In a tree of them every option has a name of its own, by which it is known outside: on the command line, in a file.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeGuard, TypeVar, get_args, get_origin, get_type_hints

from sera_maze.envs.ground.checks import as_number, check_choice, check_flag, check_int, did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Tree = TypeVar("Tree", bound=DataclassInstance)

_ENTRY = re.compile(r"^    (\w[\w, ]*): ", re.MULTILINE)


@dataclass(frozen=True)
class Whole:
    """Whole numbers from ``low`` to ``high``."""

    low: int
    high: int

    def check(self, name: str, value: object) -> int:
        """``value`` as an int, or a TypeError or ValueError that names the option."""
        return check_int(name, value, self.low, self.high)


@dataclass(frozen=True)
class Number:
    """Real numbers between two ends.

    Args:
        allowed: the range in words, for errors.
        low: one end.
        high: the other; an infinite one is allowed if ``ends`` says that it belongs to the range.
        ends: "[]", "[)", "(]" or "()", square where the end belongs to the range.
    """

    allowed: str
    low: float = 0.0
    high: float = math.inf
    ends: str = "[)"

    def check(self, name: str, value: object) -> float:
        """``value`` as a float, or a TypeError or ValueError that names the option."""
        number = as_number(name, value, self.allowed)
        is_end = (number == self.low and self.ends[0] == "[") or (number == self.high and self.ends[1] == "]")
        if not (is_end or self.low < number < self.high):
            raise ValueError(f"{name}={value!r} is out of range; allowed is {self.allowed}")
        return number


@functools.cache
def option_types(kind: type[DataclassInstance]) -> dict[str, Any]:
    """Name -> annotated type of the fields of a dataclass, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}


def without_none(kind: Any) -> tuple[Any, bool]:
    """A type without the None that may stand beside it, and whether it did."""
    others = [part for part in get_args(kind) if part is not type(None)]
    return (others[0], True) if type(None) in get_args(kind) and len(others) == 1 else (kind, False)


def check_options(options: DataclassInstance) -> None:
    """Check the fields of a frozen dataclass by their types; whole and real numbers become int and float.

    Raises:
        ValueError, TypeError: for the first one that is not allowed, naming it.
    """
    for name, kind in option_types(type(options)).items():
        object.__setattr__(options, name, _checked(name, getattr(options, name), kind))


def _checked(name: str, value: Any, kind: Any) -> Any:
    kind, may_be_none = without_none(kind)
    if value is None and may_be_none:
        return None
    if get_origin(kind) is Literal:
        check_choice(name, value, get_args(kind))
    elif kind is bool:
        check_flag(name, value)
    elif get_origin(kind) is Annotated:
        return kind.__metadata__[0].check(name, value)
    elif isinstance(kind, type) and is_dataclass(kind) and not isinstance(value, kind):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}; allowed is {kind.__name__}")
    return value


def is_tree(value: object) -> TypeGuard[DataclassInstance]:
    """Whether an option's value is itself a tree of options."""
    return is_dataclass(value) and not isinstance(value, type)


def leaves(tree: DataclassInstance) -> dict[str, Any]:
    """Name -> value of every option in a tree."""
    found: dict[str, Any] = {}
    for field in fields(tree):
        value = getattr(tree, field.name)
        found |= leaves(value) if is_tree(value) else {field.name: value}
    return found


def changed(tree: Tree, changes: Mapping[str, Any]) -> Tree:
    """A tree with other values of some options, by their names.

    Raises:
        TypeError: for a name that is none of an option.
        ValueError, TypeError: for values that are not allowed.
    """
    known = leaves(tree)
    for name in changes:
        if name in known:
            continue
        raise TypeError(f"{name!r} is no option of {type(tree).__name__}{did_you_mean(name, known)}")
    return _changed(tree, changes)


def _changed(tree: Tree, changes: Mapping[str, Any]) -> Tree:
    parts = {}
    for field in fields(tree):
        value = getattr(tree, field.name)
        parts[field.name] = _changed(value, changes) if is_tree(value) else changes.get(field.name, value)
    return replace(tree, **parts)


def differences(one: DataclassInstance, other: DataclassInstance) -> dict[str, tuple[Any, Any]]:
    """Name -> both values of the options in which two trees of one kind differ."""
    others = leaves(other)
    return {name: (value, others[name]) for name, value in leaves(one).items() if value != others[name]}


def descriptions(kind: type) -> dict[str, str]:
    """Name -> what the ``Args`` of a class's docstring say about it, on one line."""
    _, _, arguments = inspect.cleandoc(kind.__doc__ or "").partition("\nArgs:\n")
    _, *parts = _ENTRY.split(re.split(r"\n\n(?=\S)", arguments)[0])  # name, text, name, text, ...
    return {name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)}
