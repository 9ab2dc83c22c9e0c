"""The command line, run as a user runs it."""

import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from sera_maze.cli import main, parse_size
from sera_maze.envs.layout import MazeLayout
from sera_maze.envs.pool import MazePool
from sera_maze.envs.tokens import decode_prompt


def run(*arguments, status=0):
    code = "import sys; from sera_maze.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def test_mazes_prints_a_summary_and_drawings():
    lines = run("mazes", "--count", "5", "--size", "9x11", "--algorithm", "dfs", "--seed", "4", "--show", "2").split(
        "\n"
    )
    pool = MazePool.generate(5, (9, 11), "dfs", 4)
    assert lines[0] == "5 different mazes of 9x11 squares (4x5 cells)"
    lengths = pool.shortest_lengths
    assert lines[1] == f"shortest path: {lengths.min()} to {lengths.max()} moves, median {np.median(lengths):g}"
    assert lines[2].startswith("dead ends a maze: ")
    assert lines[2].endswith(f"open squares: {2 * 20 - 1:.1f}")
    assert lines[5] == f"maze 0, {lengths[0]} moves, {pool.digests[0]}"
    assert "\n".join(lines[6:15]) == pool[0].to_text()
    assert "\n".join(lines[17:26]) == pool[1].to_text()
    assert len(lines) == 27


def test_dead_ends_are_counted():
    # Full braiding leaves none.
    assert "dead ends a maze: 0.0;" in run("mazes", "--braid", "1.0", "--show", "0")


def test_every_export(tmp_path, capsys):
    names = ["pool.npz", "sheet.png", "all.txt", "all.jsonl", "folder"]
    out = [str(tmp_path / "new" / name) for name in names]
    assert main(["mazes", "--count", "11", "--size", "9", "--show", "0", "--out", *out]) == 0
    assert [line for line in capsys.readouterr().out.split("\n") if line.startswith("wrote")] == [
        f"wrote {path}" for path in out
    ]
    pool = MazePool.generate(11, 9)
    loaded = MazePool.load(out[0])
    assert list(loaded) == list(pool)
    with Image.open(out[1]) as image:
        picture = np.asarray(image.convert("RGB"))
    assert picture.shape[0] > 200
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 4
    texts = (tmp_path / "new" / "all.txt").read_text().strip().split("\n\n")
    assert [MazeLayout.from_text(text) for text in texts] == list(pool)
    rows = [json.loads(line) for line in (tmp_path / "new" / "all.jsonl").read_text().splitlines()]
    assert [decode_prompt(row["prompt"]) for row in rows] == list(pool)
    assert [row["digest"] for row in rows] == pool.digests.tolist()
    assert list(MazePool.from_folder(out[4])) == list(pool)
    for path in (out[0], out[4]):
        assert main(["mazes", "--load", path, "--show", "0"]) == 0
        assert capsys.readouterr().out.startswith("11 different mazes of 9x9")


def test_large_pools_draw_their_first_mazes(tmp_path):
    path = tmp_path / "sheet.png"
    assert main(["mazes", "--count", "150", "--size", "9", "--show", "0", "--out", str(path)]) == 0
    with Image.open(path) as picture:
        assert picture.width < 3000


def test_papers_sets_and_blocks(capsys):
    assert main(["mazes", "--papers", "held_out", "--show", "1", "--style", "blocks"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("256 different mazes of 17x17 squares (8x8 cells)")
    assert MazePool.papers("held_out")[0].to_text("blocks") in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--size", "8"], "size=8x8: the height 8 is not an odd number"),
        (["--size", "axb"], "size 'axb' is not HEIGHTxWIDTH"),
        (["--size", "7", "--count", "193"], "only 192 of 7x7"),
        (["--count", "0"], "count=0"),
        (["--load", "nothing.npz"], "nothing.npz"),
        (["--load", ".", "--papers", "train"], "exclude each other"),
        (["--out", "mazes.gif"], "mazes.gif: .gif is not known; allowed are .npz"),
        (["--distance", "4"], "endpoints='corners'"),
        (["--load", __file__], "is not a whole pool of mazes"),
    ],
)
def test_wrong_input_ends_with_a_message_and_status_2(arguments, words):
    error = run("mazes", *arguments, status=2)
    assert error.startswith("sera-maze: error: ")
    assert words in error
    assert "Traceback" not in error


def test_unknown_options_and_commands_suggest():
    assert "mazes" in run("maze", status=2)
    assert "--size" in run("mazes", "--sise", "9", status=2)


def test_help_and_version():
    assert "mazes" in run("--help")
    assert "--algorithm" in run("mazes", "--help")
    assert run("--version").startswith("sera-maze ")


@pytest.mark.parametrize(("text", "size"), [("17", (17, 17)), ("9x13", (9, 13)), (" 5X7 ", (5, 7))])
def test_sizes(text, size):
    assert parse_size(text) == size
