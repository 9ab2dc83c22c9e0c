"""What TensorBoard gets beside the logger's scalars: hyperparameters, a layout, histograms and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import HParam, Image, Logger
from torch import Tensor

from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.allocation.allocation import Allocation
from sera_maze.allocation.registry import Bounds
from sera_maze.coverage.evaluator import Evaluator
from sera_maze.coverage.tables import Evaluation
from sera_maze.storage.run_log import flush_boards, is_on_board, tensorboards

MAZES_SHOWN, PATHS_SHOWN = 4, 64
_LAYOUT_TAG, _HYPERPARAMETERS_TAG = "custom_scalars__config__", "_hparams_/experiment"
_ALLOCATION_CHARTS: dict[str, list[Any]] = {
    "rollouts of a prompt": ["Multiline", ["^allocation/count_"]],
    "attenuation, uniform and allocated": [
        "Multiline", ["^allocation/attenuation_", "^allocation/uniform_attenuation_"],
    ],
    # A prompt with success probability p has 1 + tau / -log(1 - p) rollouts, within its bounds.
    "tau, -log of the waterline": ["Multiline", ["^allocation/tau$"]],
    "groups": ["Multiline", ["^groups/", "^allocation/active_fraction$"]],
}  # fmt: skip
_OPTIONS_OF_OTHERS = (
    "n_envs", "n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "ent_coef", "vf_coef", "max_grad_norm",
    "normalize_advantage", "seed",
)  # fmt: skip


def layout(ks: Sequence[int], has_exact: bool) -> dict[str, dict[str, list[Any]]]:
    """The custom scalars page: a chart for each k, so that the curves of several runs can be told apart.

    Tags are regular expressions here. The charts of the waterline stay empty where there is none.

    Args:
        ks: the values of k.
        has_exact: whether exact figures are logged too, which get charts of their own.
    """
    kinds = {"coverage": "pass@"} | ({"coverage, exact": "exact_pass@"} if has_exact else {})
    pages: dict[str, dict[str, list[Any]]] = {
        title: {f"{name.replace('_', ' ')}{k}": ["Multiline", [f"^coverage/{name}{k}$"]] for k in ks}
        for title, name in kinds.items()
    }
    pages["coverage"]["solved fraction"] = ["Multiline", ["^coverage/solved_fraction$"]]
    return {**pages, "allocation": _ALLOCATION_CHARTS}


class LastBatch(NamedTuple):
    """How the rollouts of a batch were allocated.

    Attributes:
        allocation: of B prompts.
        probability: (B,) float64, success probabilities that it was made from; None if they were not known.
        bounds: of the allocation.
    """

    allocation: Allocation
    probability: Tensor | None
    bounds: Bounds

    @classmethod
    def of(cls, values: dict[str, Any]) -> LastBatch | None:
        """From the locals of a callback; None where the algorithm does not allocate."""
        allocation, bounds = values.get("allocation"), values.get("bounds")
        if not isinstance(allocation, Allocation) or not isinstance(bounds, Bounds):
            return None
        return cls(allocation, values.get("probability"), bounds)


class Dashboard:
    """Writes to the TensorBoard outputs of a model's logger; where there are none, nothing is computed or drawn.

    `begin` writes the hyperparameters and the layout of the custom scalars page, unless the folder has them already.
    `write` adds, at the present step: the histogram ``coverage/success_probability`` over the held-out prompts (where
    it is not known exactly, ``coverage/success_rate``); of the last batch the histograms ``allocation/counts`` and
    ``allocation/success_probability`` and the picture ``allocation/counts_by_probability``; and the picture
    ``coverage/paths`` of the four held-out mazes with the longest shortest paths, where the prompts are mazes.

    Args:
        pictures: whether to draw.
    """

    def __init__(self, pictures: bool = True):
        self.pictures = pictures

    def begin(self, model: BaseAlgorithm, metrics: list[str], ks: Sequence[int], has_exact: bool) -> None:
        """Write what there is once in a run.

        Args:
            model: whose logger is set up.
            metrics: keys of scalars to show beside the hyperparameters.
            ks: see `layout`.
            has_exact: see `layout`.
        """
        flush_boards(model.logger)
        for output in tensorboards(model.logger):
            folder = output.writer.log_dir
            if not is_on_board(folder, _LAYOUT_TAG):
                output.writer.add_custom_scalars(layout(ks, has_exact))
            if not is_on_board(folder, _HYPERPARAMETERS_TAG):
                logger = Logger(None, [output])
                logger.record("hyperparameters", HParam(hyperparameters(model), dict.fromkeys(metrics, 0)))
                logger.dump(model.num_timesteps)

    def write(
        self, model: BaseAlgorithm, evaluation: Evaluation, evaluator: Evaluator, batch: LastBatch | None
    ) -> None:
        """Write histograms and pictures.

        Args:
            model: that was evaluated.
            evaluation: of its policy.
            evaluator: that made it.
            batch: the last one.
        """
        outputs = tensorboards(model.logger)
        if not outputs:
            return
        logger = Logger(None, [*outputs])
        if evaluation.probability is None:
            logger.record("coverage/success_rate", torch.from_numpy(evaluation.success_rate))
        else:
            logger.record("coverage/success_probability", torch.from_numpy(evaluation.probability))
        if batch is not None:
            logger.record("allocation/counts", batch.allocation.counts)
            if batch.probability is not None:
                logger.record("allocation/success_probability", batch.probability)
        if self.pictures:
            _record_pictures(logger, evaluation, evaluator, batch)
        logger.dump(model.num_timesteps)


def _record_pictures(logger: Logger, evaluation: Evaluation, evaluator: Evaluator, batch: LastBatch | None) -> None:
    from sera_maze.coverage import dashboard_pictures  # pygame is loaded when something is drawn

    if evaluator.mazes is not None:
        paths = dashboard_pictures.paths_picture(evaluator, MAZES_SHOWN, min(PATHS_SHOWN, evaluation.num_samples))
        if paths is not None:
            _record_picture(logger, "coverage/paths", paths)
    if batch is not None and batch.probability is not None:
        counts, bounds = batch.allocation.counts, (batch.bounds.n_min, batch.bounds.n_max)
        mean = int(counts.sum()) / len(counts)
        picture = dashboard_pictures.allocation_picture(batch.allocation, batch.probability, mean, bounds)
        _record_picture(logger, "allocation/counts_by_probability", picture)


def hyperparameters(model: BaseAlgorithm) -> dict[str, int | float | str]:
    """What a model was made with, as far as it is a number or a name; also of the algorithms of Stable-Baselines3."""
    if isinstance(model, MaxRL):
        options = asdict(model.options)
        options |= {"n_max": model.options.most_rollouts, "num_prompts": model.num_prompts, "seed": model.seed}
    else:
        options = {name: getattr(model, name) for name in _OPTIONS_OF_OTHERS if hasattr(model, name)}
    found: dict[str, Any] = {
        "algorithm": model.method if isinstance(model, MaxRL) else type(model).__name__,
        "policy": type(model.policy).__name__,
        "learning_rate": float(model.lr_schedule(1.0)),
        **options,
        **{f"policy/{name}": value for name, value in (model.policy_kwargs or {}).items()},
    }
    clip_range = getattr(model, "clip_range", None)
    if clip_range is not None:
        found["clip_range"] = float(clip_range(1.0) if callable(clip_range) else clip_range)
    found = {name: str(value) if value is None or isinstance(value, bool) else value for name, value in found.items()}
    return {name: value for name, value in found.items() if isinstance(value, int | float | str)}


def _record_picture(logger: Logger, key: str, picture: NDArray[Any]) -> None:
    logger.record(key, Image(torch.from_numpy(picture), "HWC"))
