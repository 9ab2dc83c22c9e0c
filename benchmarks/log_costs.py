"""What full logging costs a training: time beside a training with a silent logger, and megabytes for TensorBoard.

    python benchmarks/log_costs.py [quick] [default]

Two trainings of one seed take the same updates, in turns of one update, and both evaluate; one writes everything to
TensorBoard and CSV as ``sera-maze train`` does, the other nothing. "scalars" is the median over the updates of the time
with logging over the time without, less 1. What an evaluation costs more with logging, a median too, is spread over the
updates between two evaluations of the preset.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from stable_baselines3.common.logger import Logger
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped]

from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.coverage.callback import CoverageCallback
from sera_maze.runs.config import PRESETS, RunConfig
from sera_maze.runs.maze_task import build_model, pools
from sera_maze.storage.run_log import resumed_logger

FORMATS = ("tensorboard", "csv")


class Size(NamedTuple):
    """Updates to compare, and of the warm start before."""

    updates: int
    warm_start: int


SIZES = {"quick": Size(600, 100), "default": Size(400, 100)}
MAZES = 1024  # in the pool: the first epoch, in which less is known and logged, takes 16 updates
EVALUATION = 25  # updates from one to the next


class Training(NamedTuple):
    """A model with the callback of its evaluations, between two updates."""

    model: MaxRL
    coverage: CoverageCallback

    @classmethod
    def start(cls, config: RunConfig, warm_start: int, logger: Logger) -> Training:
        """Begin after a warm start and the first epoch."""
        pool, held_out = pools(config)
        model = build_model(config, pool)
        model.warm_start(warm_start)
        model.set_logger(logger)
        coverage = CoverageCallback(held_out, num_samples=config.num_samples, eval_freq_updates=EVALUATION)
        model.learn(2**62, coverage, reset_num_timesteps=False, total_updates=MAZES // config.method.prompts_per_batch)
        model.total_updates = config.updates
        return cls(model, coverage)

    def step(self) -> float:
        """Take an update, after an evaluation if one is due; return the seconds."""
        start = time.perf_counter()
        self.model.step_batch(self.coverage, self.model.dump_logs)
        return time.perf_counter() - start


def megabytes(folder: Path, updates: int, updates_an_evaluation: int) -> tuple[float, float]:
    """Event files of 1,000 updates, in MB: what each update writes, and what the evaluations do."""
    each, evaluations = 0, 0
    steps = set()
    for path in folder.glob("events.out.tfevents.*"):
        for record in RawEventFileLoader(str(path)).Load():
            length = len(record) + 16  # and its length and checksums
            values = Event.FromString(record).summary.value
            if any(v.HasField("image") or v.HasField("histo") or v.tag.startswith("coverage/") for v in values):
                evaluations += length
                steps.add(Event.FromString(record).step)
            else:
                each += length
    return 1e-3 * each / updates, 1e-3 * evaluations / len(steps) / updates_an_evaluation


def compare(name: str) -> str:
    """Compare the two trainings of a preset; return a line to print."""
    size, config = SIZES[name], PRESETS[name].changed({"num_mazes": MAZES})
    with tempfile.TemporaryDirectory() as folder:
        logged = Training.start(config, size.warm_start, resumed_logger(folder, 0, FORMATS))
        silent = Training.start(config, size.warm_start, Logger(None, []))
        spent, evaluates = np.empty((size.updates, 2)), np.zeros(size.updates, bool)
        for i in range(size.updates):
            evaluates[i] = silent.model._n_updates % EVALUATION == 0
            for side in (0, 1) if i % 2 else (1, 0):
                spent[i, side] = (logged, silent)[side].step()
        logged.model.logger.close()
        if logged.model.num_timesteps != silent.model.num_timesteps:
            raise RuntimeError("the two trainings have not done the same work")
        each, evaluations = megabytes(Path(folder), logged.model._n_updates, config.eval_every)
    plain, with_evaluation = spent[~evaluates], spent[evaluates]
    update, scalars = float(np.median(plain[:, 1])), float(np.median(plain[:, 0] / plain[:, 1])) - 1
    evaluation = float(np.median(with_evaluation[:, 0] - with_evaluation[:, 1])) - scalars * update
    pictures = evaluation / update / config.eval_every
    return (
        f"{name}: an update takes {1e3 * update:.1f} ms; logging adds {100 * (scalars + pictures):.1f} % (scalars "
        f"{100 * scalars:.1f} %; histograms and pictures {1e3 * evaluation:.0f} ms every {config.eval_every} updates, "
        f"{100 * pictures:.1f} %); 1,000 updates write {each + evaluations:.2f} MB for TensorBoard ({each:.2f} of "
        f"scalars, {evaluations:.2f} of evaluations)"
    )


def main() -> None:
    """Print a line for each preset."""
    for name in sys.argv[1:] or list(SIZES):
        print(compare(name))


if __name__ == "__main__":
    main()
