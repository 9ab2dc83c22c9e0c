"""The agent that comes with the package, where a command is given no run."""

from __future__ import annotations

from stable_baselines3.common.utils import get_device

from sera_maze.policies.maze import MazePolicy
from sera_maze.runs.config import PRESETS, RunConfig

NAME = "general"
SIZE, COUNT = (17, 17), 64  # of the mazes that are shown where no others are asked for


def shipped_agent(device: str = "auto") -> tuple[MazePolicy, RunConfig]:
    """`MazePolicy.pretrained`, and the config of the run that trained it."""
    return MazePolicy.pretrained(SIZE, device=get_device(device)), PRESETS[NAME]
