"""How digits are sampled: by stepping, with exact success probabilities; for cross-entropy, by taking the labels."""

from __future__ import annotations

import torch
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor
from torch.distributions import Categorical

from sera_maze.sampling.choosing import register_sampler
from sera_maze.sampling.plain_mazes import PlainMazes
from sera_maze.sampling.protocol import Report, report_rollouts
from sera_maze.sampling.rollouts import Rollouts
from sera_maze.sampling.steps import StepSampler
from sera_maze.studies.digits.env import DigitsVecEnv, Images, LabelledDigitsVecEnv


def log_chances(policy: ActorCriticPolicy, images: Images, prompts: Tensor | None = None) -> Tensor:
    """(B,) float64, log p of some images, or of all; with its graph if gradients are on."""
    pixels, labels = images.tensors(prompts, policy.device)
    distribution = policy.get_distribution(pixels).distribution
    assert isinstance(distribution, Categorical)
    logits: Tensor = distribution.logits  # (B, 10)
    return logits.double().log_softmax(dim=-1).gather(1, labels[:, None])[:, 0]


class DigitsSampler(StepSampler):
    """Steps a `DigitsVecEnv`; the success probability of an image is the softmax of its label."""

    is_exact = True

    def __init__(self, env: DigitsVecEnv, seed: int):
        super().__init__(env, seed)
        self.images = env.images

    @torch.no_grad()
    def success_probability(
        self, policy: ActorCriticPolicy, prompts: Tensor, rollouts: Rollouts | None = None
    ) -> Tensor:
        """See `Sampler.success_probability`."""
        return log_chances(policy, self.images, prompts).exp().clamp(max=1.0)


class LabelSampler(DigitsSampler):
    """Cross-entropy by the same algorithm: one rollout an image, which takes the right label.

    With one success of one rollout and the advantage "reinforce", A = 1, MaxRL's loss is the mean of -log p, in the
    policy's float32: where all p are near 1 its gradient is mostly rounding.
    """

    def sample(
        self, policy: ActorCriticPolicy, prompts: Tensor, counts: Tensor, update: int, report: Report | None = None
    ) -> Rollouts:
        """The right label for each prompt (B,), whatever the policy would sample."""
        pixels, labels = self.images.tensors(prompts, prompts.device)
        with torch.no_grad():
            _, log_probs, entropies = policy.evaluate_actions(pixels, labels)
        assert entropies is not None
        ones, owner = torch.ones_like(prompts), torch.arange(len(prompts), device=prompts.device)
        rollouts = Rollouts(prompts, ones, owner, ones.bool(), ones, labels, log_probs, entropies, pixels)
        if report is not None:
            report_rollouts(rollouts, report)
        return rollouts


def fit_digits(policy: BasePolicy, source: VecEnv | PlainMazes, seed: int) -> DigitsSampler | str:
    """A sampler for a policy and a `DigitsVecEnv`, or an empty reason for other environments."""
    if not isinstance(source, DigitsVecEnv):
        return ""
    return LabelSampler(source, seed) if isinstance(source, LabelledDigitsVecEnv) else DigitsSampler(source, seed)


register_sampler("digits", fit_digits)
