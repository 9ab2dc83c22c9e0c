"""Pictures and films of a `Viewer`, written without a window."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.pictures.sheets import save_gif, save_png, to_array
from sera_maze.viewer.watching import Viewer

_GIF_FRAMES_PER_SECOND = 50  # at most, see `save_gif`
_MAX_GIF_BYTES = 2**30
_HELD_FRAMES = 6  # the last moment of a rollout stays for so many frames more


def write_picture(viewer: Viewer, path: Path, size: tuple[int, int]) -> Path:
    """Write the end of the present rollout as a PNG file of (width, height) pixels."""
    viewer.step = viewer.last_step
    viewer.message = " "
    return save_png(viewer.draw(size), path)


def write_film(viewer: Viewer, path: Path, size: tuple[int, int], rollouts: int) -> Path:
    """Write some rollouts of the present maze as a .gif or .mp4 file, one frame a step, ``viewer.speed`` a second.

    Raises:
        ValueError: for another suffix; for .mp4, if the package imageio-ffmpeg is missing.
    """
    frames = _frames(viewer, size, rollouts)
    if path.suffix.lower() == ".gif":
        speed = min(viewer.speed, _GIF_FRAMES_PER_SECOND)
        _check_length(viewer, path, size, rollouts)
        return save_gif(list(frames), path, frames_per_second=speed)
    if path.suffix.lower() != ".mp4":
        raise ValueError(f"{path}: {path.suffix} is not known; allowed are .gif and .mp4")
    return _write_mp4(frames, path, size, viewer.speed)


def _check_length(viewer: Viewer, path: Path, size: tuple[int, int], rollouts: int) -> None:
    """Refuse films whose frames would not fit into memory, where a GIF's are all held."""
    frames = 0
    for number in range(rollouts):
        rollout = (viewer.rollout + number) % min(agent.num_samples for agent in viewer.agents)
        frames += max(int(scene.steps[rollout]) for scene in viewer.scenes) + 1 + _HELD_FRAMES
    if 3 * frames * size[0] * size[1] > _MAX_GIF_BYTES:
        raise ValueError(
            f"{path}: {frames} frames of {size[0]}x{size[1]} pixels are too much for a GIF; ask for fewer "
            "--rollouts or a smaller --window, or write an .mp4"
        )


def _frames(viewer: Viewer, size: tuple[int, int], rollouts: int) -> Iterator[NDArray[np.uint8]]:
    viewer.message = " "
    for _ in range(rollouts):
        for step in range(viewer.last_step + 1):
            viewer.step = step
            frame = to_array(viewer.draw(size))
            yield frame
        for _ in range(_HELD_FRAMES):
            yield frame
        viewer.rollout = (viewer.rollout + 1) % min(agent.num_samples for agent in viewer.agents)
        viewer.step = 0


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
