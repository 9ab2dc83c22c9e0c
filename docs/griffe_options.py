"""For mkdocstrings: the options of `MaxRL` in its docstring, as Python puts them there when it is imported."""

from __future__ import annotations

from typing import Any

import griffe

from sera_maze.algorithm.options import with_options


class Options(griffe.Extension):
    """Replaces the line ``options`` of docstrings."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """See `with_options`."""
        if cls.docstring and "\n    options\n" in cls.docstring.value:
            cls.docstring.value = with_options(cls.docstring.value) or ""
