"""The words around pictures: titles, labels, legends and colour bars."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.pictures.canvas import OVERSAMPLING, PALETTE, Colour, Marker, blank, enlarge, marker, pygame

MIN_TEXT_WIDTH = 96  # pixels: narrower pictures have no title and no legend, which could not be read
_EM = 0.8  # of DejaVu Sans, a share of the height of a text: its lines are 1.16 times as high as an em
# Nine evenly spaced colours of viridis (Smith and van der Walt, 2015, CC0), perceptually uniform and readable with all
# common kinds of colour blindness. Its darkest fifth is left out: it could be taken for a wall.
_RAMP = np.array(
    [
        (65, 68, 135), (53, 95, 141), (42, 120, 142), (33, 145, 140), (34, 168, 132),
        (68, 191, 112), (122, 209, 81), (189, 223, 38), (253, 231, 37),
    ]
)  # fmt: skip


def font_size(width: int) -> int:
    """Height in pixels of the text under a picture of ``width`` pixels."""
    return min(20, max(14, width // 28))


@lru_cache(maxsize=2048)
def text_line(line: str, size: int, colour: Colour = PALETTE.text) -> pygame.Surface:
    """Draw one line of text on a transparent Surface; kept, as the viewer draws most lines again: only blit it."""
    # Small letters drawn large and made smaller keep their shapes and distances.
    large = _large_font(size).render(line, True, colour)
    width, height = (math.ceil(side / OVERSAMPLING) for side in large.get_size())
    canvas = pygame.Surface((width * OVERSAMPLING, height * OVERSAMPLING), pygame.SRCALPHA, 32)
    canvas.fill((*colour, 0))
    canvas.blit(large, (0, 0))
    return pygame.transform.smoothscale(canvas, (width, height))


def text_lines(text: str, size: int, width: int, colour: Colour = PALETTE.text) -> pygame.Surface:
    """Draw text, `wrapped` at ``width`` pixels, on a transparent Surface, each line centred."""
    images = [text_line(line, size, colour) for part in text.splitlines() for line in wrapped(part, size, width)]
    line_height = round(1.1 * _large_font(size).get_height() / OVERSAMPLING)
    longest = max((image.get_width() for image in images), default=0)
    canvas = pygame.Surface((longest, line_height * len(images)), pygame.SRCALPHA, 32)
    canvas.fill((*colour, 0))
    for i, image in enumerate(images):
        canvas.blit(image, ((longest - image.get_width()) // 2, i * line_height))
    return canvas


@lru_cache(maxsize=2048)
def wrapped(text: str, size: int, width: int) -> tuple[str, ...]:
    """The lines of a text that are at most ``width`` pixels wide: they break at spaces, long words anywhere."""
    font, lines = _large_font(size), [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if font.size(joined)[0] <= width * OVERSAMPLING:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        for letter in word:
            if lines[-1] and font.size(lines[-1] + letter)[0] > width * OVERSAMPLING:
                lines.append("")
            lines[-1] += letter
    return tuple(lines)


def _large_font(size: int) -> pygame.font.Font:
    if not pygame.font.get_init():
        pygame.font.init()
    file = font_file()
    if file is None:
        return pygame.font.Font(None, size * OVERSAMPLING)
    return pygame.font.Font(str(file), round(_EM * size * OVERSAMPLING))


@cache
def font_file() -> Path | None:
    """The DejaVu Sans that comes with matplotlib, which is not imported; None, for pygame's own font, without it."""
    found = importlib.util.find_spec("matplotlib")
    folders = [] if found is None else found.submodule_search_locations or []
    files = [Path(folder, "mpl-data", "fonts", "ttf", "DejaVuSans.ttf") for folder in folders]
    return next((file for file in files if file.is_file()), None)


def row_width(images: Sequence[pygame.Surface], gap: int) -> int:
    """Width in pixels of images side by side."""
    return sum(image.get_width() for image in images) + gap * max(0, len(images) - 1)


def side_by_side(images: Sequence[pygame.Surface], gap: int) -> pygame.Surface:
    """Put images one beside another, each centred."""
    height = max(image.get_height() for image in images)
    whole = blank(row_width(images, gap), height)
    x = 0
    for image in images:
        whole.blit(image, (x, (height - image.get_height()) // 2))
        x += image.get_width() + gap
    return whole


def stack(images: Sequence[pygame.Surface], gap: int = 0) -> pygame.Surface:
    """Put images one under another, each centred."""
    width = max(image.get_width() for image in images)
    whole = blank(width, sum(image.get_height() for image in images) + gap * (len(images) - 1))
    y = 0
    for image in images:
        whole.blit(image, ((width - image.get_width()) // 2, y))
        y += image.get_height() + gap
    return whole


def frame(picture: pygame.Surface, title: str, legend: Callable[[int], pygame.Surface] | None) -> pygame.Surface:
    """Put a title above and a legend, drawn for the given width, below; pictures without room come back as they are."""
    width = picture.get_width()
    if width < MIN_TEXT_WIDTH or not (title.strip() or legend):
        return picture
    size = font_size(width)
    space = blank(width, size // 2)
    above = [space, text_lines(title, size + 2, width - size), space] if title.strip() else []
    below = [space, legend(width), space] if legend else []
    return stack([*above, picture, *below])


def marker_legend(kinds: Sequence[Marker], width: int, *, cell_size: int | None = None) -> pygame.Surface:
    """Legend of the markers, shaped as in squares of ``cell_size`` pixels, at most ``width`` pixels wide."""
    return _legend([(marker(kind, font_size(width) + 4, cell_size), kind) for kind in kinds], width)


def path_legend(
    num_successes: int, num_failures: int, width: int, *, has_dashes: bool = True, has_crosses: bool = True
) -> pygame.Surface:
    """Legend of the two kinds of paths with their numbers, as they are drawn, at most ``width`` pixels wide."""
    size = font_size(width)
    success = _swatch(PALETTE.success, min(3 * size, width // 4), size, gap=0)
    failure = _swatch(PALETTE.failure, min(3 * size, width // 4), size, gap=max(2, size // 6) if has_dashes else 0)
    if has_crosses:
        failure.blit(marker("cross", size), (failure.get_width() - size, 0))
    return _legend(
        [
            (success, f"{num_successes} {'success' if num_successes == 1 else 'successes'}"),
            (failure, f"{num_failures} {'failure' if num_failures == 1 else 'failures'}"),
        ],
        width,
    )


def colour_bar(low: float, high: float, label: str, width: int) -> pygame.Surface:
    """Legend of a heat map, at most ``width`` pixels wide: a label and the colours from low to high.

    A bar with low = high has one colour; one with low = NaN says that there are no values.
    """
    size = font_size(width)
    gap = size // 2
    images = [text_lines(label, size, width - size)] if label.strip() else []
    if np.isnan(low):
        return stack([*images, text_lines("no values", size, width - size)])
    ends = [text_lines(f"{value:.4g}", size, width - size) for value in ((low, high) if low < high else (low,))]
    room = width - row_width(ends, gap) - 3 * gap
    beside = len(ends) == 2 and room >= 4 * size
    bar_width = min(room if beside else width - 2 * gap, 16 * size)
    scaled = np.linspace(0, 1, bar_width) if low < high else np.full(bar_width, 0.5)
    bar = pygame.transform.scale(enlarge(ramp_colours(scaled)[None], 1), (bar_width, size))
    if beside:
        return stack([*images, side_by_side([ends[0], bar, ends[1]], gap)], gap // 2)
    spread = bar_width - row_width(ends, 0)
    return stack([*images, bar, side_by_side(ends, spread) if spread >= gap else stack(ends)], gap // 2)


def ramp_colours(scaled: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Colours (..., 3) uint8 of values (...) that go from 0 to 1; those beyond have the colour of the end."""
    places = np.clip(scaled, 0, 1) * (len(_RAMP) - 1)
    channels = [np.interp(places, np.arange(len(_RAMP)), _RAMP[:, i]) for i in range(3)]
    return np.rint(np.stack(channels, axis=-1)).astype(np.uint8)


def _legend(entries: Sequence[tuple[pygame.Surface, str]], width: int) -> pygame.Surface:
    """Put swatches with their texts side by side, in as many rows as ``width`` pixels need."""
    size = font_size(width)
    gap = size // 2
    rows: list[list[pygame.Surface]] = [[]]
    for swatch, text in entries:
        words = text_lines(text, size, width - swatch.get_width() - 3 * gap)
        image = side_by_side([swatch, words], gap)
        if rows[-1] and row_width([*rows[-1], image], 2 * gap) > width - 2 * gap:
            rows.append([])
        rows[-1].append(image)
    return stack([side_by_side(row, 2 * gap) for row in rows], gap // 2)


def _swatch(colour: Colour, width: int, height: int, gap: int) -> pygame.Surface:
    """Four strokes of a line, from faint to dark, with gaps between them."""
    swatch = blank(width, height)
    for i in range(4):
        opacity = (i + 1) / 4
        begin, end = width * i // 4, width * (i + 1) // 4 - gap
        mixed = [round(opacity * c + (1 - opacity) * p) for c, p in zip(colour, PALETTE.page, strict=True)]
        swatch.fill(mixed, (begin, height // 2 - height // 8, end - begin, height // 4))
    return swatch
