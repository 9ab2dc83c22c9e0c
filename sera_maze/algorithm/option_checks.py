"""The checks of `MaxRL`'s options, whether they come from the constructor or from a file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sera_maze.algorithm.options import ADVANTAGES, ALLOCATORS, ROUNDINGS, SAMPLERS, SUCCESS, check_sharing
from sera_maze.allocation.allocation import check_threshold
from sera_maze.envs.ground.checks import as_number, check_choice, check_flag, check_int

if TYPE_CHECKING:
    from sera_maze.algorithm.maxrl import MaxRL

_CHOICES = {
    "allocator": ALLOCATORS, "advantage": ADVANTAGES, "success": SUCCESS, "rounding": ROUNDINGS, "sampler": SAMPLERS,
}  # fmt: skip
_COUNTS = {
    "prompts_per_batch": (1, 2**31), "rollouts_per_prompt": (1, 2**31), "n_epochs": (1, 1000),
    "warmup_updates": (0, 2**31),
}  # fmt: skip
_MOST_ROLLOUTS = 2**31


def check_options(model: MaxRL) -> None:
    """Check all options of a model, and make ints of those that are whole numbers of another type.

    Raises:
        ValueError, TypeError: for one outside its range.
    """
    for name, allowed in _CHOICES.items():
        check_choice(name, getattr(model, name), allowed)
    for name, (low, high) in _COUNTS.items():
        setattr(model, name, check_int(name, getattr(model, name), low, high))
    _check_bounds(model)
    check_threshold(model.activation_threshold)
    for name in ("multiplicity_correction", "token_mean"):
        check_flag(name, getattr(model, name))
    for name in ("ent_coef", "critic_coef"):
        _check_number(name, getattr(model, name), "a finite number of at least 0", low=0.0)
    _check_number("clip_range", model.clip_range, "a number above 0; schedules are not", low=0.0, open_end=True)
    # An infinite norm is one way to say that gradients are not to be scaled down.
    _check_number("max_grad_norm", model.max_grad_norm, "a number above 0", low=0.0, open_end=True, finite=False)
    if model.seed is not None:
        model.seed = check_int("seed", model.seed, 0, 2**32 - 1)


def check_rate(rate: float, where: str) -> float:
    """Check a learning rate.

    Raises:
        ValueError: if it is not a finite number of at least 0.
    """
    if not (math.isfinite(rate) and rate >= 0):
        raise ValueError(f"learning_rate is {rate!r} {where}; allowed is a finite number of at least 0")
    return rate


def _check_bounds(model: MaxRL) -> None:
    rollouts = model.rollouts_per_prompt
    shares = model.allocator != "uniform"
    check_sharing(model.allocator, model.success, rollouts)
    model.n_min = check_int("n_min", model.n_min, 1, rollouts if shares else _MOST_ROLLOUTS)
    if model.n_max is not None:
        model.n_max = check_int("n_max", model.n_max, rollouts if shares else 1, _MOST_ROLLOUTS)


def _check_number(
    name: str, value: object, allowed: str, *, low: float, open_end: bool = False, finite: bool = True
) -> None:
    number = as_number(name, value, allowed)
    if not (number > low or (number == low and not open_end)) or (finite and math.isinf(number)):
        raise ValueError(f"{name}={value!r} is out of range; allowed is {allowed}")
