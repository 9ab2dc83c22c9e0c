"""The papers' controlled setting, image classification by trial and error, on the digits that scikit-learn ships.

A label is sampled from the policy's softmax, and success is the right class. So the success probability p of an image
is the softmax of its label, and the likelihood gradient that of the cross-entropy: both are known exactly, and training
by cross-entropy shows what exact gradients reach with the same network, optimizer and batches.

References:
    MaxRL (arXiv 2602.02710) and SERA (arXiv 2609.36552): the setting, there with larger images and networks.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from torch import Tensor

from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.envs.ground.atomic_files import check_folder, write_text
from sera_maze.envs.ground.checks import as_number, check_choice, check_int
from sera_maze.exact.aligning import alignment
from sera_maze.exact.probability import exact_pass_at_k
from sera_maze.runs.folder import TABLE
from sera_maze.runs.script import train_script
from sera_maze.studies.digits.env import CLASSES, DigitsVecEnv, Images, LabelledDigitsVecEnv, all_digits
from sera_maze.studies.digits.sampler import log_chances
from sera_maze.studies.extras import check_several
from sera_maze.studies.workers import in_workers

VARIANTS = ("balanced", "long-tailed")
UNIFORM, EXACT, CROSS_ENTROPY = "MaxRL, uniform", "SERA, exact p", "cross-entropy"
# What the methods change about MaxRL.
METHODS: dict[str, dict[str, str]] = {
    UNIFORM: {},
    EXACT: {"allocator": "sera", "success": "exact"},
    "GRPO": {"advantage": "grpo"},
    "REINFORCE": {"advantage": "reinforce"},
}
POINTS = "points.jsonl"
NO_BUDGET = 0  # of cross-entropy, which samples nothing
_LEAST_OF_A_CLASS = 174  # images of the digit 8 that scikit-learn has; of the others there are more
_MOST_ENVS = 1024
_SAMPLES = 8  # rollouts of each test image in the run's own evaluations
_SPLIT = 0x53504C49  # sets the random numbers of the split apart
_NO_DIRECTION = 0.0  # cosine that a gradient of zero counts as


@dataclass(frozen=True)
class Setting:
    """What is trained and measured, validated.

    Args:
        variants: "balanced" and "long-tailed": how the training images are spread over the classes.
        budgets: rollouts N0 an image.
        seeds: number of seeds. Each draws its own split, order of the classes, parameters and order of batches, which
            all methods share.
        seed: the first of the seeds.
        prompts: images B of a batch.
        updates: of each training.
        measure_every: updates between two measurements.
        most: training images of the most frequent class in the long-tailed variant.
        least: of the rarest one. Numbers fall geometrically; the balanced variant has about as
            many images in all.
        test_images: of each class, in both variants the same.
        rare: how many of the rarest classes are looked at separately.
        hidden: units of the policy's one hidden layer.
        learning_rate: of Adam, constant; gradients are not clipped.
        ks: of pass@k.

    Raises:
        ValueError, TypeError: for a value outside its range.
    """

    variants: tuple[str, ...] = VARIANTS
    budgets: tuple[int, ...] = (8, 32, 128, 512, 1024)
    seeds: int = 5
    seed: int = 0
    prompts: int = 32
    updates: int = 150
    measure_every: int = 15
    most: int = 140
    least: int = 5
    test_images: int = 34
    rare: int = 3
    hidden: int = 32
    learning_rate: float = 0.01
    ks: tuple[int, ...] = (1, 8, 32, 128, 1024)

    def __post_init__(self) -> None:
        for name in ("variants", "budgets", "ks"):
            check_several(name, getattr(self, name))
        for variant in self.variants:
            check_choice("variants", variant, VARIANTS)
        for budget in self.budgets:
            check_int("budgets", budget, 2, 2**20)
        for k in self.ks:
            check_int("ks", k, 1, 2**31)
        for name in ("seeds", "prompts", "updates", "hidden"):
            check_int(name, getattr(self, name), 1, 2**20)
        check_int("seed", self.seed, 0, 2**32 - 1 - self.seeds)
        check_int("measure_every", self.measure_every, 1, self.updates)
        check_int("rare", self.rare, 1, CLASSES)
        check_int("test_images", self.test_images, 1, _LEAST_OF_A_CLASS - 1)
        check_int("most", self.most, 1, _LEAST_OF_A_CLASS - self.test_images)
        check_int("least", self.least, 1, self.most)
        allowed = "a finite number above 0"
        if not 0 < as_number("learning_rate", self.learning_rate, allowed) < math.inf:
            raise ValueError(f"learning_rate={self.learning_rate!r} is out of range; allowed is {allowed}")

    def class_sizes(self, variant: str) -> list[int]:
        """Training images of each class, the most frequent first."""
        ratio = (self.least / self.most) ** (1 / (CLASSES - 1))
        falling = [round(self.most * ratio**rank) for rank in range(CLASSES)]
        return falling if variant == "long-tailed" else [sum(falling) // CLASSES] * CLASSES


QUICK = Setting(budgets=(8, 128), seeds=2, updates=60, measure_every=15, ks=(1, 8, 32))


class Point(NamedTuple):
    """What was measured after some updates.

    Attributes:
        update: number of updates so far.
        log_p: (10,) mean log p on the test images of each class, the class that is most frequent in training first.
        pass_at_k: for each k of the setting (10,), mean pass@k likewise.
        train_log_p: mean log p on the training images.
        cosine: of a batch's gradient with the exact one of that batch; a gradient of zero counts as 0. This and what
            follows are means over the updates since the point before; None at the first point.
        norm_ratio: norm of the batch's gradient over that of the exact one.
        active: share of the batch's images that got rollouts.
        no_success: share of these without a success.
    """

    update: int
    log_p: list[float]
    pass_at_k: list[list[float]]
    train_log_p: float
    cosine: float | None = None
    norm_ratio: float | None = None
    active: float | None = None
    no_success: float | None = None


class Job(NamedTuple):
    """One training."""

    variant: str
    method: str
    budget: int
    seed: int


class Run(NamedTuple):
    """A training and its measurements."""

    job: Job
    points: list[Point]


def split(setting: Setting, variant: str, seed: int) -> tuple[Images, Images, NDArray[np.int64]]:
    """Training images, test images, and the classes (10,) in their order, the most frequent first.

    Both variants of a seed have the same test images and order of classes.
    """
    images = all_digits()
    rng = np.random.default_rng([seed, _SPLIT])
    classes = rng.permutation(CLASSES)
    train: list[NDArray[np.int64]] = []
    test: list[NDArray[np.int64]] = []
    for label, size in zip(classes, setting.class_sizes(variant), strict=True):
        own = rng.permutation(np.flatnonzero(images.labels == label))
        test.append(own[: setting.test_images])
        train.append(own[setting.test_images : setting.test_images + size])
    chosen = [np.concatenate(part) for part in (train, test)]
    learnt, held_out = (Images(images.pixels[part], images.labels[part]) for part in chosen)
    return learnt, held_out, classes


class Measures(BaseCallback):
    """Measures along a training, and holds each batch's gradient against the exact one of the same prompts.

    The exact one is (1/B) sum_q grad log p_q.

    Args:
        setting: of the study.
        test: images to measure on.
        classes: (10,) in their order, the most frequent first.
        path: JSON lines file for the points; None keeps them in memory alone.

    Attributes:
        points: what was measured after 0, ``measure_every``, ... updates.
        watched: for each update since the last point: cosine, norm ratio, share of active images, share of these
            without a success.
    """

    def __init__(self, setting: Setting, test: Images, classes: NDArray[np.int64], path: Path | None = None):
        super().__init__()
        self.setting, self.test, self.classes, self.path = setting, test, classes, path
        self.points: list[Point] = []
        self.watched: list[tuple[float, float, float, float]] = []
        self._exact: list[Tensor | None] | None = None  # of the batch whose gradient step comes next
        self._shares = (0.0, 0.0)

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        self._look()
        if self._updates % self.setting.measure_every == 0:
            self._measure()

    def _on_rollout_end(self) -> None:
        rollouts, policy, images = self.locals["rollouts"], self.model.policy, images_of(self.model)
        mean = log_chances(policy, images, rollouts.prompts).mean()  # type: ignore[arg-type]
        self._exact = list(torch.autograd.grad(mean, list(policy.parameters()), allow_unused=True))
        sampled = rollouts.counts > 0
        failed = (rollouts.successes[sampled] == 0).double().mean().item()
        self._shares = sampled.double().mean().item(), failed

    def _on_training_end(self) -> None:
        self._look()
        self._measure()

    @property
    def _updates(self) -> int:
        return int(self.model._n_updates)

    def _look(self) -> None:
        """Compare the gradient that the parameters have been moved by."""
        if self._exact is None:
            return
        found = alignment([None if x.grad is None else -x.grad for x in self.model.policy.parameters()], self._exact)
        cosine = _NO_DIRECTION if math.isnan(found.cosine) else found.cosine
        self.watched.append((cosine, found.norm_ratio, *self._shares))
        self._exact = None

    @torch.no_grad()
    def _measure(self) -> None:
        if self.points and self.points[-1].update == self._updates:
            return
        policy, test = self.model.policy, self.test
        logs = log_chances(policy, test).cpu().numpy()  # type: ignore[arg-type]
        chances = np.exp(logs).clip(0, 1)
        rows = [np.flatnonzero(test.labels == label) for label in self.classes]
        passes = [exact_pass_at_k(chances, k) for k in self.setting.ks]
        train_log_p = float(log_chances(policy, images_of(self.model)).mean())  # type: ignore[arg-type]
        batches, self.watched = self.watched, []
        point = Point(
            self._updates, [float(logs[row].mean()) for row in rows],
            [[float(values[row].mean()) for row in rows] for values in passes], train_log_p,
            *(np.mean(batches, axis=0).tolist() if batches else ()),
        )  # fmt: skip
        self.points.append(point)
        if self.path is not None:
            write_text(self.path, "".join(json.dumps(kept) + "\n" for kept in self.points))


def images_of(model: BaseAlgorithm) -> Images:
    """The images that a model trains on."""
    if model.env is None:
        raise ValueError("the model has no environments, and so no images")
    images: Images = model.env.get_attr("images", 0)[0]
    return images


def new_model(setting: Setting, method: str, budget: int, images: Images, seed: int) -> MaxRL:
    """A model that has not been trained; all methods begin with the same parameters.

    Raises:
        ValueError: for a method that is not known.
    """
    check_choice("method", method, (*METHODS, CROSS_ENTROPY))
    is_exact = method == CROSS_ENTROPY
    own: dict[str, Any] = {"advantage": "reinforce"} if is_exact else dict(METHODS[method])
    rollouts = 1 if is_exact else budget
    env = (LabelledDigitsVecEnv if is_exact else DigitsVecEnv)(min(_MOST_ENVS, setting.prompts * rollouts), images)
    model = MaxRL(
        "MlpPolicy", env, learning_rate=setting.learning_rate, prompts_per_batch=setting.prompts,
        rollouts_per_prompt=rollouts, max_grad_norm=math.inf, warmup_updates=0,
        policy_kwargs={"net_arch": {"pi": [setting.hidden], "vf": []}}, seed=seed, device="cpu", **own,
    )  # fmt: skip
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model


def train(setting: Setting, job: Job, folder: Path) -> Run:
    """Train in a folder and measure along the way; what is finished there is kept, what is not begins anew."""
    place = folder / "-".join(str(part).replace(", ", "-").replace(" ", "-") for part in job)
    path = place / POINTS
    if path.exists():
        points = [Point(*json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
        if points and points[-1].update == setting.updates and (place / f"{TABLE}.json").exists():
            return Run(job, points)
    shutil.rmtree(place, ignore_errors=True)
    images, test, classes = split(setting, job.variant, job.seed)
    held_out = DigitsVecEnv(min(_MOST_ENVS, len(test)), test)
    measures = Measures(setting, test, classes, path)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        train_script(
            place, lambda: new_model(setting, job.method, job.budget, images, job.seed), held_out,
            updates=setting.updates, eval_every=setting.updates, num_samples=max(setting.ks[0], _SAMPLES),
            name=f"digits, {job.variant}, {job.method}", callback=measures, console=Console(file=nowhere),
        )  # fmt: skip
    return Run(job, measures.points)


def jobs(setting: Setting) -> Iterator[Job]:
    """All trainings: seed by seed, the longest first, so that processes end at about the same time."""
    for seed in range(setting.seed, setting.seed + setting.seeds):
        for budget in sorted(setting.budgets, reverse=True):
            yield from (Job(variant, method, budget, seed) for variant in setting.variants for method in METHODS)
        yield from (Job(variant, CROSS_ENTROPY, NO_BUDGET, seed) for variant in setting.variants)


def digits_study(
    setting: Setting,
    folder: Path,
    *,
    processes: int = 2,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Run]:
    """Train every method with every budget and seed, on both variants.

    Args:
        setting: what is trained and measured.
        folder: for the runs' folders; what is finished there, with the same setting, is kept.
        processes: trainings at a time, each on one thread; 1 trains in this process.
        tell: called with a line of progress.

    Returns:
        All runs, in the order of `jobs`, whatever the number of processes.

    Raises:
        ValueError: without scikit-learn, or for ``processes`` below 1.
    """
    check_int("processes", processes, 1, 1024)
    all_digits()  # which says at once if scikit-learn is missing
    wanted = list(jobs(setting))
    tell(f"{len(wanted)} trainings, {processes} at a time")
    found: dict[Job, Run] = {}
    check_folder("folder", folder)
    runs = folder / hashlib.sha256(repr(setting).encode()).hexdigest()[:8]  # runs of another setting lie elsewhere
    arguments = [(setting, job, runs) for job in wanted]
    for _, run in in_workers(train, arguments, processes):
        found[run.job] = run
        variant, method, budget, seed = run.job
        rollouts = f", N0={budget}" if budget else ""
        tell(f"{len(found)} of {len(wanted)}: {variant}, {method}{rollouts}, seed {seed}")
    return [found[job] for job in wanted]
