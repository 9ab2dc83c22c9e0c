"""Sheets of many pictures, arrays, PNG and GIF files."""

import numpy as np
import pytest
from PIL import Image, ImageSequence

from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.pictures.canvas import blank
from sera_maze.envs.pictures.drawing import draw_layout
from sera_maze.envs.pictures.sheets import contact_sheet, save_gif, save_png, to_array

WIDE = MazeLayout.from_text("#######\n#S   G#\n#######")
TALL = MazeLayout.from_text("###\n#S#\n# #\n# #\n# #\n#G#\n###")
RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def test_arrays_have_rows_first_and_are_copies():
    surface = blank(5, 3, RED)
    surface.set_at((4, 1), BLUE)  # x, y
    array = to_array(surface)
    assert (array.shape, array.dtype, array.flags.c_contiguous) == ((3, 5, 3), np.uint8, True)
    assert np.argwhere((array == BLUE).all(axis=-1)).tolist() == [[1, 4]]
    array[:] = 0
    assert surface.get_at((0, 0))[:3] == RED
    with pytest.raises(TypeError, match=r"must be a pygame.Surface, got ndarray"):
        to_array(array)


# ------------------------------------------------------------------------------------------------------------ sheets


def test_sheet_of_mixed_sizes_has_equal_margins():
    sheet = contact_sheet(
        [blank(10, 20, RED), blank(30, 40, GREEN), blank(50, 6, BLUE)], columns=2, background=(9, 8, 7)
    )
    # Columns of 50 and 30 pixels, rows of 40 and 6, margins of 16.
    assert sheet.get_size() == (50 + 30 + 3 * 16, 40 + 6 + 3 * 16)
    expected = np.full((94, 128, 3), (9, 8, 7), np.uint8)
    expected[36:56, 36:46] = RED  # centred in its column, on the lower edge of its row
    expected[16:56, 82:112] = GREEN
    expected[72:78, 16:66] = BLUE
    assert np.array_equal(to_array(sheet), expected)


@pytest.mark.parametrize(
    ("count", "columns", "size"),
    [(1, None, (1, 1)), (2, None, (2, 1)), (4, None, (2, 2)), (6, None, (3, 2)), (9, None, (3, 3)), (10, None, (4, 3)),
     (5, None, (3, 2)), (12, None, (4, 3)), (5, 3, (3, 2)),
     (3, 8, (3, 1)), (3, np.int64(1), (1, 3))],
)  # fmt: skip
def test_columns(count, columns, size):
    sheet = contact_sheet([blank(20, 20)] * count, columns=columns)
    assert sheet.get_size() == (size[0] * 36 + 16, size[1] * 36 + 16)


def test_layouts_are_drawn_and_surfaces_taken_as_they_are():
    sheet = to_array(contact_sheet([WIDE, draw_layout(TALL, cell_size=5)], columns=1, cell_size=4))
    assert np.array_equal(sheet[16:28, 16:44], to_array(draw_layout(WIDE, cell_size=4)))
    assert np.array_equal(sheet[44:79, 22:37], to_array(draw_layout(TALL, cell_size=5)))
    assert len(sheet) == 12 + 35 + 3 * 16


def test_layouts_on_a_sheet_have_about_160_pixels():
    assert contact_sheet([WIDE]).get_size() == (7 * 22 + 32, 3 * 22 + 32)


def test_labels_stand_below_their_pictures():
    plain = contact_sheet([WIDE, TALL], columns=1)
    labelled = contact_sheet([WIDE, TALL], columns=1, labels=["maze 0", ""])
    assert labelled.get_width() == plain.get_width()
    assert labelled.get_height() > plain.get_height()
    # In the first row there is the label alone below the 3 * 22 pixels of its picture, above the second picture.
    below = to_array(labelled)[16 + 3 * 22 : -16 - 7 * 22]
    rows, columns = np.nonzero((below < 200).all(axis=-1))
    assert len(below) - 16 > rows.max() > rows.min() >= 2
    assert columns.min() > 16
    assert abs(columns.min() + columns.max() - labelled.get_width()) <= 4


def test_long_labels_are_wrapped_and_dark_sheets_have_light_labels():
    heights = [
        contact_sheet([blank(60, 10)], labels=[text]).get_height() for text in ("a", "a long label of many words")
    ]
    assert heights[0] < heights[1]
    assert contact_sheet([blank(60, 10)], labels=["many words " * 9]).get_width() == 60 + 32
    dark = to_array(contact_sheet([blank(60, 10, RED)], labels=["a"], background=(0, 0, 0)))
    assert (dark > 180).all(axis=-1).any()


@pytest.mark.parametrize(
    ("pictures", "arguments", "error", "message"),
    [
        ([], {}, ValueError, "pictures is empty"),
        ([WIDE, "#S G#"], {}, TypeError, r"pictures\[1\] is str"),
        ([WIDE], {"columns": 0}, ValueError, "columns=0 is out of range"),
        ([WIDE], {"columns": 1.5}, TypeError, "columns=1.5 is not an integer"),
        ([WIDE], {"cell_size": 0}, ValueError, "cell_size=0"),
        ([WIDE, TALL], {"labels": ["a"]}, ValueError, "1 texts for 2 pictures"),
        ([WIDE, TALL], {"labels": "ab"}, ValueError, "labels='ab'"),
        ([WIDE], {"labels": [1]}, TypeError, r"labels\[0\]=1 must be a str"),
        ([WIDE], {"columns": True}, TypeError, "columns=True is not an integer"),
        (WIDE, {}, TypeError, r"pictures=.* is a MazeLayout; allowed is a list"),
        ([WIDE], {"background": "red"}, TypeError, r"background='red' is a str; allowed is \(red, green, blue\)"),
        ([WIDE], {"background": 5}, TypeError, "background=5 is a int"),
        ([WIDE], {"background": (1, 2)}, ValueError, r"background=\(1, 2\) has 2 parts"),
        ([WIDE], {"background": (1, 2, 256)}, ValueError, r"background\[2\]=256"),
        ([WIDE], {"background": (1, 2, 0.5)}, TypeError, r"background\[2\]=0.5"),
    ],
)
def test_sheet_errors(pictures, arguments, error, message):
    with pytest.raises(error, match=message):
        contact_sheet(pictures, **arguments)


# -------------------------------------------------------------------------------------------------------------- PNG


@pytest.mark.parametrize("name", ["maze.png", "MAZE.PNG"])
def test_png_keeps_every_pixel_and_makes_folders(tmp_path, name):
    surface = draw_layout(WIDE, cell_size=30, legend=True)
    for picture in (surface, to_array(surface)):
        path = save_png(picture, tmp_path / "new" / "folder" / name)
        assert path == tmp_path / "new" / "folder" / name
        with Image.open(path) as image:
            assert image.format == "PNG"
            assert np.array_equal(np.asarray(image), to_array(surface))


@pytest.mark.parametrize(
    ("picture", "name", "error", "message"),
    [
        (blank(2, 2), "maze.jpg", ValueError, r"path=.*maze.jpg' does not end in .png"),
        (blank(2, 2), "maze", ValueError, "does not end in"),
        (np.zeros((2, 2), np.uint8), "maze.png", ValueError, r"picture has shape \(2, 2\); allowed is \(H, W, 3\)"),
        (np.zeros((2, 2, 4), np.uint8), "maze.png", ValueError, r"shape \(2, 2, 4\)"),
        (np.zeros((0, 2, 3), np.uint8), "maze.png", ValueError, r"shape \(0, 2, 3\)"),
        (np.zeros((2, 2, 3)), "maze.png", TypeError, "dtype float64; allowed is uint8"),
        ("maze", "maze.png", TypeError, "picture is str"),
    ],
)
def test_png_errors_write_nothing(tmp_path, picture, name, error, message):
    with pytest.raises(error, match=message):
        save_png(picture, tmp_path / "new" / name)
    assert list(tmp_path.iterdir()) == []


# -------------------------------------------------------------------------------------------------------------- GIF


def read_gif(path):
    with Image.open(path) as image:
        frames = [(np.asarray(frame.convert("RGB")), frame.info["duration"]) for frame in ImageSequence.Iterator(image)]
        return [frame for frame, _ in frames], [duration for _, duration in frames], image.info.get("loop")


def walk(cell_size=10):
    return [draw_layout(WIDE, cell_size=cell_size, agent=(1, column)) for column in range(1, 6)]


@pytest.mark.parametrize("cell_size", [10, 30])
def test_gif_keeps_frames_colours_and_time(tmp_path, cell_size):
    frames = walk(cell_size)
    path = save_gif([frames[0], *(to_array(frame) for frame in frames[1:])], tmp_path / "new" / "walk.gif")
    assert path == tmp_path / "new" / "walk.gif"
    read, durations, loop = read_gif(path)
    assert durations == [100] * 5
    assert loop == 0
    for frame, original in zip(read, frames, strict=True):
        assert np.array_equal(frame, to_array(original))


@pytest.mark.parametrize(
    ("frames_per_second", "milliseconds"),
    [(50, [20] * 5), (30, [30, 40, 30, 30, 40]), (8, [130, 120, 130, 120, 130]), (0.5, [2000] * 5)],
)
def test_gif_delays_add_up(tmp_path, frames_per_second, milliseconds):
    path = save_gif(walk(), tmp_path / "walk.gif", frames_per_second=frames_per_second, loop=False)
    _, durations, loop = read_gif(path)
    assert durations == milliseconds
    assert loop is None


def test_equal_frames_last_longer(tmp_path):
    a, b = walk()[:2]
    read, durations, _ = read_gif(save_gif([a, a, b, a, a, a], tmp_path / "walk.gif", frames_per_second=30))
    assert len(read) == 3
    assert durations == [70, 30, 100]
    for frame, original in zip(read, (a, b, a), strict=True):
        assert np.array_equal(frame, to_array(original))


def test_gif_of_one_frame(tmp_path):
    read, durations, _ = read_gif(save_gif(walk()[:1], tmp_path / "walk.gif", frames_per_second=4))
    assert (len(read), durations) == (1, [250])


def test_gif_keeps_the_most_frequent_colours(tmp_path):
    # One colour fills two rows, 254 others two pixels each, and 20 more one pixel each, right beside one of the 254.
    frame = np.full((3, 530, 3), (52, 58, 68), np.uint8)
    frame[0, :508] = [(i, 0, 7) for i in range(254)] * 2
    frame[0, 508:528] = [(10 * i, 1, 7) for i in range(20)]
    read, _, _ = read_gif(save_gif([frame], tmp_path / "colours.gif"))
    expected = frame.copy()
    expected[0, 508:528, 1] = 0
    assert np.array_equal(read[0], expected)


def test_gif_writes_only_the_pixels_that_change(tmp_path):
    rng = np.random.default_rng(0)
    still = (rng.integers(0, 6, (200, 200, 1)) * np.array([40, 30, 20])).astype(np.uint8)
    frames = []
    for i in range(20):  # two dots in opposite corners: the rectangle round the changes is nearly the whole frame
        frame = still.copy()
        frame[i : i + 3, 5:8] = frame[190 - i : 193 - i, 190:193] = 255
        frames.append(frame)
    path = save_gif(frames, tmp_path / "dots.gif")
    read, _, _ = read_gif(path)
    for found, given in zip(read, frames, strict=True):
        assert np.array_equal(found, given)
    assert path.stat().st_size < 3 * save_gif(frames[:1], tmp_path / "one.gif").stat().st_size


def test_gif_of_noise_has_the_right_size(tmp_path):
    frames = np.random.default_rng(0).integers(0, 256, (3, 80, 90, 3), np.uint8)
    read, durations, _ = read_gif(save_gif(list(frames), tmp_path / "noise.gif"))
    assert np.shape(read) == (3, 80, 90, 3)
    assert durations == [100] * 3
    assert np.abs(np.array(read, int) - frames).mean() < 40


@pytest.mark.parametrize(
    ("frames", "arguments", "error", "message"),
    [
        ([], {}, ValueError, "frames is empty"),
        ([blank(2, 3), blank(3, 2)], {}, ValueError, r"frames\[1\] has 2x3 pixels .* frames\[0\] has 3x2"),
        ([blank(2, 3), 5], {}, TypeError, r"frames\[1\] is int"),
        ([np.zeros((2, 2, 3), int)], {}, TypeError, r"frames\[0\] has dtype int64"),
        ([blank(2, 2)], {"path": "a.png"}, ValueError, "does not end in .gif"),
        ([blank(2, 2)], {"frames_per_second": 51}, ValueError, "frames_per_second=51 .* at most 50"),
        ([blank(2, 2)], {"frames_per_second": 0}, ValueError, "frames_per_second=0 "),
        ([blank(2, 2)], {"frames_per_second": -1}, ValueError, "frames_per_second=-1 "),
        ([blank(2, 2)], {"frames_per_second": float("nan")}, ValueError, "frames_per_second=nan "),
        ([blank(2, 2)], {"frames_per_second": "10"}, TypeError, "frames_per_second='10' is a str; allowed is a number"),
        (blank(2, 2), {}, TypeError, r"frames=.* is a Surface; allowed is a list"),
        ([np.zeros((2, 2, 3), "u1,u1")], {}, TypeError, r"frames\[0\] has dtype"),
        ([blank(2, 2)], {"frames_per_second": 0.001}, ValueError, "frames 0 to 0 show one picture for 1000.0 seconds"),
        ([blank(2, 2), blank(2, 2, RED), *[blank(2, 2)] * 7], {"frames_per_second": 0.01}, ValueError, "frames 2 to 8"),
    ],
)  # fmt: skip
def test_gif_errors_write_nothing(tmp_path, frames, arguments, error, message):
    path = tmp_path / "new" / arguments.pop("path", "a.gif")
    with pytest.raises(error, match=message):
        save_gif(frames, path, **arguments)
    assert list(tmp_path.iterdir()) == []
