"""Trainings that differ in method alone, each with as many rollouts from the same warm start, over many seeds.

A seed fixes mazes, parameters and warm start, so runs of one seed are pairs. Each run has a folder of its own, as
``sera-maze train`` makes it; what is finished is kept, what was begun goes on, so that a study can be stopped at will.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sera_maze.envs.ground.atomic_files import check_folder
from sera_maze.envs.ground.checks import check_choice, check_int
from sera_maze.envs.ground.options import differences
from sera_maze.runs.config import RunConfig
from sera_maze.runs.folder import CONFIG, TABLE
from sera_maze.studies.matched.report import Outcome, read_outcome
from sera_maze.studies.workers import in_workers

# What the methods change about a run's config.
METHODS: dict[str, dict[str, Any]] = {
    "uniform": {"allocator": "uniform", "success": "history"},
    "sera": {"allocator": "sera", "success": "history"},
    # With the critic's loss, which shapes the policy too: what the two methods with a critic are to be held against.
    "uniform-critic": {"allocator": "uniform", "success": "critic"},
    "sera-critic": {"allocator": "sera", "success": "critic"},
    "sera-critic-history": {"allocator": "sera", "success": "critic_history"},
    "sera-posterior": {"allocator": "sera_posterior", "success": "history"},
    "sera-exact": {"allocator": "sera", "success": "exact"},
    "vip": {"allocator": "vip", "success": "history"},
    "knapsack": {"allocator": "knapsack", "success": "history"},
    "rloo": {"allocator": "uniform", "success": "history", "advantage": "rloo"},
    "grpo": {"allocator": "uniform", "success": "history", "advantage": "grpo"},
    "reinforce": {"allocator": "uniform", "success": "history", "advantage": "reinforce"},
}
# 9x9 mazes, a middling warm start and few rollouts a maze, so that there is something to share out. Which estimator of
# success a method uses is its own matter, and "exact" goes with any mazes.
DEFAULT = RunConfig.of(
    size=(9, 9), num_mazes=2048, warm_start=100, updates=400, rollouts_per_prompt=8, eval_every=20, seed=0,
    success="exact",
)  # fmt: skip
# The same but for one thing: policies at the start, mazes, rollouts, and what else might decide.
SETTINGS: dict[str, RunConfig] = {
    "default": DEFAULT,
    "hard": DEFAULT.changed({"warm_start": 60}),
    "easy": DEFAULT.changed({"warm_start": 200}),
    "fresh": DEFAULT.changed({"fresh_mazes": True}),
    "small-pool": DEFAULT.changed({"num_mazes": 256}),
    "large-pool": DEFAULT.changed({"num_mazes": 8192}),
    "graded": DEFAULT.changed({"distances": (4, 8, 12, 16)}),
    "17x17": DEFAULT.changed({"size": (17, 17), "warm_start": 300}),
    "more-rollouts": DEFAULT.changed({"rollouts_per_prompt": 32}),
    "no-threshold": DEFAULT.changed({"activation_threshold": 0.0}),
    "low-rate": DEFAULT.changed({"learning_rate": 3e-4}),
    "high-rate": DEFAULT.changed({"learning_rate": 3e-3}),
    "no-clipping": DEFAULT.changed({"max_grad_norm": 1e9}),
}
QUICK = RunConfig.of(
    size=(7, 7), num_mazes=60, held_out_mazes=40, warm_start=100, updates=20, prompts_per_batch=20,
    rollouts_per_prompt=4, channels=16, iterations=8, eval_every=5, num_samples=32, seed=0, success="exact",
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
        ValueError: as `planned`, for processes below 1, or a folder with runs of another config.
    """
    check_int("processes", processes, 1, 1024)
    configs = planned(base, methods, num_seeds, folder)
    for place, config in configs.items():
        check_folder("folder", place)
        known = RunConfig.load(place / CONFIG) if (place / CONFIG).exists() else config
        if differ := differences(known, config):
            raise ValueError(f"{place} holds a run of another config, with other {', '.join(differ)}; choose another")
    _train_all({place: config for place, config in configs.items() if not is_finished(place)}, processes, tell)
    return list(configs)


def planned(base: RunConfig, methods: Sequence[str], num_seeds: int, folder: Path) -> dict[Path, RunConfig]:
    """The runs of a study, method by method: folder to config.

    Raises:
        ValueError: for methods that are unknown, repeated or do not go with the mazes, or no seed.
    """
    check_int("num_seeds", num_seeds, 1, 10_000)
    if len(set(methods)) < max(1, len(methods)):
        raise ValueError(f"methods={tuple(methods)}: give one or more, all different")
    configs: dict[Path, RunConfig] = {}
    for method in methods:
        check_choice("method", method, tuple(METHODS))
        try:
            own = base.changed(METHODS[method])
        except ValueError as error:
            raise ValueError(f"method {method!r} does not go with this setting: {error}") from None
        for seed in range(base.seed, base.seed + num_seeds):
            configs[Path(folder) / f"{method}-{seed}"] = own.changed({"seed": seed})
    return configs


def outcomes(base: RunConfig, methods: Sequence[str], num_seeds: int, folder: Path) -> list[Outcome]:
    """What the runs of `matched_runs`, with the same arguments, came to, method by method.

    Raises:
        ValueError: if one is missing, of another config, or damaged.
    """
    places = planned(base, methods, num_seeds, folder)
    for place, config in places.items():
        if not is_finished(place) or RunConfig.load(place / CONFIG) != config:
            raise ValueError(f"{place} is not a finished run of this study; train it first")
    listed = list(places.items())
    return [read_outcome(method, dict(listed[i * num_seeds :][:num_seeds])) for i, method in enumerate(methods)]


def is_finished(folder: Path) -> bool:
    """Whether the run in a folder has its final table."""
    return (folder / f"{TABLE}.json").exists()


def _train_all(configs: Mapping[Path, RunConfig], processes: int, tell: Callable[[str], None]) -> None:
    if not configs:
        return
    tell(f"{len(configs)} runs to train, {processes} at a time")
    # Seed by seed, so that a study that is stopped early has whole pairs.
    ordered = sorted(configs.items(), key=lambda item: item[1].seed)
    jobs = [(config, place) for place, config in ordered]
    for number, (job, _) in enumerate(in_workers(_train_one, jobs, processes), 1):
        tell(f"{number} of {len(jobs)}: {jobs[job][1].name}")


def _train_one(config: RunConfig, folder: Path) -> None:
    from rich.console import Console

    from sera_maze.runs.maze_task import train

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("a", encoding="utf-8") as file:
        train(config, folder, Console(file=file), resume=(folder / CONFIG).exists())
