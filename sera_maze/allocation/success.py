"""Where success probabilities come from: the interface `SuccessEstimator`, and three that have it.

`SuccessHistory` learns them from the outcomes of earlier epochs, `CriticSuccess` asks a network, `ExactSuccess`
computes them. All work with any trainer: they know prompts by their number only.

References:
    SERA (arXiv 2609.36552): one discounted Beta posterior for each prompt, frozen while an epoch lasts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sera_maze.allocation.checks import as_tensor, check_integers, refuse_first
from sera_maze.envs.ground.checks import as_number

# Probabilities are kept off 0 and 1 by this much: what `sera_maze.allocation.allocate` can work with.
LOWEST, HIGHEST = 1e-300, 1.0 - 2.0**-53


class Estimate(NamedTuple):
    """What is known about B prompts before they are sampled.

    Attributes:
        probability: (B,) float64, success probability, above 0 and below 1.
        posterior: two (B,) float64 above 0, successes and failures of a Beta posterior, of which ``probability`` is the
            mean; None where there is no posterior.
    """

    probability: Tensor
    posterior: tuple[Tensor, Tensor] | None = None


class SuccessEstimator(Protocol):
    """What an allocator needs to know about prompts, by their numbers."""

    def estimate(self, prompts: Tensor, policy: Any = None) -> Estimate | None:
        """What is known about prompts (B,) int64; None as long as nothing is: the allocation should be uniform then.

        Args:
            prompts: (B,) int64.
            policy: that is about to be sampled, for those estimators that ask it.
        """
        ...

    def record(self, prompts: Tensor, successes: Tensor, counts: Tensor) -> None:
        """Take in that prompts (B,) had so many successes (B,) in so many rollouts, counts (B,)."""
        ...

    def start_epoch(self) -> None:
        """Tell that one pass over the prompts has ended and the next begins."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """What has been learnt, as a copy."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go back to what `state_dict` gave."""
        ...


class SuccessHistory:
    """A discounted Beta posterior of the success probability of each prompt.

    While an epoch lasts, its outcomes are only collected and the probabilities stay as they are, so that it does not
    matter when in an epoch a prompt comes. When the next epoch starts, for every prompt

        evidence <- discount * evidence + outcomes of the epoch that has ended
        probability = (prior[0] + successes) / (prior[0] + prior[1] + successes + failures)

    A prompt that gets no rollouts decays toward the prior, so that it is tried again later.

    Args:
        num_prompts: prompts are numbered from 0 to ``num_prompts - 1``.
        prior: pseudo-counts of successes and failures, both above 0.
        discount: what the evidence of an epoch is worth an epoch later, in [0, 1].
        device: where everything is kept and given back.

    Raises:
        TypeError: if ``num_prompts`` is not an int.
        ValueError: for numbers out of range.

    Example:
        >>> history = SuccessHistory(2)
        >>> history.record(torch.tensor([0, 1]), torch.tensor([3, 0]), torch.tensor([4, 4]))
        >>> history.start_epoch()
        >>> history.probability(torch.tensor([0, 1])).tolist()
        [0.7, 0.1]
    """

    def __init__(
        self,
        num_prompts: int,
        *,
        prior: tuple[float, float] = (0.5, 0.5),
        discount: float = 0.75,
        device: torch.device | str = "cpu",
    ):
        if isinstance(num_prompts, bool) or not isinstance(num_prompts, int | np.integer):
            raise TypeError(f"num_prompts={num_prompts!r}; allowed is an int")
        self.num_prompts = int(num_prompts)
        if self.num_prompts < 1:
            raise ValueError(f"num_prompts={num_prompts}; allowed is 1 or more")
        pair = "two finite numbers above 0, such as (0.5, 0.5)"
        if not isinstance(prior, Sequence) or isinstance(prior, str):
            raise TypeError(f"prior={prior!r}; allowed are {pair}")
        if len(prior) != 2 or not all(0 < as_number("prior", number, pair) < math.inf for number in prior):
            raise ValueError(f"prior={prior!r}; allowed are {pair}")
        if not 0 <= as_number("discount", discount, "0 to 1") <= 1:
            raise ValueError(f"discount={discount!r}; allowed is 0 to 1")
        self.prior = (float(prior[0]), float(prior[1]))
        self.discount = float(discount)
        self._evidence = torch.zeros((2, self.num_prompts), dtype=torch.float64, device=device)  # successes, failures
        self._outcomes = torch.zeros((2, self.num_prompts), dtype=torch.int64, device=device)  # of the present epoch
        self._num_epochs = 0

    @property
    def known(self) -> bool:
        """Whether an epoch has ended; in the first one the probabilities are the prior's."""
        return self._num_epochs > 0

    def estimate(self, prompts: Tensor | ArrayLike, policy: Any = None) -> Estimate | None:
        """Posteriors as of the start of this epoch; None in the first one. See `probability`."""
        return Estimate(*_mean_of(self.posterior(prompts))) if self.known else None

    @property
    def device(self) -> torch.device:
        """Where everything is kept."""
        return self._evidence.device

    def probability(self, prompts: Tensor | ArrayLike) -> Tensor:
        """Posterior mean as of the start of this epoch.

        Args:
            prompts: (B,) integers.

        Returns:
            (B,) float64, above 0 and below 1.

        Raises:
            TypeError: if the prompts are not integers.
            ValueError: for another shape or a prompt that does not exist.
        """
        return _mean_of(self.posterior(prompts))[0]

    def posterior(self, prompts: Tensor | ArrayLike) -> tuple[Tensor, Tensor]:
        """Parameters of the Beta posteriors as of the start of this epoch, of which `probability` is the mean.

        Args:
            prompts: (B,) integers.

        Returns:
            Successes and failures, prior included: (B,) float64 each, above 0.

        Raises:
            TypeError, ValueError: as `probability`.
        """
        evidence = self._evidence[:, self._checked_prompts(prompts)]  # (2, B)
        return evidence[0] + self.prior[0], evidence[1] + self.prior[1]

    def record(self, prompts: Tensor | ArrayLike, successes: Tensor | ArrayLike, counts: Tensor | ArrayLike) -> None:
        """Collect outcomes of this epoch. What is recorded of one prompt adds up, within a call and over calls.

        Args:
            prompts: (B,) integers.
            successes: (B,) integers, from 0 to ``counts``.
            counts: (B,) integers, the number of rollouts.

        Raises:
            TypeError: if they are not integers.
            ValueError: for other shapes or numbers out of range; nothing is recorded then.
        """
        index = self._checked_prompts(prompts)
        won = self._checked_numbers("successes", successes, index.shape)
        total = self._checked_numbers("counts", counts, index.shape)
        refuse_first("counts", total, total < 0, "numbers of rollouts, at least 0")
        refuse_first("successes", won, (won < 0) | (won > total), "0 to the prompt's count")
        self._outcomes[0].index_add_(0, index, won)
        self._outcomes[1].index_add_(0, index, total - won)

    def start_epoch(self) -> None:
        """Add what the epoch that ends has brought to the discounted evidence, from which the probabilities follow."""
        self._evidence.mul_(self.discount).add_(self._outcomes)
        self._outcomes.zero_()
        self._num_epochs += 1

    def state_dict(self) -> dict[str, Tensor]:
        """Evidence, outcomes of the present epoch, and the number of ended epochs, as copies."""
        return {
            "evidence": self._evidence.clone(),
            "outcomes": self._outcomes.clone(),
            "num_epochs": torch.tensor(self._num_epochs),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go back to what `state_dict` gave, from any device. Prior and discount stay as constructed.

        Raises:
            ValueError: for other keys, shapes or dtypes, such as a history of another number of prompts, or numbers
                that are negative or not finite.
        """
        own = self.state_dict()
        if state.keys() != own.keys():
            raise ValueError(f"state has the keys {sorted(state)}; allowed are {sorted(own)}, as from state_dict()")
        for name, value in own.items():
            if state[name].shape != value.shape or state[name].dtype != value.dtype:
                raise ValueError(
                    f"state[{name!r}] is {state[name].dtype} of shape {tuple(state[name].shape)}; allowed here is "
                    f"{value.dtype} of shape {tuple(value.shape)}, for {self.num_prompts} prompts"
                )
        for name in own:
            bad = ~torch.isfinite(state[name]) | (state[name] < 0)
            refuse_first(f"state[{name!r}]", state[name], bad, "finite numbers of at least 0")
        self._evidence.copy_(state["evidence"])
        self._outcomes.copy_(state["outcomes"])
        self._num_epochs = int(state["num_epochs"])

    def _checked_prompts(self, prompts: Tensor | ArrayLike) -> Tensor:
        index = self._checked_numbers("prompts", prompts, None)
        refuse_first(
            "prompts", index, (index < 0) | (index >= self.num_prompts), f"the numbers 0 to {self.num_prompts - 1}"
        )
        return index

    def _checked_numbers(self, name: str, values: Tensor | ArrayLike, shape: torch.Size | None) -> Tensor:
        numbers = as_tensor(name, values, device=self.device)
        if numbers.ndim != 1 or (shape is not None and numbers.shape != shape):
            allowed = "(B,)" if shape is None else f"{tuple(shape)}, as prompts"
            raise ValueError(f"{name} has shape {tuple(numbers.shape)}; allowed: {allowed}")
        check_integers(name, numbers)
        return numbers.long()


class CriticHistory(SuccessHistory):
    """A history that begins, for each prompt, with what a network predicts.

    The prior of a prompt is Beta(w c, w (1 - c)) with the network's present success probability c, worth w rollouts. So
    prompts that have hardly been tried, or not for long, are judged by what they look like, and others by their
    outcomes. Only the outcomes are frozen while an epoch lasts: the probabilities follow the network.

    Args:
        num_prompts: as in `SuccessHistory`.
        predict: maps a policy and prompts (B,) int64 to logits (B,).
        weight: w, above 0.
        discount: as in `SuccessHistory`.
        device: as there.

    Raises:
        TypeError, ValueError: as there.
    """

    def __init__(
        self,
        num_prompts: int,
        predict: Callable[[Any, Tensor], Tensor],
        *,
        weight: float = 2.0,
        discount: float = 0.75,
        device: torch.device | str = "cpu",
    ):
        if not 0 < as_number("weight", weight, "a finite number above 0") < math.inf:
            raise ValueError(f"weight={weight!r}; allowed is a finite number above 0")
        super().__init__(num_prompts, discount=discount, device=device)
        self._critic, self.weight = CriticSuccess(predict), float(weight)

    def estimate(self, prompts: Tensor | ArrayLike, policy: Any = None) -> Estimate:
        """Posteriors whose priors are those of the network as it is now; known from the start."""
        index = self._checked_prompts(prompts)
        predicted = self._critic.estimate(index, policy).probability
        evidence = self._evidence[:, index]  # (2, B)
        # Off 0, as a posterior must be, where the network is certain.
        won = (evidence[0] + self.weight * predicted).clamp_(min=LOWEST)
        lost = (evidence[1] + self.weight * (1.0 - predicted)).clamp_(min=LOWEST)
        return Estimate(*_mean_of((won, lost)))


class _Stateless:
    """The part of `SuccessEstimator` of those that learn nothing from outcomes."""

    def record(self, prompts: Tensor, successes: Tensor, counts: Tensor) -> None:
        """Do nothing."""

    def start_epoch(self) -> None:
        """Do nothing."""

    def state_dict(self) -> dict[str, Tensor]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Check that there is nothing to load.

        Raises:
            ValueError: if there is.
        """
        if state:
            raise ValueError(f"state has the keys {sorted(state)}; {type(self).__name__} has no state, allowed is {{}}")


class UnknownSuccess(_Stateless):
    """No success probabilities at all, where the allocation needs none."""

    def estimate(self, prompts: Tensor, policy: Any = None) -> None:
        """Nothing."""
        return None


class CriticSuccess(_Stateless):
    """Success probabilities from a network, such as a policy's success head: also for prompts never seen before.

    Args:
        predict: maps a policy and prompts (B,) int64 to logits (B,).
    """

    def __init__(self, predict: Callable[[Any, Tensor], Tensor]):
        self._predict = predict

    def estimate(self, prompts: Tensor, policy: Any = None) -> Estimate:
        """The logistic function of the logits, detached, without a posterior.

        Raises:
            ValueError: if ``predict`` gives another shape.
        """
        logits = _checked_result("predict", self._predict(policy, prompts), prompts)
        return Estimate(torch.sigmoid(logits).clamp_(LOWEST, HIGHEST))


class ExactSuccess(_Stateless):
    """Success probabilities that can be computed.

    Args:
        compute: maps a policy and prompts (B,) int64 to the success probabilities (B,), in [0, 1].
    """

    def __init__(self, compute: Callable[[Any, Tensor], Tensor]):
        self._compute = compute

    def estimate(self, prompts: Tensor, policy: Any = None) -> Estimate:
        """What was computed, detached and kept above 0 and below 1, without a posterior.

        Raises:
            ValueError: if ``compute`` gives another shape.
        """
        chances = _checked_result("compute", self._compute(policy, prompts), prompts)
        return Estimate(chances.clamp(LOWEST, HIGHEST))


def _mean_of(posterior: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The mean of a Beta posterior, and the posterior."""
    successes, failures = posterior
    return (successes / (successes + failures)).clamp_(LOWEST, HIGHEST), posterior


def _checked_result(name: str, values: Tensor, prompts: Tensor) -> Tensor:
    if values.shape != prompts.shape:
        raise ValueError(
            f"{name} gave shape {tuple(values.shape)} for prompts of shape {tuple(prompts.shape)}; allowed is the same"
        )
    return values.detach().double()
