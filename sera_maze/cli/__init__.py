"""The command line, ``sera-maze``."""

from sera_maze.cli.app import main

__all__ = ["main"]
