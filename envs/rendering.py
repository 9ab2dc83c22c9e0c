"""Drawings of layouts, paths and heat maps; they live in `sera_maze.envs.pictures.drawing`."""

from sera_maze.envs.pictures.drawing import draw_heatmap, draw_layout, draw_paths

__all__ = ["draw_heatmap", "draw_layout", "draw_paths"]
