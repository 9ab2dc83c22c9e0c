"""Logs of a run that goes on: TensorBoard, CSV, JSON and text show no step twice."""

import csv
import json
import time

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sera_maze.algorithm.maxrl import SERA
from sera_maze.envs import MazeEnv, MazePool
from sera_maze.storage.run_log import is_on_board, resumed_logger

FORMATS = ("tensorboard", "csv", "json", "log")


def log(logger, steps, value):
    for step in steps:
        logger.record("train/loss", value + step)
        logger.record("time/total_timesteps", step, exclude="tensorboard")
        logger.dump(step)
    logger.close()


def board(folder, tag="train/loss"):
    events = EventAccumulator(str(folder)).Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


def table(folder):
    with (folder / "progress.csv").open(newline="") as file:
        return [(int(row["time/total_timesteps"]), float(row["train/loss"])) for row in csv.DictReader(file)]


def lines(folder):
    rows = [json.loads(line) for line in (folder / "progress.json").read_text().splitlines()]
    return [(row["time/total_timesteps"], row["train/loss"]) for row in rows]


def test_going_on_at_100_after_logging_to_140_shows_each_step_once(tmp_path):
    log(resumed_logger(tmp_path, 0, FORMATS), range(20, 160, 20), 0.0)
    first = [(step, float(step)) for step in range(20, 160, 20)]
    assert board(tmp_path) == table(tmp_path) == lines(tmp_path) == first
    log(resumed_logger(tmp_path, 100, FORMATS), range(120, 200, 20), 1000.0)
    both = first[:5] + [(step, 1000.0 + step) for step in range(120, 200, 20)]
    assert [step for step, _ in both] == list(range(20, 200, 20))
    assert board(tmp_path) == table(tmp_path) == lines(tmp_path) == both
    assert (tmp_path / "log.txt").read_text().count("loss") == 7 + 4


def test_without_the_purge_the_board_would_show_steps_twice(tmp_path):
    """What the helper is for: the check above can fail."""
    log(resumed_logger(tmp_path, 0, ["tensorboard"]), range(20, 160, 20), 0.0)
    log(resumed_logger(tmp_path, 10_000, ["tensorboard"]), range(120, 200, 20), 1000.0)
    steps = [step for step, _ in board(tmp_path)]
    assert len(steps) == 11
    assert len(set(steps)) == 9


def test_the_log_waits_for_the_disk_once_a_second_and_before_a_checkpoint(tmp_path, monkeypatch):
    model = SERA("MazePolicy", MazeEnv(MazePool.generate(4, 5, "prim")), policy_kwargs={"channels": 4}, seed=0)
    logger = resumed_logger(tmp_path / "log", 0, ["tensorboard"])
    model.set_logger(logger)
    (output,), flushed, now = logger.output_formats, [], time.monotonic()
    monkeypatch.setattr(output.writer, "flush", lambda: flushed.append(step))
    monkeypatch.setattr("sera_maze.storage.run_log.time.monotonic", lambda: now + step)
    for step in (0.0, 0.3, 0.9, 1.1, 2.0):
        logger.record("train/loss", 0.5)
        logger.dump(int(10 * step))
    assert flushed == [0.0, 1.1]
    model.save_checkpoint(tmp_path / "checkpoint")
    assert flushed == [0.0, 1.1, 2.0]
    monkeypatch.undo()
    logger.close()
    assert [step for step, _ in board(tmp_path / "log")] == [0, 3, 9, 11, 20]


def test_every_resumption_counts_and_several_may_follow_fast(tmp_path):
    for resumption in range(3):
        log(resumed_logger(tmp_path, 20 * resumption, ["tensorboard"]), range(20 * resumption + 10, 200, 10), 0.0)
    names = sorted(file.name for file in tmp_path.iterdir())
    seconds = [int(name.split(".")[3]) for name in names]
    assert len(set(seconds)) == 3  # TensorBoard reads them in this order
    assert [step for step, _ in board(tmp_path)] == list(range(10, 200, 10))


def test_a_new_key_after_going_on_gets_a_column(tmp_path):
    log(resumed_logger(tmp_path, 0, ["csv"]), [10, 20], 0.0)
    logger = resumed_logger(tmp_path, 10, ["csv"])
    logger.record("coverage/pass@1", 0.5)
    log(logger, [20], 5.0)
    with (tmp_path / "progress.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["coverage/pass@1"] for row in rows] == ["", "0.5"]
    assert [float(row["train/loss"]) for row in rows] == [10.0, 25.0]


def test_a_last_line_that_was_cut_short_is_dropped(tmp_path):
    log(resumed_logger(tmp_path, 0, ["csv", "json"]), [10, 20], 0.0)
    for name in ("progress.csv", "progress.json"):
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text[:-4])
    log(resumed_logger(tmp_path, 20, ["csv", "json"]), [30], 0.0)
    assert table(tmp_path) == lines(tmp_path) == [(10, 10.0), (30, 30.0)]


def test_text_values_with_commas_and_quotes_survive(tmp_path):
    logger = resumed_logger(tmp_path, 0, ["csv"])
    logger.record("note", 'a, "b"')
    log(logger, [10], 0.0)
    log(resumed_logger(tmp_path, 10, ["csv"]), [20], 0.0)
    with (tmp_path / "progress.csv").open(newline="") as file:
        assert [row["note"] for row in csv.DictReader(file)] == ['a, "b"', ""]


def test_stdout_is_logged_to(tmp_path, capsys):
    log(resumed_logger(tmp_path / "new" / "folder", 0, ["stdout"]), [10], 0.5)
    assert "loss" in capsys.readouterr().out
    assert (tmp_path / "new" / "folder").is_dir()


def test_wrong_arguments(tmp_path):
    with pytest.raises(ValueError, match="step=-1; allowed is 0 or more"):
        resumed_logger(tmp_path, -1, [])
    with pytest.raises(ValueError, match="formats has 'wandb'; allowed are 'stdout', 'log', 'json', 'csv', 'tensorb"):
        resumed_logger(tmp_path, 0, ["csv", "wandb"])


@pytest.mark.parametrize("behind", [0, 2, 60, 3600])
def test_a_clock_that_was_set_back_does_not_change_the_order(tmp_path, behind):
    """TensorBoard reads event files in the order of their names, which begin with the second of their making."""
    log(resumed_logger(tmp_path, 0, ["tensorboard"]), [17, 42, 68, 90], 0.0)
    (first,) = tmp_path.glob("events.*")
    number = first.name.split(".")[3]
    first.rename(tmp_path / first.name.replace(number, str(int(number) + behind)))
    (tmp_path / "events.out.tfevents.odd").write_bytes(b"")
    before = time.monotonic()
    log(resumed_logger(tmp_path, 68, ["tensorboard"]), [103, 137], 0.0)
    log(resumed_logger(tmp_path, 137, ["tensorboard"]), [155], 0.0)
    assert time.monotonic() - before < 1.5  # nobody waits for the clock
    assert [step for step, _ in board(tmp_path)] == [17, 42, 68, 103, 137, 155]
    assert [step for step in range(200) if is_on_board(tmp_path, "train/loss", step)] == [17, 42, 68, 103, 137, 155]


def test_what_is_on_the_board_is_found_in_all_files(tmp_path):
    assert not is_on_board(tmp_path / "missing", "train/loss")
    log(resumed_logger(tmp_path, 0, ["tensorboard", "csv"]), [10, 20], 0.0)
    log(resumed_logger(tmp_path, 20, ["tensorboard"]), [30], 0.0)
    assert is_on_board(tmp_path, "train/loss")
    assert [step for step in range(40) if is_on_board(tmp_path, "train/loss", step)] == [10, 20, 30]
    assert not is_on_board(tmp_path, "train/los")
    assert not is_on_board(tmp_path, "coverage/pass@1")


def test_a_last_event_that_was_cut_short_is_not_on_the_board(tmp_path):
    log(resumed_logger(tmp_path, 0, ["tensorboard"]), [10, 20], 0.0)
    (path,) = tmp_path.glob("events.out.tfevents.*")
    path.write_bytes(path.read_bytes()[:-6])
    assert [step for step in (10, 20) if is_on_board(tmp_path, "train/loss", step)] == [10]


def test_what_a_later_session_hides_is_not_on_the_board(tmp_path):
    """Steps 1 to 3 are logged, then a training goes on from step 1, which hides 2 and 3, and logs 2 again."""
    for begin, steps in ((0, (1, 2, 3)), (1, (2,))):
        logger = resumed_logger(tmp_path, begin, ("tensorboard",))
        for step in steps:
            logger.record("coverage/pass@1", 0.5)
            logger.dump(step)
        logger.close()
    assert [is_on_board(tmp_path, "coverage/pass@1", step) for step in (1, 2, 3)] == [True, True, False]
    assert is_on_board(tmp_path, "coverage/pass@1")
    assert not is_on_board(tmp_path, "coverage/pass@8")
