"""`Sampler`: how rollouts are made and how their loss is taken back, whatever the policy and the prompts are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor

from sera_maze.sampling.loss import LossTerms
from sera_maze.sampling.rollouts import Rollouts

# Called after each simulated step with the number of rollouts that took it and SB3's callback locals; False stops.
Report = Callable[[int, dict[str, Any]], bool]


class StoppedByCallback(Exception):  # noqa: N818 (not an error)
    """A callback asked the training to stop in the middle of a batch."""


class Sampler(ABC):
    """Samples groups of rollouts and knows how they are represented. Chosen once for a policy and its environments.

    All samplers that fit a policy and environments define the same distribution of rollouts, the same log-probabilities
    and the same gradient. The random numbers of a rollout are keyed by seed, update, prompt and number.

    Attributes:
        num_prompts: how many prompts there are.
        prompts_digest: names all prompts in their order; None if they cannot be named.
        seed: of the training.
        activity: what it does, in words.
        reason: why no faster sampler is used; empty if none is known.
        is_exact: whether `success_probability` can be computed.
        can_imitate: whether `imitation_loss` is known.
    """

    num_prompts: int
    prompts_digest: str | None
    seed: int
    activity: str = "Sampling"
    reason: str = ""
    is_exact: bool = False
    can_imitate: bool = False

    @abstractmethod
    def sample(
        self, policy: ActorCriticPolicy, prompts: Tensor, counts: Tensor, update: int, report: Report | None = None
    ) -> Rollouts:
        """Sample counts[b] rollouts of each prompt.

        Args:
            policy: that samples, in evaluation mode.
            prompts: (B,) int64.
            counts: (B,) int64, 0 or more.
            update: number of the update, which the random numbers are keyed by.
            report: told of each simulated time step of the batch.

        Raises:
            StoppedByCallback: if ``report`` said so.
        """

    @abstractmethod
    def most_prompts(self, num_samples: int) -> int:
        """How many prompts one call of `sample` may take with so many rollouts each, for its memory; at least 1."""

    @abstractmethod
    def losses(self, policy: ActorCriticPolicy, terms: LossTerms) -> Iterator[Tensor]:
        """Parts, micro-batch by micro-batch, whose sum is the loss of a batch that this sampler made."""

    @abstractmethod
    def success_logits(self, policy: ActorCriticPolicy, prompts: Tensor) -> Tensor:
        """Logits of success (B,) that the policy's value head gives for prompts (B,), before their first step."""

    def success_probability(
        self, policy: ActorCriticPolicy, prompts: Tensor, rollouts: Rollouts | None = None
    ) -> Tensor:
        """Exact success probability (B,) float64 of prompts (B,), where ``is_exact``.

        Args:
            policy: whose probability it is.
            prompts: (B,) int64.
            rollouts: of these prompts with these parameters, if they are at hand: saves work.

        Raises:
            NotImplementedError: where it cannot be computed.
        """
        raise NotImplementedError(f"a {type(self).__name__} computes no success probabilities")

    def imitation_loss(self, policy: ActorCriticPolicy, prompts: Tensor) -> Tensor:
        """Loss () of imitating good actions on prompts (B,), for a warm start, where it ``can_imitate``.

        Raises:
            NotImplementedError: where good actions are not known.
        """
        raise NotImplementedError(f"a {type(self).__name__} knows nothing to imitate")

    def solutions(self, rollouts: Rollouts) -> NDArray[np.uint64] | None:
        """(R, 2) uint64: a key for each rollout; successes of one prompt with equal keys are one solution.

        None where solutions cannot be told apart. What failures get means nothing.
        """
        return None

    def squares(self, rollouts: Rollouts) -> Tensor | None:
        """(S,) int64: flat square (row * W + column) of the maze on which each step began; None if it is not known."""
        return None


def report_rollouts(rollouts: Rollouts, report: Report) -> None:
    """Report rollouts that were sampled without stepping as stepping would have: once for each time step.

    ``dones``, ``rewards``, ``infos`` and ``actions`` are of the rollouts that end then; if none does, of one that goes
    on, so that each has an entry 0 as callbacks of Stable-Baselines3 expect.

    Raises:
        StoppedByCallback: if ``report`` said so.
    """
    lengths, success = rollouts.lengths.cpu().numpy(), rollouts.success.cpu().numpy()
    prompts = rollouts.prompts[rollouts.owner].cpu().numpy()
    first, actions = rollouts.first_steps.cpu().numpy(), rollouts.actions.cpu().numpy()
    order = np.argsort(lengths, kind="stable")
    ends = np.searchsorted(lengths[order], np.arange(1, int(lengths.max(initial=0)) + 1), side="right")
    begin = 0
    for step, end in enumerate(ends.tolist()):
        told = order[begin : max(end, begin + 1)]
        infos: list[dict[str, Any]] = [{"prompt": prompt} for prompt in prompts[told].tolist()]
        rewards = np.zeros(len(told), np.float32)
        if end > begin:
            rewards[:] = success[told]
            for info, done in zip(infos, success[told].tolist(), strict=True):
                info |= {"is_success": done, "episode": {"r": float(done), "l": step + 1, "t": 0.0}}
        values = {
            "dones": np.full(len(told), end > begin), "infos": infos, "rewards": rewards,
            "actions": actions[first[told] + step],
        }  # fmt: skip
        if not report(len(lengths) - begin, values):
            raise StoppedByCallback
        begin = end
