"""How each method is drawn: the same colour, marker and line in every figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sera_maze.algorithm.options import MaxRLOptions


class Style(NamedTuple):
    """A colour, a marker and a line style of matplotlib, so that no two lines of a figure differ by colour alone."""

    colour: str
    marker: str
    line: str


# Okabe and Ito, Color Universal Design (2008), but for yellow, which is too pale on paper. Methods that share a colour
# do not meet in one figure.
_BLUE, _VERMILION, _GREEN, _PURPLE = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
_ORANGE, _SKY, _BLACK = "#e69f00", "#56b4e9", "#000000"
METHOD_STYLES: dict[str, Style] = {
    "MaxRL, uniform": Style(_VERMILION, "s", "--"),
    "SERA, exact p": Style(_BLUE, "o", "-"),
    "SERA, history": Style(_SKY, "^", "-"),
    "SERA, posterior": Style(_GREEN, "v", "-"),
    "SERA, critic": Style(_PURPLE, "D", "-"),
    "SERA, critic and history": Style(_PURPLE, "X", "--"),
    "VIP": Style(_ORANGE, "P", "-."),
    "Knapsack": Style(_BLACK, "x", ":"),
    "SERA, exact p, no correction": Style(_PURPLE, "D", ":"),
    "success average": Style(_ORANGE, "P", "--"),
    "RLOO": Style(_BLACK, "x", "-."),
    "GRPO": Style(_GREEN, "v", "-."),
    "REINFORCE": Style(_SKY, "^", "-."),
}
# For lines of other methods; the darker colours first.
_COLOURS = (_BLUE, _VERMILION, _GREEN, _PURPLE, _ORANGE, _SKY, _BLACK)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
_LINES = ("-", "--", "-.", ":")
_SERA = {"exact": "exact p", "history": "history", "critic": "critic", "critic_history": "critic and history"}
_ALLOCATORS = {"uniform": "MaxRL, uniform", "sera_posterior": "SERA, posterior", "vip": "VIP", "knapsack": "Knapsack"}
_ADVANTAGES = {"rloo": "RLOO", "grpo": "GRPO", "reinforce": "REINFORCE"}


def method_of(options: MaxRLOptions) -> str | None:
    """The name in `METHOD_STYLES` of the method that options choose; None if it has none."""
    if options.advantage != "maxrl":
        return _ADVANTAGES.get(options.advantage) if options.allocator == "uniform" else None
    if options.allocator == "sera":
        return f"SERA, {_SERA[options.success]}" if options.success in _SERA else None
    return _ALLOCATORS.get(options.allocator)


def styles_of(methods: Sequence[str | None]) -> list[Style]:
    """A style for each line of a figure: that of its method, or a free one where it has none or is not the first.

    Args:
        methods: names in `METHOD_STYLES`, or None.
    """
    own = [
        METHOD_STYLES[method] if method in METHOD_STYLES and methods.index(method) == i else None
        for i, method in enumerate(methods)
    ]
    used = {style.colour for style in own if style is not None}
    colours = sorted(_COLOURS, key=lambda colour: colour in used)  # those that nobody has come first
    numbers = range(len(methods) + len(METHOD_STYLES))
    kinds = (colours, _MARKERS, _LINES)
    free = (Style(*(kind[i % len(kind)] for kind in kinds)) for i in numbers)
    others = (style for style in free if style not in own)
    return [next(others) if style is None else style for style in own]
