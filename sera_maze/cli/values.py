"""How the values of options are read, with errors that name what is allowed and the nearest of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from sera_maze.envs.ground.checks import did_you_mean

VALUES = ConstructorRegistry()
_SCALARS = {int: "a whole number", float: "a number", str: "text", Path: "a path"}


class _Kind(NamedTuple):
    """How a kind of values is written: in how many words, what help calls it, and how it is read from its words."""

    words: int | Literal["*"]
    metavar: str
    read: Callable[[list[str]], Any]


@VALUES.primitive_rule
def _ours(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Numbers, texts, paths, choices, tuples of these, and none beside one of these; the others are tyro's."""
    kind = _kind(info.type)
    if kind is None:
        return None
    return PrimitiveConstructorSpec(kind.words, kind.metavar, kind.read, lambda value: True, _as_words)


def _as_words(value: Any) -> list[str]:
    return [str(part) for part in value] if isinstance(value, tuple) else [str(value)]


def _kind(annotation: Any) -> _Kind | None:
    if annotation in _SCALARS:
        return _scalar(annotation)
    if get_origin(annotation) is Literal:
        return _choice(get_args(annotation))
    if get_origin(annotation) is tuple:
        return _tuple(get_args(annotation))
    if get_origin(annotation) in (Union, UnionType):
        return _or_none(get_args(annotation))
    return None


def _scalar(kind: type) -> _Kind:
    def read(words: list[str]) -> Any:
        try:
            return kind(words[0])
        except ValueError:
            raise ValueError(f"{words[0]!r} is not {_SCALARS[kind]}") from None

    return _Kind(1, kind.__name__.upper(), read)


def _choice(values: tuple[Any, ...]) -> _Kind:
    allowed = {str(value): value for value in values}

    def read(words: list[str]) -> Any:
        if words[0] not in allowed:
            near = did_you_mean(words[0], allowed)
            raise ValueError(f"{words[0]!r} is not known; allowed are {', '.join(allowed)}{near}")
        return allowed[words[0]]

    return _Kind(1, f"{{{','.join(allowed)}}}", read)


def _tuple(annotations: tuple[Any, ...]) -> _Kind | None:
    """As many of one kind as its annotations, or any number where the second is an ellipsis."""
    element = _kind(annotations[0])
    if element is None or element.words != 1:
        return None

    def read(words: list[str]) -> Any:
        return tuple(element.read([word]) for word in words)

    if annotations[1:] == (...,):
        return _Kind("*", f"[{element.metavar} [...]]", read)
    return _Kind(len(annotations), " ".join([element.metavar] * len(annotations)), read)


def _or_none(annotations: tuple[Any, ...]) -> _Kind | None:
    """One kind, or a word that stands for none: the only value of a Literal, or "None", which nobody needs to know."""
    kind, other = _kind(annotations[0]), annotations[1]
    is_none = other is NoneType or len(get_args(other)) == 1
    if kind is None or kind.words not in (1, "*") or len(annotations) != 2 or not is_none:
        return None
    value = None if other is NoneType else get_args(other)[0]

    def read(words: list[str]) -> Any:
        if words == [str(value)]:
            return value
        try:
            return kind.read(words)
        except ValueError as error:
            if value is None:
                raise
            raise ValueError(f"{error}; {value} is allowed, too{did_you_mean(words[0], [value])}") from None

    metavar = kind.metavar if value is None else f"{kind.metavar}|{{{value}}}"
    return _Kind(kind.words, metavar, read)
