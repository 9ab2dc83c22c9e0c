"""A tree of options on the command line: a flag for each by its bare name, with the help of its docstring."""

from __future__ import annotations

import inspect
from dataclasses import fields, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import tyro

from sera_maze.cli.choices import parse_size
from sera_maze.envs.ground.options import descriptions, is_tree, leaves, option_types, without_none

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_NONE = "none"
_UNLESS_GIVEN = "; None: "  # what follows it in a description decides where the option is None


def flags(tree: DataclassInstance) -> Any:
    """A dataclass for tyro with the tree's options, unchecked; the values of the tree are its defaults.

    tyro would end the program where a class of the tree refuses a value. So it gets the values in classes that refuse
    none, and the tree is made from them with `options_of`.
    """
    texts, types = descriptions(type(tree)), option_types(type(tree))
    parts: list[tuple[str, Any, Any]] = []
    for field in fields(tree):
        value = getattr(tree, field.name)
        if is_tree(value):
            part = flags(value)
            parts.append((field.name, type(part), part))
        else:
            parts.append((field.name, *_flag(types[field.name], value, texts.get(field.name, ""))))
    summary = (inspect.getdoc(type(tree)) or "").partition("\n")[0]
    return make_dataclass(type(tree).__name__, parts, frozen=True, namespace={"__doc__": summary})()


def _flag(kind: Any, value: Any, text: str) -> tuple[Any, Any]:
    """The annotation of an option and its default, as tyro takes them."""
    text = text[:1].upper() + text[1:].replace("`", "")
    kind, may_be_none = without_none(kind)
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if kind == tuple[int, int]:
        height, width = value
        return Annotated[str, tyro.conf.arg(help=text, metavar="HEIGHTxWIDTH")], f"{height}x{width}"
    if not may_be_none:
        return Annotated[kind, tyro.conf.arg(help=text)], value
    if value is not None:
        hint = tyro.conf.arg(help=text.replace(_UNLESS_GIVEN, f"; {_NONE}: "))
    else:
        text, _, decides = text.partition(_UNLESS_GIVEN)
        hint = tyro.conf.arg(help=f"{text}.", help_behavior_hint=f"(default: {_NONE}, {decides.rstrip('.')})")
    return Annotated[Union[kind, Literal[_NONE]], hint], _NONE if value is None else value  # noqa: UP007


def options_of(given: DataclassInstance) -> dict[str, Any]:
    """Name -> value of the options that tyro has read into `flags`.

    Raises:
        ValueError: for a size that is none.
    """
    options: dict[str, Any] = {name: None if value == _NONE else value for name, value in leaves(given).items()}
    return {**options, "size": parse_size(options["size"])}
