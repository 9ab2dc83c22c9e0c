"""Every code block of the README runs as it is printed."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sera_maze.cli import main

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_blocks_run(code, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_shell_commands_run(tmp_path, monkeypatch, capsys):
    """The two installations are what .ci/run does; everything else is a command of ours."""
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    installs = [line for line in lines if line.startswith("pip install -c constraints.txt -e ")]
    assert len(installs) == 2
    for line in lines:
        command = line.split("&&")[-1] if line in installs else line
        words = shlex.split(command)
        if words != ["pytest"]:
            assert words[0] == "sera-maze"
            if words[1] != "train":  # minutes of training: test_training runs a short one, .ci/run a longer one
                assert main(words[1:]) == 0
    assert "6 different mazes" in capsys.readouterr().out


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert target.startswith("https://") or (Path(__file__).parents[1] / target).exists(), target
