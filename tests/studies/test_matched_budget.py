"""Matched trainings: the same warm start and budget, kept where finished, and compared by the command."""

import json
import shutil
import signal
import subprocess
import sys
import time
from typing import get_args, get_type_hints

import numpy as np
import pytest

from sera_maze.cli.app import main
from sera_maze.cli.compare import Compare
from sera_maze.coverage.callback import read_history
from sera_maze.runs.folder import locked
from sera_maze.studies.matched.report import difference, report, to_json
from sera_maze.studies.matched.study import METHODS, QUICK, SETTINGS, is_finished, matched_runs, outcomes


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    told = []
    runs = matched_runs(QUICK, ["uniform", "sera"], 2, folder, tell=told.append)
    return folder, runs, told


def test_every_method_is_trained_with_every_seed(study):
    folder, runs, told = study
    assert [run.name for run in runs] == ["uniform-0", "uniform-1", "sera-0", "sera-1"]
    assert all(is_finished(run) for run in runs)
    assert told[0] == "4 runs to train, 2 at a time"
    assert {path.parent for path in runs} == {folder}


def test_pairs_have_the_same_warm_start_and_budget(study):
    _, runs, _ = study
    histories = [read_history(run / "coverage.jsonl") for run in runs]
    for uniform, sera in ((0, 2), (1, 3)):
        assert histories[uniform][0] == histories[sera][0]
        assert [entry["rollouts"] for entry in histories[uniform]] == [entry["rollouts"] for entry in histories[sera]]
        # The allocations part with the second epoch, the fourth batch.
        assert histories[uniform][-1] != histories[sera][-1]
    assert histories[0][0] != histories[1][0]


def test_what_is_finished_is_kept(study):
    folder, runs, _ = study
    before = [(run / "evaluation.json").stat().st_mtime_ns for run in runs]
    told = []
    assert matched_runs(QUICK, ["uniform", "sera"], 2, folder, tell=told.append) == runs
    assert told == []
    assert [(run / "evaluation.json").stat().st_mtime_ns for run in runs] == before


def test_wrong_use(study):
    folder, _, _ = study
    with pytest.raises(ValueError, match="holds a run of another config"):
        matched_runs(QUICK.changed({"updates": 21}), ["uniform"], 1, folder)
    with pytest.raises(ValueError, match="with other updates; choose another"):
        matched_runs(QUICK.changed({"updates": 21}), ["uniform"], 1, folder)
    for arguments, words in (
        ((["ppo"], 1), "method='ppo' is not known"),
        (([], 1), "give one or more, all different"),
        ((["sera", "sera"], 1), "give one or more, all different"),
        ((["sera"], 0), "num_seeds=0 is out of range"),
    ):
        with pytest.raises(ValueError, match=words):
            matched_runs(QUICK, *arguments, folder)
    with pytest.raises(ValueError, match="processes=0"):
        matched_runs(QUICK, ["sera"], 1, folder, processes=0)
    with pytest.raises(ValueError, match="method 'sera' does not go with this setting: success='history'"):
        matched_runs(SETTINGS["fresh"], ["uniform", "sera"], 1, folder / "none")
    assert not (folder / "none").exists()  # found before anything is trained


def test_the_command(study, tmp_path, capsys):
    out = tmp_path / "out"
    assert (
        main(["compare", "--train", "--quick", "--seeds", "1", "--methods", "uniform", "sera-exact", "--out", str(out)])
        == 0
    )
    shown = capsys.readouterr().out
    assert "2 runs to train" in shown
    record = json.loads((out / "comparison.json").read_text())
    assert [method["method"] for method in record["methods"]] == ["uniform", "sera-exact"]
    assert "along the run" in (out / "comparison.md").read_text()
    for arguments, words in (
        (["--train", "folder"], "leave the folders out"),
        (["--train", "--seeds", "0"], "seeds=0"),
        (["--train", "--rollouts-per-prompt", "1"], "rollouts_per_prompt=1 leaves nothing to share out"),
        (["--train", "--methods", "sera", "sera"], "all different"),
        (["--train", "--setting", "fresh", "--methods", "sera"], "success='critic'"),
        (["--train", "--quick", "--setting", "hard"], "leave out --setting hard"),
        (["runs/one", "--seeds", "3"], "--seeds is for --train"),
        (["runs/one", "--quick"], "--quick is for --train"),
    ):
        assert main(["compare", *arguments, "--out", str(tmp_path / "other")]) == 2
        assert words in " ".join(capsys.readouterr().err.split())


def test_all_methods_go_with_all_settings():
    for base in (*SETTINGS.values(), QUICK):
        for name, changes in METHODS.items():
            if base.mazes.fresh_mazes and changes["success"].endswith("history") and changes["allocator"] != "uniform":
                with pytest.raises(ValueError, match="fresh mazes do not"):
                    base.changed(changes)
                continue
            assert base.changed(changes).method.allocator == changes["allocator"], name
    options = get_type_hints(Compare)
    assert get_args(options["setting"]) == tuple(SETTINGS)
    assert get_args(get_args(options["methods"])[0]) == tuple(METHODS)


def test_the_report_by_hand(study):
    folder, _, _ = study
    uniform, sera = outcomes(QUICK, ["uniform", "sera"], 2, folder)
    histories = [read_history(folder / f"sera-{seed}" / "coverage.jsonl") for seed in (0, 1)]
    assert sera.final[1].tolist() == [history[-1]["coverage/exact_pass@1"] for history in histories]
    assert list(sera.final) == [1, 32]  # no 256 among 32 samples
    expected = [np.mean([entry["coverage/exact_pass@32"] for entry in history[1:]]) for history in histories]
    assert sera.along.tolist() == pytest.approx(expected)
    assert (uniform.log["allocation/attenuation_min"] < sera.log["allocation/attenuation_min"]).all()
    assert (sera.log["allocation/count_max"] > 4).all()
    text = report([uniform, sera])
    gap = 100 * (sera.final[1] - uniform.final[1])
    assert f"{100 * sera.final[1].mean():.1f} ({gap.mean():+.1f} [" in text
    assert "2 seeds" in text
    record = json.loads(json.dumps(to_json([uniform, sera]), allow_nan=False))
    assert record[1]["pass_at_k"]["1"] == sera.final[1].tolist()


def test_intervals_of_paired_differences():
    one, other = np.array([0.5, 0.7, 0.6, 0.9]), np.array([0.4, 0.5, 0.5, 0.7])
    mean, low, high = difference(one, other)
    assert mean == pytest.approx(0.15)
    assert 0.1 - 1e-12 <= low < mean < high <= 0.2 + 1e-12
    assert difference(one, one) == (0.0, 0.0, 0.0)
    assert difference(one + 0.5, one) == pytest.approx((0.5, 0.5, 0.5))
    assert np.isnan(difference(one[:1], other[:1])[1:]).all()
    # Of many pairs it is about 1.96 standard errors to each side.
    gaps = np.random.default_rng(0).normal(1.0, 2.0, 400)
    mean, low, high = difference(gaps, np.zeros(400))
    assert (high - low) / 2 == pytest.approx(1.96 * gaps.std() / 20, rel=0.1)


def test_runs_that_are_missing_are_told(study):
    with pytest.raises(ValueError, match="rloo-0 is not a finished run of this study; train it first"):
        outcomes(QUICK, ["uniform", "rloo"], 2, study[0])
    with pytest.raises(ValueError, match="uniform-2 is not a finished run"):
        outcomes(QUICK, ["uniform"], 3, study[0])
    with pytest.raises(ValueError, match="uniform-0 is not a finished run"):
        outcomes(QUICK.changed({"channels": 8}), ["uniform"], 1, study[0])


def drop_last_lines(path, count):
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-count]))


def drop_exact(path):
    path.write_text(path.read_text().replace("exact_", "other_"))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda run: (run / "coverage.jsonl").unlink(), "coverage.jsonl is not that of a finished run"),
        (lambda run: drop_last_lines(run / "coverage.jsonl", 1), "the evaluations after the updates 0, 5 to 20"),
        (lambda run: drop_exact(run / "coverage.jsonl"), "it has no exact pass@1"),
        (lambda run: shutil.rmtree(run / "tensorboard"), "progress.csv is not that of a finished run, it has 0 of 20"),
        # The last evaluation and the last update.
        (lambda run: drop_last_lines(run / "tensorboard" / "progress.csv", 2), "it has 19 of 20 updates"),
    ],
)
def test_damaged_runs_are_told(study, tmp_path, damage, words):
    shutil.copytree(study[0] / "sera-0", tmp_path / "sera-0")
    damage(tmp_path / "sera-0")
    with pytest.raises(ValueError, match=words) as error:
        outcomes(QUICK, ["sera"], 1, tmp_path)
    assert f"move {tmp_path / 'sera-0'} away, and run the study again" in str(error.value)


def test_attenuation_of_other_gradients_is_left_out(study):
    folder, _, _ = study
    matched_runs(QUICK, ["rloo"], 1, folder)
    (rloo,) = outcomes(QUICK, ["rloo"], 1, folder)
    assert np.isnan(rloo.log["allocation/attenuation_min"]).all()
    assert "nan" not in report([rloo])


STUDY = """
import sys
from pathlib import Path
from sera_maze.studies.matched.study import QUICK, matched_runs
if __name__ == "__main__":
    matched_runs(QUICK.changed({"updates": 100_000}), ["uniform", "sera"], 2, Path(sys.argv[1]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_study_that_is_stopped_leaves_no_training_behind(tmp_path, number):
    """The trainings that have begun end with a checkpoint, and the others do not begin."""
    script = tmp_path / "study.py"
    script.write_text(STUDY)
    runs = tmp_path / "runs"
    study = subprocess.Popen([sys.executable, str(script), str(runs)], stderr=subprocess.PIPE, text=True)
    begun, deadline = [runs / "uniform-0", runs / "sera-0"], time.monotonic() + 60
    while not all((run / "checkpoint" / "latest.json").exists() for run in begun):
        assert time.monotonic() < deadline
        assert study.poll() is None, study.stderr.read()
        time.sleep(0.1)
    study.send_signal(number)
    _, errors = study.communicate(timeout=60)
    assert study.returncode != 0
    assert "KeyboardInterrupt" in errors
    for run in begun:
        with locked(run):  # by nobody else
            pass
    assert not (runs / "uniform-1").exists()
