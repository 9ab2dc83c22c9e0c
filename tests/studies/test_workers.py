"""Jobs in processes: results, errors, and ends of all kinds that leave no process behind."""

import os
import signal
import subprocess
import sys
import time

import pytest

from sera_maze.studies.workers import in_workers

JOBS = """
import os
import sys
import time
from pathlib import Path

from sera_maze.studies.workers import in_workers


def job(folder, number, seconds):
    (Path(folder) / f"begun-{number}").write_text(str(os.getpid()))
    try:
        time.sleep(seconds)
    except KeyboardInterrupt:
        (Path(folder) / f"saved-{number}").write_text("")
        raise
    return number


if __name__ == "__main__":
    jobs = [(sys.argv[1], number, float(seconds)) for number, seconds in enumerate(sys.argv[2:])]
    try:
        print(sorted(result for _, result in in_workers(job, jobs, 2)))
    except (ValueError, KeyboardInterrupt) as error:
        print(type(error).__name__, error)
"""


def start(tmp_path, *seconds):
    script = tmp_path / "jobs.py"
    script.write_text(JOBS)
    command = [sys.executable, str(script), str(tmp_path), *map(str, seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def await_files(*paths):
    deadline = time.monotonic() + 60
    while not all(path.exists() and (path.read_text() or path.name.startswith("saved")) for path in paths):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:  # a zombie, whose parent is gone too, is none
        return file.read().split()[2] != "Z"


def test_results_come_with_their_numbers():
    assert sorted(in_workers(divmod, [(7, 2), (9, 4)], 2)) == [(0, (3, 1)), (1, (2, 1))]
    assert list(in_workers(divmod, [(7, 2), (9, 4)], 1)) == [(0, (3, 1)), (1, (2, 1))]
    assert list(in_workers(divmod, [], 2)) == []
    for processes in (1, 2):
        with pytest.raises(ZeroDivisionError):
            list(in_workers(divmod, [(1, 0), (1, 1)], processes))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_interrupts_the_jobs_and_is_quiet_where_there_are_none(tmp_path, number):
    """The first job ends at once, so that a worker waits, or has begun the third one, when the signal comes."""
    study = start(tmp_path, 0, 100)
    await_files(tmp_path / "begun-0", tmp_path / "begun-1")
    time.sleep(0.5)
    study.send_signal(number)
    said, errors = study.communicate(timeout=30)
    assert (said, errors) == ("KeyboardInterrupt \n", "")
    assert (tmp_path / "saved-1").exists()


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks at processes in /proc")
def test_without_their_parent_the_jobs_are_interrupted_and_no_other_begins(tmp_path):
    study = start(tmp_path, 100, 100, 100)
    await_files(tmp_path / "begun-0", tmp_path / "begun-1")
    workers = [int((tmp_path / f"begun-{number}").read_text()) for number in (0, 1)]
    study.kill()
    study.wait()
    await_files(tmp_path / "saved-0", tmp_path / "saved-1")
    deadline = time.monotonic() + 20
    while any(map(alive, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not (tmp_path / "begun-2").exists()
    study.stdout.close()
    study.stderr.close()


def test_a_worker_that_is_ended_from_outside_is_told(tmp_path):
    study = start(tmp_path, 100, 100)
    await_files(tmp_path / "begun-0", tmp_path / "begun-1")
    os.kill(int((tmp_path / "begun-0").read_text()), signal.SIGKILL)
    said, _ = study.communicate(timeout=30)
    assert said.startswith("ValueError a worker process was ended from outside")
