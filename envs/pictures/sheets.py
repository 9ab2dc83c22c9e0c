"""Finished pictures: to arrays, to one sheet of many, to PNG and GIF files."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.ground.atomic_files import whole_file
from sera_maze.envs.ground.checks import as_integer, as_list, as_number, check_int
from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.pictures.canvas import PALETTE, Colour, as_cell_size, blank, check_text, pygame
from sera_maze.envs.pictures.drawing import draw_layout
from sera_maze.envs.pictures.legends import text_lines

if TYPE_CHECKING:
    from PIL import Image

_PICTURES = "a list of layouts and Surfaces"
_TILE_SIDE = 160  # pixels, about the longer side of a layout on a sheet
_MARGIN = 16  # pixels between and around the pictures of a sheet
_LABEL_SIZE = 14  # pixels
_LABEL_GAP = 4  # pixels between a picture and its label
_MIN_LABEL_WIDTH = 48  # pixels: labels of narrower pictures have this much room

# A GIF counts in hundredths of a second, in 16 bits; many viewers show delays under 2 hundredths as 10.
_MAX_DELAY = 65_535
_MAX_FRAMES_PER_SECOND = 50
_GIF_COLOURS = 255  # and one that stands for pixels that have not changed
_MAX_FLAT_COLOURS = 4_096


def to_array(surface: pygame.Surface) -> NDArray[np.uint8]:
    """Copy a picture into a new (H, W, 3) uint8 array of red, green and blue; row 0 is at the top.

    Raises:
        TypeError: if ``surface`` is not a pygame Surface.
    """
    if not isinstance(surface, pygame.Surface):
        raise TypeError(f"surface must be a pygame.Surface, got {type(surface).__name__}")
    pixels: NDArray[np.uint8] = pygame.surfarray.array3d(surface)
    return np.ascontiguousarray(pixels.swapaxes(0, 1))


def contact_sheet(
    pictures: Sequence[MazeLayout | pygame.Surface],
    *,
    columns: int | None = None,
    cell_size: int | None = None,
    labels: Sequence[str] | None = None,
    background: Colour = PALETTE.page,
) -> pygame.Surface:
    """Put many pictures on one sheet, row by row from the top left, with equal margins.

    Each row is as high, and each column as wide, as its largest picture; pictures stand on the lower edge of their row.

    Args:
        pictures: layouts, drawn with `draw_layout`, and Surfaces, taken as they are; sizes may differ.
        columns: pictures in a row, at least 1; None makes the sheet about square, rather wide than high.
        cell_size: pixels a square of layouts; None chooses for each one with which its longer side has about 160.
        labels: a text below each picture, as many as pictures; long ones are wrapped.
        background: (red, green, blue) from 0 to 255.

    Returns:
        A Surface in memory; no display is needed.

    Raises:
        TypeError: for other things than layouts and Surfaces, columns that are not an integer, and a colour that is not
            three integers.
        ValueError: for no pictures, columns below 1, another number of labels than pictures, colours out of range.
    """
    page = _as_colour(background)
    tiles = [_as_tile(picture, i, cell_size) for i, picture in enumerate(as_list("pictures", pictures, _PICTURES))]
    if not tiles:
        raise ValueError("pictures is empty; allowed is at least one layout or Surface")
    captions = _captions(labels, tiles, page)
    places = list(zip(tiles, captions, strict=True))
    across = _as_columns(columns, tiles)
    rows = [places[i : i + across] for i in range(0, len(places), across)]
    widths = [max(image.get_width() for place in places[i::across] for image in place) for i in range(across)]
    heights = [max(tile.get_height() for tile, _ in row) for row in rows]
    below = [max(caption.get_height() for _, caption in row) for row in rows]
    below = [height + _LABEL_GAP if height else 0 for height in below]
    sheet = blank(sum(widths) + _MARGIN * (across + 1), sum(heights) + sum(below) + _MARGIN * (len(rows) + 1), page)
    top = _MARGIN
    for row, height, label_height in zip(rows, heights, below, strict=True):
        left = _MARGIN
        for (tile, caption), width in zip(row, widths, strict=False):  # the last row may be shorter
            sheet.blit(tile, (left + (width - tile.get_width()) // 2, top + height - tile.get_height()))
            sheet.blit(caption, (left + (width - caption.get_width()) // 2, top + height + _LABEL_GAP))
            left += width + _MARGIN
        top += height + label_height + _MARGIN
    return sheet


def save_png(picture: pygame.Surface | NDArray[np.uint8], path: str | os.PathLike[str]) -> Path:
    """Write a picture, a Surface or (H, W, 3) uint8, as a PNG file, whole or not at all; missing folders are made.

    Returns:
        Where the file lies.

    Raises:
        TypeError: for other things than Surfaces and uint8 arrays.
        ValueError: for an array of another shape, or a path that does not end in .png.
    """
    from PIL import Image  # only files need it

    pixels = _as_pixels("picture", picture)
    target = _as_path(path, ".png")
    with whole_file(target) as file:
        Image.fromarray(pixels).save(file, format="PNG")
    return target


def save_gif(
    frames: Sequence[pygame.Surface | NDArray[np.uint8]],
    path: str | os.PathLike[str],
    *,
    frames_per_second: float = 10,
    loop: bool = True,
) -> Path:
    """Write frames as an animated GIF, whole or not at all; folders that are missing are made.

    A GIF counts in hundredths of a second. Delays are rounded so that frame n ends within half a hundredth of
    n / frames_per_second, and frames equal to the one before lengthen it. The 256 most frequent colours of a frame are
    kept exactly; others become the nearest of these.

    Args:
        frames: Surfaces or (H, W, 3) uint8 arrays, all of one size.
        path: where to write; ends in .gif.
        frames_per_second: over 0 and at most 50 (above, many viewers slow down to 10).
        loop: whether to begin again at the end, for ever.

    Returns:
        Where the file lies.

    Raises:
        TypeError: for other frames than Surfaces and uint8 arrays, and a speed that is no number.
        ValueError: for no frames, frames of different sizes, another suffix, a speed out of range, or a picture that
            stands still for longer than the 655 seconds that a GIF can express.
    """
    listed = as_list("frames", frames, "a list of Surfaces and (H, W, 3) uint8 arrays")
    pixels = [_as_pixels(f"frames[{i}]", frame) for i, frame in enumerate(listed)]
    if not pixels:
        raise ValueError("frames is empty; allowed is at least one frame")
    for i, frame in enumerate(pixels):
        if frame.shape != pixels[0].shape:
            raise ValueError(
                f"frames[{i}] has {frame.shape[0]}x{frame.shape[1]} pixels (height x width), but frames[0] has "
                f"{pixels[0].shape[0]}x{pixels[0].shape[1]}; all frames of a GIF have one size"
            )
    delays = _delays(pixels, frames_per_second)
    target = _as_path(path, ".gif")
    images = [_indexed(frame) for frame in pixels]
    repeat = {"loop": 0} if loop else {}
    with whole_file(target) as file:
        images[0].save(
            file, format="GIF", save_all=True, append_images=images[1:], duration=[10 * delay for delay in delays],
            disposal=1, optimize=True, **repeat,
        )  # fmt: skip
    return target


def _as_tile(picture: object, index: int, cell_size: int | None) -> pygame.Surface:
    if isinstance(picture, MazeLayout):
        return draw_layout(picture, cell_size=as_cell_size(cell_size, picture, _TILE_SIDE))
    if isinstance(picture, pygame.Surface):
        return picture
    raise TypeError(f"pictures[{index}] is {type(picture).__name__}; allowed are MazeLayout and pygame.Surface")


def _captions(labels: Sequence[str] | None, tiles: Sequence[pygame.Surface], page: Colour) -> list[pygame.Surface]:
    texts = [""] * len(tiles) if labels is None else [check_text(f"labels[{i}]", x) for i, x in enumerate(labels)]
    if isinstance(labels, str) or len(texts) != len(tiles):
        raise ValueError(f"labels={labels!r} holds {len(texts)} texts for {len(tiles)} pictures; give one for each")
    colour = PALETTE.text if sum(page) > 3 * 128 else PALETTE.page
    widths = [max(_MIN_LABEL_WIDTH, tile.get_width()) for tile in tiles]
    return [text_lines(text, _LABEL_SIZE, width, colour) for text, width in zip(texts, widths, strict=True)]


def _as_colour(background: Colour) -> Colour:
    allowed = "(red, green, blue), three integers from 0 to 255"
    parts = [check_int(f"background[{i}]", x, 0, 255) for i, x in enumerate(as_list("background", background, allowed))]
    if len(parts) != 3:
        raise ValueError(f"background={background!r} has {len(parts)} parts; allowed is {allowed}")
    return parts[0], parts[1], parts[2]


def _as_columns(columns: int | None, tiles: Sequence[pygame.Surface]) -> int:
    if columns is None:
        aspect = sum(tile.get_height() for tile in tiles) / sum(tile.get_width() for tile in tiles)
        across = max(1, math.ceil(math.sqrt(len(tiles) * aspect) - 1e-9))
        return math.ceil(len(tiles) / math.ceil(len(tiles) / across))  # as few empty places as that many rows allow
    number = as_integer(columns)
    if number is None:
        raise TypeError(f"columns={columns!r} is not an integer; it counts the pictures in a row")
    if number < 1:
        raise ValueError(f"columns={number} is out of range; allowed is 1 and more, or None for an about square sheet")
    return min(number, len(tiles))


def _as_pixels(name: str, picture: object) -> NDArray[np.uint8]:
    if isinstance(picture, pygame.Surface):
        return to_array(picture)
    if not isinstance(picture, np.ndarray):
        raise TypeError(f"{name} is {type(picture).__name__}; allowed are pygame.Surface and (H, W, 3) uint8 arrays")
    if picture.dtype != np.uint8:
        raise TypeError(f"{name} has dtype {picture.dtype}; allowed is uint8, with colours from 0 to 255")
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.size == 0:
        raise ValueError(f"{name} has shape {picture.shape}; allowed is (H, W, 3) with H and W at least 1")
    return picture


def _as_path(path: str | os.PathLike[str], suffix: str) -> Path:
    target = Path(path)
    if target.suffix.lower() != suffix:
        raise ValueError(f"path={str(path)!r} does not end in {suffix}; give the file's name with this suffix")
    return target


def _delays(frames: Sequence[NDArray[np.uint8]], frames_per_second: float) -> list[int]:
    """The delay after each frame in hundredths of a second; their sum is the length of the film, rounded once."""
    allowed = f"a number over 0 and at most {_MAX_FRAMES_PER_SECOND}"
    if not 0 < as_number("frames_per_second", frames_per_second, allowed) <= _MAX_FRAMES_PER_SECOND:
        raise ValueError(
            f"frames_per_second={frames_per_second!r} is out of range; allowed is over 0 and at most "
            f"{_MAX_FRAMES_PER_SECOND}: many viewers show faster GIFs at 10"
        )
    ends = [math.floor(100 * i / frames_per_second + 0.5) for i in range(len(frames) + 1)]
    still = 0
    for i in range(len(frames)):
        # Equal frames are written once, with the sum of their delays.
        if i and not np.array_equal(frames[i], frames[i - 1]):
            still = i
        if ends[i + 1] - ends[still] > _MAX_DELAY:
            raise ValueError(
                f"at frames_per_second={frames_per_second!r} frames {still} to {i} show one picture for "
                f"{(ends[i + 1] - ends[still]) / 100} seconds, and a GIF can show one for {_MAX_DELAY / 100}; raise "
                "frames_per_second or take out frames"
            )
    return [after - before for before, after in itertools.pairwise(ends)]


def _indexed(pixels: NDArray[np.uint8]) -> Image.Image:
    """Turn (H, W, 3) into an image with a palette, the most frequent colours exact.

    Pillow's own quantizers average colours, so that walls would change their colour from frame to frame.
    """
    from PIL import Image  # only files need it

    red, green, blue = np.moveaxis(pixels.astype(np.int32), -1, 0)
    packed, index, counts = np.unique(red << 16 | green << 8 | blue, return_inverse=True, return_counts=True)
    if len(packed) > _MAX_FLAT_COLOURS:
        return Image.fromarray(pixels).quantize(_GIF_COLOURS, dither=Image.Dither.NONE)
    colours = np.stack([packed >> 16, packed >> 8 & 255, packed & 255], axis=-1)
    kept = np.sort(np.argsort(-counts, kind="stable")[:_GIF_COLOURS])
    nearest = np.square(colours[:, None] - colours[None, kept]).sum(axis=-1).argmin(axis=1)
    image = Image.fromarray(nearest.astype(np.uint8)[index.reshape(pixels.shape[:2])])
    image.putpalette(colours[kept].astype(np.uint8).tobytes())
    return image
