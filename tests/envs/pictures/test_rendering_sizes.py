"""Pictures at every cell size: what small squares show, and that legends show the same."""

import numpy as np
import pytest

from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.pictures.canvas import PALETTE
from sera_maze.envs.pictures.drawing import draw_layout, draw_paths
from sera_maze.envs.pictures.sheets import to_array

# A corridor wide enough for words below it at any size: 101 squares.
CORRIDOR = MazeLayout.from_text(f"{'#' * 101}\n#S{' ' * 97}G#\n{'#' * 101}")
FAILURE = [(1, column) for column in range(1, 40)]
SUCCESS = [(1, column) for column in range(1, 100)]


def is_colour(pixels, colour):
    return (pixels == np.array(colour)).all(axis=-1)


def box_of(pixels, colour):
    """The smallest part of a picture that holds all pixels of a colour: which of its pixels have it."""
    rows, columns = np.nonzero(is_colour(pixels, colour))
    return is_colour(pixels, colour)[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]


@pytest.mark.parametrize("cell_size", [2, 3, 6, 7, 20])
def test_path_legends_show_dashes_and_crosses_that_are_drawn(cell_size):
    pixels = to_array(draw_paths(CORRIDOR, [FAILURE], [False], cell_size=cell_size, max_opacity=1))
    picture, legend = np.split(pixels, [3 * cell_size])
    inside = is_colour(picture[:, 10 * cell_size : 20 * cell_size], PALETTE.failure).sum(axis=0)
    end = is_colour(picture[:, 38 * cell_size : 40 * cell_size], PALETTE.failure).any(axis=1).sum()
    has_dashes, has_cross = inside.min() == 0, end > inside.max()
    assert (has_dashes, has_cross) == ((True, True) if cell_size >= 7 else (False, False))
    swatch = box_of(legend, PALETTE.failure)
    # A line is a quarter as high as the text, a cross nearly as high.
    assert (len(swatch) > 7) == has_cross


@pytest.mark.parametrize("paths", [[SUCCESS], []])
def test_path_legends_have_no_cross_where_nothing_failed(paths):
    successes = [True] * len(paths)
    for drawn, flags, has_cross in ((paths, successes, False), ([*paths, FAILURE], [*successes, False], True)):
        legend = to_array(draw_paths(CORRIDOR, drawn, flags, cell_size=20))[60:]
        assert (len(box_of(legend, PALETTE.failure)) > 7) == has_cross


@pytest.mark.parametrize(("cell_size", "shapes"), [(1, "full"), (2, "full"), (3, "frame"), (6, "frame"), (7, "round")])
def test_marker_legends_show_the_shapes_of_the_picture(cell_size, shapes):
    pixels = to_array(draw_layout(CORRIDOR, cell_size=cell_size, legend=True))
    for part in np.split(pixels, [3 * cell_size]):
        start, goal = box_of(part, PALETTE.start), box_of(part, PALETTE.goal)
        assert goal.all() == (shapes != "round")
        assert start.all() == (shapes == "full")
        assert start[0].all() == (shapes != "round")


def test_65_by_65_squares_have_shapes_at_their_default_size():
    walls = np.ones((65, 65), bool)
    walls[1, 1:-1] = False
    layout = MazeLayout(walls, (1, 1), (1, 63))
    picture = to_array(draw_paths(layout, [FAILURE[:5]], [False], legend=False, max_opacity=1))
    assert picture.shape == (65 * 7, 65 * 7, 3)
    start, goal, end = (picture[7:14, 7 * column : 7 * column + 7] for column in (1, 63, 5))
    ring, star = is_colour(start, PALETTE.start), is_colour(goal, PALETTE.goal)
    assert (ring.any(), ring[0].all(), ring[3, 3]) == (True, False, False)
    assert (star[3, 3], star[0].all()) == (True, False)
    assert is_colour(end, PALETTE.failure).any(axis=1).sum() > 3  # a cross, where a line has one pixel


def test_a_maze_too_large_to_be_drawn_says_so():
    walls = np.ones((3, 40_000_000), bool)
    walls[1, 1:4] = False
    layout = MazeLayout._trusted(walls, (1, 1), (1, 3))
    for cell_size in (None, 1):
        with pytest.raises(ValueError, match=r"3x40000000 squares is too large to be drawn: .* at most 100000000"):
            draw_layout(layout, cell_size=cell_size)
