"""The words around pictures: whole and inside their room at every width."""

import os
import subprocess
import sys

import numpy as np
import pytest

from sera_maze.envs.pictures.canvas import PALETTE, blank, pygame
from sera_maze.envs.pictures.legends import (
    MIN_TEXT_WIDTH,
    colour_bar,
    font_file,
    font_size,
    marker_legend,
    path_legend,
    text_line,
    text_lines,
)

WIDTHS = [MIN_TEXT_WIDTH, 97, 110, 130, 160, 200, 300, 512, 1000]


def pixels(surface):
    page = blank(*surface.get_size())
    page.blit(surface, (0, 0))
    return pygame.surfarray.array3d(page).swapaxes(0, 1).astype(int)


def is_grey(array):
    return array.max(axis=-1) - array.min(axis=-1) < 40


def ink(surface):
    """How much text there is: the darkness of all grey pixels."""
    array = pixels(surface)
    return float((255 - array.mean(axis=-1))[is_grey(array)].sum())


def font_ratio(width, other):
    return (font_size(width) / font_size(other)) ** 2


@pytest.mark.parametrize("text", ["several short words in a row", "incomprehensibilities", "a incomprehensibilities b"])
@pytest.mark.parametrize("width", [20, 45, 60, 90])
def test_wrapped_text_is_whole(text, width):
    whole, wrapped = text_lines(text, 14, 1000), text_lines(text, 14, width)
    assert wrapped.get_width() <= width < whole.get_width()
    assert wrapped.get_height() % whole.get_height() == 0
    assert ink(wrapped) == pytest.approx(ink(whole), rel=0.05)


def test_lines_break_at_spaces_first_and_where_the_text_says_so():
    word = text_lines("maze", 14, 1000)
    two_lines = text_lines("maze maze", 14, word.get_width() + 5)
    assert two_lines.get_size() == (word.get_width(), 2 * word.get_height())
    assert text_lines("maze\nmaze", 14, 1000).get_size() == two_lines.get_size()
    assert text_lines("", 14, 1000).get_size() == (0, 0)


def test_words_are_in_dejavu_sans_and_matplotlib_is_not_loaded_for_it():
    file = font_file()
    assert file is not None
    assert file.name == "DejaVuSans.ttf"
    code = (
        "import sys; from sera_maze.envs.pictures.legends import text_lines; text_lines('maze', 14, 100); "
        "assert 'matplotlib' not in sys.modules"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env=environ, check=True)


def test_without_matplotlib_words_are_in_the_font_of_pygame(monkeypatch):
    usual = ink(text_lines("maze", 14, 1000))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for kept in (font_file, text_line):
        kept.cache_clear()
    other = text_lines("maze", 14, 1000)
    for kept in (font_file, text_line):
        kept.cache_clear()
    assert ink(other) > 0
    assert ink(other) != usual


@pytest.mark.parametrize("width", WIDTHS)
def test_colour_bar_fits_its_width_whole(width):
    low, high = -1.234e-100, 5.678e-100
    wide = colour_bar(low, high, "success probability", 1000)
    legend = colour_bar(low, high, "success probability", width)
    assert legend.get_width() <= width
    assert ink(legend) == pytest.approx(ink(wide) * font_ratio(width, 1000), rel=0.1)
    array = pixels(legend)
    bar = (~is_grey(array)).sum(axis=1)
    assert bar.max() >= 4 * font_size(width)
    assert np.count_nonzero(bar >= 4 * font_size(width)) == font_size(width)


def test_numbers_without_room_beside_one_another_stand_one_under_another():
    line = text_lines("0", 14, 96).get_height()
    short, long = colour_bar(0.25, 1, "", 96), colour_bar(-1.234e-100, 5.678e-100, "", 96)
    assert long.get_height() == short.get_height() + line


@pytest.mark.parametrize("width", WIDTHS)
def test_other_legends_fit_their_width_whole(width):
    for make in (
        lambda room: path_legend(123, 1, room),
        lambda room: marker_legend(("start", "goal", "agent"), room),
    ):
        legend, wide = make(width), make(1000)
        assert legend.get_width() <= width
        assert ink(legend) == pytest.approx(ink(wide) * font_ratio(width, 1000), rel=0.1)


def test_legends_in_one_row_where_there_is_room():
    heights = [marker_legend(("start", "goal", "agent"), width).get_height() for width in (96, 130, 300)]
    assert heights[0] > heights[1] > heights[2] == font_size(300) + 4


@pytest.mark.parametrize(("successes", "failures"), [(1, 2), (2, 1)])
def test_path_legend_knows_one_from_many(successes, failures):
    legend = path_legend(successes, failures, 512)
    plural = path_legend(2, 2, 512)
    assert legend.get_width() < plural.get_width()


def test_path_legend_shows_both_colours():
    array = pixels(path_legend(1, 1, 512))
    for colour in (PALETTE.success, PALETTE.failure):
        assert (array == colour).all(axis=-1).any()
