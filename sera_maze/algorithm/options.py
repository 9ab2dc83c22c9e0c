"""Every option of `MaxRL`, with its default, its range and what it does; imports neither torch nor SB3."""

from __future__ import annotations

import inspect
import math
import textwrap
from dataclasses import dataclass, fields
from typing import Annotated, Literal, get_args

from sera_maze.envs.ground.checks import check_int
from sera_maze.envs.ground.options import Number, Whole, check_options, descriptions

_MOST = 2**31
_COEFFICIENT = Number("a finite number of at least 0")
Advantage = Literal["maxrl", "rloo", "grpo", "reinforce", "success_average"]
ADVANTAGES: tuple[str, ...] = get_args(Advantage)


@dataclass(frozen=True)
class MaxRLOptions:
    """How groups of rollouts are sampled and learnt from.

    Args:
        prompts_per_batch: prompts B of a batch; a smaller pool makes smaller batches.
        rollouts_per_prompt: rollouts of a prompt on average, N0; a batch has B N0 rollouts, the budget, whatever the
            allocation.
        allocator: how a batch's rollouts are shared out: "uniform" (N0 each), "sera" (equal attenuation), or one of
            `sera_maze.allocation`: "sera_posterior" (equal expected attenuation over the posteriors of a history),
            "vip" or "knapsack".
        advantage: how rollouts are weighed by their group's successes: "maxrl", "rloo", "grpo", "reinforce" or
            "success_average", see `group_advantages`.
        success: where SERA's success probabilities come from: "history" (`SuccessHistory`, for prompts that come again
            and again), "critic" (the policy's value head on first observations, trained along to give the logit of
            success: also for prompts never seen before, such as `FreshMazes`), "critic_history" (a history that begins
            with the critic's answer) or "exact" (computed; needs a MazePolicy on plain mazes).
        n_min: least rollouts of an active prompt.
        n_max: most rollouts of a prompt; None: 4 times rollouts_per_prompt.
        activation_threshold: a prompt is active if its group is mixed at least with this probability, see `allocate`;
            None: all prompts are active.
        rounding: how shares become whole rollouts: "fidelity" or "maxmin", see `allocate`.
        multiplicity_correction: whether rollouts of prompt q weigh N0 / N_q.
        token_mean: whether a rollout's sum over its steps becomes a mean.
        n_epochs: optimizer steps on each batch; over 1 with the clipped ratio of PPO.
        clip_range: how far that ratio may go from 1.
        ent_coef: coefficient of the entropy bonus.
        critic_coef: coefficient of the success head's loss, where ``success`` uses it.
        max_grad_norm: the gradient is scaled down to this norm.
        warmup_updates: the learning rate rises linearly over so many first updates, since Adam's first steps are of
            full size whatever the gradient, and can undo a warm start.
        sampler: how rollouts are made: "auto" (the map sampler where it gives the same result, else stepping), "map" or
            "step".

    Raises:
        ValueError, TypeError: for a value outside its range.
    """

    prompts_per_batch: Annotated[int, Whole(1, _MOST)] = 64
    rollouts_per_prompt: Annotated[int, Whole(1, _MOST)] = 32
    allocator: Literal["uniform", "sera", "sera_posterior", "vip", "knapsack"] = "uniform"
    advantage: Advantage = "maxrl"
    success: Literal["history", "critic", "critic_history", "exact"] = "history"
    n_min: Annotated[int, Whole(1, _MOST)] = 2
    n_max: Annotated[int, Whole(1, _MOST)] | None = None
    activation_threshold: (
        Annotated[float, Number("a number from 0 to below 1, or None (all active)", 0, 1, "[)")] | None
    ) = 0.05
    rounding: Literal["fidelity", "maxmin"] = "fidelity"
    multiplicity_correction: bool = True
    token_mean: bool = False
    n_epochs: Annotated[int, Whole(1, 1000)] = 1
    clip_range: Annotated[float, Number("a number above 0; schedules are not", ends="()")] = 0.2
    ent_coef: Annotated[float, _COEFFICIENT] = 0.0
    critic_coef: Annotated[float, _COEFFICIENT] = 0.5
    # An infinite norm is one way to say that gradients are not to be scaled down.
    max_grad_norm: Annotated[float, Number("a number above 0", ends="(]")] = 1.0
    warmup_updates: Annotated[int, Whole(0, _MOST)] = 20
    sampler: Literal["auto", "map", "step"] = "auto"

    def __post_init__(self) -> None:
        check_options(self)
        if self.allocator != "uniform":
            self._check_sharing()

    def _check_sharing(self) -> None:
        """Check that an allocator has something to share out, knows what it needs, and can keep to the bounds."""
        if self.rollouts_per_prompt == 1:
            raise ValueError(
                f"rollouts_per_prompt=1 leaves nothing to share out: allocator={self.allocator!r} needs at least 2 (a "
                "single one has no MaxRL advantage either)"
            )
        if self.allocator == "sera_posterior" and self.success != "history":
            raise ValueError(
                "allocator='sera_posterior' needs the posteriors of success='history', got "
                f"success={self.success!r}; use allocator='sera' with that"
            )
        check_int("n_min", self.n_min, 1, self.rollouts_per_prompt)
        if self.n_max is not None:
            check_int("n_max", self.n_max, self.rollouts_per_prompt, _MOST)

    @property
    def most_rollouts(self) -> int:
        """The most rollouts that a prompt gets, n_max."""
        return 4 * self.rollouts_per_prompt if self.n_max is None else self.n_max

    @classmethod
    def of(cls, holder: object) -> MaxRLOptions:
        """The options that an object has as attributes."""
        return cls(**{field.name: getattr(holder, field.name) for field in fields(cls)})


def with_options(docstring: str | None) -> str | None:
    """A docstring with the options' texts in the place of its line ``options``: described once, shown where wanted."""
    if docstring is None:  # as Python is told to keep none
        return None
    entries = [f"{name}: {text}" for name, text in descriptions(MaxRLOptions).items()]
    lines = [
        textwrap.fill(entry, 120, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False)
        for entry in entries
    ]
    return inspect.cleandoc(docstring).replace("\n    options\n", "\n".join(["", *lines, ""]))


def check_rate(rate: float, where: str) -> float:
    """Check a learning rate.

    Raises:
        ValueError: if it is not a finite number of at least 0.
    """
    if not (math.isfinite(rate) and rate >= 0):
        raise ValueError(f"learning_rate is {rate!r} {where}; allowed is a finite number of at least 0")
    return rate
