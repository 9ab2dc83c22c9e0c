"""A maze with the path of a run's agent, as text for a terminal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from sera_maze.coverage.evaluator import Evaluator
from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.play.rules import MazeRules
from sera_maze.policies.asking import for_mazes
from sera_maze.policies.maze import as_maze_policy
from sera_maze.runs.folder import open_run
from sera_maze.runs.maze_task import held_out_pool

_SAMPLES = 16


def example(folder: Path, console: Console) -> Text | None:
    """A held-out maze of middling difficulty with a path of the run's agent, a successful one if there is one.

    Returns:
        None if the maze is too large for the console.
    """
    model, config = open_run(folder)
    pool = held_out_pool(config)
    prompt = int(np.argsort(pool.shortest_lengths, kind="stable")[len(pool) // 2])
    layout = pool[prompt]
    if 2 * layout.size[1] > console.width or layout.size[0] > max(20, console.height):
        return None
    policy = as_maze_policy(for_mazes(model.policy, pool.size))
    evaluator = Evaluator(policy, pool, rules=MazeRules(pool.size, on_wall=config.mazes.on_wall), seed=config.seed)
    rollouts = next(evaluator.sample(np.array([prompt]), _SAMPLES))
    paths, success = evaluator.paths(rollouts) or [], rollouts.success.tolist()
    path = paths[success.index(True) if any(success) else 0]
    solved = f"{sum(success)} of {_SAMPLES} rollouts solve it"
    return drawn(layout, path, console.encoding).append(f"held-out maze {prompt}: {solved}\n")


def drawn(layout: MazeLayout, path: NDArray[np.int64], encoding: str = "utf-8") -> Text:
    """A maze with a path (L, 2), two characters a square: S the start, G the goal, X where the path failed."""
    wall, step = ("\u2588\u2588", "\u00b7\u00b7") if encoding.lower().startswith("utf") else ("##", "..")
    solved = tuple(path[-1].tolist()) == layout.goal
    walked = {tuple(cell) for cell in path.tolist()}
    text = Text()
    for row, squares in enumerate(layout.walls):
        for column, is_wall in enumerate(squares.tolist()):
            cell = (row, column)
            if cell == layout.start:
                text.append("S ", "bold blue")
            elif cell == layout.goal:
                text.append("G ", "bold green")
            elif cell == tuple(path[-1].tolist()) and not solved:
                text.append("X ", "bold red")
            elif cell in walked:
                text.append(step, "blue")
            else:
                text.append(wall if is_wall else "  ", "dim")
        text.append("\n")
    return text
