"""`evaluate`: what a policy can do on held-out mazes, from a fixed number of rollouts a maze, and exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from sera_maze.coverage.outcomes import sample_outcomes
from sera_maze.coverage.path_sheets import write_pictures as write_pictures
from sera_maze.coverage.tables import Evaluation as Evaluation
from sera_maze.coverage.unbiased import KS as KS
from sera_maze.coverage.unbiased import coverage
from sera_maze.envs.generating.generate import check_int
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.fresh import same_mazes
from sera_maze.envs.pools.pool import MazePool
from sera_maze.policies.maze import MazePolicy


def evaluate(
    policy: ActorCriticPolicy,
    pool: MazePool,
    *,
    num_samples: int = 256,
    ks: Sequence[int] = KS,
    rules: MazeRules | None = None,
    seed: int = 0,
    exact: bool | str = "auto",
    env: VecEnv | gym.Env[Any, Any] | None = None,
) -> Evaluation:
    """Sample a fixed number of rollouts on each maze of a held-out pool and sum up.

    A `MazePolicy` is walked through its maps of the plain mazes; with ``env``, and for other policies, environments are
    stepped. Rollouts are sampled at temperature 1, with random numbers that no training draws and that are the same in
    every evaluation with this seed. The policy's mode, the global generators and gradients are left as they are.

    Args:
        policy: such as ``model.policy``. A `MazePolicy` runs with its attribute ``iterations``: raise it for mazes that
            are larger than those of the training.
        pool: the mazes, M of them.
        num_samples: rollouts n of each maze, whatever their outcome.
        ks: values of k for pass@k, 1 to num_samples.
        rules: of the episodes; None: those of ``env`` if it has any, else a wall ends the rollout and the horizon is
            the default.
        seed: of the rollouts, 0 or more; not tied to that of a training.
        exact: whether to compute success probabilities exactly, of a `MazePolicy` on plain mazes; "auto": where no
            environments are stepped.
        env: promptable environments over the same mazes (prompt i is maze i), as the policy sees them, that are not
            those of a training in progress; they are reset.

    Returns:
        An `Evaluation`.

    Raises:
        ValueError, TypeError: for arguments outside these ranges, a policy that needs ``env``, or environments with
            other mazes than the pool.
    """
    _check_policy(policy, pool, env)
    num_samples = check_int("num_samples", num_samples, 1, 2**31)
    ks, seed = check_ks(ks, num_samples), check_int("seed", seed, 0, 2**64 - 1)
    if not isinstance(exact, bool) and exact != "auto":
        raise ValueError(f"exact={exact!r} is not known; allowed are True, False and 'auto'")
    is_exact = (env is None) if exact == "auto" else bool(exact)
    if is_exact and not isinstance(policy, MazePolicy):
        raise ValueError(f"exact=True needs a MazePolicy, got a {type(policy).__name__}; use exact='auto'")
    vec_env = _as_vec_env(env)
    rules = _checked_rules(rules, pool, vec_env)
    everyone = np.arange(len(pool))
    successes, steps, distinct, chances = [], [], [], []
    for part in sample_outcomes(policy, pool, everyone, num_samples, rules, seed, env=vec_env, exact=is_exact):
        successes.append(part.success.sum(1))
        steps.append(part.lengths.mean(1))
        distinct.append(part.distinct_solutions(pool))
        chances.append(part.probability)
    counts = np.concatenate(successes)
    return Evaluation(
        counts, coverage(counts, ks, num_samples), np.concatenate(steps), pool.shortest_lengths.astype(np.int64),
        _joined(distinct), _joined(chances), rules, seed,
    )  # fmt: skip


def check_ks(ks: Sequence[int], num_samples: int) -> tuple[int, ...]:
    """Check the values of k.

    Raises:
        ValueError, TypeError: if there is none, or one is not an integer from 1 to num_samples.
    """
    checked = tuple(check_int(f"ks[{i}]", k, 1, num_samples) for i, k in enumerate(ks))
    if not checked:
        raise ValueError("ks is empty; give at least one k for pass@k, such as ks=(1, 8)")
    return checked


def rules_of(env: VecEnv, pool: MazePool) -> MazeRules:
    """The rules of environments, carried over to the mazes of ``pool``; the default rules if they have none.

    With mazes of another size the horizon is the default one.
    """
    found = env.get_attr("rules", 0)[0] if env.has_attr("rules") else None
    if not isinstance(found, MazeRules):
        return MazeRules(pool.size)
    return MazeRules(pool.size, on_wall=found.on_wall, max_steps=found.max_steps if found.size == pool.size else None)


def _check_policy(policy: object, pool: object, env: object) -> None:
    if not isinstance(pool, MazePool):
        raise TypeError(
            f"pool must be a MazePool, got {type(pool).__name__}; make one with MazePool.from_layouts([...])"
        )
    if not isinstance(policy, ActorCriticPolicy):
        raise TypeError(f"policy must be an on-policy policy such as model.policy, got {type(policy).__name__}")
    if env is None and not isinstance(policy, MazePolicy):
        raise ValueError(
            f"a {type(policy).__name__} must be stepped: pass env=..., environments over the same mazes, such as "
            "MazeVecEnv(64, pool)"
        )


def _as_vec_env(env: VecEnv | gym.Env[Any, Any] | None) -> VecEnv | None:
    if env is None or isinstance(env, VecEnv):
        return env
    if not isinstance(env, gym.Env):
        raise TypeError(f"env must be a VecEnv or a gymnasium.Env, got {type(env).__name__}")
    return DummyVecEnv([lambda: env])


def _checked_rules(rules: MazeRules | None, pool: MazePool, env: VecEnv | None) -> MazeRules:
    if env is not None:
        others = env.get_attr("pool", 0)[0] if env.has_attr("pool") else pool
        count = int(env.get_attr("num_prompts", 0)[0]) if env.has_attr("num_prompts") else len(pool)
        if count != len(pool) or not same_mazes(others, pool):
            raise ValueError(
                f"env plays other mazes than {pool!r}; make it with this pool, such as MazeVecEnv(64, pool)"
            )
    if rules is None:
        return MazeRules(pool.size) if env is None else rules_of(env, pool)
    if not isinstance(rules, MazeRules):
        raise TypeError(f"rules must be MazeRules, got {type(rules).__name__}; such as MazeRules({pool.size})")
    if rules.size != pool.size:
        raise ValueError(
            f"rules are for mazes of {rules.size} squares, the pool has {pool.size}; give rules of its size"
        )
    return rules


def _joined(parts: list[Any]) -> Any:
    """One array; None if any part is not known."""
    return None if any(part is None for part in parts) else np.concatenate(parts)
