"""Mazes in text files: their encodings, and errors that name the file."""

import json

import pytest

from sera_maze.envs.ground.errors import LayoutError
from sera_maze.envs.layouts.files import read_layout, read_layouts
from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.pools.pool import MazePool

CORRIDOR = "#######\n#S   G#\n#######"
BLOCKS = "██████\n█S   █\n█ ██ █\n█  G █\n██████"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_encodings_and_line_ends(tmp_path, encoding, line_end):
    (tmp_path / "a.txt").write_bytes(BLOCKS.replace("\n", line_end).encode(encoding))
    assert read_layout(tmp_path / "a.txt") == MazeLayout.from_text(BLOCKS)
    assert read_layouts(tmp_path / "a.txt") == list(MazePool.from_folder(tmp_path)) == [MazeLayout.from_text(BLOCKS)]


def test_text_may_begin_with_a_byte_order_mark():
    assert MazeLayout.from_text("\ufeff" + CORRIDOR) == MazeLayout.from_text(CORRIDOR)


@pytest.mark.parametrize("encoding", ["utf-16", "cp437"])
def test_other_encodings_are_refused_with_the_name_of_the_file(tmp_path, encoding):
    (tmp_path / "a.txt").write_bytes(BLOCKS.encode(encoding))
    for read in (read_layout, read_layouts, lambda path: MazePool.from_folder(path.parent)):
        with pytest.raises(LayoutError, match=r"a\.txt: not text in UTF-8: found the byte 0x.. at 0; allowed: UTF-8"):
            read(tmp_path / "a.txt")


@pytest.mark.parametrize("between", ["\n\n", "\n\n\n", "\n  \n\t\n"])
def test_many_drawings(tmp_path, between):
    path = tmp_path / "all.txt"
    path.write_text(f"\n \n{CORRIDOR}{between}{BLOCKS}{between}", encoding="utf-8")
    assert read_layouts(path) == [MazeLayout.from_text(CORRIDOR), MazeLayout.from_text(BLOCKS)]
    path.write_text(f"{CORRIDOR}{between}#####\n#SxG#\n#####")
    with pytest.raises(LayoutError, match=r"all\.txt, drawing 1: unknown symbol at row 1, column 2"):
        read_layouts(path)


def test_lines_of_json(tmp_path):
    path = tmp_path / "all.jsonl"
    layouts = [MazeLayout.from_text(CORRIDOR), MazeLayout.from_text(BLOCKS)]
    lines = [json.dumps({**json.loads(layout.to_json()), "digest": layout.digest}) for layout in layouts]
    path.write_text("\ufeff" + "\n\n".join(lines) + "\n", encoding="utf-8")
    assert read_layouts(path) == layouts
    for wrong, words in (("{}", "not a layout of this format"), ("[" * 100_000, "not JSON"), ("x", "not JSON")):
        path.write_text(f"{lines[0]}\n{wrong}\n")
        with pytest.raises(LayoutError, match=rf"all\.jsonl, line 2: {words}"):
            read_layouts(path)


@pytest.mark.parametrize(
    ("text", "row", "column"),
    [("It was a maze\nof words", 0, 0), ("#####\n#S G\n###x#", 2, 3), ("####\n#SG#\nx", 2, 0)],
)
def test_what_is_no_drawing_is_not_called_ragged(text, row, column):
    with pytest.raises(LayoutError, match=f"unknown symbol at row {row}, column {column}"):
        MazeLayout.from_text(text)


@pytest.mark.parametrize("text", [None, 5, ["#####"]])
def test_json_of_other_types(text):
    with pytest.raises(TypeError, match="text must be a str or bytes, got "):
        MazeLayout.from_json(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"rows": ' * 100_000, "not JSON"),
        ("1" * 10_000, "not JSON|not a layout of this format"),  # a number that some versions of Python cannot read
        ("[" * 500 + "]" * 500, "not a layout of this format"),
    ],
)
def test_json_that_is_hard_to_read(text, problem):
    with pytest.raises(LayoutError, match=problem):
        MazeLayout.from_json(text)


def test_files_without_mazes(tmp_path):
    for name in ("a.txt", "a.jsonl"):
        (tmp_path / name).write_text("\n")
        with pytest.raises(LayoutError, match=rf"{name}: no mazes: found an empty file"):
            read_layouts(tmp_path / name)
    with pytest.raises(ValueError, match=r"must end in \.txt or \.jsonl"):
        read_layouts(tmp_path / "a.csv")
    with pytest.raises(FileNotFoundError):
        read_layouts(tmp_path / "none.txt")
