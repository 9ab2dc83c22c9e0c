"""Pictures of an evaluation: the paths of sampled rollouts in easy, median and hard mazes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv

from sera_maze.coverage.outcomes import sample_outcomes
from sera_maze.coverage.tables import Evaluation, readable_percent
from sera_maze.envs.pools.pool import MazePool

SOLVED, FAILED = "solved.png", "failed.png"
_COLUMNS = 4
_ROWS = 3
_MAX_PATHS = 4096  # drawn of each maze
_SIDE = 300  # pixels of a maze, about
_MIN_CELL_SIZE = 8  # pixels: below, failures have no crosses


def write_pictures(
    evaluation: Evaluation, policy: ActorCriticPolicy, pool: MazePool, folder: str | os.PathLike[str],
    *, env: VecEnv | None = None,
) -> list[Path]:  # fmt: skip
    """Draw the evaluation's rollouts (at most the first 4,096) of some mazes into ``solved.png`` and ``failed.png``.

    solved.png has the four easiest, four median and four hardest mazes among those with a success; failed.png up to
    twelve of those with a failure, the hardest first. Hardness is the exact success probability where it is known, else
    the success rate. Pictures of an earlier evaluation are replaced.

    Args:
        evaluation: of this policy on this pool.
        policy: as in `evaluate`.
        pool: as in `evaluate`.
        folder: where to write; made if it is missing.
        env: as in `evaluate`, for a policy that must be stepped; the environments must have plain mazes.

    Returns:
        The files written: both, unless no maze had a success, or none a failure.

    Raises:
        ValueError: if the evaluation is of another number of mazes, or the paths cannot be followed.
    """
    if len(evaluation.successes) != len(pool):
        raise ValueError(
            f"the evaluation is of {len(evaluation.successes)} mazes, the pool has {len(pool)}; give the pool that was "
            "evaluated"
        )
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    order = _from_hardest(evaluation)
    written = []
    solved = order[evaluation.successes[order] > 0][::-1]
    (target / SOLVED).unlink(missing_ok=True)
    if len(solved):
        names = [name for name in ("easy", "median", "hard") for _ in range(_COLUMNS)]
        chosen = _spread(solved)
        names = names if len(chosen) == len(names) else ["solved"] * len(chosen)
        written.append(_draw(evaluation, policy, pool, chosen, names, target / SOLVED, env))
    failed = order[evaluation.successes[order] < evaluation.num_samples][: _COLUMNS * _ROWS]
    (target / FAILED).unlink(missing_ok=True)
    if len(failed):
        names = [_verdict(evaluation, i) for i in failed]
        written.append(_draw(evaluation, policy, pool, failed, names, target / FAILED, env))
    return written


def _hardness(evaluation: Evaluation) -> NDArray[np.float64]:
    return evaluation.success_rate if evaluation.probability is None else evaluation.probability


def _from_hardest(evaluation: Evaluation) -> NDArray[np.intp]:
    """(M,) mazes by rising success probability; of equal ones those with longer paths come first."""
    return np.lexsort((-evaluation.shortest_lengths, _hardness(evaluation)))


def _spread(mazes: NDArray[np.intp]) -> NDArray[np.intp]:
    """The first, middle and last few of ``mazes``; all if there are not more."""
    if len(mazes) <= _COLUMNS * _ROWS:
        return mazes
    middle = len(mazes) // 2 - _COLUMNS // 2
    return np.concatenate([mazes[:_COLUMNS], mazes[middle : middle + _COLUMNS], mazes[-_COLUMNS:]])


def _verdict(evaluation: Evaluation, maze: int) -> str:
    failures = evaluation.num_samples - evaluation.successes[maze]
    return "never solved" if failures == evaluation.num_samples else f"{failures} of {evaluation.num_samples} failed"


def _draw(
    evaluation: Evaluation, policy: ActorCriticPolicy, pool: MazePool, mazes: NDArray[np.intp], names: list[str],
    path: Path, env: VecEnv | None,
) -> Path:  # fmt: skip
    from sera_maze.envs.pictures import drawing as rendering
    from sera_maze.envs.pictures import sheets as pictures  # pygame is loaded when something is drawn

    count = min(_MAX_PATHS, evaluation.num_samples)
    tiles = []
    for part in sample_outcomes(policy, pool, mazes, count, evaluation.rules, evaluation.seed, env=env):
        if part.squares is None:
            raise ValueError("the environments do not move as plain mazes do, so there are no paths to draw")
        paths = part.paths(pool)
        for i, maze in enumerate(part.prompts.tolist()):
            cell_size = max(_MIN_CELL_SIZE, _SIDE // max(pool.size))
            own = paths[i * count : (i + 1) * count]
            tiles.append(rendering.draw_paths(pool[maze], own, part.success[i], cell_size=cell_size))
    labels = [f"{name}{_figures(evaluation, maze)}" for name, maze in zip(names, mazes.tolist(), strict=True)]
    return pictures.save_png(pictures.contact_sheet(tiles, columns=_COLUMNS, labels=labels), path)


def _figures(evaluation: Evaluation, maze: int) -> str:
    chance = "" if evaluation.probability is None else f": p = {readable_percent(evaluation.probability[maze])}"
    return f"{chance}\nmaze {maze}, shortest path {evaluation.shortest_lengths[maze]} moves"
