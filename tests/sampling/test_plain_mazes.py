"""Where the map sampler may not stand in for stepping: whatever could change a result, or must see every episode."""

import csv
import json
from functools import partial

import pytest
import torch
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from helpers import Watch, small_model
from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.envs import FreshMazes, MazeEnv, MazePool
from sera_maze.policies.maze import MazePolicy
from sera_maze.sampling.maps import MapSampler
from sera_maze.sampling.plain_mazes import PlainMazes, environments_again, environments_record, plain_mazes
from sera_maze.sampling.steps import StepSampler
from sera_maze.sampling.vec_env import MazeVecEnv

POOL = MazePool.generate(6, 5, "prim", seed=1, endpoints="random")
FRESH = FreshMazes(7, seed=3, exclude=MazePool.generate(2, 7))
RULES = {"on_wall": "stay", "max_steps": 12}


def maze_env():
    return MazeEnv(POOL, **RULES)


make = partial(small_model, MaxRL)


class Greedy(MazePolicy):
    """Overrides what SB3's other methods ask for the distribution."""

    def get_distribution(self, obs):
        return self._distribution(3 * self._look_up(obs)[0])


class Sharper(MazePolicy):
    """Overrides what turns log-probabilities into a distribution."""

    def _distribution(self, log_probs):
        return super()._distribution(3 * log_probs)


class Forward(MazePolicy):
    """Overrides SB3's way to act."""

    def forward(self, obs, deterministic=False):
        return super().forward(obs, True)


class Evaluated(MazePolicy):
    """Overrides what the gradient of stepped rollouts is made of."""

    def evaluate_actions(self, obs, actions):
        values, log_prob, entropy = super().evaluate_actions(obs, actions)
        return values, 2 * log_prob, entropy


class OwnMaps(MazePolicy):
    """Overrides the maps themselves, which both samplers read."""

    def maps(self, walls, goal):
        log_probs, values = super().maps(walls, goal)
        return (3 * log_probs).log_softmax(-1), values


class OwnVector(MazeVecEnv):
    """A user's subclass, which may do anything."""

    def step_wait(self):
        observations, rewards, dones, infos = super().step_wait()
        return observations, 2 * rewards, dones, infos


class OwnMonitor(VecMonitor):
    """A user's subclass."""


@pytest.mark.parametrize(
    ("policy", "method"),
    [(Greedy, "get_distribution"), (Sharper, "_distribution"), (Forward, "forward"), (Evaluated, "evaluate_actions")],
)
def test_policies_with_methods_of_their_own_are_stepped(policy, method):
    model = make(maze_env(), policy)
    assert type(model.rollout_sampler) is StepSampler
    assert f"{policy.__name__} has a method {method} of its own" in model.rollout_sampler.reason
    model.learn(10**9, total_updates=1)
    assert model.total_rollouts == 12
    with pytest.raises(ValueError, match=f"sampler='map' cannot be used: {policy.__name__} has a method {method}"):
        make(maze_env(), policy, sampler="map")


def test_a_policy_with_maps_of_its_own_is_not():
    fast, slow = make(maze_env(), OwnMaps), make(maze_env(), OwnMaps, sampler="step")
    assert type(fast.rollout_sampler) is MapSampler
    for model in (fast, slow):
        model.learn(10**9, total_updates=3)
    assert fast.num_timesteps == slow.num_timesteps
    for one, other in zip(fast.policy.parameters(), slow.policy.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("wrap", "reason"),
    [
        (lambda path: OwnVector(4, POOL, **RULES), "OwnVector stands between policy and mazes"),
        (lambda path: OwnMonitor(DummyVecEnv([maze_env])), "OwnMonitor stands between policy and mazes"),
        (lambda path: VecMonitor(DummyVecEnv([maze_env]), path), "VecMonitor writes a file of every episode"),
        (lambda path: VecMonitor(MazeVecEnv(1, POOL, **RULES), path), "VecMonitor writes a file of every episode"),
        (lambda path: Monitor(maze_env(), path), "Monitor writes a file of every episode"),
        (lambda path: DummyVecEnv([lambda: Monitor(Monitor(maze_env(), path))]), "Monitor writes a file of every"),
    ],
)
def test_what_must_see_every_episode_is_stepped(tmp_path, wrap, reason):
    path = tmp_path / "episodes.monitor.csv"
    model = make(wrap(str(path)))
    assert reason in model.rollout_sampler.reason
    watch = Watch()
    model.learn(10**9, watch, total_updates=2)
    assert model.total_rollouts == 24
    if "file" in reason:
        model.get_env().close()
        rows = list(csv.DictReader(path.read_text().splitlines()[1:]))
        assert len(rows) == 24
        assert [int(row["l"]) for row in rows] == torch.cat([each.lengths for each in watch.rollouts]).tolist()
        assert [float(row["r"]) for row in rows] == torch.cat([each.success for each in watch.rollouts]).tolist()


def test_monitors_without_files_are_not_stepped():
    for env in (Monitor(maze_env()), VecMonitor(DummyVecEnv([maze_env])), VecMonitor(MazeVecEnv(4, POOL, **RULES))):
        assert make(env).rollout_sampler.reason == ""


def test_mazes_and_rules_are_found_whatever_the_policy():
    """Of one environment, of several with equal pools, and of a vector."""
    equal = MazePool.generate(6, 5, "prim", seed=1, endpoints="random")
    for env in (
        DummyVecEnv([maze_env, lambda: MazeEnv(equal, **RULES)]), VecMonitor(DummyVecEnv([maze_env])),
        MazeVecEnv(4, POOL, **RULES),
    ):  # fmt: skip
        found = plain_mazes(env)
        assert isinstance(found, PlainMazes)
        assert found.pool is POOL
        assert found.rules == maze_env().rules
        assert make(env, "MlpPolicy").rollout_sampler.reason == "the policy, ActorCriticPolicy, is not a MazePolicy"


@pytest.mark.parametrize(
    ("env", "kind"),
    [
        (lambda: DummyVecEnv([maze_env] * 2), MazeEnv), (lambda: VecMonitor(MazeVecEnv(3, POOL, **RULES)), MazeVecEnv),
        (lambda: DummyVecEnv([lambda: MazeEnv(FRESH, **RULES)]), MazeEnv),
    ],
)  # fmt: skip
def test_environments_of_plain_mazes_are_made_again_from_their_record(env, kind):
    first = env()
    record, pool = environments_record(first)
    again = environments_again(json.loads(json.dumps(record)), pool)
    assert again.num_envs == first.num_envs
    assert type(again if kind is MazeVecEnv else again.envs[0].unwrapped) is kind
    one, other = plain_mazes(first), plain_mazes(again)
    assert one.pool.digest == other.pool.digest
    assert one.rules == other.rules


def test_other_environments_have_no_record():
    assert environments_record(OwnVector(4, POOL, **RULES)) == (None, None)
