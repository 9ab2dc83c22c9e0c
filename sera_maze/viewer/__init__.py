"""Agents at work in windows, pictures and films; pygame loads on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sera_maze.envs.ground.lazy import lazy_names

if TYPE_CHECKING:
    from sera_maze.viewer.path_sheet import render_paths as render_paths
    from sera_maze.viewer.playing import Player as Player
    from sera_maze.viewer.watching import Viewer as Viewer

__all__ = [
    "Player",
    "Viewer",
    "render_paths",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Player": "playing",
        "Viewer": "watching",
        "render_paths": "path_sheet",
    },
)
