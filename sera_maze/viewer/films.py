"""Pictures and films of a `Viewer`, written without a window."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.pictures.sheets import save_gif, save_png, to_array
from sera_maze.viewer.scenes import Scene
from sera_maze.viewer.watching import Viewer

_GIF_FRAMES_PER_SECOND = 50  # at most, see `save_gif`
_MAX_GIF_BYTES = 2**30
_CROWD_FRAMES_PER_SECOND, _HELD_SECONDS = 24, 1
_HELD_FRAMES = 6  # the last moment of a rollout stays for so many frames more


def write_picture(viewer: Viewer, path: Path, size: tuple[int, int]) -> Path:
    """Write one moment as a PNG file of (width, height) pixels.

    It is the end of the rollout that `telling_rollout` chooses; of a crowd, the moment when a walker on the shortest
    path is half way.
    """
    viewer.shows_keys = False
    if viewer.background == "crowd":
        viewer.step = min(viewer.pool[viewer.prompt].shortest_path_length // 2, viewer.last_step)
    else:
        viewer.rollout = telling_rollout(viewer.scenes)
        viewer.step = viewer.last_step
    return save_png(viewer.draw(size), path)


def telling_rollout(scenes: Sequence[Scene]) -> int:
    """The first rollout that succeeds, for two agents in both scenes, or else in one; of failures the longest."""
    success = np.stack([scene.success for scene in _alike(scenes)])  # (agents, n)
    for found in (success.all(0), success.any(0)):
        if found.any():
            return int(found.argmax())
    return int(np.stack([scene.steps for scene in _alike(scenes)]).max(0).argmax())


def telling_rollouts(scenes: Sequence[Scene], count: int) -> list[int]:
    """Rollouts for a film: successes and failures in their proportion, and one of each at least where there are any.

    Of each kind they are the first ones sampled, and they come in the order of their numbers. For two agents a success
    is a rollout in which both succeed.

    Args:
        scenes: one for each agent.
        count: how many; all if there are fewer.
    """
    success: NDArray[np.bool_] = np.logical_and.reduce([scene.success for scene in _alike(scenes)])  # (n,)
    count = min(count, len(success))
    good, bad = np.flatnonzero(success), np.flatnonzero(~success)
    shown = round(count * len(good) / len(success))
    if count > 1 and len(good) and len(bad):
        shown = min(max(shown, 1), count - 1)
    return sorted([*good[:shown].tolist(), *bad[: count - shown].tolist()])


class _Rollouts(NamedTuple):
    success: NDArray[np.bool_]
    steps: NDArray[np.int64]


def _alike(scenes: Sequence[Scene]) -> list[_Rollouts]:
    """The rollouts that all agents have: as many as the agent with the fewest."""
    fewest = min(len(scene.success) for scene in scenes)
    return [_Rollouts(scene.success[:fewest], scene.steps[:fewest]) for scene in scenes]


def write_film(viewer: Viewer, path: Path, size: tuple[int, int], rollouts: int) -> Path:
    """Write some rollouts of the present maze as a .gif or .mp4 file.

    They are those of `telling_rollouts`, one frame a step, ``viewer.speed`` a second. A crowd of ``rollouts`` walks at
    once, with about two dozen frames a second.

    Raises:
        ValueError: for another suffix; for .mp4, if the package imageio-ffmpeg is missing.
    """
    viewer.shows_keys = False
    if viewer.background == "crowd":
        viewer.crowd = min(rollouts, *(len(scene.success) for scene in viewer.scenes))
        parts = max(1, round(_CROWD_FRAMES_PER_SECOND / viewer.speed))
        moments = [(viewer.rollout, i // parts, i % parts / parts) for i in range(viewer.last_step * parts + 1)]
        moments += moments[-1:] * (_HELD_SECONDS * parts * viewer.speed)
    else:
        parts, moments = 1, []
        for number in telling_rollouts(viewer.scenes, rollouts):
            viewer.rollout = number
            moments += [(number, step, 0.0) for step in range(viewer.last_step + 1)]
            moments += moments[-1:] * _HELD_FRAMES
    frames, speed = _frames(viewer, size, moments), viewer.speed * parts
    if path.suffix.lower() == ".gif":
        _check_length(len(moments), path, size)
        return save_gif(list(frames), path, frames_per_second=min(speed, _GIF_FRAMES_PER_SECOND))
    if path.suffix.lower() != ".mp4":
        raise ValueError(f"{path}: {path.suffix} is not known; allowed are .gif and .mp4")
    return _write_mp4(frames, path, size, speed)


def _check_length(frames: int, path: Path, size: tuple[int, int]) -> None:
    """Refuse films whose frames would not fit into memory, where a GIF's are all held."""
    if 3 * frames * size[0] * size[1] > _MAX_GIF_BYTES:
        raise ValueError(
            f"{path}: {frames} frames of {size[0]}x{size[1]} pixels are too much for a GIF; ask for fewer "
            "--rollouts or a smaller --window, or write an .mp4"
        )


def _frames(
    viewer: Viewer, size: tuple[int, int], moments: Sequence[tuple[int, int, float]]
) -> Iterator[NDArray[np.uint8]]:
    """A frame for each moment: (rollout, step, part of the next step)."""
    shown, frame = None, np.zeros((0, 0, 3), np.uint8)
    for moment in moments:
        if moment != shown:
            viewer.rollout, viewer.step, viewer.part = shown = moment
            frame = to_array(viewer.draw(size))
        yield frame


def _write_mp4(frames: Iterator[NDArray[np.uint8]], path: Path, size: tuple[int, int], speed: int) -> Path:
    try:
        import imageio_ffmpeg  # an extra, since it brings a program of its own
    except ImportError:
        raise ValueError(
            f"{path}: .mp4 files need the extra 'video', pip install imageio-ffmpeg; or write a .gif"
        ) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{secrets.token_hex(8)}.part.mp4")
    part.touch()  # says at once if nothing can be written there
    first = next(frames)
    height, width = (side - side % 2 for side in first.shape[:2])  # the codec wants even sides
    writer = imageio_ffmpeg.write_frames(str(part), (width, height), fps=speed, macro_block_size=2, quality=8)
    try:
        writer.send(None)
        writer.send(np.ascontiguousarray(first[:height, :width]))
        for frame in frames:
            writer.send(np.ascontiguousarray(frame[:height, :width]))
        writer.close()
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return path
