"""``sera-maze train`` and ``eval``: a run from the shell, its folder, and going on after a stop."""

import csv
import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sera_maze.algorithm.checkpoint import read_checkpoint
from sera_maze.cli import train as train_command
from sera_maze.cli.app import main
from sera_maze.envs.ground.options import leaves
from sera_maze.envs.pools.pool import MazePool
from sera_maze.policies.maze import MazePolicy
from sera_maze.runs.config import PRESETS, RunConfig
from sera_maze.runs.folder import as_argument, locked, open_run
from sera_maze.runs.maze_task import MazeTask, held_out_pool, pools, unseen_pool
from sera_maze.runs.training import run_task

TINY = {
    "size": 7, "num-mazes": 40, "held-out-mazes": 20, "warm-start": 40, "updates": 8, "prompts-per-batch": 16,
    "rollouts-per-prompt": 8, "channels": 8, "iterations": 8, "eval-every": 3, "num-samples": 32,
}  # fmt: skip


def command(*arguments):
    return [sys.executable, "-m", "sera_maze", *map(str, arguments)]


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
    assert f"tensorboard --logdir {folder}" in "".join(shown.split("\n"))


def test_a_run_leaves_its_files(run):
    folder, _ = run
    config = RunConfig.load(folder / "config.json")
    assert (config.mazes.size, config.updates, config.seed) == ((7, 7), 8, 0)
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


@pytest.mark.parametrize("stop", ["SIGINT", "SIGHUP"])
def test_ctrl_c_saves_and_the_run_goes_on(tmp_path, stop):
    """Interrupted at some moment, then resumed: counters go on and no step is logged twice."""
    folder = tmp_path / "stopped"
    process = subprocess.Popen(train(folder, updates=400), stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (folder / "coverage.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(getattr(signal, stop))
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
        (["train", "--learning-rate", "0"], "learning_rate=0.0 is out of range"),
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
    assert main(["train", "--resume", str(folder), "--seed", "9"]) == 2
    assert "of which only --updates may change; leave out --seed" in capsys.readouterr().err
    assert main(["train", "--resume", str(folder), "--updates", "7"]) == 2
    assert "--updates 7 is less than the run's own 8" in capsys.readouterr().err


def test_a_finished_run_can_be_made_longer(run, tmp_path, capsys):
    folder = shutil.copytree(run[0], tmp_path / "longer")
    assert main(["train", "--resume", str(folder), "--updates", "10"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "10 updates instead of 8: the learning rate" in shown
    assert "from 20% of the first one" in shown
    model, config = open_run(folder)
    assert (model.updates, config.updates) == (10, 10)
    with open(folder / "tensorboard" / "progress.csv", encoding="utf-8") as file:
        rates = [float(x) for row in csv.DictReader(file) if (x := row["train/learning_rate"])]
    # Of the tiny run, all updates are of the warmup, so that a rate is the schedule's times (update + 1) / 20.
    assert rates[-2:] == pytest.approx([1e-3 * 0.2 * 9 / 20, 1e-3 * 0.1 * 10 / 20])


def test_runs_of_one_second_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train_command.datetime, "datetime", SimpleNamespace(now=lambda: datetime(2026, 1, 2, 3, 4, 5)))
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: train_command._new_folder("quick"), range(8)))
    assert len(set(folders)) == 8
    assert Path("runs/20260102-030405-quick") in folders
    assert Path("runs/20260102-030405-quick-8") in folders


@pytest.mark.parametrize(("is_windows", "words"), [(False, "'a b/run'"), (True, '"a b/run"')])
def test_commands_to_type_are_quoted_for_the_shell(is_windows, words, monkeypatch, tmp_path):
    monkeypatch.setattr("sera_maze.runs.folder._WINDOWS", is_windows)
    assert as_argument(Path("a b/run")) == words
    assert as_argument(Path("run")) == "run"


def test_a_run_in_a_thread(tmp_path):
    """As in a notebook: only the main thread may set what signals do."""
    words = train(tmp_path / "run", updates=1)[3:]
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(main, words).result() == 0
    assert open_run(tmp_path / "run")[0].updates == 1


def test_fresh_mazes(tmp_path):
    done = subprocess.run([*train(tmp_path / "run"), "--fresh-mazes"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fresh training mazes and 20 held-out ones" in done.stdout
    model, config = open_run(tmp_path / "run")
    assert (config.mazes.fresh_mazes, config.method.success) == (True, "critic")
    mazes, held_out = pools(config)
    assert model.rollout_sampler.prompts_digest == mazes.digest
    assert model.prompt_order.position == 8 * 16
    walls = {maze.tobytes() for maze in held_out.walls}
    assert not any(maze.tobytes() in walls for maze in mazes.arrays(range(500)).walls)
    with pytest.raises(ValueError, match="success='critic'"):
        RunConfig.of(fresh_mazes=True)


def test_mazes_of_several_distances():
    config = RunConfig.of(size=(9, 9), num_mazes=12, held_out_mazes=6, distances=[4, 12, 8])
    assert config.mazes.distances == (4, 12, 8)
    mazes, held_out = pools(config)
    assert mazes.shortest_lengths.tolist() == [4] * 4 + [12] * 4 + [8] * 4
    assert held_out.shortest_lengths.tolist() == [4, 4, 12, 12, 8, 8]
    assert not {maze.tobytes() for maze in held_out.walls} & {maze.tobytes() for maze in mazes.walls}
    # Of the papers' kind but for the distances: not the shipped mazes.
    assert held_out_pool(RunConfig.of(distances=(4, 8))).shortest_lengths.tolist() == [4] * 128 + [8] * 128


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"distances": ()}, "give one or more, all different"),
        ({"distances": (4, 4)}, "give one or more, all different"),
        ({"distances": (1,)}, "distances=1 is out of range"),
        ({"distances": (4, 8, 12)}, "num_mazes=16384 mazes cannot be shared out evenly over 3 distances"),
        ({"distances": (4, 8), "held_out_mazes": 5}, "held_out_mazes=5 mazes cannot be shared out evenly"),
        ({"distances": (4, 8), "fresh_mazes": True, "success": "critic"}, "leave them out with fresh_mazes"),
        ({"activation_threshold": 1.0}, "activation_threshold=1.0 is out of range"),
        ({"max_grad_norm": 0.0}, "max_grad_norm=0.0 is out of range"),
        ({"success": "critic_history", "fresh_mazes": True}, "success='critic_history' learns about mazes that come"),
    ],
)
def test_options_of_studies_are_checked(options, words):
    with pytest.raises(ValueError, match=words):
        RunConfig.of(**options)


def test_a_run_of_all_families_goes_through_the_sizes_and_can_go_on(tmp_path, monkeypatch):
    options = {
        "size": (9, 9), "smaller_sizes": (7,), "held_out_mazes": 32, "warm_start": 5, "updates": 2, "num_samples": 8,
        "prompts_per_batch": 14, "rollouts_per_prompt": 4, "channels": 8, "learning_iterations": 3,
    }  # fmt: skip
    config = PRESETS["general"].changed(options)
    task = MazeTask(config, "cpu")
    console = Console(file=io.StringIO())
    model, seen, updates = task.make(console), [], []
    assert len(task.held_out) == 32
    assert (model.policy.growth, model.policy.iterations) == ("area", 14)
    own = MazePolicy.imitating
    monkeypatch.setattr(
        MazePolicy, "imitating", lambda policy, generator: seen.append(policy.iterations) or own(policy, generator)
    )
    task.warm_start(model, updates.append)
    assert updates == list(range(5))
    assert seen == [12, 12, 14, 14, 14]  # of 7x7 and then of 9x9 mazes
    evaluation = run_task(MazeTask(config, "cpu"), tmp_path / "run", console)
    assert len(evaluation.successes) == 32
    longer = config.changed({"updates": 3})
    again = run_task(MazeTask(longer, "cpu"), tmp_path / "run", console, resume=True)
    assert len(again.successes) == 32
    assert len(unseen_pool(config, 16, (9, 9))) == len(unseen_pool(config, 16, (11, 11))) == 16


def test_presets():
    assert PRESETS["default"].mazes.size == (17, 17)
    paper = PRESETS["paper"]
    assert (paper.mazes.num_mazes, paper.updates) == (7424, 3000)
    assert (paper.method.prompts_per_batch, paper.method.rollouts_per_prompt, paper.method.n_max) == (256, 128, 512)
    assert len(pools(PRESETS["default"].changed({"num_mazes": 10}))[1]) == 256


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.update(colour="red"), "it has colour"),
        (lambda data: data.pop("seed"), "it lacks seed"),
        (lambda data: data["policy"].update(iterations="8"), "iterations='8'"),
        (lambda data: data.update(learning_rate=True), "learning_rate=True"),
        (lambda data: data["mazes"].update(size=[8, 8]), "size=8x8"),
        (lambda data: data["mazes"].update(size=None), "size"),
        (lambda data: data["mazes"].update(updates=3), "it has updates twice"),
    ],
)
def test_a_damaged_config_is_told(run, tmp_path, change, words):
    data = json.loads((run[0] / "config.json").read_text())
    change(data)
    (tmp_path / "config.json").write_text(json.dumps(data))
    with pytest.raises(ValueError, match=r"config\.json is not the config\.json of a run") as error:
        open_run(tmp_path)
    assert words in str(error.value)
    with pytest.raises(FileNotFoundError, match="is not the folder of a run"):
        open_run(tmp_path / "none")


@pytest.mark.parametrize(
    "change",
    [
        {"on_wall": "stay"},
        {"channels": 4},
        {"learning_rate": 0.5},
        {"prompts_per_batch": 4},
        {"seed": 3},
        {"num_mazes": 41},
        {"eval_every": 4},
        {"n_max": 9},
        {"activation_threshold": 0.1},
        {"max_grad_norm": 2.0},
    ],
)
def test_a_config_that_was_changed_after_the_training_is_told(run, tmp_path, change, capsys):
    folder = shutil.copytree(run[0], tmp_path / "copy")
    RunConfig.load(folder / "config.json").changed(change).save(folder / "config.json")
    assert main(["train", "--resume", str(folder)]) == 2
    ((name, said),) = change.items()
    was = leaves(RunConfig.load(run[0] / "config.json"))[name]
    told = capsys.readouterr().err
    assert f"config.json says {name}={said!r}, but the checkpoint was trained with {was!r}: put the file back" in told


def test_a_checkpoint_that_does_not_say_how_it_was_trained_goes_on(run, tmp_path):
    """As those of earlier versions; its mazes are in it, and are not made again."""
    folder = shutil.copytree(run[0], tmp_path / "copy")
    open_run(folder)[0].save_checkpoint(folder / "checkpoint")
    assert read_checkpoint(folder / "checkpoint").config is None
    RunConfig.load(folder / "config.json").changed({"updates": 9}).save(folder / "config.json")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sera_maze.runs.maze_task.pools", None)
        assert main(["train", "--resume", str(folder)]) == 0
    assert read_checkpoint(folder / "checkpoint").config == asdict(RunConfig.load(folder / "config.json"))


def test_a_run_stopped_before_its_first_checkpoint_begins_again(run, tmp_path):
    folder = tmp_path / "again"
    # Started as a shell starts jobs in the background: with SIGINT ignored.
    process = subprocess.Popen(
        train(folder, **{"warm-start": 100_000}), stdout=subprocess.PIPE, text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not (folder / "config.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 130, shown
    assert not (folder / "checkpoint").exists()
    assert main(["eval", str(folder)]) == 2
    config = RunConfig.load(folder / "config.json")
    config.changed({"warm_start": TINY["warm-start"]}).save(folder / "config.json")
    done = subprocess.run(command("train", "--resume", folder), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    one, other = (json.loads((each / "evaluation.json").read_text()) for each in (folder, run[0]))
    assert one == other


def test_a_resumed_run_logs_no_evaluation_twice(run, tmp_path):
    folder = shutil.copytree(run[0], tmp_path / "copy")
    for _ in range(2):
        assert main(["train", "--resume", str(folder)]) == 0
    log = EventAccumulator(str(folder / "tensorboard"))
    log.Reload()
    steps = [event.step for event in log.Scalars("coverage/pass@1")]
    assert steps == sorted(set(steps))
    assert len(steps) == len((folder / "coverage.jsonl").read_text().splitlines())


def test_a_run_that_goes_on_has_no_final_table_until_its_end(run, tmp_path, monkeypatch):
    folder = shutil.copytree(run[0], tmp_path / "copy")
    RunConfig.load(folder / "config.json").changed({"updates": 12}).save(folder / "config.json")
    monkeypatch.setattr(
        "sera_maze.runs.training.write_evaluation", lambda *_: (_ for _ in ()).throw(ValueError("killed here"))
    )
    assert main(["train", "--resume", str(folder)]) == 2
    assert not (folder / "evaluation.json").exists()
    assert not (folder / "solved.png").exists()


def test_two_processes_do_not_train_in_one_folder(run, capsys):
    with locked(run[0]):
        assert main(["train", "--resume", str(run[0])]) == 2
    assert "another process is training" in capsys.readouterr().err


@pytest.fixture
def flock(monkeypatch):
    """Let the system's call answer with an error number."""
    fcntl = pytest.importorskip("fcntl")

    def answer(number):
        def refuse(*_):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "flock", refuse)

    return answer


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_where_files_cannot_be_locked_there_is_a_warning(tmp_path, flock, number):
    flock(number)
    with pytest.warns(RuntimeWarning, match="cannot lock files") as told, locked(tmp_path):
        entered = True
    assert entered
    assert len(told) == 1
    assert told[0].filename == __file__


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EWOULDBLOCK])
def test_only_a_lock_that_is_held_means_another_process(tmp_path, flock, number):
    flock(number)
    with pytest.raises(ValueError, match="another process is training"), locked(tmp_path):
        pass


def test_other_errors_of_the_lock_are_told_as_they_are(tmp_path, flock):
    flock(errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"), locked(tmp_path):
        pass


def test_a_lock_ends_with_its_block(tmp_path):
    for _ in range(2):  # a file that was left behind locks nothing
        with locked(tmp_path), pytest.raises(ValueError, match="another process is training"), locked(tmp_path):
            pass


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--iterations", "0"], "iterations=0"),
        (["--count", "3"], "--count is for mazes of a given --size"),
        (["--device", "cuda:99"], "device='cuda:99'"),
        (["--device", "nonsense"], "device='nonsense' is not known"),
        (["--size", "7", "--count", "150"], "only 132 turned up"),
    ],
)
def test_eval_refuses(run, arguments, words, capsys):
    assert main(["eval", str(run[0]), *arguments]) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_eval_takes_mazes_that_the_run_has_never_seen(run, capsys):
    """Of the 192 mazes of 3x3 cells 40 are for training and 20 held out."""
    assert main(["eval", str(run[0]), "--size", "7", "--count", "120"]) == 0
    assert (run[0] / "eval-7x7" / "evaluation.json").exists()
    config = RunConfig.load(run[0] / "config.json")
    unseen = {maze.tobytes() for maze in unseen_pool(config, 120, (7, 7)).walls}
    for pool in pools(config):
        assert not unseen & {maze.tobytes() for maze in pool.walls}


def test_eval_reads_what_mazes_writes(run, tmp_path, capsys):
    for name in ("three.txt", "three.jsonl"):
        assert main(["mazes", "--size", "9", "--show", "0", "--out", str(tmp_path / name)]) == 0
        assert main(["eval", str(run[0]), "--load", str(tmp_path / name)]) == 0
        assert "3 mazes of 9x9 squares" in capsys.readouterr().out
    assert (run[0] / "eval-three").is_dir()
    assert main(["eval", str(run[0]), "--size", "9", "--count", "1"]) == 0


def test_training_that_diverges_keeps_the_checkpoint_before(run, tmp_path, capsys, monkeypatch):
    folder = shutil.copytree(run[0], tmp_path / "copy")
    before = (folder / "checkpoint" / "latest.json").read_text()
    RunConfig.load(folder / "config.json").changed({"updates": 20}).save(folder / "config.json")
    monkeypatch.setattr("sera_maze.sampling.maps.MapSampler.losses", lambda sampler, policy, terms: [_nan(policy)])
    assert main(["train", "--resume", str(folder)]) == 2
    assert "has the norm nan" in capsys.readouterr().err
    assert (folder / "checkpoint" / "latest.json").read_text() == before


def _nan(policy):
    return float("nan") * sum(parameter.sum() for parameter in policy.parameters())


def test_refused_options_leave_nothing_behind(tmp_path, capsys):
    for option, value in (("--iterations", "0"), ("--rollouts-per-prompt", "1"), ("--device", "cuda:99")):
        assert main(["train", option, value, "--num-mazes", "10", "--out", str(tmp_path / "run")]) == 2
        assert not (tmp_path / "run").exists()
    (tmp_path / "file").write_text("")
    assert main(["train", "--out", str(tmp_path / "file")]) == 2
    assert "is a file" in capsys.readouterr().err


def test_a_pipe_gets_lines_of_progress(run):
    lines = re.findall(r"^update (\d) of 8: pass@1 [\d.]+ held out, success [\d.]+ %$", run[1], re.MULTILINE)
    assert lines == ["3", "6", "8"]


def test_output_that_nobody_reads_stops_and_saves(tmp_path):
    folder = tmp_path / "run"
    process = subprocess.Popen(
        train(folder, updates=100_000), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "warm start: " in line:
            break
    process.stdout.close()
    process.communicate(timeout=120)
    assert process.returncode != 0
    assert open_run(folder)[0]._n_updates < 100_000


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "sera_maze", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("sera-maze ")


def test_a_warm_start_that_cannot_be_is_refused_before_anything_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["train", "--preset", "quick", "--num-mazes", "8", "--held-out-mazes", "4", "--sampler", "step"]
    assert main(words) == 2
    assert "leave it out (warm_start=0 in a run)" in capsys.readouterr().err
    assert not os.listdir(tmp_path)
