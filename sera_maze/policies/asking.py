"""What samplers and algorithms ask of any policy; a policy that knows more than SB3's answers by methods of its own.

- ``varied(generator)``: the variant of the policy that one update samples and trains.
- ``imitating(generator)``: the same for an update of imitation, and ``reach``, in moves, what it can learn from.
- ``at(**settings)`` and ``settings``: a variant with other settings beside the parameters, and those of this one.
- ``success_logits(observations)``: logits of success.
- ``most_observations``: how many observations one pass may keep for its gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor

Policy = TypeVar("Policy", bound=BasePolicy)


def varied(policy: Policy, generator: np.random.Generator) -> Policy:
    """The variant of a policy for one update, which shares its parameters; the policy itself if it does not vary.

    Args:
        policy: any.
        generator: draws the variant.
    """
    vary = getattr(policy, "varied", None)
    return policy if vary is None else vary(generator)


def imitating(policy: Policy, generator: np.random.Generator) -> Policy:
    """The variant of a policy for one update of imitation; that of `varied` if it has none of its own.

    Args:
        policy: any.
        generator: draws the variant.
    """
    own = getattr(policy, "imitating", None)
    return varied(policy, generator) if own is None else own(generator)


def settings_of(policy: BasePolicy) -> dict[str, Any]:
    """What a policy is beside its parameters and its constructor's arguments, as JSON can hold it; {} for most."""
    return dict(getattr(policy, "settings", {}))


def with_settings(policy: Policy, settings: Mapping[str, Any]) -> Policy:
    """The variant of a policy with settings of `settings_of`."""
    return policy.at(**settings) if settings else policy  # type: ignore[operator]


def fits_any_size(policy: BasePolicy) -> bool:
    """Whether `for_mazes` has a variant of a policy for mazes of any size."""
    return hasattr(policy, "for_size")


def for_mazes(policy: Policy, size: tuple[int, int], iterations: int | None = None) -> Policy:
    """The variant of a policy for mazes of a size; see `MazePolicy.for_size`.

    Raises:
        TypeError: for a policy that has none.
    """
    if not fits_any_size(policy):
        raise TypeError(f"a {type(policy).__name__} is no policy for mazes of any size; allowed is a MazePolicy")
    return policy.for_size(size, iterations)  # type: ignore[operator]


def success_logits(policy: BasePolicy, obs: PyTorchObs) -> Tensor:
    """Logits (N,) of success in N observations by a policy's value head, as success="critic" trains and reads it.

    What a policy's ``predict_values`` gives is taken as the logit itself, unless it has ``success_logits``.
    """
    own = getattr(policy, "success_logits", None)
    return policy.predict_values(obs).flatten() if own is None else own(obs)  # type: ignore[operator]


def most_observations(policy: BasePolicy, otherwise: int) -> int:
    """How many observations a pass with gradient may take; ``otherwise`` for a policy that does not say."""
    return int(getattr(policy, "most_observations", otherwise))
