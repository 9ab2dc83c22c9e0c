"""The folder of a checkpoint: whole or not at all, whatever happens while it is written."""

import errno
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import safetensors
import torch

from sera_maze.envs.pools.pool import MazePool
from sera_maze.storage.files import (
    HEADER,
    POINTER,
    POOL,
    TENSORS,
    Contents,
    read_version,
    write_version,
)

ROOT = Path(__file__).parents[2]


def contents(number, pool=None):
    return Contents({"number": number}, {"x": torch.full((2,), float(number)), "empty": torch.zeros(0)}, pool)


def version(folder):
    return folder / json.loads((folder / POINTER).read_text())["version"]


@pytest.fixture
def pool():
    return MazePool.generate(3, 5)


def test_what_is_written_is_read(tmp_path, pool):
    write_version(tmp_path / "a" / "b", contents(7, pool))
    header, tensors, back = read_version(tmp_path / "a" / "b")
    assert header["number"] == 7
    assert tensors["x"].tolist() == [7.0, 7.0]
    assert tensors["empty"].shape == (0,)
    assert back.digests.tolist() == pool.digests.tolist()
    assert back.provenance["seed"] == 0
    assert sorted(entry.name for entry in version(tmp_path / "a" / "b").iterdir()) == [HEADER, POOL, TENSORS]


def test_only_the_last_version_stays_and_other_files_too(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "v1").mkdir()
    for number in range(3):
        write_version(tmp_path, contents(number))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [POINTER, "notes.txt", "v00000003", "v1"]
    assert read_version(tmp_path).header["number"] == 2
    assert read_version(tmp_path).pool is None


def test_the_same_mazes_are_written_once(tmp_path, pool):
    write_version(tmp_path, contents(0, pool))
    before = (version(tmp_path) / POOL).stat().st_ino
    write_version(tmp_path, contents(1, MazePool(pool.walls, pool.start, pool.goal, provenance=pool.provenance)))
    assert (version(tmp_path) / POOL).stat().st_ino == before
    write_version(tmp_path, contents(2, pool[[2, 1, 0]]))
    assert (version(tmp_path) / POOL).stat().st_ino != before
    assert read_version(tmp_path).pool.digests.tolist() == pool.digests.tolist()[::-1]


def test_damaged_mazes_are_not_taken_over(tmp_path, pool):
    write_version(tmp_path, contents(0, pool))
    (version(tmp_path) / POOL).write_bytes(b"junk")
    write_version(tmp_path, contents(1, pool))
    assert len(read_version(tmp_path).pool) == 3


def test_the_digest_of_a_pool_is_that_of_its_mazes(pool):
    same = MazePool(pool.walls, pool.start, pool.goal, provenance={"made_by": "hand"})
    assert same.digest == pool.digest
    assert pool[[1, 0, 2]].digest != pool.digest
    assert pool[:2].digest != pool.digest


KILLED = """
    import os, signal, sys
    from pathlib import Path

    import torch

    from sera_maze.storage.files import Contents, read_version, write_version
    from sera_maze.envs.pools.pool import MazePool

    folder, pool = Path(sys.argv[1]), MazePool.generate(3, 5)
    FILE_EVENTS = ("open", "os.", "shutil.")
    found = {}

    def write(number, moment):
        # Write a version, and die before the given file operation.
        seen = 0

        def hook(event, arguments):
            nonlocal seen
            if event.startswith(FILE_EVENTS):
                seen += 1
                if seen == moment:
                    os.kill(os.getpid(), signal.SIGKILL)

        child = os.fork()
        if child == 0:
            sys.addaudithook(hook)
            write_version(folder, Contents({"number": number}, {"x": torch.full((2,), float(number))}, pool))
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert write(0, -1) == 0
    number = 0
    for moment in range(1, 1000):
        code = write(number + 1, moment)
        header, tensors, read = read_version(folder)
        assert tensors["x"].tolist() == [header["number"]] * 2, (moment, header["number"])
        assert len(read) == 3
        assert header["number"] in (number, number + 1), (moment, number, header["number"])
        found[moment] = (code, header["number"] - number)
        number = header["number"]
        if code == 0:
            break
    kept = [moment for moment, (code, step) in found.items() if code == -signal.SIGKILL and step == 0]
    taken = [moment for moment, (code, step) in found.items() if code == -signal.SIGKILL and step == 1]
    assert code == 0 and len(kept) >= 10 and len(taken) >= 2, found
    print(sorted(entry.name for entry in folder.iterdir())[1:], sorted(e.name for e in folder.iterdir())[0])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_before_any_file_operation_the_last_complete_version_is_read(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "checkpoint")],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    # The last write, which nothing disturbed, has cleared away what the killed ones had left.
    assert re.fullmatch(r"\['v\d{8}'\] latest\.json", done.stdout.strip())


@pytest.mark.parametrize("function", ["fsync", "rename", "replace"])
def test_an_error_while_writing_leaves_the_version_before(tmp_path, monkeypatch, function):
    write_version(tmp_path, contents(0))

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        with pytest.raises(OSError, match="No space left"):
            write_version(tmp_path, contents(1))
    assert read_version(tmp_path).header["number"] == 0
    assert not list(tmp_path.glob(".*"))
    write_version(tmp_path, contents(2))
    assert read_version(tmp_path).header["number"] == 2


def test_a_reader_follows_a_writer_that_replaces_the_version(tmp_path, monkeypatch):
    write_version(tmp_path, contents(0))
    real, pending = Path.read_bytes, [1]

    def read_bytes(path):
        if path.name == HEADER and pending:
            write_version(tmp_path, contents(pending.pop()))
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert read_version(tmp_path).header["number"] == 1


def test_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist; give the folder"):
        read_version(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="file is a file; a checkpoint is a folder"):
        read_version(tmp_path / "file")
    with pytest.raises(ValueError, match=r"file is a file; a checkpoint is a folder: choose .* ends in \.zip"):
        write_version(tmp_path / "file", contents(0))


def test_foreign_and_unfinished_folders(tmp_path):
    with pytest.raises(ValueError, match=r"holds no complete checkpoint, it has no latest\.json: it is another folder"):
        read_version(tmp_path)
    write_version(tmp_path, contents(0))
    with pytest.raises(ValueError, match=re.escape(f"no latest.json; {tmp_path} does")):
        read_version(version(tmp_path))
    (tmp_path / POINTER).write_text('{"format": "another"}')
    with pytest.raises(ValueError, match=r"latest\.json is not part of a checkpoint of sera_maze; give"):
        read_version(tmp_path)
    (tmp_path / POINTER).write_text('{"format": "sera-maze-checkpoint", "format_version": 3}')
    with pytest.raises(ValueError, match=r"format version 3, this sera_maze reads up to 2; use the version of"):
        read_version(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[1", "\udcff", '{"format": "sera-maze-checkpoint", "format_version": 1}'])
def test_a_damaged_pointer(tmp_path, text):
    write_version(tmp_path, contents(0))
    (tmp_path / POINTER).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=r"latest\.json is damaged: .*; restore it from a copy, or load another"):
        read_version(tmp_path)


def test_a_pointer_never_leads_out_of_the_folder(tmp_path):
    write_version(tmp_path / "a", contents(0))
    write_version(tmp_path / "b", contents(1))
    pointer = json.loads((tmp_path / "b" / POINTER).read_text())
    (tmp_path / "b" / POINTER).write_text(json.dumps({**pointer, "version": "../a/v00000001"}))
    with pytest.raises(ValueError, match=r"latest\.json is damaged: it names version='\.\./a/v00000001'"):
        read_version(tmp_path / "b")


@pytest.mark.parametrize("name", [HEADER, TENSORS, POOL])
@pytest.mark.parametrize("damage", ["cut", "changed", "missing"])
def test_damaged_files(tmp_path, pool, name, damage):
    write_version(tmp_path, contents(0, pool))
    path = version(tmp_path) / name
    raw = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(raw[:-1] if damage == "cut" else raw[:-1] + bytes([raw[-1] ^ 1]))
    problem = "it is missing" if damage == "missing" else "its content has changed since it was saved"
    with pytest.raises(ValueError, match=f"{name} is damaged: {problem}; restore it from a copy"):
        read_version(tmp_path)


def test_a_full_disk_is_an_error_of_the_system(tmp_path, monkeypatch):
    """safetensors has an error of its own for it."""

    def full(tensors, path):
        raise safetensors.SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(OSError, match=r"tensors.safetensors") as found:
        write_version(tmp_path / "agent", Contents({}, {}, None))
    assert found.value.errno == errno.ENOSPC
