"""Pictures of one maze, by their pixels."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.pictures.canvas import PALETTE, pygame
from sera_maze.envs.pictures.drawing import draw_heatmap, draw_layout, draw_paths
from sera_maze.envs.pictures.sheets import to_array

WIDE = MazeLayout.from_text("#######\n#S   G#\n#######")
TALL = MazeLayout.from_text("###\n#S#\n# #\n# #\n# #\n#G#\n###")
# Two ways from start to goal: 4 moves along the top, 8 moves round the bottom.
LOOP = MazeLayout.from_text("#######\n#S   G#\n# ### #\n#     #\n#######")
CROOKED = MazeLayout.from_text("######\n#S  ##\n##  G#\n######")
TOP = [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5)]
BOTTOM = [(1, 1), (2, 1), (3, 1), (3, 2), (3, 3), (3, 4), (3, 5), (2, 5), (1, 5)]
STUCK = [(1, 1), (1, 2), (1, 3)]
SIZES = (1, 2, 7, 30)


def squares(surface, layout):
    """(H, W, cell_size, cell_size, 3): the pixels of each square of a picture without title and legend."""
    height, width = layout.size
    pixels = to_array(surface)
    size = pixels.shape[0] // height
    return pixels.reshape(height, size, width, size, 3).swapaxes(1, 2)


def is_colour(pixels, colour):
    return (pixels == np.array(colour)).all(axis=-1)


def test_importing_opens_no_display_and_prints_nothing():
    code = "import sera_maze.envs.pictures.drawing, pygame; assert not pygame.display.get_init()"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environ.pop("PYGAME_HIDE_SUPPORT_PROMPT", None)
    run = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_drawing_starts_no_display():
    pygame.quit()
    draw_layout(LOOP, agent=(1, 1), legend=True, title="title")
    draw_paths(LOOP, [TOP], [True])
    draw_heatmap(LOOP, LOOP.distances(), label="label")
    assert not pygame.display.get_init()


# ---------------------------------------------------------------------------------------------------------- layouts


@pytest.mark.parametrize("cell_size", SIZES)
@pytest.mark.parametrize("layout", [WIDE, TALL, LOOP, CROOKED], ids=["3x7", "7x3", "5x7", "4x6"])
def test_squares_fill_the_picture_exactly(layout, cell_size):
    surface = draw_layout(layout, cell_size=cell_size)
    height, width = layout.size
    assert surface.get_size() == (width * cell_size, height * cell_size)
    blocks = squares(surface, layout)
    assert is_colour(blocks[layout.walls], PALETTE.wall).all()
    floor = ~layout.walls
    floor[layout.start] = floor[layout.goal] = False
    assert floor.any()
    assert is_colour(blocks[floor], PALETTE.floor).all()
    assert not np.array_equal(blocks[layout.start], blocks[layout.goal])
    assert is_colour(blocks[layout.start], PALETTE.start).any()
    assert is_colour(blocks[layout.goal], PALETTE.goal).any()


@pytest.mark.parametrize("cell_size", [3, 5, 7, 8, 11, 30])
def test_start_goal_and_agent_have_different_shapes(cell_size):
    blocks = squares(draw_layout(WIDE, cell_size=cell_size, agent=(1, 3)), WIDE)
    middle = cell_size // 2
    # A hollow mark, a full mark, and a full mark that leaves the rim of its square free.
    assert (blocks[1, 1, middle, middle] > 240).all()  # the floor, or the white rim of a small ring
    assert is_colour(blocks[1, 5, middle, middle], PALETTE.goal)
    assert is_colour(blocks[1, 3, middle, middle], PALETTE.agent)
    rim = np.ones((cell_size, cell_size), bool)
    rim[1:-1, 1:-1] = False
    assert is_colour(blocks[1, 3][rim], PALETTE.floor).all()


def test_agent_hides_neither_start_nor_goal():
    for cell, colour in ((WIDE.start, PALETTE.start), (WIDE.goal, PALETTE.goal)):
        block = squares(draw_layout(WIDE, cell_size=30, agent=cell), WIDE)[cell]
        assert is_colour(block[15, 15], PALETTE.agent)
        assert is_colour(block, colour).any()


def test_agent_fills_a_square_of_one_pixel():
    assert is_colour(to_array(draw_layout(WIDE, cell_size=1, agent=np.array([1, 2])))[1, 2], PALETTE.agent)


@pytest.mark.parametrize(("width", "cell_size"), [(7, 73), (17, 30), (33, 15), (65, 7), (129, 3), (200, 2), (600, 1)])
def test_default_cell_size(width, cell_size):
    wall, corridor = "#" * width, "#S" + " " * (width - 4) + "G#"
    layout = MazeLayout.from_text(f"{wall}\n{corridor}\n{wall}")
    assert draw_layout(layout).get_size() == (width * cell_size, 3 * cell_size)


def test_title_stands_above_and_legend_below_the_same_picture():
    picture = to_array(draw_layout(WIDE, cell_size=30, agent=(1, 2)))
    titled = to_array(draw_layout(WIDE, cell_size=30, agent=(1, 2), title="A corridor"))
    explained = to_array(draw_layout(WIDE, cell_size=30, agent=(1, 2), legend=True))
    assert titled.shape[1] == explained.shape[1] == 210
    assert np.array_equal(titled[-90:], picture)
    assert np.array_equal(explained[:90], picture)
    title, legend = titled[:-90], explained[90:]
    assert is_colour(title, PALETTE.text).any()
    for colour in (PALETTE.start, PALETTE.goal, PALETTE.agent, PALETTE.text):
        assert is_colour(legend, colour).any()
    without_agent = to_array(draw_layout(WIDE, cell_size=30, legend=True))[90:]
    assert not is_colour(without_agent, PALETTE.agent).any()


@pytest.mark.parametrize("cell_size", [32, 33, 40, 55, 80])
def test_words_are_wrapped_and_never_cut(cell_size):
    title = "Rollouts of an incomprehensibilitiesandcounterrevolutionaries policy"
    values = TALL.distances() * -1.2345e-7
    for surface in (
        draw_layout(TALL, cell_size=cell_size, agent=(1, 1), legend=True, title=title),
        draw_paths(TALL, [[(1, 1)]] * 1000, [True] * 10 + [False] * 990, cell_size=cell_size, title=title),
        draw_heatmap(TALL, values, cell_size=cell_size, title=title, label=title),
    ):
        assert surface.get_width() == 3 * cell_size
        pixels = to_array(surface)
        top = int(np.argmax(is_colour(pixels, PALETTE.wall).all(axis=1)))
        words = np.concatenate([pixels[:top], pixels[top + 7 * cell_size :]])
        assert (words < 128).all(axis=-1).any()
        assert is_colour(words[:, [0, -1]], PALETTE.page).all()
        assert is_colour(words[[0, -1]], PALETTE.page).all()


def test_narrow_pictures_have_no_words():
    assert draw_layout(TALL, cell_size=31, legend=True, title="title").get_size() == (93, 217)
    assert draw_paths(TALL, [], [], cell_size=31, title="title").get_size() == (93, 217)
    assert draw_heatmap(TALL, TALL.distances(), cell_size=31, label="label").get_size() == (93, 217)


def test_long_titles_take_more_lines():
    heights = [draw_layout(WIDE, cell_size=30, title=title).get_height() for title in ("short", "a b c " * 20, "a\nb")]
    assert 90 < heights[0] < heights[2] < heights[1]


def test_drawing_goes_on_after_pygame_was_shut_down():
    before = to_array(draw_layout(WIDE, legend=True, title="title"))
    pygame.quit()
    assert np.array_equal(to_array(draw_layout(WIDE, legend=True, title="title")), before)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"cell_size": 0}, ValueError, r"cell_size=0 .* 1 to "),
        ({"cell_size": -3}, ValueError, "cell_size=-3"),
        ({"cell_size": 10**6}, ValueError, "cell_size=1000000 .* 1 to 2182 pixels"),
        ({"cell_size": 2.0}, TypeError, "cell_size=2.0 is not an integer"),
        ({"cell_size": True}, TypeError, "cell_size=True"),
        ({"cell_size": np.zeros(1, "i4,i4")}, TypeError, "cell_size="),
        ({"agent": (3, 1)}, ValueError, "agent lies outside at row 3, column 1.*rows 0 to 2, columns 0 to 6"),
        ({"agent": (1, -1)}, ValueError, "agent lies outside at row 1, column -1"),
        ({"agent": (0, 0)}, ValueError, "agent lies in a wall at row 0, column 0"),
        ({"agent": (1.0, 2.0)}, TypeError, r"agent=\(1.0, 2.0\) is not a cell"),
        ({"agent": 4}, TypeError, "agent=4 is not a cell"),
        ({"title": None}, TypeError, "title=None must be a str"),
        ({"title": "a\0b"}, ValueError, "title=.* null character"),
    ],
)
def test_layout_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        draw_layout(WIDE, **arguments)


@pytest.mark.parametrize("layout", [WIDE.walls, "#S G#", None])
def test_other_things_than_layouts_are_refused(layout):
    for draw in (draw_layout, lambda x: draw_paths(x, [], []), lambda x: draw_heatmap(x, [[0.0]])):
        with pytest.raises(TypeError, match=rf"must be a MazeLayout, got {type(layout).__name__}"):
            draw(layout)


# ------------------------------------------------------------------------------------------------------------ paths


def between(surface, cell, down):
    """(30, 3): the first line of pixels of a square that a step from above (or from the left) comes through."""
    row, column = cell
    block = squares(surface, LOOP)[row, column]
    return block[0] if down else block[:, 0]


def blended(colour, opacity):
    return np.array(PALETTE.floor) + opacity * (np.array(colour) - np.array(PALETTE.floor))


def test_steps_of_more_paths_are_darker():
    surface = draw_paths(LOOP, [TOP, TOP, TOP, BOTTOM], [True] * 4, cell_size=30, legend=False, max_opacity=0.8)
    assert surface.get_size() == (210, 150)
    often, seldom = between(surface, (1, 3), down=False), between(surface, (3, 3), down=False)
    # A line of round(30 / 7) = 4 pixels in the middle of the square.
    for pixels, share in ((often, 3 / 4), (seldom, 1 / 4)):
        opacity = 0.8 * (0.2 + 0.8 * np.sqrt(share))
        np.testing.assert_allclose(pixels[13:17].astype(float), [blended(PALETTE.success, opacity)] * 4, atol=2)
        assert is_colour(np.delete(pixels, range(13, 17), axis=0), PALETTE.floor).all()
    assert often[13:17].mean() < seldom[13:17].mean()


@pytest.mark.parametrize("cell_size", [2, 7, 30])
@pytest.mark.parametrize("path", [TOP, BOTTOM], ids=["top", "bottom"])
def test_lines_join_the_middles_of_the_squares_of_a_path(path, cell_size):
    pixels = to_array(draw_paths(LOOP, [path], [True], cell_size=cell_size, legend=False, max_opacity=1))
    thickness = max(1, round(cell_size / 7))
    begin = (cell_size - thickness) // 2
    expected = np.zeros(pixels.shape[:2], bool)
    for cells in itertools.pairwise(path):
        top, left = np.min(cells, axis=0) * cell_size + begin
        bottom, right = np.max(cells, axis=0) * cell_size + begin + thickness
        expected[top:bottom, left:right] = True
    judged = np.ones_like(expected)
    for row, column in (LOOP.start, LOOP.goal):  # their marks hide the ends of the line
        judged[row * cell_size : (row + 1) * cell_size, column * cell_size : (column + 1) * cell_size] = False
    assert np.array_equal(is_colour(pixels, PALETTE.success) & judged, expected & judged)


def test_successes_and_failures_differ_in_colour_place_and_dashes():
    surface = draw_paths(LOOP, [TOP, STUCK], [True, False], cell_size=30, legend=False, max_opacity=1)
    edge = between(surface, (1, 2), down=False)
    inside = squares(surface, LOOP)[1, 2][:, 5]
    # 30 - 2 * 4 = 22 pixels are free, a third of them between the lines: 7, and 7 before the first.
    assert is_colour(edge, PALETTE.success).tolist() == [7 <= i < 11 for i in range(30)]
    assert is_colour(inside, PALETTE.failure).tolist() == [18 <= i < 22 for i in range(30)]
    assert not is_colour(edge, PALETTE.failure).any()


@pytest.mark.parametrize("cell_size", [2, 3, 4, 5, 6, 9])
def test_both_lines_are_seen_in_small_squares(cell_size):
    surface = draw_paths(LOOP, [TOP, TOP], [True, False], cell_size=cell_size, max_opacity=1)
    block = squares(surface, LOOP)[1, 3]
    assert is_colour(block, PALETTE.success).any()
    assert is_colour(block, PALETTE.failure).any()


def test_paths_without_failures_run_through_the_middle_even_of_single_pixels():
    surface = draw_paths(LOOP, [TOP], [True], cell_size=1, max_opacity=1)
    assert is_colour(to_array(surface)[1], PALETTE.success).tolist() == [False, False, True, True, True, False, False]


def test_a_cross_stands_where_a_failure_ended():
    failed = squares(draw_paths(LOOP, [STUCK], [False], cell_size=30, legend=False, max_opacity=1), LOOP)
    # The arms of the cross leave the line, which takes the pixels 13 to 16.
    assert is_colour(failed[1, 3, :11], PALETTE.failure).any()
    assert not is_colour(failed[1, 2, :11], PALETTE.failure).any()
    succeeded = squares(draw_paths(LOOP, [STUCK], [True], cell_size=30, legend=False, max_opacity=1), LOOP)
    assert is_colour(succeeded[1, 3, :11], PALETTE.floor).all()


def test_picture_depends_on_which_paths_take_a_step_only():
    flags = [True, True, False]
    picture = to_array(draw_paths(LOOP, [TOP, BOTTOM, STUCK], flags))
    wandering = [(1, 1), (1, 2), (1, 2), (1, 1), (1, 2), (1, 3)]
    for paths, successes in (
        ([STUCK, BOTTOM, TOP], flags[::-1]),
        ([TOP[::-1], BOTTOM[::-1], STUCK], flags),
        ([TOP, BOTTOM, wandering], flags),
        ([np.array(TOP, np.uint8), np.array(BOTTOM), tuple(STUCK)], np.array(flags)),
        ([TOP, BOTTOM, STUCK], [1, 1, 0]),
    ):
        assert np.array_equal(to_array(draw_paths(LOOP, paths, successes)), picture)


def test_no_paths_leave_the_maze_as_it_is():
    plain = to_array(draw_layout(LOOP, cell_size=30))
    assert np.array_equal(to_array(draw_paths(LOOP, [], [], cell_size=30, legend=False)), plain)


def test_path_legend_counts_both_kinds():
    picture = 5 * 73
    one, many = (
        to_array(draw_paths(LOOP, [TOP] * n + [STUCK], [True] * n + [False], max_opacity=1))[picture:] for n in (1, 22)
    )
    assert is_colour(one, PALETTE.success).any()
    assert is_colour(one, PALETTE.failure).any()
    assert not np.array_equal(one, many)


@pytest.mark.parametrize("max_opacity", [0, -0.1, 1.01, float("nan")])
def test_opacity_out_of_range_is_refused(max_opacity):
    with pytest.raises(ValueError, match=r"max_opacity=.* over 0 and at most 1"):
        draw_paths(LOOP, [TOP], [True], max_opacity=max_opacity)


@pytest.mark.parametrize("max_opacity", ["a", None, True, [0.5]])
def test_opacity_must_be_a_number(max_opacity):
    with pytest.raises(TypeError, match=r"max_opacity=.* allowed is a number over 0 and at most 1"):
        draw_paths(LOOP, [TOP], [True], max_opacity=max_opacity)


# -------------------------------------------------------------------------------------------------------- heat maps

NINE = MazeLayout.from_text("#########\n#S     G#\n#########")
LOWEST, MIDDLE, HIGHEST = (65, 68, 135), (34, 168, 132), (253, 231, 37)


def row_of(*values):
    grid = np.full((3, 9), np.nan)
    grid[1, 2:7] = values
    return grid


def test_heat_map_goes_from_the_lowest_to_the_highest_value():
    for values in (row_of(0, 1, 2, 3, 4), row_of(-5.0, np.nan, 0, np.nan, 5)):
        blocks = squares(draw_heatmap(NINE, values, cell_size=30, legend=False), NINE)
        for column, colour in ((2, LOWEST), (4, MIDDLE), (6, HIGHEST)):
            assert is_colour(blocks[1, column], colour).all()
        assert is_colour(blocks[1, 3], PALETTE.floor).all() == np.isnan(values[1, 3])


def test_heat_map_gets_steadily_brighter():
    width = 300
    wall = "#" * width
    layout = MazeLayout.from_text(f"{wall}\n#S{' ' * (width - 4)}G#\n{wall}")
    picture = to_array(draw_heatmap(layout, np.tile(np.arange(width), (3, 1)), cell_size=1, legend=False))
    brightness = picture[1, 2:-2] @ np.array([0.299, 0.587, 0.114])
    assert (brightness[10:] > brightness[:-10]).all()


def test_walls_stay_walls_and_their_values_do_not_count():
    values = row_of(0, 1, 2, 3, 4)
    values[0], values[2] = 1000, np.inf
    blocks = squares(draw_heatmap(NINE, values, cell_size=7, legend=False), NINE)
    assert is_colour(blocks[NINE.walls], PALETTE.wall).all()
    assert is_colour(blocks[1, 6], HIGHEST).all()


def test_limits_fix_the_ends_of_the_colours():
    picture = to_array(draw_heatmap(NINE, row_of(-1, 0, 2, 4, 9), cell_size=1, legend=False, limits=(0, 4)))
    assert picture[1, 2:7].tolist() == [list(c) for c in (LOWEST, LOWEST, MIDDLE, HIGHEST, HIGHEST)]


@pytest.mark.parametrize("values", [np.full((3, 9), 0.3), np.zeros((3, 9), int), np.ones((3, 9), bool)])
def test_constant_values_have_the_colour_of_the_middle(values):
    surface = draw_heatmap(NINE, values, cell_size=30)
    assert surface.get_height() > 90
    picture = surface.subsurface((0, 0, 270, 90))
    assert is_colour(squares(picture, NINE)[1, 2:7], MIDDLE).all()
    assert is_colour(to_array(surface)[90:], MIDDLE).any()


def test_no_values_at_all_leave_the_maze_plain():
    values = np.full((3, 9), np.nan)
    plain = to_array(draw_layout(NINE, cell_size=30))
    assert np.array_equal(to_array(draw_heatmap(NINE, values, cell_size=30, legend=False)), plain)
    legend = to_array(draw_heatmap(NINE, values, cell_size=30))[90:]
    assert (legend < 128).all(axis=-1).any()


def test_colour_bar_shows_both_ends():
    legend = to_array(draw_heatmap(NINE, row_of(0, 1, 2, 3, 4), cell_size=30, label="moves"))[90:]
    for colour in (LOWEST, HIGHEST, PALETTE.text):
        assert is_colour(legend, colour).any()
    assert len(to_array(draw_heatmap(NINE, row_of(0, 1, 2, 3, 4), cell_size=30))[90:]) < len(legend)


@pytest.mark.parametrize(
    ("values", "arguments", "error", "message"),
    [
        (np.zeros((9, 3)), {}, ValueError, r"shape \(9, 3\), but the maze has \(3, 9\)"),
        (np.zeros(27), {}, ValueError, r"shape \(27,\)"),
        ([[0.0], [0.0, 1.0]], {}, ValueError, "values are not a table"),
        (row_of(0, 1, np.inf, 3, 4), {}, ValueError, r"values\[1, 4\] is inf"),
        (np.full((3, 9), "a"), {}, TypeError, "dtype <U1"),
        (np.zeros((3, 9), complex), {}, TypeError, "dtype complex128"),
        (np.zeros((3, 9)), {"limits": (1, 1)}, ValueError, r"limits=\(1, 1\)"),
        (np.zeros((3, 9)), {"limits": (0, np.nan)}, ValueError, "two finite numbers with low < high"),
        (np.zeros((3, 9)), {"limits": 5}, TypeError, "limits=5 is a int; allowed is two finite numbers"),
        (np.zeros((3, 9)), {"limits": "ab"}, TypeError, "limits='ab' is a str"),
        (np.zeros((3, 9)), {"limits": (0, "b")}, TypeError, r"limits\[1\]='b' is a str"),
        (np.zeros((3, 9)), {"limits": (0, 1, 2)}, ValueError, r"limits=\(0, 1, 2\) are not \(low, high\)"),
        (np.zeros((3, 9)), {"limits": (0, 10**400)}, ValueError, r"limits=.* are not \(low, high\)"),
        (np.zeros((3, 9), "i4,i4"), {}, TypeError, "values have dtype"),
        (np.zeros((3, 9)), {"label": 3}, TypeError, "label=3 must be a str"),
    ],
)
def test_heat_map_errors(values, arguments, error, message):
    with pytest.raises(error, match=message):
        draw_heatmap(NINE, values, **arguments)
