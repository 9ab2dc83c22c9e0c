"""The plain mazes under an environment's wrappers, if nothing on the way could change a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor

from sera_maze.envs.play.maze import MazeEnv
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.fresh import Mazes, fresh_part, mazes_again, same_mazes
from sera_maze.envs.pools.pool import MazePool
from sera_maze.sampling.vec_env import MazeVecEnv

_RULES = ("observation", "radius", "on_wall", "max_steps")
# Wrappers that watch an environment and change nothing.
_WATCHERS = (Monitor, OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics)


class PlainMazes(NamedTuple):
    """Mazes that are played by their own rules, with nothing between policy and mazes that could change a result.

    Attributes:
        pool: the mazes.
        rules: of the episodes.
    """

    pool: Mazes
    rules: MazeRules


def plain_mazes(env: VecEnv) -> PlainMazes | str:
    """Look through the wrappers of ``env`` for plain mazes, whatever the policy; else the reason why there are none."""
    while type(env) is VecMonitor:
        if env.results_writer is not None:
            return "VecMonitor writes a file of every episode"
        env = env.venv
    if type(env) is MazeVecEnv:
        return PlainMazes(env.pool, env.rules)
    if type(env) is not DummyVecEnv:
        return f"{type(env).__name__} stands between policy and mazes"
    mazes: list[MazeEnv] = []
    for member in env.envs:
        inner = _unwatched(member)
        if isinstance(inner, Monitor):
            return "Monitor writes a file of every episode"
        if type(inner) is not MazeEnv:
            return f"{type(inner).__name__} stands between policy and mazes"
        mazes.append(inner)
    first = mazes[0]
    for other in mazes[1:]:
        if not same_mazes(other.pool, first.pool) or other.rules != first.rules:
            return "the environments have different mazes or rules"
    return PlainMazes(first.pool, first.rules)


def are_mazes(env: VecEnv) -> bool:
    """Whether environments are mazes, whatever stands between; those in other processes are not asked."""
    inner = env.unwrapped
    return isinstance(inner, MazeVecEnv) or (
        isinstance(inner, DummyVecEnv) and isinstance(inner.envs[0].unwrapped, MazeEnv)
    )


def _unwatched(env: gym.Env) -> gym.Env:
    """The environment under the wrappers that only watch.

    Raises:
        ValueError: if a wrapper was given mazes or rules, which the environment does not play by.
    """
    while isinstance(env, gym.Wrapper) and type(env) in _WATCHERS:
        for name in ("pool", "rules"):
            if name in vars(env):
                raise ValueError(
                    f"{name} was set on the wrapper {type(env).__name__}, which changes nothing in the environment "
                    "under it: build another environment"
                )
        if isinstance(env, Monitor) and env.results_writer is not None:
            return env
        env = env.env
    return env


def environments_record(env: VecEnv) -> tuple[dict[str, Any] | None, MazePool | None]:
    """What `environments_again` makes environments of plain mazes from: JSON values, and a pool; None for others."""
    found = plain_mazes(env)
    if isinstance(found, str):
        return None, None
    fresh, pool = fresh_part(found.pool)
    kind = "MazeVecEnv" if isinstance(env.unwrapped, MazeVecEnv) else "MazeEnv"
    rules = {name: getattr(found.rules, name) for name in _RULES}
    return {"kind": kind, "num_envs": env.num_envs, "rules": rules, "fresh": fresh}, pool


def environments_again(record: Mapping[str, Any], pool: MazePool | None) -> VecEnv:
    """The environments of a record.

    Raises:
        KeyError, TypeError, ValueError: for what `environments_record` does not give.
    """
    rules, num_envs = {name: record["rules"][name] for name in _RULES}, record["num_envs"]
    mazes = mazes_again(record["fresh"], pool)
    if record["kind"] == "MazeVecEnv":
        return MazeVecEnv(num_envs, mazes, **rules)
    return DummyVecEnv([lambda: Monitor(MazeEnv(mazes, **rules))] * num_envs)
