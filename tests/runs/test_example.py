"""What a training shows in a terminal: its progress, and at its end a maze with a path."""

import io

import numpy as np
import pytest
from rich.console import Console

from sera_maze import MazeLayout
from sera_maze.cli.app import main
from sera_maze.runs.config import RunConfig
from sera_maze.runs.example import drawn, example
from sera_maze.runs.maze_task import train
from sera_maze.runs.training import _progress

LAYOUT = MazeLayout.from_text("#####\n#S  #\n### #\n#  G#\n#####")


def test_a_path_is_drawn_from_start_to_goal():
    path = np.array([[1, 1], [1, 2], [1, 3], [2, 3], [3, 3]])
    assert drawn(LAYOUT, path, "ascii").plain.splitlines() == [
        "##########", "##S ....##", "######..##", "##    G ##", "##########",
    ]  # fmt: skip
    assert drawn(LAYOUT, path).plain.splitlines()[1] == "\u2588\u2588S \u00b7\u00b7\u00b7\u00b7\u2588\u2588"


def test_a_failed_path_ends_in_a_cross():
    assert drawn(LAYOUT, np.array([[1, 1], [1, 2]]), "cp437").plain.splitlines()[1] == "##S X   ##"
    assert drawn(LAYOUT, np.array([[1, 1]]), "ascii").plain.splitlines()[1] == "##S     ##"  # it did not move


@pytest.mark.parametrize("width", [60, 80, 200])
def test_bar_count_and_time_are_seen_at_any_width(width):
    shown = io.StringIO()
    console = Console(file=shown, width=width, force_terminal=True, color_system=None)
    figures = "pass@1/128/256 99.0/100.0/100.0 held out, success 73.1 %"
    with _progress(console) as progress:
        progress.add_task("training", total=4000, completed=1000, figures=figures)
    line = shown.getvalue().split("\x1b[2K")[-1]
    assert "training \u2501\u2501\u2501" in line
    assert "1000/4000" in line
    assert "--:--" in line
    assert "pass@1/128/256 9" in line
    assert len(line.splitlines()[0]) <= width


def test_the_end_of_a_training_shows_a_maze_and_what_to_do_next(tmp_path, capsys):
    config = RunConfig.of(size=7, num_mazes=40, held_out_mazes=20, warm_start=30, updates=2, channels=8, num_samples=8)
    train(config, tmp_path / "run", Console(file=io.StringIO()))
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    shown = example(tmp_path / "run", console)
    assert shown.plain.count("\u2588\u2588") > 20
    assert "of 16 rollouts solve it" in shown.plain
    assert example(tmp_path / "run", Console(file=io.StringIO(), width=13)) is None
    assert main(["train", "--resume", str(tmp_path / "run")]) == 0
    lines = capsys.readouterr().out
    assert f"sera-maze watch {tmp_path / 'run'}" in lines.replace("\n", "")
    assert "--size 13x13" in lines
