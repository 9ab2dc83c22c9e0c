"""Commands that are given no run take the agent that comes with the package."""

import pytest
from PIL import Image

from sera_maze.cli.app import main


def test_eval_prints_a_table_and_writes_where_it_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "--count", "8", "--num-samples", "8"]) == 0
    shown = capsys.readouterr().out
    assert "8 mazes of 17x17 squares" in shown
    assert "table and pictures" not in shown
    assert not list(tmp_path.iterdir())
    assert main(["eval", "--size", "9", "--count", "9", "--num-samples", "8", "--out", "table"]) == 0
    assert "9 mazes of 9x9 squares" in capsys.readouterr().out
    assert (tmp_path / "table" / "evaluation.json").exists()


def test_watch_shows_paths(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    assert main(["watch", "--size", "9", "--count", "8", "--num-samples", "8", "--out", str(tmp_path / "a.png")]) == 0
    assert "wrote" in capsys.readouterr().out
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size == (1120, 800)


def test_the_number_of_mazes_of_a_file_is_not_chosen(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("#####\n#S G#\n#####\n")
    assert main(["eval", "--load", str(tmp_path), "--count", "3"]) == 2
    assert "--count is for mazes of a given --size" in capsys.readouterr().err
    assert main(["eval", "--load", str(tmp_path), "--num-samples", "4"]) == 0
    assert "1 mazes of 3x5 squares" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["--size", "9", "--on-wall", "fail"]])
def test_one_plays_against_it(arguments, monkeypatch):
    shown = []
    monkeypatch.setattr("sera_maze.viewer.window.run_window", lambda player, title: shown.append(player))
    assert main(["play", *arguments]) == 0
    assert shown[0].agent.name == "general"
    assert shown[0].agent.rules.on_wall == ("fail" if arguments else "stay")
