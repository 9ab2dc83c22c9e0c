"""Trainings that differ in one thing alone, each with the same rollouts from the same warm start, over many seeds.

A seed fixes mazes, parameters and warm start, so runs of one seed are pairs. Each run has a folder of its own, as
``sera-maze train`` makes it; what is finished is kept, what was begun goes on, so that a study can be stopped at will.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from sera_maze.presets import RunConfig
from sera_maze.run_folder import CONFIG, TABLE

# What the methods change about a run's config.
METHODS: dict[str, dict[str, Any]] = {
    "uniform": {"allocator": "uniform", "success": "history"},
    "sera": {"allocator": "sera", "success": "history"},
    "sera-critic": {"allocator": "sera", "success": "critic"},
    "sera-exact": {"allocator": "sera", "success": "exact"},
    "rloo": {"allocator": "uniform", "success": "history", "advantage": "rloo"},
    "grpo": {"allocator": "uniform", "success": "history", "advantage": "grpo"},
    "reinforce": {"allocator": "uniform", "success": "history", "advantage": "reinforce"},
}
# 9x9 mazes, a weak warm start and few rollouts a maze, so that there is something to share out.
DEFAULT = RunConfig(
    size=(9, 9), num_mazes=2048, warm_start=100, updates=400, rollouts_per_prompt=8, eval_every=20, seed=0
)
QUICK = RunConfig(
    size=(7, 7), num_mazes=60, held_out_mazes=40, warm_start=100, updates=20, prompts_per_batch=20,
    rollouts_per_prompt=4, channels=16, iterations=8, eval_every=5, num_samples=32, seed=0,
)  # fmt: skip


def matched_runs(
    base: RunConfig,
    methods: Sequence[str],
    num_seeds: int,
    folder: Path,
    *,
    processes: int = 2,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Train every method with every seed, those that are not finished yet.

    Args:
        base: what all runs have in common; its seed is the first of the seeds.
        methods: names of `METHODS`.
        num_seeds: seeds for each method.
        folder: the runs lie in ``folder/METHOD-SEED``.
        processes: trainings at a time, each on one thread.
        tell: called with a line of progress.

    Returns:
        The folders of all runs, method by method.

    Raises:
        ValueError: for an unknown method, or a folder with runs of another config.
    """
    configs: dict[Path, RunConfig] = {}
    for method in methods:
        if method not in METHODS:
            raise ValueError(f"method {method!r} is not known; allowed are {', '.join(METHODS)}")
        for seed in range(base.seed, base.seed + num_seeds):
            configs[folder / f"{method}-{seed}"] = base.changed({**METHODS[method], "seed": seed})
    for place, config in configs.items():
        if (place / CONFIG).exists() and RunConfig.load(place / CONFIG) != config:
            raise ValueError(f"{place} holds a run of another config; choose another folder")
    _train_all({place: config for place, config in configs.items() if not is_finished(place)}, processes, tell)
    return list(configs)


def is_finished(folder: Path) -> bool:
    """Whether the run in a folder has its final table."""
    return (folder / f"{TABLE}.json").exists()


def _train_all(configs: Mapping[Path, RunConfig], processes: int, tell: Callable[[str], None]) -> None:
    if not configs:
        return
    tell(f"{len(configs)} runs to train, {processes} at a time")
    # Fresh interpreters: torch's threads do not survive a fork.
    executor = ProcessPoolExecutor(min(processes, len(configs)), multiprocessing.get_context("spawn"))
    try:
        # Seed by seed, so that a study that is stopped early has whole pairs.
        ordered = sorted(configs.items(), key=lambda item: item[1].seed)
        jobs = {executor.submit(_train_one, config, place): place for place, config in ordered}
        for number, job in enumerate(as_completed(jobs), 1):
            job.result()
            tell(f"{number} of {len(jobs)}: {jobs[job].name}")
    finally:
        executor.shutdown(cancel_futures=True)


def _train_one(config: RunConfig, folder: Path) -> None:
    import torch
    from rich.console import Console

    from sera_maze.training import train

    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("a", encoding="utf-8") as file:
        train(config, folder, Console(file=file), resume=(folder / CONFIG).exists())
