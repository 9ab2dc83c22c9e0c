"""``sera-maze doctor``: what this machine gives to trainings."""

import errno
import os
import platform
import subprocess
import sys
import time
from importlib import metadata

import pytest
import torch

from sera_maze.envs.ground import kernels
from sera_maze.runs import machine
from sera_maze.runs.machine import describe_machine

NAMES = (
    "sera-maze", "python", "system", "packages", "cores", "threads", "device", "kernels", "display", "locks", "disk",
    "output",
)  # fmt: skip


@pytest.fixture(autouse=True)
def display(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


def test_every_part_has_a_line(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    found = dict(describe_machine(tmp_path / "runs"))
    assert tuple(found) == NAMES
    assert f"torch {metadata.version('torch')}, numpy {metadata.version('numpy')}, numba" in found["packages"]
    assert found["python"].startswith(platform.python_version())
    assert found["threads"].startswith(f"torch {torch.get_num_threads()}, numba ")
    assert "OMP_WAIT_POLICY=passive" in found["threads"]
    assert f"of {os.cpu_count()} may be used" in found["cores"]
    assert found["device"].startswith("cuda:0" if torch.cuda.is_available() else "")
    assert found["kernels"].endswith(f"{kernels.kernel_folder()} can be written")
    assert found["display"] == "windows open but are not seen, SDL's driver is dummy; SDL_VIDEODRIVER=dummy"
    assert found["locks"] == f"work in {tmp_path}"
    assert found["disk"].endswith(f" GB free in {tmp_path}")
    assert os.listdir(tmp_path) == []


def test_the_command_prints_it_quickly():
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "sera_maze", "doctor"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == list(NAMES)
    assert time.monotonic() - started < 30  # 3 s where nothing else runs


def test_parts_that_fail_say_so_and_the_others_go_on(monkeypatch, tmp_path):
    def fail(*_):
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr("sera_maze.runs.machine.shutil.disk_usage", fail)
    monkeypatch.setitem(sys.modules, "torch", None)  # as where it is not installed
    found = dict(describe_machine(tmp_path))
    assert tuple(found) == NAMES
    assert found["disk"] == "could not be found out: OSError: [Errno 5] the disk is broken"
    assert found["threads"].startswith("could not be found out: ModuleNotFoundError: ")
    assert found["display"].startswith("windows open")


def test_a_missing_package_and_a_missing_place_for_kernels(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "_PACKAGES", ("numpy", "no-such-package"))
    monkeypatch.setattr(kernels, "_is_writable", lambda folder: False)
    monkeypatch.setattr(kernels, "_has_warned", False)
    monkeypatch.setattr(kernels._config, "CACHE_DIR", str(tmp_path / "kernels"))
    found = dict(describe_machine(tmp_path))
    assert found["packages"].endswith(", no-such-package (not installed)")
    assert found["kernels"].startswith("kept nowhere; compiled kernels cannot be kept, as none of ")


def test_no_display_is_not_called_one(monkeypatch, tmp_path):
    monkeypatch.setenv("SDL_VIDEODRIVER", "no-such-driver")
    found = dict(describe_machine(tmp_path))
    assert found["display"].startswith("a window cannot be opened: no-such-driver not available")
    assert found["display"].endswith("; SDL_VIDEODRIVER=no-such-driver")


def test_a_display_that_does_not_answer(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "_ASK_DISPLAY", "import time; time.sleep(30)")
    monkeypatch.setattr(machine, "_SECONDS", 0.5)
    assert dict(describe_machine(tmp_path))["display"].startswith("the display does not answer within 0.5 s; ")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no flock")
def test_a_file_system_that_cannot_lock(monkeypatch, tmp_path):
    import fcntl

    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    found = dict(describe_machine(tmp_path))
    assert found["locks"].startswith(f"do not work in {tmp_path}: two processes could train in one run; ")
