"""What the command line prints comes out under every encoding, with "?" for characters that it lacks."""

import io
import os
import subprocess
import sys

import pytest
from rich.markdown import Markdown

from sera_maze.cli.app import COMMANDS, main
from sera_maze.cli.mazes import Mazes

ENCODINGS = ("ascii", "gbk", "cp437", "latin-1", "cp1252", "utf-16", "utf-8")


def printed(arguments, encoding, monkeypatch, errors="strict"):
    """The exit status of a command whose output goes to a file of this encoding, and what stands in the file."""
    file = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(file, encoding, errors))
    try:
        status = main(arguments)
    except SystemExit as end:  # as which tyro ends after --help
        status = end.code or 0
    sys.stdout.flush()
    return status, file.getvalue().decode(encoding)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(command, encoding, monkeypatch):
    status, shown = printed([*command.split(), "--help"], encoding, monkeypatch)
    assert status == 0
    assert f"usage: sera-maze {command}".rstrip() in shown


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_tables(encoding, monkeypatch):
    table = "# pass@k\n\n- \u2013 \u00d7 \u2265 \u2022\n\n|  k |  |\n|---:|---|\n|  1 | \u03ba |\n"
    monkeypatch.setattr(Mazes, "run", lambda self, console: console.print(Markdown(table)))
    status, shown = printed(["mazes"], encoding, monkeypatch)
    assert status == 0
    assert "pass@k" in shown
    if encoding == "ascii":
        assert "? ? ? ?" in shown


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_drawings(encoding, monkeypatch):
    status, shown = printed(["mazes", "--style", "blocks", "--size", "5", "--show", "1"], encoding, monkeypatch)
    assert status == 0
    wall = "\u2588" if encoding in ("gbk", "cp437", "utf-16", "utf-8") else "?"
    assert 5 * wall in shown


@pytest.mark.skipif(sys.platform != "linux", reason="other systems allow only text in names")
def test_names_of_files_that_are_no_text(monkeypatch, tmp_path):
    """Linux allows any bytes in a name; Python keeps those that are no text as single surrogates."""
    out = tmp_path / "maze\udcff.txt"
    status, shown = printed(["mazes", "--size", "5", "--show", "0", "--out", str(out)], "utf-8", monkeypatch)
    assert status == 0
    assert "maze?.txt" in shown


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONIOENCODING": "gbk"},
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_help_of_a_real_process(variables):
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "PYTHONIO"))}
    done = subprocess.run(
        [sys.executable, "-m", "sera_maze", "--help"], env={**environ, **variables}, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"usage: sera-maze" in done.stdout
