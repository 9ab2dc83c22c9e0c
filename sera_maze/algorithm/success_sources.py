"""Which success estimator a `MaxRL` model uses, by its option ``success``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sera_maze.algorithm.prompt_order import is_endless
from sera_maze.allocation.success import (
    CriticHistory,
    CriticSuccess,
    ExactSuccess,
    SuccessEstimator,
    SuccessHistory,
    UnknownSuccess,
)
from sera_maze.exact.probability import success_probability
from sera_maze.policies.critic import success_logits
from sera_maze.policies.maze import MazePolicy

if TYPE_CHECKING:
    from sera_maze.algorithm.maxrl import MaxRL

_MAZES_A_PASS = 256


def success_estimator(model: MaxRL) -> SuccessEstimator:
    """A new estimator for the prompts of a model.

    Raises:
        ValueError: if the option ``success`` does not suit the policy or the prompts.
    """
    if model.success == "critic":
        return CriticSuccess(lambda prompts: _critic_logits(model, prompts))
    if model.success == "critic_history":
        _refuse_endless(model)
        return CriticHistory(model.num_prompts, lambda prompts: _critic_logits(model, prompts), device=model.device)
    if model.success == "exact":
        if model.fast_path.pool is None:
            raise ValueError(
                f"success='exact' needs a MazePolicy on plain mazes, but {model.fast_path.reason}; "
                "use success='history' or 'critic'"
            )
        return ExactSuccess(lambda prompts: _exact_probability(model, prompts))
    if is_endless(model.num_prompts) and model.allocator == "uniform":
        return UnknownSuccess()
    _refuse_endless(model)
    return SuccessHistory(model.num_prompts, device=model.device)


def _refuse_endless(model: MaxRL) -> None:
    if is_endless(model.num_prompts):
        raise ValueError(
            f"success={model.success!r} learns about prompts that come again, but of {model.num_prompts} prompts none "
            "does; use success='critic'"
        )


@torch.no_grad()
def _exact_probability(model: MaxRL, prompts: Tensor) -> Tensor:
    pool, rules = model.fast_path.pool, model.fast_path.rules
    assert isinstance(model.policy, MazePolicy)
    assert pool is not None
    assert rules is not None
    return success_probability(model.policy, pool, rules.horizon, rules.on_wall, prompts=prompts)


@torch.no_grad()
def _critic_logits(model: MaxRL, prompts: Tensor) -> Tensor:
    model.policy.set_training_mode(False)
    sampler = model.map_sampler
    if sampler is None:
        assert model.step_sampler is not None
        return success_logits(model.policy, model.step_sampler.first_observations(prompts))
    assert isinstance(model.policy, MazePolicy)
    logits = []
    for part in prompts.split(_MAZES_A_PASS):
        values = model.policy.maps(*sampler.mazes(part))[1].flatten(1)
        logits.append(values.gather(1, sampler.board(part).start[:, None])[:, 0])
    return torch.cat(logits)
