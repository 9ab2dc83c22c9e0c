"""`MazeTask`: the mazes, model and evaluations of a run that ``sera-maze train`` makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.utils import LinearSchedule

from sera_maze.algorithm.imitation import check_can_imitate, warm_start
from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.coverage.evaluator import Evaluator
from sera_maze.coverage.tables import Evaluation
from sera_maze.envs.generating.spec import MazeSpec
from sera_maze.envs.ground.kernels import has_kernels
from sera_maze.envs.layouts.layout import digest_content
from sera_maze.envs.play.maze import MazeEnv
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.fresh import FreshMazes, Mazes
from sera_maze.envs.pools.mixing import fitting, largest, mixed_pool
from sera_maze.envs.pools.pool import PAPERS_HELD_OUT_MAZES, PAPERS_SPEC, PAPERS_TRAINING_MAZES, MazePool
from sera_maze.policies.asking import for_mazes
from sera_maze.policies.maze import MazePolicy, as_maze_policy
from sera_maze.runs.config import RunConfig
from sera_maze.runs.training import Task, evaluation_of, run_task, write_evaluation
from sera_maze.sampling.maps import MapSampler
from sera_maze.sampling.plain_mazes import PlainMazes, plain_mazes

# Added to a run's seed: for held-out mazes that are not shipped, and for mazes of an evaluation.
_HELD_OUT_STREAM, _EVALUATION_STREAM = 2**32, 2**33


class MazeTask(Task):
    """A run on mazes.

    Args:
        config: of the run.
        device: "cpu", "cuda" or "auto".
    """

    config: RunConfig
    held_out: MazePool

    def __init__(self, config: RunConfig, device: str = "auto"):
        self.config, self.device = config, device

    def make(self, console: Console) -> MaxRL:
        """See `Task.make`."""
        console.print("making mazes" if has_kernels() else "making mazes; compiling kernels first, this once")
        pool, self.held_out = pools(self.config)
        model = build_model(self.config, pool, self.device)
        if self.config.warm_start:
            check_can_imitate(model.rollout_sampler)
        return model

    def warm_start(self, model: MaxRL, after_update: Callable[[int], object]) -> None:
        """Imitate on the smallest size of mazes first, then on more and more sizes, for as many updates each."""
        stages, updates = self.config.mazes.curriculum(), self.config.warm_start
        ends = [updates * stage // len(stages) for stage in range(len(stages) + 1)]
        for kinds, first, end in zip(stages[:-1], ends, ends[1:], strict=False):
            size = largest(kinds).size
            mazes = FreshMazes.mixed(kinds, self.config.seed, fitting(self.held_out, size))
            sampler = MapSampler(
                PlainMazes(mazes, MazeRules(size, on_wall=self.config.mazes.on_wall)), self.config.seed
            )
            policy, done = for_mazes(model.policy, size), partial(_shifted, after_update, first)
            warm_start(policy, sampler, end - first, after_update=done, seed=self.config.seed)
        model.warm_start(updates - ends[-2], after_update=partial(_shifted, after_update, ends[-2]))

    def load(self, folder: Path) -> MaxRL:
        """See `Task.load`."""
        self.held_out = held_out_pool(self.config)
        return MaxRL.load(folder, device=self.device)

    def describe(self, model: MaxRL) -> str:
        """See `Task.describe`."""
        height, width = self.config.mazes.size
        smaller = "".join(f"{side}x{side}, " for side in self.config.mazes.smaller_sizes or ())
        kind = "fresh" if self.config.mazes.fresh_mazes else f"{model.num_prompts}"
        return f"{kind} training mazes and {len(self.held_out)} held-out ones of {smaller}{height}x{width} squares"

    def evaluator(self, model: MaxRL) -> Evaluator:
        """See `Task.evaluator`."""
        return _evaluator(model.policy, self.held_out, self.config, None)


def _shifted(after_update: Callable[[int], object], first: int, update: int) -> None:
    after_update(first + update)


def train(
    config: RunConfig, folder: Path, console: Console, *, resume: bool = False, device: str = "auto"
) -> Evaluation:
    """Run or go on with a training run on mazes, and write its final table and pictures.

    Args:
        config: of the run.
        folder: of the run, see `sera_maze.runs.folder` for what it holds.
        console: to report to.
        resume: whether the folder holds a run to go on with; one that was stopped before its first checkpoint begins
            again.
        device: "cpu", "cuda" or "auto".

    Raises:
        KeyboardInterrupt, ValueError: see `run_task`.
    """
    return run_task(MazeTask(config, device), folder, console, resume=resume)


def evaluate_policy(
    policy: MazePolicy, pool: MazePool, config: RunConfig, folder: Path | None, iterations: int | None = None
) -> Evaluation:
    """Evaluate the policy of a run on any mazes; write the table (JSON and Markdown) and the pictures into a folder.

    Args:
        policy: of the run.
        pool: mazes of any size.
        config: of the run.
        folder: for the files; None writes none.
        iterations: of the policy; None: as in training, and on other sizes by its `growth`.

    Raises:
        ValueError, TypeError: for iterations out of range.
    """
    evaluator = _evaluator(policy, pool, config, iterations)
    return evaluation_of(evaluator, config) if folder is None else write_evaluation(evaluator, config, folder)


def _evaluator(policy: BasePolicy, pool: MazePool, config: RunConfig, iterations: int | None) -> Evaluator:
    shown = as_maze_policy(for_mazes(policy, pool.size, iterations))
    return Evaluator(shown, pool, rules=MazeRules(pool.size, on_wall=config.mazes.on_wall), seed=config.seed)


def held_out_pool(config: RunConfig) -> MazePool:
    """The held-out mazes of a run: the shipped ones where they fit, else generated ones."""
    if _is_papers_kind(config) and config.mazes.held_out_mazes == PAPERS_HELD_OUT_MAZES:
        return MazePool.papers("held_out")
    return _generated(config, config.mazes.held_out_mazes, config.seed + _HELD_OUT_STREAM, [])


def _generated(config: RunConfig, count: int, seed: int, exclude: list[MazePool]) -> MazePool:
    mazes = config.mazes
    kinds = mazes.kinds()
    if len(kinds) > 1:
        return mixed_pool(count, kinds, seed, exclude)
    if mazes.distances is None:
        return _of_one_kind(count, kinds[0], seed, exclude)
    each = count // len(mazes.distances)
    return MazePool.graded(
        each, mazes.distances, mazes.size, mazes.algorithm, seed, braid=mazes.braid, openings=mazes.openings,
        exclude=exclude,
    )  # fmt: skip


def _of_one_kind(count: int, kind: MazeSpec, seed: int, exclude: list[MazePool]) -> MazePool:
    options: dict[str, Any] = {"braid": kind.braid, "openings": kind.openings, "endpoints": kind.endpoints}
    return MazePool.generate(count, kind.size, kind.algorithm, seed, exclude=exclude, **options)


def pools(config: RunConfig) -> tuple[Mazes, MazePool]:
    """The training mazes and the held-out pool of a run; they share no walls."""
    mazes, held_out = config.mazes, held_out_pool(config)
    if mazes.fresh_mazes:
        return FreshMazes.mixed(mazes.kinds(), config.seed, held_out), held_out
    if _is_papers_kind(config) and (mazes.num_mazes, len(held_out)) == (PAPERS_TRAINING_MAZES, PAPERS_HELD_OUT_MAZES):
        return MazePool.papers("train"), held_out
    return _generated(config, mazes.num_mazes, config.seed, [held_out]), held_out


def unseen_pool(config: RunConfig, count: int, size: tuple[int, int]) -> MazePool:
    """Mazes of any size of the run's kinds, none of which the run has trained on or is evaluated on."""
    seen = [] if size != config.mazes.size else [pool for pool in pools(config) if isinstance(pool, MazePool)]
    kinds, seed = config.mazes.kinds(size), config.seed + _EVALUATION_STREAM
    return _of_one_kind(count, kinds[0], seed, seen) if len(kinds) == 1 else mixed_pool(count, kinds, seed, seen)


def trained_on(model: MaxRL, pool: MazePool) -> int:
    """How many mazes of a pool, by their walls, are in the pool that a model trains on; 0 if that is fresh mazes."""
    found = "no environments" if model.env is None else plain_mazes(model.env)
    training = None if isinstance(found, str) else found.pool
    if not isinstance(training, MazePool):
        return 0
    walls = set(digest_content(training.walls))
    return sum(content in walls for content in digest_content(pool.walls))


def _is_papers_kind(config: RunConfig) -> bool:
    return config.mazes.kinds() == [PAPERS_SPEC] and config.mazes.distances is None


def build_model(config: RunConfig, pool: Mazes, device: str = "auto") -> MaxRL:
    """A fresh model of a run."""
    return MaxRL(
        "MazePolicy", MazeEnv(pool, on_wall=config.mazes.on_wall), LinearSchedule(config.learning_rate, 0.0, 1.0),
        **asdict(config.method), policy_kwargs=asdict(config.policy), seed=config.seed, device=device,
    )  # fmt: skip
