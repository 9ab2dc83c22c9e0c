"""Pictures of mazes, paths and heat maps, sheets and files of them, and windows; pygame loads on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sera_maze.envs.ground.lazy import lazy_names

if TYPE_CHECKING:
    from sera_maze.envs.pictures.drawing import draw_heatmap as draw_heatmap
    from sera_maze.envs.pictures.drawing import draw_layout as draw_layout
    from sera_maze.envs.pictures.drawing import draw_paths as draw_paths
    from sera_maze.envs.pictures.sheets import contact_sheet as contact_sheet
    from sera_maze.envs.pictures.sheets import save_gif as save_gif
    from sera_maze.envs.pictures.sheets import save_png as save_png
    from sera_maze.envs.pictures.sheets import to_array as to_array

__all__ = [
    "contact_sheet",
    "draw_heatmap",
    "draw_layout",
    "draw_paths",
    "save_gif",
    "save_png",
    "to_array",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "contact_sheet": "sheets",
        "draw_heatmap": "drawing",
        "draw_layout": "drawing",
        "draw_paths": "drawing",
        "save_gif": "sheets",
        "save_png": "sheets",
        "to_array": "sheets",
    },
)
