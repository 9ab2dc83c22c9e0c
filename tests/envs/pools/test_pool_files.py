"""Pools in files: they come back whole, and damaged ones are refused."""

import json
import os
import stat
import threading

import numpy as np
import pytest

from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.pools.pool import MazePool

CORRIDOR = "#######\n#S   G#\n#######"


@pytest.fixture(scope="module")
def pool():
    return MazePool.generate(60, 9, seed=3)


def test_save_and_load(pool, tmp_path):
    path = pool.save(tmp_path / "new" / "pool.npz")
    loaded = MazePool.load(path)
    for name in ("walls", "start", "goal"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(pool, name))
        assert getattr(loaded, name).dtype == getattr(pool, name).dtype
    assert {**pool.provenance, "saved_by_version": loaded.provenance["saved_by_version"]} == loaded.provenance
    assert json.loads(str(np.load(path)["header"]))["provenance"]["algorithm"] == "prim"
    assert os.listdir(path.parent) == ["pool.npz"]


def test_interrupted_save_leaves_the_old_file(pool, tmp_path, monkeypatch):
    path = pool.save(tmp_path / "pool.npz")
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        pool[:5].save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["pool.npz"]


@pytest.mark.parametrize("damage", ["half", "text", "empty", "other", "npy", "pickle", "folder", "header"])
def test_damaged_files_are_refused(pool, tmp_path, damage):
    path = pool.save(tmp_path / "pool.npz")
    if damage == "half":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif damage == "text":
        path.write_text(CORRIDOR)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "other":
        np.savez(path, walls=pool.walls)
    elif damage == "npy":
        with path.open("wb") as file:
            np.save(file, pool.walls)
    elif damage == "pickle":
        np.savez(path, header=np.array([{}], object), walls=pool.walls, start=pool.start, goal=pool.goal)
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    elif damage == "header":
        np.savez(path, header=np.array('{"format": "x", "version": 1}'), walls=0, start=0, goal=0)
    with pytest.raises(ValueError, match=r"pool\.npz is not a whole pool of mazes"):
        MazePool.load(path)


def test_missing_file_and_wrong_suffix(pool, tmp_path):
    with pytest.raises(FileNotFoundError):
        MazePool.load(tmp_path / "none.npz")
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        pool.save(tmp_path / "pool.txt")


def test_a_file_holds_four_arrays_and_nothing_else(pool, tmp_path):
    with np.load(pool.save(tmp_path / "pool.npz"), allow_pickle=False) as file:
        assert {name: file[name].dtype.str[:2] for name in file.files} == {
            "header": "<U", "walls": "|u", "start": "<u", "goal": "<u",
        }  # fmt: skip


def test_sides_over_65535(tmp_path):
    walls = np.ones((3, 65_541), bool)
    walls[1, 1:-1] = False
    pool = MazePool.from_layouts([MazeLayout(walls, (1, 65_539), (1, 65_537))])
    loaded = MazePool.load(pool.save(tmp_path / "pool.npz"))
    assert (loaded.start.tolist(), loaded.goal.tolist()) == ([[1, 65_539]], [[1, 65_537]])
    assert loaded.digests.tolist() == pool.digests.tolist()


def test_arguments_from_numpy_can_be_saved(tmp_path):
    pool = MazePool.generate(
        np.int64(4), np.array([7, 7]), seed=np.uint64(3), braid=np.float32(0.5), openings=np.int8(1),
        endpoints="distance", distance=np.int64(4),
    )  # fmt: skip
    train, held_out = pool.split(np.int64(1), seed=np.int32(2))
    for part in (pool, train, held_out, pool[np.array([2, 0])], MazePool.concatenate([train, held_out])):
        loaded = MazePool.load(part.save(tmp_path / "pool.npz"))
        assert loaded.provenance == {**part.provenance, "saved_by_version": loaded.provenance["saved_by_version"]}


def test_pools_that_were_selected_again_and_again_can_be_saved(pool, tmp_path):
    part = pool
    for i in range(400):
        part = MazePool.concatenate([part[:3], part[3:]]) if i % 3 else part.split(1, seed=0)[0][::-1]
        if len(part) < 10:
            part = pool
    assert list(MazePool.load(part.save(tmp_path / "pool.npz"))) == list(part)
    assert len(json.dumps(part.provenance)) < 100_000


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"start": np.ones((60, 2))}, "cells are of dtype float64"),
        ({"goal": np.full((60, 2), 7.5)}, "not integers"),
        ({"walls": np.zeros((60, 12), np.uint8)}, r"walls have shape \(60, 12\), not that of 60 mazes of 9x9"),
        ({"walls": np.zeros((60, 11), np.int64)}, "walls have shape"),
        ({"header": {"shape": [60, 9, 10**9]}}, "walls have shape"),
        ({"header": {"shape": [60, 9]}}, "not enough values"),
        ({"header": {"provenance": 5}}, "provenance is not a dict"),
        ({"header": {"version": 2}}, "its format is sera-maze-pool 2"),
        ({"header": "[" * 100_000}, "recursion"),
        ({"start": np.full((60, 2), None)}, "it holds Python objects, which are never loaded"),
    ],
)
def test_files_that_hold_something_else(pool, tmp_path, changed, words):
    path = pool.save(tmp_path / "pool.npz")
    with np.load(path) as file:
        arrays = dict(file)
    header = changed.get("header", {})
    text = header if isinstance(header, str) else json.dumps({**json.loads(str(arrays["header"])), **header})
    np.savez(path, **{**arrays, **changed, "header": np.array(text)})
    with pytest.raises(ValueError, match=rf"pool\.npz is not a whole pool of mazes \(.*{words}") as caught:
        MazePool.load(path)
    assert "allow_pickle" not in str(caught.value)


def test_every_damaged_byte_is_noticed_or_does_no_harm(tmp_path):
    pool = MazePool.from_layouts([MazeLayout.from_text(CORRIDOR)])
    path = pool.save(tmp_path / "pool.npz")
    whole = path.read_bytes()
    harmless, messages = 0, set()
    for place in range(len(whole)):
        for flipped in (0xFF, 0x06):  # 0x06 turns the number of zip's usual compression into that of another
            path.write_bytes(whole[:place] + bytes([whole[place] ^ flipped]) + whole[place + 1 :])
            try:
                loaded = MazePool.load(path)
            except ValueError as error:
                messages.add(str(error))
            else:
                assert list(loaded) == list(pool)
                harmless += 1
    assert harmless < 0.7 * len(whole)  # of twice as many: times, versions and attributes that nothing reads
    assert not [message for message in messages if "allow_pickle" in message]
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="is not a whole pool"):
            MazePool.load(path)


def test_threads_that_save_to_one_path(pool, tmp_path):
    path, errors = tmp_path / "pool.npz", []

    def save():
        try:
            for _ in range(20):
                pool.save(path)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=save) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert list(MazePool.load(path)) == list(pool)
    assert os.listdir(tmp_path) == ["pool.npz"]


@pytest.mark.skipif(os.name != "posix", reason="file permissions are those of POSIX")
def test_files_have_the_usual_permissions(pool, tmp_path):
    before = os.umask(0o027)
    try:
        path = pool.save(tmp_path / "pool.npz")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_long_file_names(pool, tmp_path):
    assert pool.save(tmp_path / ("a" * 240 + ".npz")).exists()
