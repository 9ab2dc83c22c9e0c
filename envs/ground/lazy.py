"""Public names of a package that load their module on first use."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str], rooms: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: its name, ``__name__``.
        homes: public name -> module that has it, relative to the package, such as ``"play.maze"``.
        rooms: packages in it whose public names may be looked for in the package itself.
    """

    def load(name: str) -> Any:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        message = f"module {package!r} has no attribute {name!r}"
        # A module that is about to be imported is looked for here first; names with "_" are asked for by tools.
        if name.startswith("_") or find_spec(f"{package}.{name}") is not None:
            raise AttributeError(message)
        found = {public: f"{package}.{room}" for room in rooms for public in import_module(f"{package}.{room}").__all__}
        message += _hint(name, package, found | dict.fromkeys(homes, package))
        if _is_imported_from():
            raise ImportError(message, name=package)
        raise AttributeError(message)

    return load, lambda: sorted(homes)


def _hint(name: str, package: str, known: Mapping[str, str]) -> str:
    """Where a name is, or which one is near, among public names and the modules that have them."""
    if name in known:
        return f"; it is in {known[name]}: from {known[name]} import {name}"
    lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), lower, 1, cutoff=0.75)
    if not near:
        return ""
    found = lower[near[0]]
    return f"; did you mean {found!r}" + ("?" if known[found] == package else f" of {known[found]}?")


def _is_imported_from() -> bool:
    """Whether "from package import name" asks for a name, which would drop the message of an AttributeError."""
    frame = sys._getframe(2)
    if frame.f_code.co_name == "__getattr__" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name == "_handle_fromlist"
