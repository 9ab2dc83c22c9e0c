"""What TensorBoard gets beside the logger's scalars: hyperparameters, a layout, histograms and pictures."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import HParam, Image, Logger
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.allocation.allocation import Allocation
from sera_maze.coverage.tables import Evaluation
from sera_maze.envs.pools.pool import MazePool
from sera_maze.storage.run_log import flush_boards, is_on_board, tensorboards

MAZES_SHOWN, PATHS_SHOWN = 4, 64
_LAYOUT_TAG, _HYPERPARAMETERS_TAG = "custom_scalars__config__", "_hparams_/experiment"
# Tags are regular expressions here. The charts of exact figures and of the waterline stay empty where there are none.
LAYOUT: dict[str, dict[str, list[Any]]] = {
    "coverage": {
        "pass@k": ["Multiline", ["^coverage/pass@"]],
        "pass@k, exact": ["Multiline", ["^coverage/exact_pass@"]],
        "solved fraction": ["Multiline", ["^coverage/solved_fraction$"]],
    },
    "allocation": {
        "rollouts of a prompt": ["Multiline", ["^allocation/count_"]],
        "attenuation, uniform and allocated": [
            "Multiline", ["^allocation/attenuation_", "^allocation/uniform_attenuation_"],
        ],
        "groups": ["Multiline", ["^groups/", "^allocation/active_fraction$"]],
    },
}  # fmt: skip
_OPTIONS = (
    "prompts_per_batch", "rollouts_per_prompt", "num_prompts", "allocator", "advantage", "success", "n_min",
    "activation_threshold", "rounding", "multiplicity_correction", "token_mean", "n_epochs", "ent_coef", "critic_coef",
    "max_grad_norm", "warmup_updates", "sampler", "seed",
)  # fmt: skip
_OPTIONS_OF_OTHERS = (
    "n_envs", "n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "ent_coef", "vf_coef", "max_grad_norm",
    "normalize_advantage", "seed",
)  # fmt: skip


class LastBatch(NamedTuple):
    """How the rollouts of a batch were allocated.

    Attributes:
        allocation: of B prompts.
        probability: (B,) float64, success probabilities that it was made from; None if they were not known.
    """

    allocation: Allocation
    probability: Tensor | None

    @classmethod
    def of(cls, values: dict[str, Any]) -> LastBatch | None:
        """From the locals of a callback; None where the algorithm does not allocate."""
        allocation = values.get("allocation")
        return cls(allocation, values.get("probability")) if isinstance(allocation, Allocation) else None


class Dashboard:
    """Writes to the TensorBoard outputs of a model's logger; where there are none, nothing is computed or drawn.

    `begin` writes the hyperparameters and the layout of the custom scalars page, unless the folder has them already.
    `write` adds, at the present step: the histogram ``coverage/success_probability`` over the held-out mazes (where it
    is not known exactly, ``coverage/success_rate``); of the last batch the histograms ``allocation/counts`` and
    ``allocation/success_probability`` and the picture ``allocation/counts_by_probability``; and the picture
    ``coverage/paths`` of the four held-out mazes with the longest shortest paths.

    Args:
        pool: held-out mazes.
        pictures: whether to draw.
    """

    def __init__(self, pool: MazePool, pictures: bool = True):
        self.pool, self.pictures = pool, pictures

    def begin(self, model: BaseAlgorithm, metrics: list[str]) -> None:
        """Write what there is once in a run.

        Args:
            model: whose logger is set up.
            metrics: keys of scalars to show beside the hyperparameters.
        """
        flush_boards(model.logger)
        for output in tensorboards(model.logger):
            folder = output.writer.log_dir
            if not is_on_board(folder, _LAYOUT_TAG):
                output.writer.add_custom_scalars(LAYOUT)
            if not is_on_board(folder, _HYPERPARAMETERS_TAG):
                logger = Logger(None, [output])
                logger.record("hyperparameters", HParam(hyperparameters(model), dict.fromkeys(metrics, 0)))
                logger.dump(model.num_timesteps)

    def write(
        self, model: BaseAlgorithm, evaluation: Evaluation, batch: LastBatch | None, env: VecEnv | None = None
    ) -> None:
        """Write histograms and pictures.

        Args:
            model: that was evaluated.
            evaluation: of its policy, on the pool.
            batch: the last one.
            env: as in `evaluate`.
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
            self._record_pictures(logger, model, evaluation, batch, env)
        logger.dump(model.num_timesteps)

    def _record_pictures(
        self, logger: Logger, model: BaseAlgorithm, evaluation: Evaluation, batch: LastBatch | None, env: VecEnv | None
    ) -> None:
        from sera_maze.coverage import dashboard_pictures as board_pictures  # pygame is loaded when something is drawn

        policy = model.policy
        assert isinstance(policy, ActorCriticPolicy)
        mazes, count = board_pictures.hardest_mazes(self.pool, MAZES_SHOWN), min(PATHS_SHOWN, evaluation.num_samples)
        paths = board_pictures.paths_picture(policy, self.pool, mazes, evaluation.rules, evaluation.seed, count, env)
        if paths is not None:
            _record_picture(logger, "coverage/paths", paths)
        if batch is not None and batch.probability is not None:
            assert isinstance(model, MaxRL)
            bounds = (model.n_min, model.most_rollouts)
            mean = model.rollouts_per_prompt
            picture = board_pictures.allocation_picture(batch.allocation, batch.probability, mean, bounds)
            _record_picture(logger, "allocation/counts_by_probability", picture)


def hyperparameters(model: BaseAlgorithm) -> dict[str, int | float | str]:
    """What a model was made with, as far as it is a number or a name; also of the algorithms of Stable-Baselines3."""
    names = _OPTIONS if isinstance(model, MaxRL) else _OPTIONS_OF_OTHERS
    found: dict[str, Any] = {
        "algorithm": type(model).__name__,
        "policy": type(model.policy).__name__,
        "learning_rate": float(model.lr_schedule(1.0)),
        **{name: getattr(model, name) for name in names if hasattr(model, name)},
        **{f"policy/{name}": value for name, value in (model.policy_kwargs or {}).items()},
    }
    if isinstance(model, MaxRL):
        found["n_max"] = model.most_rollouts
    clip_range = getattr(model, "clip_range", None)
    if clip_range is not None:
        found["clip_range"] = float(clip_range(1.0) if callable(clip_range) else clip_range)
    found = {name: str(value) if value is None or isinstance(value, bool) else value for name, value in found.items()}
    return {name: value for name, value in found.items() if isinstance(value, int | float | str)}


def _record_picture(logger: Logger, key: str, picture: NDArray[Any]) -> None:
    logger.record(key, Image(torch.from_numpy(picture), "HWC"))
