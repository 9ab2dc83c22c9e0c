"""The words of a page: lines, small tables, and the list of keys."""

from __future__ import annotations

from collections.abc import Sequence

from sera_maze.envs.pictures.canvas import PALETTE, Colour, blank, pygame
from sera_maze.envs.pictures.legends import text_line, wrapped

Line = tuple[str, bool]  # a text, and whether it is a heading
_HEADING: Colour = PALETTE.agent
_RULE: Colour = (190, 194, 200)
_LEAST_IN_ROOM = 11  # pixels: a list of keys with smaller text takes the whole page


def font_size(height: int) -> int:
    """Pixels of the text in a window of so many pixels."""
    return min(28, max(11, height // 40))


def column_of_text(
    parts: Sequence[Line | pygame.Surface], width: int, height: int, size: int, page: Colour = PALETTE.page
) -> pygame.Surface:
    """Lines and pictures one under another on a page of (width, height) pixels; lines are wrapped at spaces."""
    surface = blank(width, height, page)
    y = 0
    for part in parts:
        if isinstance(part, pygame.Surface):
            surface.blit(part, (0, y))
            y += part.get_height() + size // 2
            continue
        line, is_heading = part
        for piece in wrapped(line, size, width):
            surface.blit(text_line(piece, size, _HEADING if is_heading else PALETTE.text), (0, y))
            y += round(1.25 * size) if piece else size // 2
    return surface


def column_height(parts: Sequence[Line | pygame.Surface], width: int, size: int) -> int:
    """Pixels that `column_of_text` needs for its parts."""
    height = 0
    for part in parts:
        if isinstance(part, pygame.Surface):
            height += part.get_height() + size // 2
        else:
            height += sum(round(1.25 * size) if piece else size // 2 for piece in wrapped(part[0], size, width))
    return height


def table(rows: Sequence[Sequence[str]], size: int, width: int, longest: str) -> pygame.Surface:
    """A small table, its columns to the right and a rule below the first row; one that is too wide is turned.

    Args:
        rows: the texts, equally many in each row; the first row and the first column are heads.
        size: pixels of the text.
        width: pixels there are.
        longest: the longest text that may come but for heads: which way the table lies depends on it alone.
    """
    columns = list(zip(*rows, strict=True))
    least = text_line(longest, size).get_width()
    widths = [
        max(least if i else 0, *(text_line(cell, size).get_width() for cell in column))
        for i, column in enumerate(columns)
    ]
    gap, line = size // 2, round(1.35 * size)
    total = sum(widths) + gap * (len(columns) - 1)
    if total > width and len(columns) > len(rows):
        return table(columns, size, width, longest)
    surface = blank(total, line * len(rows) + 2)
    right = 0
    for column, wide in zip(columns, widths, strict=True):
        right += wide
        for i, cell in enumerate(column):
            image = text_line(cell, size)
            surface.blit(image, (right - image.get_width(), i * line + (2 if i else 0)))
        right += gap
    pygame.draw.line(surface, _RULE, (0, line - 1), (total, line - 1))
    return surface


def draw_help(
    page: pygame.Surface, keys: Sequence[tuple[str, str]], room: tuple[int, int, int, int] | None = None
) -> None:
    """Draw the list of keys, as large as it fits, in the middle of a part of a page.

    Args:
        page: drawn onto.
        keys: (key, what it does).
        room: (left, top, width, height) of the mazes, so that the figures beside them stay in sight. Where it is too
            small for the list, the whole page is taken, as it is with None.
    """
    whole = (0, 0, *page.get_size())
    left, top, width, height = whole if room is None else room
    size = min(26, max(10, (height - 20) // round(1.4 * (len(keys) + 1))))
    while size > 10 and _help_width(keys, size) > width - 20:
        size -= 1
    if room is not None and size < _LEAST_IN_ROOM:
        draw_help(page, keys)
        return
    line = round(1.4 * size)
    box = blank(min(width - 20, _help_width(keys, size)), min(height - 20, line * (len(keys) + 1)), PALETTE.floor)
    names = max(text_line(key, size).get_width() for key, _ in keys)
    for i, (key, meaning) in enumerate(keys):
        box.blit(text_line(key, size, PALETTE.agent), (size, line // 2 + i * line))
        box.blit(text_line(meaning, size), (3 * size + names, line // 2 + i * line))
    pygame.draw.rect(box, PALETTE.wall, box.get_rect(), 2)
    page.blit(box, (left + (width - box.get_width()) // 2, top + (height - box.get_height()) // 2))


def _help_width(keys: Sequence[tuple[str, str]], size: int) -> int:
    names, meanings = (
        max(text_line(words, size).get_width() for words in column) for column in zip(*keys, strict=True)
    )
    return names + meanings + 4 * size
