"""`render_paths`: the sampled paths of an agent in some mazes, on one sheet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sera_maze.algorithm.normalization import model_normalization
from sera_maze.coverage.evaluator import policy_of
from sera_maze.coverage.path_sheets import path_sheet
from sera_maze.coverage.tables import readable_probability
from sera_maze.envs.ground.checks import check_int
from sera_maze.envs.pictures.sheets import to_array
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.pool import MazePool
from sera_maze.viewer.scenes import Agent


def render_paths(
    model: Any,
    pool: MazePool,
    *,
    prompts: Sequence[int] | None = None,
    num_samples: int = 256,
    rules: MazeRules | None = None,
    iterations: int | None = None,
    columns: int | None = None,
    cell_size: int | None = None,
    seed: int = 0,
) -> NDArray[np.uint8]:
    """Draw the sampled paths of an agent in some mazes, on one sheet.

    Args:
        model: a `MaxRL` (or another algorithm) with a `MazePolicy`, or that policy.
        pool: the mazes; of any size.
        prompts: which of them; None: the first twelve.
        num_samples: rollouts of each maze, 1 to 4096.
        rules: of the episodes; None: a wall ends the rollout, and the default horizon.
        iterations: of the policy; None: its own, and on mazes of another size `default_iterations`.
        columns: mazes in a row; None makes the sheet about square.
        cell_size: pixels a square; None: about 300 pixels a maze.
        seed: of the rollouts.

    Returns:
        (H, W, 3) uint8.

    Raises:
        ValueError, TypeError: for another policy, one that was trained on normalised observations, mazes that are not
            there, arguments out of range.
    """
    agent = Agent(
        "", policy_of(model), pool, rules=rules, iterations=iterations, num_samples=num_samples, seed=seed,
        normalization=model_normalization(model),
    )  # fmt: skip
    chosen = range(min(12, len(pool))) if prompts is None else prompts
    if not len(chosen):
        raise ValueError("prompts is empty; give at least one maze, such as prompts=[0]")
    mazes = np.array([check_int(f"prompts[{i}]", prompt, 0, len(pool) - 1) for i, prompt in enumerate(chosen)])
    size = max(4, 300 // max(pool.size)) if cell_size is None else cell_size
    chances = agent.chances[mazes].tolist()
    labels = [f"maze {maze}: {readable_probability(p)}" for maze, p in zip(mazes.tolist(), chances, strict=True)]
    sheet = path_sheet(agent.evaluator, mazes, num_samples, labels, cell_size=size, columns=columns)
    return to_array(sheet)  # type: ignore[arg-type]  # of plain mazes there are always paths
