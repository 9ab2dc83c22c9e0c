"""Whether the map sampler may stand in for stepping: only where nothing on the way could change a result."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor

from sera_maze.envs.play.maze import MazeEnv
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.fresh import Mazes, same_mazes
from sera_maze.policies.maze import MazePolicy
from sera_maze.sampling.vec_env import MazeVecEnv

# Methods between a policy's map and the actions that are taken.
_LOOKED_UP = (
    "forward", "get_distribution", "evaluate_actions", "log_prob_map", "success_logits", "_distribution", "_look_up",
)  # fmt: skip
# Wrappers that watch an environment and change nothing.
_WATCHERS = (Monitor, OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics)


@dataclass(frozen=True)
class FastPath:
    """The mazes and rules that the map sampler needs, or the reason why they cannot be had.

    Attributes:
        pool: the mazes; None if rollouts must be stepped.
        rules: the environments' rules; None likewise.
        reason: why rollouts must be stepped; empty if they need not.
    """

    pool: Mazes | None
    rules: MazeRules | None
    reason: str = ""


def chosen_path(policy: BasePolicy, env: VecEnv, sampler: str) -> FastPath:
    """The fast path, where the option ``sampler`` allows it and there is one.

    Raises:
        ValueError: if "map" was asked for, and there is none.
    """
    if sampler == "step":
        return _stepped("sampler='step' was asked for")
    found = find_fast_path(policy, env)
    if found.pool is None and sampler == "map":
        raise ValueError(f"sampler='map' cannot be used: {found.reason}; use sampler='auto'")
    return found


def find_fast_path(policy: BasePolicy, env: VecEnv) -> FastPath:
    """Look through the wrappers of ``env`` for plain mazes that ``policy`` can see whole."""
    if not isinstance(policy, MazePolicy):
        return _stepped(f"the policy is a {type(policy).__name__}, not a MazePolicy")
    for name in _LOOKED_UP:
        if getattr(type(policy), name) is not getattr(MazePolicy, name):
            return _stepped(f"{type(policy).__name__} has a method {name} of its own, which the map sampler would skip")
    return plain_mazes(env)


def plain_mazes(env: VecEnv) -> FastPath:
    """Look through the wrappers of ``env`` for mazes whose results nothing could change, whatever the policy."""
    while type(env) is VecMonitor:
        if env.results_writer is not None:
            return _stepped("VecMonitor writes a file of every episode")
        env = env.venv
    if type(env) is MazeVecEnv:
        return FastPath(env.pool, env.rules)
    if type(env) is not DummyVecEnv:
        return _stepped(f"{type(env).__name__} stands between policy and mazes")
    mazes: list[MazeEnv] = []
    for member in env.envs:
        inner = _unwatched(member)
        if isinstance(inner, Monitor):
            return _stepped("Monitor writes a file of every episode")
        if type(inner) is not MazeEnv:
            return _stepped(f"{type(inner).__name__} stands between policy and mazes")
        mazes.append(inner)
    first = mazes[0]
    for other in mazes[1:]:
        if not same_mazes(other.pool, first.pool) or other.rules != first.rules:
            return _stepped("the environments have different mazes or rules")
    return FastPath(first.pool, first.rules)


def _unwatched(env: gym.Env) -> gym.Env:
    """The environment under the wrappers that only watch."""
    while isinstance(env, gym.Wrapper) and type(env) in _WATCHERS:
        if isinstance(env, Monitor) and env.results_writer is not None:
            return env
        env = env.env
    return env


def _stepped(reason: str) -> FastPath:
    return FastPath(None, None, reason)
