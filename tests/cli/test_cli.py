"""The command line, run as a user runs it."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors
from PIL import Image

from sera_maze.cli.app import COMMANDS, main
from sera_maze.cli.choices import parse_size
from sera_maze.envs.ground.options import leaves
from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.pools.pool import MazePool
from sera_maze.envs.tokens import decode_prompt
from sera_maze.runs.config import PRESETS

ROOT = Path(__file__).parents[2]


def run(*arguments, status=0):
    done = subprocess.run(
        [sys.executable, "-m", "sera_maze", *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )
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
    for i, path in enumerate((out[0], *out[2:])):
        again = str(tmp_path / f"again_{i}.npz")
        assert main(["mazes", "--load", path, "--show", "0", "--out", again]) == 0
        assert capsys.readouterr().out.startswith("11 different mazes of 9x9")
        assert list(MazePool.load(again)) == list(pool)
    assert MazePool.load(again).provenance["made_by"] == "folder"
    assert MazePool.load(tmp_path / "again_2.npz").provenance["file"] == "all.jsonl"


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
        (["--load", ".", "--seed", "3"], "--seed is for mazes that are generated, and --load takes others"),
        (
            ["--papers", "held_out", "--count", "5"],
            "--count is for mazes that are generated, and --papers takes others",
        ),
        (["--papers", "held_out", "--braid", "0.5"], "--braid is for mazes that are generated"),
        (["--out", "LICENSE"], "LICENSE is a file; end its name in .npz, .png, .txt or .jsonl, or name a folder"),
    ],
)
def test_wrong_input_ends_with_a_message_and_status_2(arguments, words):
    error = run("mazes", *arguments, status=2)
    assert error.startswith("sera-maze: error: ")
    assert words in error
    assert "Traceback" not in error


def test_outputs_are_checked_before_mazes_are_made(tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        raise AssertionError("mazes were made")

    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "maze_0.txt").write_text("#####\n#S G#\n#####\n")
    (tmp_path / "dir.npz").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "notes.txt").write_text("these stay")
    for name, words in (
        ("a.gif", ".gif is not known"),
        ("full", "already holds mazes (maze_*.txt); remove them, or name another folder"),
        ("dir.npz", "dir.npz is a folder; name a file"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(MazePool, "generate", fail)
            assert main(["mazes", "--out", str(tmp_path / "a.npz"), str(tmp_path / name)]) == 2
        assert words in capsys.readouterr().err
    assert not (tmp_path / "a.npz").exists()
    assert main(["mazes", "--size", "5", "--show", "0", "--out", str(tmp_path / "notes")]) == 0
    assert sorted(os.listdir(tmp_path / "notes")) == ["maze_0.txt", "maze_1.txt", "maze_2.txt", "notes.txt"]


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (KeyboardInterrupt(), 130, "sera-maze: interrupted\n"),
        (MemoryError("8 EiB"), 2, "sera-maze: error: not enough memory; ask for fewer or smaller mazes (8 EiB)\n"),
    ],
)
def test_ends_that_are_nobodys_fault(error, status, words, monkeypatch, capsys):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(MazePool, "generate", fail)
    assert main(["mazes"]) == status
    assert capsys.readouterr() == ("", words)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that sends a signal")
def test_an_interrupt_while_mazes_are_made_ends_soon(capsys):
    """A thousand large mazes take minutes; what has not begun when the user interrupts is not begun any more."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    started = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        assert main(["mazes", "--count", "1000", "--size", "2001"]) == 130
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - started < 20
    assert capsys.readouterr().err == "sera-maze: interrupted\n"


def test_unknown_options_and_commands_suggest():
    assert "mazes" in run("maze", status=2)
    assert "--size" in run("mazes", "--sise", "9", status=2)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_holds_where_an_option_is_left_out(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "default: None" not in " ".join(capsys.readouterr().out.replace("\u2502", "").split())


def test_train_offers_every_option_with_the_presets_values(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    for preset, config in PRESETS.items():
        with pytest.raises(SystemExit):
            main(["train", f"--preset={preset}", "--help"])
        shown = capsys.readouterr().out
        for name, value in leaves(config).items():
            flag = re.search(rf"--{name.replace('_', '-')}[ ,].*?\(default: ([^)]*)\)", shown, re.DOTALL)
            assert flag is not None, name
            text = ("x" if name == "size" else " ").join(map(str, value)) if isinstance(value, tuple) else str(value)
            assert flag[1].startswith("none, " if value is None else text), name


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["--n-max", "99", "--max-grad-norm", "1e9", "--n_min", "3"], {"n_max": 99, "max_grad_norm": 1e9, "n_min": 3}),
        (["--distances", "4", "8", "--seed", "3"], {"distances": (4, 8), "seed": 3}),
        (["--activation-threshold", "none"], {"activation_threshold": None}),
        (["--activation-threshold", "0", "--distances", "none"], {"activation_threshold": 0.0}),
        (["--fresh-mazes"], {"fresh_mazes": True, "success": "critic"}),
        (["--fresh-mazes", "--success", "exact"], {"fresh_mazes": True, "success": "exact"}),
        (["--no-multiplicity-correction", "--token-mean"], {"multiplicity_correction": False, "token_mean": True}),
        (["--size", "9x13"], {"size": (9, 13)}),
        (["--size", "9\u00d713"], {"size": (9, 13)}),
        (["--size=11"], {"size": (11, 11)}),
        (["--preset", "quick"], {}),
        (["--preset=quick", "--updates", "5"], {"updates": 5}),
        (["--preset", "hour", "--no-fresh-mazes"], {"fresh_mazes": False}),
        (["--preset", "paper", "--n-max", "none"], {"n_max": None}),
    ],
)
def test_train_takes_options_and_the_presets_others(arguments, options, monkeypatch, tmp_path):
    given = []

    def train(config, *_, **__):
        given.append(config)
        raise KeyboardInterrupt

    monkeypatch.setattr("sera_maze.runs.maze_task.train", train)
    assert main(["train", "--out", str(tmp_path / "run"), *arguments]) == 130
    preset = next((name for name in PRESETS if name in " ".join(arguments)), "default")
    assert given == [PRESETS[preset].changed(options)]


def test_help_loads_neither_torch_nor_numba():
    code = "import sys; from sera_maze.cli.app import main\ntry: main(['--help'])\nfinally: print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(ast.literal_eval(done.stdout.splitlines()[-1]))
    assert not {"torch", "stable_baselines3", "numba", "pygame", "matplotlib"} & loaded


def test_help_and_version():
    assert "mazes" in run("--help")
    assert "--algorithm" in run("mazes", "--help")
    assert run("--version").startswith("sera-maze ")


@pytest.mark.parametrize(
    ("text", "size"), [("17", (17, 17)), ("9x13", (9, 13)), (" 5X7 ", (5, 7)), ("9\u00d713", (9, 13))]
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(28, "No space left on device"), "the disk is full; free some space, or name a folder on another one"),
        (OSError(28, "No space left on device", "a/b"), "a/b: the disk is full; free some space, or name a folder on"),
        (PermissionError(13, "Permission denied", "a/b"), "a/b: permission denied\n"),
        (FileNotFoundError("our own words"), "our own words\n"),
    ],
)
def test_errors_of_the_system_are_told_in_words(error, words, monkeypatch, capsys):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(MazePool, "generate", fail)
    assert main(["mazes"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"sera-maze: error: {words}")
    assert told.count("\n") == 1


@pytest.mark.parametrize("command", ["train --out", "mazes --out", "bench --out", "align --out", "compare --out"])
def test_places_that_cannot_be_written_are_refused_first(command, monkeypatch, capsys):
    def fail(*_, **__):
        raise PermissionError(13, "Permission denied", "x")

    monkeypatch.setattr("sera_maze.envs.ground.atomic_files.tempfile.TemporaryDirectory", fail)
    assert main([*command.split(), "some/new.npz"]) == 2
    assert "nothing can be written in ." in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes")
def test_nobody_reads_what_is_printed():
    """As with `sera-maze --help | true`."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "sera_maze", "--help"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_disk_that_is_full_at_the_first_checkpoint(tmp_path, monkeypatch, capsys):
    def full(tensors, path):
        raise safetensors.SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    options = "--preset quick --size 7 --num-mazes 40 --held-out-mazes 20 --warm-start 1 --updates 1 --channels 4"
    assert main(["train", *options.split(), "--out", str(tmp_path / "run")]) == 2
    out, err = capsys.readouterr()
    assert re.fullmatch(r"sera-maze: error: \S+tensors.safetensors: the disk is full; .*\n", err)
    assert f"when that is mended, go on with: sera-maze train --resume {tmp_path / 'run'}" in out
