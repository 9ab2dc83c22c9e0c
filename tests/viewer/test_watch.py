"""``sera-maze watch`` and ``play``: pictures and films without a window, and what is refused."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from sera_maze.cli.app import main
from sera_maze.envs.pools.pool import MazePool
from sera_maze.runs.config import RunConfig
from sera_maze.runs.maze_task import pools, train
from sera_maze.viewer.films import telling_rollout, telling_rollouts, write_film
from sera_maze.viewer.scenes import Agent
from sera_maze.viewer.watching import Viewer

TINY = RunConfig.of(
    size=(7, 7), num_mazes=40, held_out_mazes=20, warm_start=40, updates=4, prompts_per_batch=16,
    rollouts_per_prompt=8, channels=8, iterations=8, eval_every=4, num_samples=32,
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    from rich.console import Console

    folders = []
    for seed in (0, 1):
        folders.append(tmp_path_factory.mktemp("runs") / f"run{seed}")
        with (folders[-1].parent / "log.txt").open("w") as file:
            train(TINY.changed({"seed": seed}), folders[-1], Console(file=file))
    return folders


@pytest.fixture(autouse=True)
def _no_display(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)


def opened(path):
    with Image.open(path) as image:
        image.load()
        return image


@pytest.mark.parametrize(
    "options",
    [
        [], ["--show", "visits", "--arrows"], ["--show", "plain", "--maze", "3"], ["--size", "11", "--count", "2"],
        ["--iterations", "3", "--num-samples", "5"],
    ],
)  # fmt: skip
def test_pictures(runs, tmp_path, options, capsys):
    out = tmp_path / "picture.png"
    assert main(["watch", str(runs[0]), "--out", str(out), "--window", "640", "480", *options]) == 0
    picture = np.asarray(opened(out).convert("RGB"))
    assert picture.shape == (480, 640, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 10
    assert "picture.png" in "".join(capsys.readouterr().out.split())


def test_two_runs_side_by_side(runs, tmp_path):
    out = tmp_path / "two.png"
    assert main(["watch", *map(str, runs), "--out", str(out)]) == 0
    assert opened(out).size == (1120, 800)


def test_films(runs, tmp_path):
    gif, mp4 = tmp_path / "film.gif", tmp_path / "film.mp4"
    for out in (gif, mp4):
        arguments = ["--out", str(out), "--rollouts", "2", "--window", "480", "361", "--speed", "16"]
        assert main(["watch", str(runs[0]), *arguments]) == 0
    with Image.open(gif) as film:
        assert film.size == (480, 361)
        assert film.n_frames > 2
    content = mp4.read_bytes()
    assert content[4:8] == b"ftyp"
    assert len(content) > 2000
    assert not [path for path in tmp_path.iterdir() if ".part" in path.name]


def test_a_film_shows_every_step(runs, tmp_path, monkeypatch):
    frames = []
    monkeypatch.setattr("sera_maze.viewer.films.save_gif", lambda given, path, **_: frames.extend(given) or path)
    from sera_maze.runs.folder import open_run
    from sera_maze.runs.maze_task import held_out_pool

    model, config = open_run(runs[0])
    viewer = Viewer([Agent("one", model.policy, held_out_pool(config), num_samples=4)])
    chosen = telling_rollouts(viewer.scenes, 2)
    steps = viewer.scenes[0].steps[chosen].sum()
    write_film(viewer, tmp_path / "film.gif", (420, 320), 2)
    assert len(frames) == steps + 2 * (1 + 6)
    assert all(frame.shape == (320, 420, 3) for frame in frames)


def scene_of(success, steps=None):
    steps = np.arange(1, len(success) + 1) if steps is None else np.array(steps)
    return SimpleNamespace(success=np.array(success, bool), steps=steps)


def test_a_picture_shows_a_success_or_else_the_longest_failure():
    assert telling_rollout([scene_of([0, 0, 1, 1])]) == 2
    assert telling_rollout([scene_of([0, 1, 0, 1]), scene_of([1, 0, 0, 1])]) == 3
    assert telling_rollout([scene_of([0, 1, 0, 0]), scene_of([0, 0, 1])]) == 1
    assert telling_rollout([scene_of([0, 0, 0], steps=[2, 9, 4])]) == 1


def test_a_film_shows_successes_and_failures_in_their_proportion():
    half = scene_of([0, 0, 0, 0, 1, 1, 1, 1])
    assert telling_rollouts([half], 4) == [0, 1, 4, 5]
    assert telling_rollouts([half], 100) == list(range(8))
    assert telling_rollouts([scene_of([0] * 7 + [1])], 3) == [0, 1, 7]  # one of each at least
    assert telling_rollouts([scene_of([1] * 7 + [0])], 2) == [0, 7]
    assert telling_rollouts([scene_of([0, 1, 1, 1])], 1) == [1]
    assert telling_rollouts([scene_of([0] * 5)], 2) == [0, 1]


def test_a_crowd(runs, tmp_path):
    film = tmp_path / "crowd.gif"
    arguments = ["--show", "crowd", "--maze", "1", "--window", "480", "360", "--out"]
    assert main(["watch", *map(str, runs), *arguments, str(film), "--rollouts", "16"]) == 0
    with Image.open(film) as image:
        assert image.size == (480, 360)
        assert image.n_frames > 2
    assert main(["watch", str(runs[0]), *arguments, str(tmp_path / "crowd.png")]) == 0


def test_mp4_without_its_package(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert main(["watch", str(runs[0]), "--out", str(tmp_path / "film.mp4")]) == 2
    assert "pip install imageio-ffmpeg" in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_without_a_display_watch_names_the_way_out(runs, capsys):
    assert main(["watch", str(runs[0])]) == 2
    assert "--out FILE.png" in " ".join(capsys.readouterr().err.split())
    assert main(["play", "--size", "7"]) == 2
    assert "needs a display" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("command", [["watch", "RUN"], ["watch", "RUN", "OTHER"], ["play", "RUN"], ["play"]])
def test_windows_close_cleanly(runs, command, monkeypatch):
    """On pygame's dummy driver, with a closing event that waits in the queue."""
    from sera_maze.envs.pictures.canvas import pygame

    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame.display.init()
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    assert main([{"RUN": str(runs[0]), "OTHER": str(runs[1])}.get(word, word) for word in command]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["RUN", "--out", "a.jpg"], "does not end in .png, .gif or .mp4"),
        (["RUN", "--out", "a.png", "--maze", "20"], "maze 20 is not there; the pool has mazes 0 to 19"),
        (["RUN", "RUN", "RUN"], "got 3 run folders"),
        (["nothing", "--out", "a.png"], "nothing is not the folder of a run"),
        (["RUN", "--out", "a.png", "--size", "8"], "size=8x8"),
        (["RUN", "--out", "a.png", "--rollouts", "0"], "rollouts=0"),
        (["RUN", "--out", "a.png", "--window", "1", "1"], "window=1"),
        (["RUN", "--out", "a.png", "--num-samples", "0"], "num_samples"),
        (["RUN", "--out", "a.png", "--iterations", "0"], "iterations=0"),
        (["RUN", "--out", "a.png", "--device", "cuda:99"], "device='cuda:99'"),
    ],
)
def test_refusals(runs, arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["watch", *[str(runs[0]) if word == "RUN" else word for word in arguments]]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_a_half_written_checkpoint_is_told(runs, tmp_path, capsys):
    import shutil

    folder = shutil.copytree(runs[0], tmp_path / "cut")
    tensors = next((folder / "checkpoint").glob("v*/tensors.safetensors"))
    tensors.write_bytes(tensors.read_bytes()[:100])
    assert main(["watch", str(folder), "--out", str(tmp_path / "a.png")]) == 2
    assert "is damaged" in capsys.readouterr().err


def test_films_that_are_too_long_are_refused(runs, tmp_path, capsys):
    arguments = ["--out", str(tmp_path / "a.gif"), "--rollouts", "4096", "--window", "4000", "4000"]
    assert main(["watch", str(runs[0]), *arguments]) == 2
    assert "too much for a GIF" in capsys.readouterr().err


def test_mazes_that_a_run_was_trained_on_are_told(runs, tmp_path, monkeypatch):
    """The second run's training pool overlaps the first one's held-out mazes, of which there are few in this size."""
    shown = []
    monkeypatch.setattr("sera_maze.viewer.films.write_picture", lambda viewer, *_: shown.append(viewer))
    assert main(["watch", *map(str, runs), "--out", str(tmp_path / "a.png")]) == 0
    first, second = (agent.name for agent in shown[0].agents)
    assert first == "run0"
    held_out, training = (
        {maze.tobytes() for maze in pools(RunConfig.load(run / "config.json"))[which].walls}
        for run, which in zip(runs, (1, 0), strict=True)
    )
    assert second == f"run1 (trained on {len(held_out & training)} of these mazes)"


@pytest.mark.parametrize(
    "options",
    [
        ["RUN", "--size", "9"],
        ["RUN", "--on-wall", "stay"],
        ["--load", "own.npz", "--seed", "1"],
        ["RUN", "--algorithm", "dfs"],
    ],
)
def test_play_refuses_options_that_it_would_ignore(runs, options, capsys):
    assert main(["play", *[str(runs[0]) if word == "RUN" else word for word in options]]) == 2
    assert "leave it out" in " ".join(capsys.readouterr().err.split())


def test_own_mazes(runs, tmp_path):
    MazePool.generate(3, 9).save(tmp_path / "own.npz")
    out = tmp_path / "own.png"
    assert main(["watch", str(runs[0]), "--load", str(tmp_path / "own.npz"), "--maze", "2", "--out", str(out)]) == 0
    assert out.exists()
