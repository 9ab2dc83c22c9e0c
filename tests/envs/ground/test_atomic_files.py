"""Files that are written whole or not at all."""

import errno
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sera_maze.envs.ground.atomic_files import check_folder, whole_file, write_text
from sera_maze.envs.pictures.sheets import save_gif, save_png


def test_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "a.txt"
    with whole_file(path) as file:
        file.write(b"first")
        assert not path.exists()
    assert path.read_bytes() == b"first"

    def interrupted():
        with whole_file(path) as file:
            file.write(b"half of the sec")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"first"
    assert os.listdir(path.parent) == ["a.txt"]


def test_two_at_once_do_not_meet(tmp_path):
    path = tmp_path / "a.txt"
    with whole_file(path) as one:
        one.write(b"one")
        with whole_file(path) as other:
            other.write(b"other")
        assert path.read_bytes() == b"other"
    assert path.read_bytes() == b"one"


@pytest.mark.parametrize("name", ["a.png", "a.gif"])
def test_pictures_are_written_whole(tmp_path, monkeypatch, name):
    path = tmp_path / name
    path.write_bytes(b"the old one")
    pixels = np.zeros((4, 5, 3), np.uint8)

    def fail(*_, **__):
        raise OSError("the disk is full")

    monkeypatch.setattr(Image.Image, "save", fail)
    with pytest.raises(OSError, match="the disk is full"):
        save_png(pixels, path) if name == "a.png" else save_gif([pixels], path)
    assert path.read_bytes() == b"the old one"
    monkeypatch.undo()
    save_png(pixels, path) if name == "a.png" else save_gif([pixels], path)
    assert os.listdir(tmp_path) == [name]
    with Image.open(path) as image:
        assert image.size == (5, 4)
    if os.name == "posix":
        umask = os.umask(0)
        os.umask(umask)
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_text_is_written_whole_and_in_utf_8(tmp_path):
    path = tmp_path / "deeper" / "file.txt"
    assert write_text(path, "größer\n") == path
    assert path.read_bytes() == "größer\n".encode()
    assert [each.name for each in path.parent.iterdir()] == ["file.txt"]


def test_what_stands_in_the_way_of_a_folder_is_named(tmp_path):
    check_folder("--out", tmp_path)
    check_folder("--out", tmp_path / "new" / "one")
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(ValueError, match=r"--out .*: .*file is a file; name a folder"):
            check_folder("--out", folder)


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", "x")

    check_folder("--out", Path("new"))
    monkeypatch.setattr("sera_maze.envs.ground.atomic_files.tempfile.TemporaryDirectory", fail)
    with pytest.raises(ValueError, match=r"--out .*deep: nothing can be written in .* \(permission denied\); name ano"):
        check_folder("--out", tmp_path / "new" / "deep")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder in which nobody can write")
def test_a_folder_that_nobody_can_write(tmp_path):
    with pytest.raises(ValueError, match=r"--out /proc/x/y: nothing can be written in /proc \(no such file or direct"):
        check_folder("--out", Path("/proc/x/y"))
    with pytest.raises(OSError, match=r"No such file or directory: '/proc/x.txt'"):  # the name that was asked for
        write_text("/proc/x.txt", "text")
