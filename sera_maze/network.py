"""The network of a `MazePolicy`; it lives in `sera_maze.policies.network`."""

from sera_maze.policies.network import MazeNet, default_iterations

__all__ = ["MazeNet", "default_iterations"]
