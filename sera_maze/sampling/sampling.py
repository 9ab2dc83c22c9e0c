"""Samplers of grouped rollouts: `MapSampler` walks through a maze policy's tables, `StepSampler` steps environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    DiagGaussianDistribution,
    Distribution,
    MultiCategoricalDistribution,
)
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.fresh import Mazes, arrays_of
from sera_maze.policies.maze import MazePolicy
from sera_maze.sampling.randomness import BITS, random_bits, rollout_keys
from sera_maze.sampling.rollouts import Rollouts, owners
from sera_maze.sampling.vec_env import prompts_digest
from sera_maze.sampling.walking import Board, action_thresholds, walk

# Called after each simulated step with the number of rollouts that took it and SB3's callback locals; False stops.
OnStep = Callable[[int, dict[str, Any]], bool]
_MAZES_A_PASS = 256


class StoppedByCallback(Exception):  # noqa: N818 (not an error)
    """A callback asked the training to stop in the middle of a batch."""


class Sampler(Protocol):
    """Samples a batch."""

    def sample(self, policy: ActorCriticPolicy, prompts: Tensor, counts: Tensor, update: int) -> Rollouts:
        """Sample counts[b] rollouts of each prompt; the random numbers are keyed by seed, update, prompt and number."""


class MapSampler:
    """Samples mazes from a `MazePolicy` without stepping: one forward pass a maze, then walks through the table.

    Args:
        pool: the mazes.
        rules: those of the environment.
        seed: of the training.
    """

    def __init__(self, pool: Mazes, rules: MazeRules, seed: int):
        self.pool, self.rules, self.seed = pool, rules, seed

    def mazes(self, prompts: Tensor) -> tuple[Tensor, Tensor]:
        """Walls (B, H, W) bool and goals (B, 2) int64 of prompts (B,), on their device."""
        chosen = arrays_of(self.pool, prompts.cpu().numpy())
        walls, goal = torch.from_numpy(chosen.walls), torch.from_numpy(chosen.goal)
        return walls.to(prompts.device), goal.to(prompts.device)

    def board(self, prompts: Tensor) -> Board:
        """The walkers' view of the mazes of prompts (B,)."""
        chosen, width = arrays_of(self.pool, prompts.cpu().numpy()), self.pool.size[1]
        start, goal = (torch.from_numpy(cells @ (width, 1)) for cells in (chosen.start, chosen.goal))
        walls = torch.from_numpy(chosen.walls.reshape(len(prompts), -1).view(np.uint8))
        device = prompts.device
        stay = self.rules.on_wall == "stay"
        return Board(walls.to(device), start.to(device), goal.to(device), width, self.rules.horizon, stay)

    def sample(self, policy: ActorCriticPolicy, prompts: Tensor, counts: Tensor, update: int) -> Rollouts:
        """See `Sampler`; ``policy`` must be a `MazePolicy`."""
        assert isinstance(policy, MazePolicy)
        owner, number = owners(counts)
        walls, goal = self.mazes(prompts)
        with torch.no_grad():
            parts = zip(walls.split(_MAZES_A_PASS), goal.split(_MAZES_A_PASS), strict=True)
            log_probs = torch.cat([policy.log_prob_map(*part) for part in parts])
        if log_probs.isnan().any():
            raise ValueError(
                "the policy gives NaN as log-probabilities: its parameters are not finite; go back to a checkpoint"
            )
        walks = walk(log_probs, self.board(prompts), owner, rollout_keys(self.seed, update, prompts[owner], number))
        flat = log_probs.flatten(1, 2)  # (B, H * W, 4)
        place = torch.repeat_interleave(owner, walks.lengths) * flat.shape[1] + walks.squares  # (S,)
        entropies = -(flat.exp() * flat).sum(dim=-1).flatten()[place]
        taken = flat.flatten()[place * flat.shape[2] + walks.actions]
        return Rollouts(
            prompts, counts, owner, walks.success, walks.lengths, walks.actions, taken, entropies, squares=walks.squares
        )


class StepSampler:
    """Samples by stepping environments: any policy of SB3's on-policy kind, any promptable environments.

    Which environment plays which rollout is fixed before the first step, and every one is kept: rollout r goes to
    environment r mod n. An environment that has played all of its rollouts idles, uncounted.

    Args:
        env: n environments with ``num_prompts`` and ``assign`` (`MazeEnv` has them, `PromptQueue` gives them).
        seed: of the training.
        on_step: see `OnStep`.

    Raises:
        ValueError: if the environments are not promptable, or have different prompts.
    """

    def __init__(self, env: VecEnv, seed: int, on_step: OnStep | None = None):
        try:
            self.num_prompts = int(env.get_attr("num_prompts", 0)[0])
        except AttributeError:
            raise ValueError(
                "the environments have no num_prompts and assign; wrap each in sera_maze.envs.PromptQueue(env, prompts)"
            ) from None
        prompts_digest(env)
        self.env, self.seed, self.on_step = env, seed, on_step

    def sample(self, policy: ActorCriticPolicy, prompts: Tensor, counts: Tensor, update: int) -> Rollouts:
        """See `Sampler`.

        Raises:
            RuntimeError: if an environment plays another prompt than assigned, or its last info lacks is_success.
            StoppedByCallback: if ``on_step`` said so.
        """
        owner, number = owners(counts.cpu())
        played = prompts.cpu()[owner]
        keys = rollout_keys(self.seed, update, played, number)
        log = _StepLog(played.numpy(), self.env.num_envs)
        self._assign(log.queue)
        observations: Any = self._reset()
        policy.set_training_mode(False)
        while log.busy:
            rollouts = log.present()
            with torch.no_grad():
                tensors = obs_as_tensor(observations, policy.device)
                distribution = policy.get_distribution(tensors)
                actions = keyed_actions(distribution, keys[rollouts].to(policy.device), torch.from_numpy(log.step))
            moves = self._executed(policy, actions.cpu().numpy())
            entropy = distribution.entropy()
            columns = (
                actions,
                distribution.log_prob(actions),
                torch.zeros_like(keys[rollouts], dtype=torch.float32) if entropy is None else entropy,
            )
            before = observations
            observations, rewards, dones, infos = self.env.step(moves)
            idle = log.idle()
            alive = log.record(before, [column.cpu().numpy() for column in columns], rewards, dones, infos)
            if self.on_step is None:
                continue
            told = {
                "new_obs": observations,
                "rewards": np.where(idle, 0, rewards),
                "dones": dones & ~idle,
                "infos": [{} if is_idle else info for is_idle, info in zip(idle, infos, strict=True)],
            }
            if not self.on_step(alive, told):
                self._assign(lambda n: [])
                raise StoppedByCallback
        return log.rollouts(prompts, counts, owner.to(prompts.device))

    def first_observations(self, prompts: Tensor) -> Any:
        """Reset the environments into prompts (B,); the tensor, or dict of tensors, of their first observations."""
        rows, num_envs = prompts.tolist(), self.env.num_envs
        self._assign(lambda n: rows[n::num_envs])
        rounds: list[Any] = [self._reset() for _ in range(0, len(rows), num_envs)]

        def joined(parts: list[np.ndarray]) -> np.ndarray:
            return np.concatenate(parts)[: len(rows)]

        if isinstance(rounds[0], dict):
            together: Any = {key: joined([part[key] for part in rounds]) for key in rounds[0]}
        else:
            together = joined(rounds)
        return obs_as_tensor(together, prompts.device)

    def _assign(self, queue: Callable[[int], list[int]]) -> None:
        """Fix what the next resets of each environment n play, instead of what is left of an earlier assignment."""
        for n in range(self.env.num_envs):
            self.env.env_method("assign", queue(n), indices=n)

    def _reset(self) -> Any:
        try:
            return self.env.reset()
        except RuntimeError as error:
            if "allow_early_resets" not in str(error):
                raise
            raise ValueError("every batch resets the environments: Monitor needs allow_early_resets=True") from error

    def _executed(self, policy: ActorCriticPolicy, actions: np.ndarray) -> np.ndarray:
        """Actions as the environments take them: continuous ones shaped and clipped to their box, as SB3 does."""
        space = policy.action_space
        if not isinstance(space, spaces.Box):
            return actions
        return np.clip(actions.reshape(-1, *space.shape), space.low, space.high)


class _StepLog:
    """What n environments did in one batch; environment n plays rollouts n, n + num_envs, n + 2 num_envs, ..."""

    def __init__(self, played: np.ndarray, num_envs: int):
        self.played, self.num_envs = played, num_envs
        self.current = np.arange(num_envs)  # rollout that each environment plays, beyond the last one if it idles
        self.step = np.zeros(num_envs, np.int64)
        self.success, self.lengths = np.zeros(len(played), bool), np.zeros(len(played), np.int64)
        self.returns = np.zeros(len(played), np.float32)
        self._observations: list[Any] = []
        self._columns: list[list[np.ndarray]] = []  # actions, log-probabilities, entropies
        self._rollouts: list[np.ndarray] = []

    @property
    def busy(self) -> bool:
        return bool((self.current < len(self.played)).any())

    def queue(self, n: int) -> list[int]:
        return self.played[n :: self.num_envs].tolist()

    def present(self) -> Tensor:
        """The rollout of each environment; idle ones borrow the last rollout's random numbers."""
        return torch.from_numpy(np.minimum(self.current, len(self.played) - 1))

    def idle(self) -> np.ndarray:
        """(N,) bool: which environments have played all of their rollouts."""
        return self.current >= len(self.played)

    def record(
        self,
        observations: Any,
        columns: list[np.ndarray],
        rewards: np.ndarray,
        dones: np.ndarray,
        infos: list[dict[str, Any]],
    ) -> int:
        """Take in one step; return how many rollouts took it."""
        active = np.flatnonzero(self.current < len(self.played))
        rows = (
            {k: v[active] for k, v in observations.items()} if isinstance(observations, dict) else observations[active]
        )
        self._observations.append(rows)
        self._columns.append([column[active] for column in columns])
        self._rollouts.append(self.current[active].copy())
        self.step += 1
        self.returns[self.current[active]] += rewards[active]
        ended = active[dones[active]]
        rollouts, last = self.current[ended], [infos[n] for n in ended.tolist()]
        for n, prompt, info in zip(ended.tolist(), self.played[rollouts].tolist(), last, strict=True):
            if info.get("prompt") != prompt or "is_success" not in info:
                raise RuntimeError(
                    f"environment {n} was assigned prompt {prompt}, but its last info has prompt="
                    f"{info.get('prompt')!r} and is_success={info.get('is_success')!r}; a promptable environment obeys "
                    "assign() and reports both (see sera_maze.envs.PromptQueue). A time limit put around it hides the "
                    "end from it: put TimeLimit inside PromptQueue, and give MazeEnv max_steps instead"
                )
        self.success[rollouts] = [bool(info["is_success"]) for info in last]
        self.lengths[rollouts] = self.step[ended]
        for rollout, info in zip(rollouts.tolist(), last, strict=True):
            if "episode" in info:  # the return before wrappers such as VecNormalize changed the rewards
                self.returns[rollout] = info["episode"]["r"]
        self.current[ended] += self.num_envs
        self.step[ended] = 0
        return len(active)

    def rollouts(self, prompts: Tensor, counts: Tensor, owner: Tensor) -> Rollouts:
        """Bring the steps into the order of the rollouts."""
        device = prompts.device
        order = np.argsort(np.concatenate(self._rollouts), kind="stable")

        def ordered(parts: list[np.ndarray]) -> Tensor:
            return torch.from_numpy(np.concatenate(parts)[order]).to(device)

        if isinstance(self._observations[0], dict):
            observations: Any = {k: ordered([part[k] for part in self._observations]) for k in self._observations[0]}
        else:
            observations = ordered(self._observations)
        success, lengths = torch.from_numpy(self.success).to(device), torch.from_numpy(self.lengths).to(device)
        actions, log_probs, entropies = (ordered(list(parts)) for parts in zip(*self._columns, strict=True))
        return Rollouts(
            prompts, counts, owner, success, lengths, actions, log_probs, entropies, observations=observations,
            returns=torch.from_numpy(self.returns).to(device),
        )  # fmt: skip


def keyed_actions(distribution: Distribution, keys: Tensor, steps: Tensor) -> Tensor:
    """Sample actions of N environments from SB3's distribution with the random numbers of their rollouts.

    Args:
        distribution: over N actions: categorical, multi-categorical, Bernoulli or diagonal Gaussian.
        keys: (N,) int64, see `rollout_keys`.
        steps: (N,) int64, the step of each rollout.

    Raises:
        NotImplementedError: for another distribution.
    """
    steps = steps.to(keys.device)
    if isinstance(distribution, CategoricalDistribution):
        return _categories(distribution.distribution.logits, random_bits(keys, steps))
    if isinstance(distribution, MultiCategoricalDistribution):
        parts = enumerate(distribution.distribution)
        return torch.stack([_categories(part.logits, random_bits(keys, steps, i)) for i, part in parts], dim=1)
    if isinstance(distribution, BernoulliDistribution):
        return (_uniforms(keys, steps, distribution.distribution.probs) < distribution.distribution.probs).float()
    if isinstance(distribution, DiagGaussianDistribution):
        normal = distribution.distribution
        return normal.mean + normal.stddev * torch.special.ndtri(_uniforms(keys, steps, normal.mean)).float()
    raise NotImplementedError(f"the step sampler has no keyed sampling for {type(distribution).__name__} (gSDE is one)")


def _categories(logits: Tensor, bits: Tensor) -> Tensor:
    return (bits[:, None] >= action_thresholds(logits)).sum(dim=1)


def _uniforms(keys: Tensor, steps: Tensor, like: Tensor) -> Tensor:
    """(N, D) float64 strictly between 0 and 1 for a tensor of N actions of D dimensions."""
    columns = [random_bits(keys, steps, i) for i in range(like.shape[1])]
    return (torch.stack(columns, dim=1).double() + 0.5) / (1 << BITS)
