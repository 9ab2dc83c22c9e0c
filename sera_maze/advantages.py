"""Group advantages; they live in `sera_maze.allocation.advantages`."""

from sera_maze.allocation.advantages import attenuation, group_advantages

__all__ = ["attenuation", "group_advantages"]
