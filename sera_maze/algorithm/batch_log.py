"""What a batch tells the logger, and a progress bar for batches."""

from __future__ import annotations

import torch
from stable_baselines3.common.callbacks import BaseCallback
from torch import Tensor
from tqdm import tqdm

from sera_maze.allocation.advantages import attenuation
from sera_maze.allocation.allocation import Allocation
from sera_maze.sampling.rollouts import Rollouts


class LearnBar(BaseCallback):
    """A progress bar of text, in updates where their number ends the training, else in simulated steps.

    SB3's own needs widgets in a notebook, and shows nothing without them; it also takes each call for one step of every
    environment, where a batch takes as many as rollouts are alive.
    """

    def _on_training_start(self) -> None:
        total, unit = self.locals["total_updates"], "update"
        if total is None:
            total, unit = self.locals["total_timesteps"], "step"
        self._counts = "num_timesteps" if unit == "step" else "updates"
        done = getattr(self.model, self._counts)
        self.pbar = tqdm(total=total, initial=done, desc="learn", unit=unit, unit_scale=unit == "step")

    def _on_step(self) -> bool:
        self._show()
        return True

    def _on_training_end(self) -> None:
        self._show()
        self.pbar.close()

    def _show(self) -> None:
        self.pbar.update(getattr(self.model, self._counts) - self.pbar.n)


def batch_figures(
    rollouts: Rollouts, allocation: Allocation, probability: Tensor | None, advantage: str, mean: int
) -> dict[str, float]:
    """The figures of a batch under the logger's keys.

    Rates are means over the prompts that got rollouts, each prompt counting once: with counts that depend on earlier
    outcomes, a mean over rollouts would tell of the allocation as much as of the policy. Attenuations are of the active
    prompts, for the advantage in use: of their counts, and as it would be with the same number of rollouts for each.

    Args:
        rollouts: of the batch.
        allocation: of its prompts.
        probability: (B,) that the allocation was made from, or None.
        advantage: see `group_advantages`.
        mean: N0, rollouts a prompt.
    """
    counts, successes = rollouts.counts, rollouts.successes
    sampled = counts > 0
    rate = successes[sampled] / counts[sampled]
    returns = rollouts.success if rollouts.returns is None else rollouts.returns
    figures = {
        "rollout/ep_rew_mean": rollouts.mean_over_prompts(returns),
        "rollout/success_rate": rate.mean(),
        "rollout/ep_len_mean": rollouts.mean_over_prompts(rollouts.lengths),
        "groups/mixed_fraction": ((rate > 0) & (rate < 1)).double().mean(),
        "groups/all_fail_fraction": (rate == 0).double().mean(),
        "groups/all_success_fraction": (rate == 1).double().mean(),
        "allocation/count_min": counts.min(),
        "allocation/count_max": counts.max(),
        "allocation/count_std": counts.double().std(unbiased=False),
        "allocation/active_fraction": allocation.active.double().mean(),
    }
    if allocation.waterline is not None:
        figures["allocation/waterline"] = allocation.waterline  # exp(-tau)
        least = torch.finfo(allocation.waterline.dtype).tiny
        figures["allocation/tau"] = -allocation.waterline.clamp(min=least).log()
    achieved = allocation.attenuation
    if probability is not None and advantage != "maxrl":
        achieved = attenuation(probability, counts, advantage)
    if achieved is not None:
        achieved = achieved[allocation.active]
        figures["allocation/attenuation_min"] = achieved.min()
        figures["allocation/attenuation_mean"] = achieved.mean()
    if probability is not None:
        uniform = attenuation(probability[allocation.active], [mean], advantage)
        figures["allocation/uniform_attenuation_min"] = uniform.min()
        figures["allocation/uniform_attenuation_mean"] = uniform.mean()
    return {name: value.item() for name, value in figures.items()}
