"""``sera-maze train`` and ``eval``: a run from the shell, its folder, and going on after a stop."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sera_maze.cli import main
from sera_maze.envs.pool import MazePool
from sera_maze.presets import PRESETS, RunConfig
from sera_maze.training import open_run, pools

TINY = {
    "size": 7, "num-mazes": 40, "held-out-mazes": 20, "warm-start": 40, "updates": 8, "prompts-per-batch": 16,
    "rollouts-per-prompt": 8, "channels": 8, "iterations": 8, "eval-every": 3, "num-samples": 32,
}  # fmt: skip


def command(*arguments):
    return [sys.executable, "-m", "sera_maze.cli", *map(str, arguments)]


def train(folder, **changes):
    """The command of a tiny run."""
    options = {**TINY, **changes}
    return command(
        "train", "--preset", "quick", "--out", folder, *(x for k, v in options.items() for x in (f"--{k}", v))
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "one"
    # 40 of the 192 mazes of 3x3 cells for training; the held-out ones are those of the config below.
    done = subprocess.run(train(folder), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def test_a_run_tells_what_it_did(run):
    folder, shown = run
    assert "40 training mazes and 20 held-out ones of 7x7 squares" in shown
    assert "8 updates, 896 rollouts" in shown  # batches of 16, 16 and 8 of 40 mazes, 8 rollouts each
    assert "pass@k" in shown
    assert f"tensorboard --logdir {folder}/tensorboard" in "".join(shown.split("\n"))


def test_a_run_leaves_its_files(run):
    folder, _ = run
    config = RunConfig.load(folder / "config.json")
    assert (config.size, config.updates, config.seed) == ((7, 7), 8, 0)
    table = json.loads((folder / "evaluation.json").read_text())
    assert table
    assert "| k |" in (folder / "evaluation.md").read_text().replace("  ", " ").replace("|  k |", "| k |")
    with Image.open(folder / "failed.png") as picture:
        assert picture.width > 100
    log = EventAccumulator(str(folder / "tensorboard"))
    log.Reload()
    tags = set(log.Tags()["scalars"])
    assert {
        "rollout/success_rate", "train/loss", "train/entropy", "groups/mixed_fraction", "allocation/count_max",
        "coverage/pass@1", "coverage/exact_pass@32", "coverage/solved_fraction", "time/total_rollouts",
    } <= tags  # fmt: skip
    assert len(log.Scalars("train/loss")) == 8
    history = [json.loads(line) for line in (folder / "coverage.jsonl").read_text().splitlines()]
    assert [row["update"] for row in history if "update" in row] == [0, 3, 6, 8]


def test_training_improves_on_the_warm_start(run):
    folder, _ = run
    model, config = open_run(folder)
    assert model._n_updates == 8
    pool, held_out = pools(config)
    assert not {maze.walls_digest for maze in pool} & {maze.walls_digest for maze in held_out}
    assert model.predict(model.get_env().reset())[0].shape == (1,)


def test_eval_prints_the_table_and_takes_other_mazes(run, capsys, tmp_path):
    folder, _ = run
    assert main(["eval", str(folder)]) == 0
    assert "20 mazes of 7x7 squares" in capsys.readouterr().out
    assert (folder / "eval" / "evaluation.md").exists()
    assert main(["eval", str(folder), "--size", "11", "--count", "5", "--out", str(tmp_path / "large")]) == 0
    assert "5 mazes of 11x11 squares" in capsys.readouterr().out
    MazePool.generate(4, 9).save(tmp_path / "pool.npz")
    assert main(["eval", str(folder), "--load", str(tmp_path / "pool.npz"), "--out", str(tmp_path / "own")]) == 0
    assert "4 mazes of 9x9 squares" in capsys.readouterr().out


def test_ctrl_c_saves_and_the_run_goes_on(tmp_path):
    """Interrupted at some moment, then resumed: counters go on and no step is logged twice."""
    folder = tmp_path / "stopped"
    process = subprocess.Popen(train(folder, updates=400), stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (folder / "coverage.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 130, shown
    assert f"sera-maze train --resume {folder}" in " ".join(shown.split("\n"))
    stopped, config = open_run(folder)
    assert 0 <= stopped._n_updates < 400
    assert config.updates == 400
    # The interrupted run with its end moved near, so that the test is short; the learning rate is set by that end.
    config.changed({"updates": stopped._n_updates + 2}).save(folder / "config.json")
    done = subprocess.run(command("train", "--resume", folder), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    resumed, _ = open_run(folder)
    assert resumed._n_updates == stopped._n_updates + 2
    log = EventAccumulator(str(folder / "tensorboard"))
    log.Reload()
    steps = [event.step for event in log.Scalars("train/loss")]
    assert steps == sorted(set(steps))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--resume", "nothing"], "nothing is not the folder of a run"),
        (["eval", "nothing"], "nothing is not the folder of a run"),
        (["train", "--size", "8"], "size=8x8"),
        (["train", "--updates", "0"], "updates=0"),
        (["train", "--learning-rate", "0"], "learning_rate=0.0 is not over 0"),
        (["train", "--threads", "0"], "threads=0"),
    ],
)
def test_wrong_input(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert words in " ".join(capsys.readouterr().err.split("\n"))
    assert not os.listdir(tmp_path)


def test_runs_are_not_written_over(run, capsys):
    folder, _ = run
    assert main(["train", "--out", str(folder)]) == 2
    assert "already holds a run" in capsys.readouterr().err
    assert main(["train", "--resume", str(folder), "--updates", "9"]) == 2
    assert "leave out --updates" in capsys.readouterr().err


def test_fresh_mazes(tmp_path):
    done = subprocess.run([*train(tmp_path / "run"), "--fresh-mazes"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fresh training mazes and 20 held-out ones" in done.stdout
    model, config = open_run(tmp_path / "run")
    assert (config.fresh_mazes, config.success) == (True, "critic")
    mazes, held_out = pools(config)
    assert model.fast_path.pool.digest == mazes.digest
    assert model.prompt_order.position == 8 * 16
    walls = {maze.tobytes() for maze in held_out.walls}
    assert not any(maze.tobytes() in walls for maze in mazes.arrays(range(500)).walls)
    with pytest.raises(ValueError, match="success='critic'"):
        RunConfig(fresh_mazes=True)


def test_presets():
    assert PRESETS["default"].size == (17, 17)
    paper = PRESETS["paper"]
    assert (paper.num_mazes, paper.prompts_per_batch, paper.rollouts_per_prompt, paper.n_max, paper.updates) == (
        7424, 256, 128, 512, 3000,
    )  # fmt: skip
    assert len(pools(PRESETS["default"].changed({"num_mazes": 10}))[1]) == 256


def test_a_damaged_config_is_told(run, tmp_path):
    (tmp_path / "config.json").write_text('{"size": [7, 7], "colour": "red"}')
    with pytest.raises(ValueError, match=r"config\.json is not the config\.json of a run .*colour"):
        open_run(tmp_path)
    with pytest.raises(FileNotFoundError, match="is not the folder of a run"):
        open_run(tmp_path / "none")
