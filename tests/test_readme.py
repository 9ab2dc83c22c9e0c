"""Every code block of the README runs as it is printed."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from sera_maze.cli.app import main
from sera_maze.envs.pictures.canvas import pygame
from sera_maze.runs.config import RunConfig
from sera_maze.runs.maze_task import train

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md")))
LONG = ("train", "bench", "align", "digits")  # minutes: shorter ones are run by their own tests and .ci/run


def blocks(language, text=README):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_blocks_run(code, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def runs(tmp_path):
    """Trained agents in the folders that the README's commands name; training them takes minutes there."""
    config = RunConfig.of(
        size=(7, 7), num_mazes=40, held_out_mazes=152, warm_start=40, updates=4, prompts_per_batch=16,
        rollouts_per_prompt=8, channels=8, iterations=8, eval_every=2, num_samples=256,
    )  # fmt: skip
    with (tmp_path / "log.txt").open("w") as file:
        train(config, tmp_path / "runs" / "one", Console(file=file))
        train(config.changed({"allocator": "uniform"}), tmp_path / "runs" / "two", Console(file=file))
        more = {"size": (9, 9), "held_out_mazes": 256, "num_samples": 64}
        train(config.changed(more), tmp_path / "runs" / "before", Console(file=file))
    shutil.copytree(tmp_path / "runs" / "before", tmp_path / "runs" / "after")
    return tmp_path


def test_shell_commands_run(runs, monkeypatch, capsys):
    """Also those of docs/. The two installations are what .ci/run does; everything else is a command of ours."""
    monkeypatch.chdir(runs)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    installs = [line for line in lines if line.startswith("pip install -c constraints.txt -e ")]
    assert len(installs) == 2
    pages = [line for block in blocks("bash", PAGES) for line in block.splitlines() if line.startswith("sera-maze ")]
    for line in dict.fromkeys(lines + pages):
        command = line.split("&&")[-1] if line in installs else line
        words = shlex.split(command, comments=True)
        if words[0] != "pytest":
            assert words[0] == "sera-maze"
            if words[1] in ("watch", "play") and "--out" not in words:  # a window: somebody closes it
                pygame.display.init()
                pygame.event.post(pygame.event.Event(pygame.QUIT))
            if words[1] not in LONG:
                assert main(words[1:]) == 0, line
    assert "6 different mazes" in capsys.readouterr().out
    assert {"watch.png", "watch_two.png", "mazes.png", "comparison"} <= {path.name for path in runs.iterdir()}


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert target.startswith("https://") or (ROOT / target.partition("#")[0]).exists(), target
