"""The success estimators by name: a new one is one function and one line here."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sera_maze.algorithm.prompt_order import is_endless
from sera_maze.allocation.success import (
    CriticHistory,
    CriticSuccess,
    ExactSuccess,
    SuccessEstimator,
    SuccessHistory,
    UnknownSuccess,
)
from sera_maze.sampling.protocol import Sampler

# Makes an estimator for the prompts of a sampler, on a device.
Make = Callable[[Sampler, torch.device], SuccessEstimator]


def _history(sampler: Sampler, device: torch.device) -> SuccessEstimator:
    _refuse_endless("history", sampler)
    return SuccessHistory(sampler.num_prompts, device=device)


def _critic_history(sampler: Sampler, device: torch.device) -> SuccessEstimator:
    _refuse_endless("critic_history", sampler)
    return CriticHistory(sampler.num_prompts, sampler.success_logits, device=device)


def _critic(sampler: Sampler, device: torch.device) -> SuccessEstimator:
    return CriticSuccess(sampler.success_logits)


def _exact(sampler: Sampler, device: torch.device) -> SuccessEstimator:
    if not sampler.is_exact:
        raise ValueError(
            f"success='exact' needs a MazePolicy on plain mazes, but {sampler.reason or 'there are none'}; use "
            "success='history' or 'critic'"
        )
    return ExactSuccess(sampler.success_probability)


ESTIMATORS: dict[str, Make] = {
    "history": _history,
    "critic": _critic,
    "critic_history": _critic_history,
    "exact": _exact,
}


def make_estimator(name: str, allocator: str, sampler: Sampler, device: torch.device) -> SuccessEstimator:
    """A new estimator for the prompts of a sampler.

    Args:
        name: of `ESTIMATORS`.
        allocator: that it is for; "uniform" can do without, where prompts never come again.
        sampler: knows the prompts, and asks the policy about them.
        device: where everything is kept.

    Raises:
        ValueError: if the estimator does not suit the policy or the prompts.
    """
    if name == "history" and allocator == "uniform" and is_endless(sampler.num_prompts):
        return UnknownSuccess()
    return ESTIMATORS[name](sampler, device)


def _refuse_endless(name: str, sampler: Sampler) -> None:
    if is_endless(sampler.num_prompts):
        raise ValueError(
            f"success={name!r} learns about prompts that come again, but of {sampler.num_prompts} prompts none does; "
            "use success='critic'"
        )
