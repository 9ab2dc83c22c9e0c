"""`MaxRL`: grouped rollouts and the maximum-likelihood objective as an algorithm of Stable-Baselines3; and `SERA`."""

from __future__ import annotations

import inspect
import math
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy, MultiInputActorCriticPolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, Schedule
from stable_baselines3.common.utils import update_learning_rate
from torch import Tensor
from typing_extensions import Self

from sera_maze.algorithm.batch_log import batch_figures
from sera_maze.algorithm.estimators import make_estimator
from sera_maze.algorithm.imitation import warm_start
from sera_maze.algorithm.options import MaxRLOptions, check_rate, with_options
from sera_maze.algorithm.prompt_order import PromptOrder
from sera_maze.algorithm.resumable import ResumableAlgorithm, uninterrupted
from sera_maze.algorithm.warning_signs import WarningSigns
from sera_maze.allocation.advantages import group_advantages
from sera_maze.allocation.allocation import Allocation
from sera_maze.allocation.registry import Bounds, share_out
from sera_maze.allocation.success import Estimate
from sera_maze.envs.ground.checks import check_choice, check_int, known_arguments
from sera_maze.policies.asking import varied
from sera_maze.policies.maze import MazePolicy
from sera_maze.policies.small_grid import SmallGridPolicy
from sera_maze.sampling.choosing import choose_sampler
from sera_maze.sampling.loss import LossTerms, Totals, rollout_weights
from sera_maze.sampling.protocol import Report, StoppedByCallback
from sera_maze.sampling.rollouts import Rollouts
from sera_maze.storage.run_log import flush_boards

_VARIANT = 0x49544552  # sets these random numbers apart from those of the prompt order


class MaxRL(ResumableAlgorithm):
    """Sample a group of rollouts for each prompt and raise the likelihood of success, fully on-policy.

    Each update takes the next ``prompts_per_batch`` prompts of the pool, shares out rollouts_per_prompt rollouts a
    prompt (evenly, or with SERA's waterline), and takes one optimizer step on the weighted loss of `objective`.

    Args:
        policy: "MazePolicy", "MlpPolicy", "CnnPolicy" (with `SmallGridCNN`), "MultiInputPolicy", or a class.
        env: a promptable environment (`MazeEnv`, its ids, a VecEnv of them, `MazeVecEnv`, or any in a `PromptQueue`).
        learning_rate: of the optimizer; a number or a schedule of the remaining progress (1 to 0).
        options
        stats_window_size: SB3's.
        tensorboard_log: SB3's.
        policy_kwargs: SB3's.
        verbose: SB3's.
        seed: fixes everything; None draws one.
        device: SB3's.
        _init_setup_model: SB3's.

    Raises:
        ValueError, TypeError: for an argument outside its range.

    References:
        MaxRL: arXiv 2602.02710. SERA: arXiv 2609.36552.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MazePolicy": MazePolicy,
        "MlpPolicy": ActorCriticPolicy,
        "CnnPolicy": SmallGridPolicy,
        "MultiInputPolicy": MultiInputActorCriticPolicy,
    }

    @known_arguments
    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: GymEnv | str | None = None,
        learning_rate: float | Schedule = 1e-3,
        prompts_per_batch: int = 64,
        rollouts_per_prompt: int = 32,
        allocator: str = "uniform",
        advantage: str = "maxrl",
        success: str = "history",
        n_min: int = 2,
        n_max: int | None = None,
        activation_threshold: float | None = 0.05,
        rounding: str = "fidelity",
        multiplicity_correction: bool = True,
        token_mean: bool = False,
        n_epochs: int = 1,
        clip_range: float = 0.2,
        ent_coef: float = 0.0,
        critic_coef: float = 0.5,
        max_grad_norm: float = 1.0,
        warmup_updates: int = 20,
        sampler: str = "auto",
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        _init_setup_model: bool = True,
    ):
        self.prompts_per_batch, self.rollouts_per_prompt = prompts_per_batch, rollouts_per_prompt
        self.n_epochs, self.warmup_updates, self.n_min, self.n_max = n_epochs, warmup_updates, n_min, n_max
        self.allocator, self.advantage, self.success, self.rounding = allocator, advantage, success, rounding
        self.activation_threshold, self.multiplicity_correction = activation_threshold, multiplicity_correction
        self.token_mean, self.clip_range, self.critic_coef, self.sampler = token_mean, clip_range, critic_coef, sampler
        self.total_rollouts = 0
        self.total_updates: int | None = None
        self._setup = {}
        self._signs = WarningSigns()
        self.last_figures: dict[str, float] = {}
        self.has_drawn_seed = False
        super().__init__(
            policy, env,  # type: ignore[arg-type]
            learning_rate, n_steps=1, gamma=1.0, gae_lambda=1.0, ent_coef=ent_coef, vf_coef=0.0,
            max_grad_norm=max_grad_norm, use_sde=False, sde_sample_freq=-1, stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log, policy_kwargs=policy_kwargs, verbose=verbose, seed=seed, device=device,
            _init_setup_model=False,
        )  # fmt: skip
        if _init_setup_model:
            self._setup_model()

    def _get_policy_from_name(self, policy_name: str) -> type[BasePolicy]:
        check_choice("policy", policy_name, tuple(self.policy_aliases))
        return super()._get_policy_from_name(policy_name)

    def _setup_model(self) -> None:
        """Build policy and optimizer; runs again after loading, so it makes nothing that is saved."""
        vars(self).update(asdict(self.options))  # which checks them
        if self.seed is not None:
            self.seed = check_int("seed", self.seed, 0, 2**32 - 1)
        if self.env is None and not hasattr(self, "observation_space"):
            raise ValueError("env is None; give environments, or load a model with MaxRL.load")
        self._setup_lr_schedule()
        check_rate(self.lr_schedule(1.0), "at the start")
        with torch.random.fork_rng(devices=[], enabled=self.seed is None):
            if self.seed is None:
                self.has_drawn_seed = True
                self.seed = secrets.randbelow(2**31)
                torch.default_generator.manual_seed(self.seed)  # nobody asked for the global generators to be seeded
            else:
                self.set_random_seed(self.seed)
            self.policy = self.policy_class(
                self.observation_space, self.action_space, self.lr_schedule, **self.policy_kwargs
            ).to(self.device)  # type: ignore[assignment]
        self._setup_prompts()

    def _setup_prompts(self) -> None:
        """Look at the environments: how they can be sampled, and how many prompts they have."""
        if self.env is None:
            return
        seed = self.seed or 0
        sampler = choose_sampler(self.policy, self.env, seed, self.sampler)
        if self.verbose >= 1 and self.sampler == "auto" and sampler.reason:
            print(f"{sampler.activity}: {sampler.reason}.")  # noqa: T201 (as SB3 tells what it does)
        self._setup = {name: getattr(self, name) for name in ("prompts_per_batch", "success", "sampler")}
        self.rollout_sampler = sampler
        self.prompt_order = PromptOrder(sampler.num_prompts, self.prompts_per_batch, seed)
        self.success_estimator = make_estimator(self.success, self.allocator, sampler, self.device)
        self.restore_prompts()
        self.restore_normalization()

    @property
    def updates(self) -> int:
        """Updates complete."""
        return self._n_updates

    @property
    def method(self) -> str:
        """What logs call this training, by its allocator: "MaxRL", "SERA", or as "MaxRL-vip"."""
        return {"uniform": "MaxRL", "sera": "SERA"}.get(self.allocator, f"MaxRL-{self.allocator}")

    @property
    def num_prompts(self) -> int:
        """Number of prompts that the environments have.

        Raises:
            ValueError: if there are none.
        """
        self._require_env()
        return self.rollout_sampler.num_prompts

    @property
    def options(self) -> MaxRLOptions:
        """The options that the attributes say, checked."""
        return MaxRLOptions.of(self)

    @property
    def most_rollouts(self) -> int:
        """The most rollouts that a prompt gets, n_max."""
        return self.options.most_rollouts

    def set_env(self, env: GymEnv, force_reset: bool = True) -> None:
        """Go on with other environments of the same spaces; the success history starts anew with other prompts.

        Raises:
            ValueError: for other spaces; or within a batch, whose rollouts are of the environments before.
        """
        if self._batch_start is not None:
            raise ValueError(
                "set_env was called within a batch, whose rollouts are of the environments before: call it from a "
                "callback's _on_rollout_start, or between two calls of learn"
            )
        before = vars(self).copy()
        try:
            super().set_env(env, force_reset)
            self._setup_prompts()
        except Exception:
            vars(self).update(before)
            raise

    def warm_start(self, updates: int, **options: Any) -> Self:
        """Imitate shortest paths before the reinforcement learning.

        Args:
            updates: number of updates.
            **options: ``batch_size``, ``learning_rate``, ``after_update`` and ``progress_bar``, see
                `sera_maze.algorithm.imitation.warm_start`.

        Raises:
            ValueError: if there is nothing to imitate: for another policy than MazePolicy, or other environments than
                plain mazes.
        """
        self._require_env()
        warm_start(self.policy, self.rollout_sampler, updates, seed=self.seed or 0, **options)
        return self

    def estimate(self, prompts: Tensor, policy: ActorCriticPolicy | None = None) -> Estimate | None:
        """What is known about the success of prompts (B,); None as long as nothing is.

        Args:
            prompts: (B,) int64.
            policy: that is about to be sampled; None: the model's.
        """
        return self.success_estimator.estimate(prompts, self.policy if policy is None else policy)

    @property
    def bounds(self) -> Bounds:
        """What limits the allocations."""
        return Bounds(self.n_min, self.most_rollouts, self.activation_threshold, self.rounding)

    def allocate(self, prompts: Tensor, estimate: Estimate | None) -> Allocation:
        """Share the budget of a batch out over its prompts (B,), by what is known about them."""
        budget = len(prompts) * self.rollouts_per_prompt
        return share_out(self.allocator, estimate, len(prompts), budget, self.bounds, self.device)

    def sample(self, prompts: Tensor, counts: Tensor) -> Rollouts:
        """Sample counts[b] rollouts of each prompt (B,) with the model's policy and the present update's numbers."""
        self._require_env()
        self.policy.set_training_mode(False)
        return self.rollout_sampler.sample(self.policy, prompts, counts, self._n_updates)

    def step_batch(self, callback: BaseCallback, log: Callable[[], None] | None = None) -> None:
        """One batch: prompts, estimate, allocation, rollouts, gradient step, record, log.

        Args:
            callback: SB3's, initialised.
            log: writes the log after the update; None leaves it to later.

        If anything is raised before the update is complete, the batch is dropped, as if it had not begun.

        Raises:
            StoppedByCallback: if the callback said so while sampling.
            ValueError: see `update`.
        """
        callback.on_rollout_start()
        self._batch_start = self.batch_start()
        try:
            self._run_batch(callback, log)
        except BaseException:
            if self._batch_start is not None:
                self._go_to(self._batch_start)
                self._batch_start = None
            raise

    def _run_batch(self, callback: BaseCallback, log: Callable[[], None] | None) -> None:
        self._check_setup()
        prompts = self.prompt_order.next_batch().to(self.device)
        self.policy.set_training_mode(False)
        fixed = self._fixed_in_batch()
        # One variant of the policy for all of the batch; `self.policy`, which callbacks see, stays as it is.
        policy = varied(self.policy, np.random.default_rng([self.seed or 0, _VARIANT, self._n_updates]))
        estimate = self.estimate(prompts, policy)
        allocation = self.allocate(prompts, estimate)
        counts = self.team.share(allocation.counts)
        rollouts = self.rollout_sampler.sample(policy, prompts, counts, self._n_updates, self._reporter(callback))
        probability = None if estimate is None else estimate.probability
        callback.update_locals(
            {"rollouts": rollouts, "allocation": allocation, "probability": probability, "bounds": self.bounds}
        )
        callback.on_rollout_end()
        for name, value in self._fixed_in_batch().items():
            if value != fixed[name]:
                raise ValueError(
                    f"a callback changed {name} within a batch, whose rollouts are of the one before: do so in "
                    "_on_rollout_start, or between two calls of learn"
                )
        self._update_current_progress_remaining(self.num_timesteps, self._total_timesteps)
        with uninterrupted():  # all of it or nothing, so that what is saved after Ctrl-C fits together
            totals = Totals.of(rollouts, self.team)
            self.update(rollouts, policy, totals)
            successes = self.team.sum_(rollouts.successes.clone())
            self.success_estimator.record(prompts, successes, allocation.counts)
            self.total_rollouts += totals.rollouts
            self._record(batch_figures(rollouts, allocation, probability, self.advantage, self.rollouts_per_prompt))
            if self.prompt_order.epoch_is_over:
                self.prompt_order.start_epoch()
                self.success_estimator.start_epoch()
            self._batch_start = None
            if log is not None:
                log()
        if not self.team.rank:
            self._signs.look(self.last_figures, is_discrete=not isinstance(self.action_space, spaces.Box))

    def _check_setup(self) -> None:
        """Check the options that attributes say, and that those which prompts were set up with are still the same."""
        options = self.options
        for name, used in self._setup.items():
            if getattr(options, name) != used:
                raise ValueError(
                    f"{name} was changed from {used!r} to {getattr(options, name)!r}, but the prompts were set up with "
                    "the former: call set_env(model.get_env()) after changing it"
                )

    def _fixed_in_batch(self) -> dict[str, Any]:
        """What the rollouts of a batch come from, and its loss needs as it was."""
        return {
            "model.policy": self.policy,
            "the policy's parameters": [parameter._version for parameter in self.policy.parameters()],
            "model.rollouts_per_prompt": self.rollouts_per_prompt,
        }

    def _reporter(self, callback: BaseCallback) -> Report:
        """What a sampler calls for each simulated time step: it counts, and asks the callback whether to go on."""

        def report(alive: int, values: dict[str, Any]) -> bool:
            self.num_timesteps += alive
            callback.update_locals(values)
            goes_on = callback.on_step()
            if goes_on:
                self._update_info_buffer(values["infos"], values["dones"])
            return goes_on

        return report

    def update(self, rollouts: Rollouts, policy: ActorCriticPolicy | None = None, totals: Totals | None = None) -> None:
        """Take the optimizer steps of one batch.

        Args:
            rollouts: of the batch.
            policy: the variant that sampled them; None: the model's policy.
            totals: of the batch; None: those of the rollouts.

        Raises:
            ValueError: if the learning rate or the gradient is not finite; the parameters stay as they are then.
        """
        policy = self.policy if policy is None else policy
        for each in (policy, self.policy):  # a variant has a mode of its own
            each.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        rate = check_rate(self.lr_schedule(self._current_progress_remaining), f"in update {self._n_updates}")
        if self._n_updates < self.warmup_updates:
            rate *= (self._n_updates + 1) / self.warmup_updates
            update_learning_rate(self.policy.optimizer, rate)
            self.logger.record("train/learning_rate", rate)
        terms = self._loss_terms(rollouts, Totals.of(rollouts, self.team) if totals is None else totals)
        for _ in range(self.n_epochs):
            self.policy.optimizer.zero_grad()
            loss = torch.zeros((), dtype=torch.float64)
            for part in self.rollout_sampler.losses(policy, terms):
                part.backward()
                loss += part.detach().cpu()
            self.team.sum_(loss)
            for parameter in self.policy.parameters():
                if parameter.grad is not None:
                    self.team.sum_(parameter.grad)
            norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm).item()
            if not math.isfinite(norm):
                raise ValueError(
                    f"the gradient of update {self._n_updates} has the norm {norm}: the parameters or the observations "
                    "are not finite, or too large; go back to a checkpoint, with a smaller learning_rate"
                )
            self.policy.optimizer.step()
        self._n_updates += 1
        self._record(
            {"train/loss": loss.item(), "train/grad_norm": norm, "train/entropy": rollouts.entropies.mean().item()}
        )
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")

    def _loss_terms(self, rollouts: Rollouts, totals: Totals) -> LossTerms:
        advantages = group_advantages(rollouts.success, rollouts.owner, self.advantage)
        weights = rollout_weights(
            rollouts, advantages, totals, multiplicity_correction=self.multiplicity_correction,
            token_mean=self.token_mean,
        )  # fmt: skip
        clip_range = self.clip_range if self.n_epochs > 1 else None
        critic_coef = self.critic_coef if self.success.startswith("critic") else 0.0
        return LossTerms(rollouts, weights, totals, clip_range, self.ent_coef, critic_coef)

    def _record(self, figures: dict[str, float]) -> None:
        self.last_figures.update(figures)
        for key, value in figures.items():
            self.logger.record(key, value)

    def _require_env(self) -> None:
        if self.env is None:
            raise ValueError("there is no environment to learn from; call set_env(env) first")

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
        if self.total_updates is not None:
            num_timesteps, total_timesteps = self._n_updates, self.total_updates
        # A batch may run past the total; schedules must not turn negative.
        super()._update_current_progress_remaining(min(num_timesteps, total_timesteps), total_timesteps)

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 1,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        total_updates: int | None = None,
    ) -> Self:
        """Train until ``total_timesteps`` simulated steps have been taken; whole batches, so somewhat more.

        Args:
            total_timesteps: steps of all rollouts together.
            callback: SB3 callbacks. ``on_step`` is called once for each simulated time step of the batch, with the
                locals dones, rewards, infos and actions. Where environments are stepped, these have an entry for each,
                and there are clipped_actions, log_probs, obs_tensor and new_obs too. Where nothing is stepped, they are
                of the rollouts that end then, or of one that goes on if none does. There are no values, which the
                algorithm does not use. ``on_rollout_end`` finds rollouts, allocation, probability and bounds.
            log_interval: batches between logs.
            tb_log_name: name of the TensorBoard run; None: ``method``, such as "SERA".
            reset_num_timesteps: False goes on counting.
            progress_bar: show one.
            total_updates: stop after so many updates, counted from the first one ever; schedules follow them then, so
                that a run can be matched with another in updates, or gone on with.
        """
        self._require_env()
        iteration = 0
        total_timesteps, callback = self._setup_learn(
            total_timesteps, callback, reset_num_timesteps, tb_log_name or self.method, progress_bar
        )
        callback.on_training_start(locals(), globals())
        self.total_updates = total_updates
        while self.num_timesteps < total_timesteps and (total_updates is None or self._n_updates < total_updates):
            is_logged = log_interval is not None and (iteration + 1) % log_interval == 0
            try:
                self.step_batch(callback, partial(self.dump_logs, iteration + 1) if is_logged else None)
            except StoppedByCallback:
                break
            iteration += 1
        if log_interval is not None and iteration % log_interval:
            self.dump_logs(iteration)
        callback.on_training_end()
        flush_boards(self.logger)  # whoever reads the log now finds all of it
        return self

    def collect_rollouts(self, *_: Any, **__: Any) -> bool:
        """SB3's hook for a rollout buffer, which groups of rollouts do not go through.

        Raises:
            NotImplementedError: always, saying what to call.
        """
        raise NotImplementedError(
            "MaxRL has no rollout buffer: sample(prompts, counts) gives Rollouts, and step_batch(callback) takes a "
            "whole batch, its update included"
        )

    def train(self) -> None:
        """SB3's hook for the update from a rollout buffer.

        Raises:
            NotImplementedError: always, saying what to call.
        """
        raise NotImplementedError("MaxRL has no rollout buffer: update(rollouts) takes the optimizer steps of a batch")

    def dump_logs(self, iteration: int = 0) -> None:
        """Write the log of the last batch."""
        elapsed = max((time.time_ns() - self.start_time) / 1e9, sys.float_info.epsilon)
        record = self.logger.record
        record("time/iterations", iteration, exclude="tensorboard")
        record("time/fps", int((self.num_timesteps - self._num_timesteps_at_start) / elapsed))
        record("time/time_elapsed", int(elapsed), exclude="tensorboard")
        record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        record("time/total_rollouts", self.total_rollouts)
        self.logger.dump(step=self.num_timesteps)


MaxRL.__doc__ = with_options(MaxRL.__doc__)


class SERA(MaxRL):
    """`MaxRL` with SERA's allocation: ``SERA(...)`` is ``MaxRL(..., allocator="sera")``.

    shared
    """

    def __init__(
        self, policy: str | type[ActorCriticPolicy], env: GymEnv | str | None = None, *args: Any,
        allocator: str = "sera", **kwargs: Any,
    ):  # fmt: skip
        super().__init__(policy, env, *args, allocator=allocator, **kwargs)  # type: ignore[misc]


def _describe_sera() -> None:
    """Let ``help(SERA)`` show the arguments of MaxRL, those from ``allocator`` on by name, and its own default."""
    parameters, by_name = [], False
    for item in inspect.signature(MaxRL.__init__).parameters.values():
        by_name = by_name or item.name == "allocator"
        kind = inspect.Parameter.KEYWORD_ONLY if by_name else item.kind
        default = "sera" if item.name == "allocator" else item.default
        parameters.append(item.replace(kind=kind, default=default))
    SERA.__init__.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    if SERA.__doc__ is not None and MaxRL.__doc__ is not None:  # as Python may be told to keep none
        own = MaxRL.__doc__
        SERA.__doc__ = inspect.cleandoc(SERA.__doc__).replace("shared", own[own.index("Args:") :])


_describe_sera()
MaxRL.algorithms = {"MaxRL": MaxRL, "SERA": SERA}
