"""What a batch tells SB3's callbacks and logger."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback, ProgressBarCallback
from torch import Tensor

from sera_maze.allocation.advantages import attenuation
from sera_maze.allocation.allocation import Allocation
from sera_maze.sampling.rollouts import Rollouts

if TYPE_CHECKING:
    from sera_maze.algorithm.maxrl import MaxRL


def replay(model: MaxRL, rollouts: Rollouts, callback: BaseCallback) -> bool:
    """Report rollouts that were sampled without stepping as stepping would have: one ``on_step`` for each time step.

    ``num_timesteps`` grows by the rollouts alive then; the locals ``dones``, ``rewards`` and ``infos`` hold those that
    end then. Returns False if the callback stops the training.
    """
    lengths, success = rollouts.lengths.cpu().numpy(), rollouts.success.cpu().numpy()
    prompts = rollouts.prompts[rollouts.owner].cpu().numpy()
    order = np.argsort(lengths, kind="stable")
    ends = np.searchsorted(lengths[order], np.arange(1, int(lengths.max(initial=0)) + 1), side="right")
    begin = 0
    for step, end in enumerate(ends.tolist()):
        model.num_timesteps += len(lengths) - begin
        ending = order[begin:end]
        infos: list[dict[str, Any]] = [
            {
                "prompt": prompt,
                "is_success": done,
                "episode": {"r": float(done), "l": step + 1, "t": 0.0},
            }
            for prompt, done in zip(prompts[ending].tolist(), success[ending].tolist(), strict=True)
        ]
        dones = np.ones(len(ending), bool)
        callback.update_locals({"dones": dones, "infos": infos, "rewards": success[ending].astype(np.float32)})
        if not callback.on_step():
            return False
        model._update_info_buffer(infos, dones)
        begin = end
    return True


def reporter(model: MaxRL, callback: BaseCallback) -> Callable[[int, dict[str, Any]], bool]:
    """What a `StepSampler` calls after each step: it counts the step, and asks the callback whether to go on."""

    def report(alive: int, values: dict[str, Any]) -> bool:
        model.num_timesteps += alive
        callback.update_locals(values)
        with model.usual_iterations():
            goes_on = callback.on_step()
        if goes_on:
            model._update_info_buffer(values["infos"], values["dones"])
        return goes_on

    return report


class TimestepsBar(ProgressBarCallback):
    """SB3's progress bar, for batches in which each call stands for as many steps as rollouts are alive."""

    def _on_training_start(self) -> None:
        super()._on_training_start()
        self._shown = self.model.num_timesteps

    def _on_step(self) -> bool:
        self.pbar.update(self.model.num_timesteps - self._shown)
        self._shown = self.model.num_timesteps
        return True


def record_batch(model: MaxRL, rollouts: Rollouts, allocation: Allocation, probability: Tensor | None) -> None:
    """Put the figures of a batch into the logger.

    Rates are means over the prompts that got rollouts, each prompt counting once: with counts that depend on earlier
    outcomes, a mean over rollouts would tell of the allocation as much as of the policy. Attenuations are of the active
    prompts, for the model's own advantage: of their counts, and as it would be with the same number of rollouts, N0,
    for each prompt.

    Args:
        model: whose logger it is.
        rollouts: of the batch.
        allocation: of its prompts.
        probability: (B,) that the allocation was made from, or None.
    """
    counts, successes = rollouts.counts, rollouts.successes
    sampled = counts > 0
    rate = successes[sampled] / counts[sampled]
    success_rate = rate.mean().item()
    model.last_figures = {"success_rate": success_rate}
    record = model.logger.record
    returns = rollouts.success if rollouts.returns is None else rollouts.returns
    record("rollout/ep_rew_mean", _mean_over_prompts(rollouts, returns).item())
    record("rollout/success_rate", success_rate)
    record("rollout/ep_len_mean", _mean_over_prompts(rollouts, rollouts.lengths).item())
    record("groups/mixed_fraction", ((rate > 0) & (rate < 1)).double().mean().item())
    record("groups/all_fail_fraction", (rate == 0).double().mean().item())
    record("groups/all_success_fraction", (rate == 1).double().mean().item())
    record("allocation/count_min", counts.min().item())
    record("allocation/count_max", counts.max().item())
    record("allocation/count_std", counts.double().std(unbiased=False).item())
    record("allocation/active_fraction", allocation.active.double().mean().item())
    if allocation.waterline is not None:
        record("allocation/waterline", allocation.waterline.item())
    achieved = allocation.attenuation
    if probability is not None and model.advantage != "maxrl":
        achieved = attenuation(probability, counts, model.advantage)
    if achieved is not None:
        achieved = achieved[allocation.active]
        record("allocation/attenuation_min", achieved.min().item())
        record("allocation/attenuation_mean", achieved.mean().item())
    if probability is not None:
        uniform = attenuation(probability[allocation.active], [model.rollouts_per_prompt], model.advantage)
        record("allocation/uniform_attenuation_min", uniform.min().item())
        record("allocation/uniform_attenuation_mean", uniform.mean().item())


def record_times(model: MaxRL, iteration: int) -> None:
    """Put counters and speed into the logger."""
    elapsed = max((time.time_ns() - model.start_time) / 1e9, sys.float_info.epsilon)
    record = model.logger.record
    record("time/iterations", iteration, exclude="tensorboard")
    record("time/fps", int((model.num_timesteps - model._num_timesteps_at_start) / elapsed))
    record("time/time_elapsed", int(elapsed), exclude="tensorboard")
    record("time/total_timesteps", model.num_timesteps, exclude="tensorboard")
    record("time/total_rollouts", model.total_rollouts)


def _mean_over_prompts(rollouts: Rollouts, values: Tensor) -> Tensor:
    """Mean of values (R,) in each group, then over the groups."""
    total = torch.zeros(len(rollouts.counts), dtype=torch.float64, device=rollouts.counts.device)
    total.index_add_(0, rollouts.owner, values.double())
    sampled = rollouts.counts > 0
    return (total[sampled] / rollouts.counts[sampled]).mean()
