"""What a batch tells the logger, and SB3's progress bar for batches."""

from __future__ import annotations

from stable_baselines3.common.callbacks import ProgressBarCallback
from torch import Tensor

from sera_maze.allocation.advantages import attenuation
from sera_maze.allocation.allocation import Allocation
from sera_maze.sampling.rollouts import Rollouts


class TimestepsBar(ProgressBarCallback):
    """SB3's progress bar, for batches in which each call stands for as many steps as rollouts are alive."""

    def _on_training_start(self) -> None:
        super()._on_training_start()
        self._shown = self.model.num_timesteps

    def _on_step(self) -> bool:
        self.pbar.update(self.model.num_timesteps - self._shown)
        self._shown = self.model.num_timesteps
        return True


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
        figures["allocation/waterline"] = allocation.waterline
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
