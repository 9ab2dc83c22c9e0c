"""Matched trainings: the same warm start and budget, kept where finished, and compared by the command."""

import json

import pytest

from sera_maze.callbacks import read_history
from sera_maze.cli import main
from sera_maze.studies.matched_budget import METHODS, QUICK, is_finished, matched_runs


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
    with pytest.raises(ValueError, match="method 'ppo' is not known"):
        matched_runs(QUICK, ["ppo"], 1, folder)


def test_the_command(study, tmp_path, capsys):
    out = tmp_path / "out"
    assert (
        main(["compare", "--train", "--quick", "--seeds", "1", "--methods", "uniform", "sera-exact", "--out", str(out)])
        == 0
    )
    shown = capsys.readouterr().out
    assert "2 runs to train" in shown
    record = json.loads((out / "comparison.json").read_text())
    assert record["difference"] is not None
    for arguments, words in (
        (["--train", "folder"], "leave the folders out"),
        (["--train", "--seeds", "0"], "seeds=0"),
        (["--train", "--methods", "sera", "sera"], "all different"),
        (["--train", "--quick", "--fresh-mazes", "--methods", "sera"], "success='critic'"),
    ):
        assert main(["compare", *arguments, "--out", str(tmp_path / "other")]) == 2
        assert words in " ".join(capsys.readouterr().err.split())


def test_all_methods_are_configs():
    for changes in METHODS.values():
        assert QUICK.changed(changes).allocator in ("uniform", "sera")
