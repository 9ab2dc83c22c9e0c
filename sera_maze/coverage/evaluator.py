"""`Evaluator`: fixed numbers of rollouts of held-out prompts, to judge a policy by, and to draw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import is_image_space, is_image_space_channels_first
from stable_baselines3.common.utils import check_for_correct_spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecTransposeImage
from torch import Tensor

from sera_maze.algorithm.normalization import Normalization, check_normalization, frozen, give_normalization
from sera_maze.algorithm.prompt_order import is_endless
from sera_maze.envs.ground.checks import check_int
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.fresh import same_mazes
from sera_maze.envs.pools.pool import MazePool
from sera_maze.envs.pools.prompts import Prompts
from sera_maze.policies.asking import fits_any_size
from sera_maze.sampling.choosing import choose_sampler
from sera_maze.sampling.maps import fit_map
from sera_maze.sampling.plain_mazes import PlainMazes
from sera_maze.sampling.protocol import Sampler
from sera_maze.sampling.rollouts import Rollouts
from sera_maze.sampling.steps import StepSampler
from sera_maze.sampling.vec_env import is_promptable, prompts_of

# Training numbers its updates from 0, so it never draws the random numbers of this one, whatever its seed's value.
EVALUATION_UPDATE = 2**62


class Evaluator:
    """Samples the same number of rollouts of each held-out prompt, however each of them ends.

    The random numbers are keyed by (seed, `EVALUATION_UPDATE`, prompt, rollout number): rollout j of a prompt is the
    same however many prompts and rollouts are sampled. The policy's mode, the global generators and gradients are left
    as they are.

    Args:
        policy: on-policy; a `MazePolicy` is walked through its maps of mazes, unless there is an ``env``.
        prompts: such as a `MazePool`; or promptable environments, which are ``env`` too then.
        rules: of the episodes in mazes; None: those of ``env`` if it has any, else a wall ends the rollout and the
            horizon is the default.
        seed: of the rollouts, 0 or more; not tied to that of a training.
        env: promptable environments over the same prompts, as the policy sees them, to step; they are reset. The
            statistics of a VecNormalize do not change.
        normalization: of the environments that the policy was trained in, which ``env`` is given before it is stepped;
            None: not known, and ``env`` goes on with its own.

    Attributes:
        prompts: what is evaluated on.
        mazes: the mazes and their rules, if the prompts are mazes; else None.
        sampler: that is used.
        exact: computes success probabilities; or the reason why they cannot be computed.

    Raises:
        ValueError, TypeError: for arguments outside these ranges, a policy that needs ``env``, or environments with
            other prompts.
    """

    def __init__(
        self,
        policy: ActorCriticPolicy,
        prompts: Prompts | VecEnv | gym.Env[Any, Any],
        *,
        rules: MazeRules | None = None,
        seed: int = 0,
        env: VecEnv | gym.Env[Any, Any] | None = None,
        normalization: Normalization | None = None,
    ):
        if not isinstance(policy, ActorCriticPolicy):
            raise TypeError(f"policy must be an on-policy model or its policy, got {type(policy).__name__}")
        self.policy, self.seed = policy, check_int("seed", seed, 0, 2**64 - 1)
        self.prompts, self.env = prompts_and_env(prompts, env)
        if is_endless(len(self.prompts)):
            raise ValueError(
                f"there are {len(self.prompts)} prompts, more than can be evaluated; give fewer, such as a MazePool"
            )
        if self.env is not None:
            self.env = _as_seen(policy, self.env)
            if normalization is not None:
                check_normalization(self.env, normalization)
            _check_spaces(policy, self.env)
        elif normalization is not None and normalization.changes_observations:
            raise ValueError(
                "the policy was trained on observations that a VecNormalize changes, so it cannot walk through plain "
                "mazes: step environments, as in evaluate(model, pool, env=VecNormalize(MazeVecEnv(64, pool)))"
            )
        self.normalization = normalization
        self.mazes = _mazes(self.prompts, rules, self.env)
        self.sampler, self.exact = self._samplers()

    def _samplers(self) -> tuple[Sampler, Sampler | str]:
        """The sampler of rollouts, and what computes success probabilities or the reason why nothing does."""
        exact: Sampler | str = "the prompts are no mazes"
        if self.mazes is not None:
            exact = fit_map(self.policy, self.mazes, self.seed)
            if self.env is not None:
                return StepSampler(self.env, self.seed, self.mazes), exact
            if isinstance(exact, Sampler):
                return exact, exact
        elif self.env is not None:
            sampler = choose_sampler(self.policy, self.env, self.seed)
            return sampler, sampler if sampler.is_exact else exact
        raise ValueError(
            f"this policy must be stepped ({exact}): pass env=..., environments over the same "
            "prompts, such as MazeVecEnv(64, pool)"
        )

    @property
    def knows_exact(self) -> bool:
        """Whether the sampler that is used computes success probabilities too."""
        return self.exact is self.sampler

    def sample(self, chosen: NDArray[np.integer[Any]], num_samples: int) -> Iterator[Rollouts]:
        """Sample ``num_samples`` rollouts of each of the prompts chosen (B,), some prompts at a time, in order."""
        every = torch.from_numpy(np.array(chosen, np.int64)).to(self.policy.device)
        modes = [(module, module.training) for module in self.policy.modules()]
        self.policy.set_training_mode(False)
        if self.env is not None and self.normalization is not None:
            give_normalization(self.env, self.normalization)
        try:
            with torch.no_grad(), frozen(self.env):
                for part in every.split(self.sampler.most_prompts(num_samples)):
                    counts = torch.full_like(part, num_samples)
                    yield self.sampler.sample(self.policy, part, counts, EVALUATION_UPDATE)
        finally:
            for module, was_training in modes:
                module.training = was_training

    def probability(self, rollouts: Rollouts) -> Tensor:
        """Exact success probabilities (B,) float64 of the prompts of rollouts that this evaluator sampled.

        Raises:
            ValueError: where they cannot be computed.
        """
        if isinstance(self.exact, str):
            raise ValueError(f"exact=True cannot be had: {self.exact}; use exact='auto'")
        at_hand = rollouts if self.exact is self.sampler else None
        return self.exact.success_probability(self.policy, rollouts.prompts, at_hand)

    def paths(self, rollouts: Rollouts) -> list[NDArray[np.int64]] | None:
        """The R paths, each (L, 2) int64, (row, column): where steps began, and the goal if it was reached.

        None if the prompts are no mazes, or something changed the moves on the way to them.
        """
        squares = self.sampler.squares(rollouts)
        if squares is None or self.mazes is None:
            return None
        goal = self.mazes.pool.arrays(rollouts.prompts.cpu().numpy()).goal[rollouts.owner.cpu().numpy()]  # (R, 2)
        cells = np.stack(divmod(squares.cpu().numpy(), self.mazes.pool.size[1]), axis=1)  # (S, 2)
        parts = np.split(cells, np.cumsum(rollouts.lengths.cpu().numpy())[:-1])
        return [
            np.concatenate([part, goal[r][None]]) if done else part
            for r, (part, done) in enumerate(zip(parts, rollouts.success.tolist(), strict=True))
        ]


def policy_of(model: Any) -> Any:
    """The policy of a model, or what was given, which may be one."""
    return getattr(model, "policy", model)


def prompts_and_env(
    prompts: Prompts | VecEnv | gym.Env[Any, Any], env: VecEnv | gym.Env[Any, Any] | None
) -> tuple[Prompts, VecEnv | None]:
    """Prompts, and environments over them as one VecEnv; promptable environments may stand for their prompts.

    Raises:
        TypeError: if the one are no prompts, or the other no environments.
    """
    if env is not None and not isinstance(env, VecEnv | gym.Env):
        raise TypeError(f"env must be a VecEnv or a gymnasium.Env, got {type(env).__name__}")
    if isinstance(prompts, VecEnv | gym.Env):
        if env is not None:
            raise ValueError("the prompts are environments already; leave env out")
        env = prompts
    vec_env = env if env is None or isinstance(env, VecEnv) else DummyVecEnv([lambda: env])
    if isinstance(prompts, Prompts):
        return prompts, vec_env
    if vec_env is not None and prompts is env and is_promptable(vec_env):
        return prompts_of(vec_env), vec_env
    raise TypeError(
        f"prompts must be a MazePool, other prompts or promptable environments, got {type(prompts).__name__}; such as "
        "MazePool.from_layouts([...]) or PromptQueue(env, prompts)"
    )


def rules_of(env: VecEnv, pool: MazePool) -> MazeRules:
    """The rules of environments, carried over to the mazes of ``pool``; the default rules if they have none.

    With mazes of another size the horizon is the default one.
    """
    found = env.get_attr("rules", 0)[0] if env.has_attr("rules") else None
    if not isinstance(found, MazeRules):
        return MazeRules(pool.size)
    return MazeRules(pool.size, on_wall=found.on_wall, max_steps=found.max_steps if found.size == pool.size else None)


def training_rules(prompts: object, env: object, training_env: VecEnv | None) -> MazeRules | None:
    """The rules by which held-out mazes are judged during a training: its own; None where ``env`` has them."""
    if env is not None or training_env is None or not isinstance(prompts, MazePool):
        return None
    return rules_of(training_env, prompts)


def check_not_shared(env: VecEnv | None, training_env: VecEnv | None) -> None:
    """Check that environments of evaluations are not those trained in, whose episodes would be cut short.

    Raises:
        ValueError: if they are the same, or hold an environment in common.
    """
    if env is None or training_env is None:
        return
    first, second = ({id(e.unwrapped) for e in getattr(all_.unwrapped, "envs", ())} for all_ in (env, training_env))
    if env.unwrapped is training_env.unwrapped or first & second:
        raise ValueError("env is the one trained in, whose episodes would be cut short; pass another one")


def _as_seen(policy: ActorCriticPolicy, env: VecEnv) -> VecEnv:
    """Environments as a policy sees them: images with their channels first, as Stable-Baselines3 makes them."""
    seen, shown = policy.observation_space, env.observation_space
    if (
        seen != shown
        and isinstance(shown, spaces.Box)
        and is_image_space(shown)
        and not is_image_space_channels_first(shown)
    ):
        return VecTransposeImage(env)
    return env


def _mazes(prompts: Prompts, rules: MazeRules | None, env: VecEnv | None) -> PlainMazes | None:
    """The mazes that the prompts are, with their rules, checked against the environments."""
    if env is not None:
        _check_same_prompts(prompts, env)
    if not isinstance(prompts, MazePool):
        if rules is not None:
            raise ValueError("rules are for mazes, and the prompts are others; leave them out")
        return None
    if rules is None:
        return PlainMazes(prompts, MazeRules(prompts.size) if env is None else rules_of(env, prompts))
    if not isinstance(rules, MazeRules):
        raise TypeError(f"rules must be MazeRules, got {type(rules).__name__}; such as MazeRules({prompts.size})")
    if rules.size != prompts.size:
        raise ValueError(
            f"rules are for mazes of {rules.size} squares, the pool has {prompts.size}; give rules of its size"
        )
    return PlainMazes(prompts, rules)


def _check_spaces(policy: ActorCriticPolicy, env: VecEnv) -> None:
    """Check that a policy can act in environments; one for mazes of any size may see another size."""
    seen = policy.observation_space
    if fits_any_size(policy) and type(env.observation_space) is type(seen):
        keys = [list(space) if isinstance(space, spaces.Dict) else [] for space in (seen, env.observation_space)]
        seen = env.observation_space if keys[0] == keys[1] else seen
    try:
        check_for_correct_spaces(env, seen, policy.action_space)
    except ValueError as error:
        raise ValueError(
            f"env is not what the policy was made for ({error}); wrap it as the environments of the training"
        ) from None


def _check_same_prompts(prompts: Prompts, env: VecEnv) -> None:
    count = int(env.get_attr("num_prompts", 0)[0]) if env.has_attr("num_prompts") else len(prompts)
    if isinstance(prompts, MazePool):
        others = env.get_attr("pool", 0)[0] if env.has_attr("pool") else prompts
        if count != len(prompts) or not same_mazes(others, prompts):
            raise ValueError(
                f"env plays other mazes than {prompts!r}; make it with this pool, such as MazeVecEnv(64, pool)"
            )
        return
    digest = prompts_of(env).digest if is_promptable(env) else None
    if count != len(prompts) or (digest and prompts.digest and digest != prompts.digest):
        raise ValueError(f"env plays other prompts: it has {count}, and {len(prompts)} were given; make it with these")
