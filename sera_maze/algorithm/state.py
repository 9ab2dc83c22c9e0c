"""What a training knows beside parameters: about its prompts, and where the present batch began."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from sera_maze.algorithm.normalization import Normalization


class BatchStart(NamedTuple):
    """What a batch changes before its gradient step.

    Attributes:
        num_timesteps: SB3's count of steps.
        order: of the prompts, see `PromptOrder.state_dict`; None without environments.
        normalization: of the environments; None without any.
    """

    num_timesteps: int
    order: dict[str, int] | None
    normalization: Normalization | None


@dataclass(frozen=True)
class PromptState:
    """What has been learnt about prompts, and which of them come next.

    Attributes:
        num_prompts: how many there are.
        digest: names the prompts, if known.
        order: see `PromptOrder.state_dict`.
        estimator: the option ``success``.
        success: see `SuccessEstimator.state_dict`; on the CPU.
        origin: the file that it was read from; None if it was not.
    """

    num_prompts: int
    digest: str | None
    order: dict[str, int]
    estimator: str
    success: dict[str, Tensor]
    origin: str | None = None
