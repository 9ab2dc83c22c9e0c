"""Sheets of paths: sampled rollouts of a policy, a picture for each maze."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sera_maze.coverage.evaluator import Evaluator
from sera_maze.coverage.tables import Evaluation, readable_probability

if TYPE_CHECKING:
    import pygame

SOLVED, FAILED = "solved.png", "failed.png"
_COLUMNS = 4
_ROWS = 3
_MAX_PATHS = 4096  # drawn of each maze
_SIDE = 300  # pixels of a maze, about
_MIN_CELL_SIZE = 8  # pixels: below, failures have no crosses


def path_sheet(
    evaluator: Evaluator,
    chosen: Sequence[int] | NDArray[np.integer],
    num_samples: int,
    labels: Sequence[str],
    *,
    cell_size: int,
    columns: int | None = None,
) -> pygame.Surface | None:
    """Draw the first rollouts of some mazes, one picture for each, on one sheet.

    Args:
        evaluator: samples them.
        chosen: (B,) which of its mazes.
        num_samples: rollouts of each.
        labels: a text under each picture.
        cell_size: pixels of a square.
        columns: pictures in a row; None makes the sheet about square.

    Returns:
        The sheet; None where paths are not known: the prompts are no mazes, or something changed the moves.
    """
    from sera_maze.envs.pictures.drawing import draw_paths  # pygame is loaded when something is drawn
    from sera_maze.envs.pictures.sheets import contact_sheet

    tiles = []
    for rollouts in evaluator.sample(np.asarray(chosen), num_samples):
        paths = evaluator.paths(rollouts)
        if paths is None or evaluator.mazes is None:
            return None
        success = rollouts.success.cpu().numpy()
        for i, maze in enumerate(rollouts.prompts.tolist()):
            own = slice(i * num_samples, (i + 1) * num_samples)
            tiles.append(draw_paths(evaluator.mazes.pool[maze], paths[own], success[own], cell_size=cell_size))
    return contact_sheet(tiles, columns=columns, labels=labels)


def write_pictures(evaluation: Evaluation, evaluator: Evaluator, folder: str | os.PathLike[str]) -> list[Path]:
    """Draw the evaluation's rollouts (at most the first 4,096) of some mazes into ``solved.png`` and ``failed.png``.

    solved.png has the four easiest, four median and four hardest mazes among those with a success; failed.png up to
    twelve of those with a failure, the hardest first. Hardness is the exact success probability where it is known, else
    the success rate. Pictures of an earlier evaluation are replaced.

    Args:
        evaluation: by this evaluator.
        evaluator: of a policy on mazes.
        folder: where to write; made if it is missing.

    Returns:
        The files written: both, unless no maze had a success, or none a failure.

    Raises:
        ValueError: if the evaluation is of another number of mazes, or the paths cannot be followed.
    """
    if len(evaluation.successes) != len(evaluator.prompts):
        raise ValueError(
            f"the evaluation is of {len(evaluation.successes)} mazes, the pool has {len(evaluator.prompts)}; give the "
            "pool that was evaluated"
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
        written.append(_write(evaluation, evaluator, chosen, names, target / SOLVED))
    failed = order[evaluation.successes[order] < evaluation.num_samples][: _COLUMNS * _ROWS]
    (target / FAILED).unlink(missing_ok=True)
    if len(failed):
        names = [_verdict(evaluation, i) for i in failed]
        written.append(_write(evaluation, evaluator, failed, names, target / FAILED))
    return written


def _hardness(evaluation: Evaluation) -> NDArray[np.float64]:
    return evaluation.success_rate if evaluation.probability is None else evaluation.probability


def _from_hardest(evaluation: Evaluation) -> NDArray[np.intp]:
    """(M,) mazes by rising success probability; of equal ones those with longer paths come first."""
    hardness = _hardness(evaluation)
    return np.lexsort((np.zeros_like(hardness) if evaluation.difficulty is None else -evaluation.difficulty, hardness))


def _spread(mazes: NDArray[np.intp]) -> NDArray[np.intp]:
    """The first, middle and last few of ``mazes``; all if there are not more."""
    if len(mazes) <= _COLUMNS * _ROWS:
        return mazes
    middle = len(mazes) // 2 - _COLUMNS // 2
    return np.concatenate([mazes[:_COLUMNS], mazes[middle : middle + _COLUMNS], mazes[-_COLUMNS:]])


def _verdict(evaluation: Evaluation, maze: int) -> str:
    failures = evaluation.num_samples - evaluation.successes[maze]
    return "never solved" if failures == evaluation.num_samples else f"{failures} of {evaluation.num_samples} failed"


def _write(
    evaluation: Evaluation, evaluator: Evaluator, mazes: NDArray[np.intp], names: list[str], path: Path
) -> Path:  # fmt: skip
    from sera_maze.envs.pictures.sheets import save_png  # pygame is loaded when something is drawn

    count = min(_MAX_PATHS, evaluation.num_samples)
    side = _SIDE // max(evaluation.rules.size) if evaluation.rules is not None else 0
    labels = [
        f"{name}{_chance(evaluation, maze)}\n{evaluator.prompts.describe(maze)}"
        for name, maze in zip(names, mazes.tolist(), strict=True)
    ]
    sheet = path_sheet(evaluator, mazes, count, labels, cell_size=max(_MIN_CELL_SIZE, side), columns=_COLUMNS)
    if sheet is None:
        raise ValueError("the environments do not move as plain mazes do, so there are no paths to draw")
    return save_png(sheet, path)


def _chance(evaluation: Evaluation, maze: int) -> str:
    return "" if evaluation.probability is None else f": {readable_probability(evaluation.probability[maze])}"
