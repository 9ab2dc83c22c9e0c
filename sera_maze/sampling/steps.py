"""`StepSampler`: steps environments, for any policy and any promptable environments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from sera_maze.envs.layouts.moves import flat_steps
from sera_maze.policies.asking import most_observations, success_logits
from sera_maze.sampling.loss import MAZES_A_PASS, STEPS_A_PASS, LossTerms, cut
from sera_maze.sampling.plain_mazes import PlainMazes
from sera_maze.sampling.protocol import Report, Sampler, StoppedByCallback
from sera_maze.sampling.randomness import keyed_actions, rollout_keys
from sera_maze.sampling.rollouts import Rollouts, owners
from sera_maze.sampling.solution_keys import path_keys
from sera_maze.sampling.vec_env import prompts_digest

_VALUES_A_PASS = 2**27  # of the observations that are kept, about 500 MB
_USUAL_STEPS = 500  # of a rollout whose horizon is not known
_ENVIRONMENT_STREAM = 0x454E5653  # sets the environments' random numbers apart from those of the actions


class StepSampler(Sampler):
    """Samples by stepping environments: any policy of SB3's on-policy kind, any promptable environments.

    Which environment plays which rollout is fixed before the first step, and every one is kept: rollout r goes to
    environment r mod n. An environment that has played all of its rollouts idles, uncounted.

    Args:
        env: n environments with ``num_prompts`` and ``assign`` (`MazeEnv` has them, `PromptQueue` gives them).
        seed: of the training.
        mazes: what the environments play, if these are mazes: for the paths of rollouts and exact probabilities.

    Raises:
        ValueError: if the environments are not promptable, or have different prompts.
    """

    activity = "Stepping the environments"

    def __init__(self, env: VecEnv, seed: int, mazes: PlainMazes | None = None):
        try:
            self.num_prompts = int(env.get_attr("num_prompts", 0)[0])
        except AttributeError:
            raise ValueError(
                "the environments have no num_prompts and assign; wrap each in sera_maze.envs.PromptQueue(env, prompts)"
            ) from None
        self.prompts_digest = prompts_digest(env)
        self.env, self.seed, self.mazes = env, seed, mazes

    def sample(
        self, policy: ActorCriticPolicy, prompts: Tensor, counts: Tensor, update: int, report: Report | None = None
    ) -> Rollouts:
        """See `Sampler.sample`.

        Raises:
            RuntimeError: if an environment plays another prompt than assigned, or its last info lacks is_success.
            StoppedByCallback: if ``report`` said so.
        """
        owner, number = owners(counts.cpu())
        played = prompts.cpu()[owner]
        keys = rollout_keys(self.seed, update, played, number)
        log = _StepLog(played.numpy(), self.env.num_envs)
        self._assign(log.queue)
        observations: Any = self._reset(update, prompts)
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
            taken = [column.cpu().numpy() for column in columns]
            alive = log.record(before, taken, rewards, dones, infos)
            if report is None:
                continue
            told = {
                "obs_tensor": tensors,
                "actions": taken[0],
                "clipped_actions": moves,
                "log_probs": columns[1],
                "new_obs": observations,
                "rewards": np.where(idle, 0, rewards),
                "dones": dones & ~idle,
                "infos": [{} if is_idle else info for is_idle, info in zip(idle, infos, strict=True)],
            }
            if not report(alive, told):
                self._assign(lambda n: [])
                raise StoppedByCallback
        return log.rollouts(prompts, counts, owner.to(prompts.device))

    def most_prompts(self, num_samples: int) -> int:
        """See `Sampler.most_prompts`."""
        steps = _USUAL_STEPS if self.mazes is None else self.mazes.rules.horizon
        return max(1, _VALUES_A_PASS // (spaces.flatdim(self.env.observation_space) * steps * num_samples))

    def losses(self, policy: ActorCriticPolicy, terms: LossTerms) -> Iterator[Tensor]:
        """See `Sampler.losses`."""
        rollouts, observations = terms.rollouts, terms.rollouts.states
        step_weights = terms.weights[rollouts.step_owner]
        every = torch.arange(rollouts.num_steps, device=step_weights.device)
        size = min(STEPS_A_PASS, most_observations(policy, STEPS_A_PASS))
        for part in cut(every if terms.ent_coef else step_weights.nonzero()[:, 0], size):
            _, log_prob, entropy = policy.evaluate_actions(_rows(observations, part), rollouts.actions[part])
            weights = step_weights[part]
            total = -terms.surrogate(log_prob, rollouts.log_probs[part], weights.clamp(min=0), weights.clamp(max=0))
            if terms.ent_coef:
                surprise = -log_prob if entropy is None else entropy
                total = total - terms.ent_coef * surprise.sum() / terms.totals.steps
            yield total
        if terms.critic_coef:
            sampled = (rollouts.counts > 0).nonzero()[:, 0]
            first_rollout = torch.cumsum(rollouts.counts, 0) - rollouts.counts
            for part in cut(sampled, min(MAZES_A_PASS, size)):
                begin = rollouts.first_steps[first_rollout[part]]
                yield terms.critic_loss(success_logits(policy, _rows(observations, begin)), part)

    def success_logits(self, policy: ActorCriticPolicy, prompts: Tensor) -> Tensor:
        """See `Sampler.success_logits`."""
        with torch.no_grad():
            return success_logits(policy, self.first_observations(prompts))

    def squares(self, rollouts: Rollouts) -> Tensor | None:
        """See `Sampler.squares`; None too where something between policy and mazes changed the moves."""
        return None if self.mazes is None else replayed_squares(rollouts, self.mazes)

    def solutions(self, rollouts: Rollouts) -> NDArray[np.uint64] | None:
        """See `Sampler.solutions`: the squares of a path, where they are known."""
        squares = self.squares(rollouts)
        return None if squares is None else path_keys(squares.cpu().numpy(), rollouts.lengths.cpu().numpy())

    def first_observations(self, prompts: Tensor) -> Any:
        """Reset the environments into prompts (B,); the tensor, or dict of tensors, of their first observations."""
        rows, num_envs = prompts.tolist(), self.env.num_envs
        self._assign(lambda n: rows[n::num_envs])
        rounds: list[Any] = [self._reset(first, prompts) for first in range(0, len(rows), num_envs)]

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

    def _reset(self, number: int, prompts: Tensor) -> Any:
        """Reset the environments, seeded for what their prompts leave open, such as those of reset options alone."""
        entropy = [self.seed, number, int(prompts[0]) if len(prompts) else 0, _ENVIRONMENT_STREAM]
        self.env.seed(int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1))
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
            prompts, counts, owner, success, lengths, actions, log_probs, entropies, observations,
            returns=torch.from_numpy(self.returns).to(device),
        )  # fmt: skip


def _rows(observations: Any, part: Tensor) -> Any:
    return {k: v[part] for k, v in observations.items()} if isinstance(observations, dict) else observations[part]


def replayed_squares(rollouts: Rollouts, mazes: PlainMazes) -> Tensor | None:
    """Flat square (S,) where each action was taken, by making the moves again in the plain mazes.

    Returns None where that does not give the rollouts' own ends: something between policy and maze changed the moves.
    """
    actions, lengths, owner = rollouts.actions, rollouts.lengths, rollouts.owner
    if actions.ndim != 1 or actions.is_floating_point() or bool(((actions < 0) | (actions > 3)).any()):
        return None
    chosen, width = mazes.pool.arrays(rollouts.prompts.cpu().numpy()), mazes.pool.size[1]
    walls = torch.from_numpy(chosen.walls).flatten(1).to(actions.device)
    start, goal = (torch.from_numpy(cells @ (width, 1)).to(actions.device)[owner] for cells in chosen[1:])  # (R,)
    moves = torch.tensor(flat_steps(width), device=actions.device)
    present, squares = start, torch.empty_like(actions, dtype=torch.int64)
    for step in range(int(lengths.max())):
        alive = (lengths > step).nonzero()[:, 0]
        place = rollouts.first_steps[alive] + step
        squares[place] = present[alive]
        there = present[alive] + moves[actions[place]]
        hit = walls[owner[alive], there]
        present[alive] = torch.where(hit, present[alive], there)
        is_over = hit & (mazes.rules.on_wall == "fail")
        ended = (present[alive] == goal[alive]) | is_over | (step + 1 == mazes.rules.horizon)
        if not torch.equal(ended, lengths[alive] == step + 1):
            return None
    return squares if torch.equal(present == goal, rollouts.success) else None


def fit_step(policy: BasePolicy, source: VecEnv | PlainMazes, seed: int) -> StepSampler | str:
    """A `StepSampler` for a policy and environments, or the reason why it does not fit."""
    return "there are no environments to step" if isinstance(source, PlainMazes) else StepSampler(source, seed)
