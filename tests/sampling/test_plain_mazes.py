"""Where the map sampler may not stand in for stepping: whatever could change a result, or must see every episode."""

import csv

import pytest
import torch
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.envs import MazeEnv, MazePool
from sera_maze.policies.maze import MazePolicy
from sera_maze.sampling.vec_env import MazeVecEnv

POOL = MazePool.generate(6, 5, "prim", seed=1, endpoints="random")
RULES = {"on_wall": "stay", "max_steps": 12}


def maze_env():
    return MazeEnv(POOL, **RULES)


def make(env, policy=MazePolicy, **options):
    return MaxRL(
        policy, env, prompts_per_batch=3, rollouts_per_prompt=4, seed=0,
        policy_kwargs={"channels": 4, "iterations": 4}, **options,
    )  # fmt: skip


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
    assert model.map_sampler is None
    assert f"{policy.__name__} has a method {method} of its own" in model.fast_path.reason
    model.learn(10**9, total_updates=1)
    assert model.total_rollouts == 12
    with pytest.raises(ValueError, match=f"sampler='map' cannot be used: {policy.__name__} has a method {method}"):
        make(maze_env(), policy, sampler="map")


def test_a_policy_with_maps_of_its_own_is_not():
    fast, slow = make(maze_env(), OwnMaps), make(maze_env(), OwnMaps, sampler="step")
    assert fast.fast_path.reason == ""
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
    assert reason in model.fast_path.reason
    seen = []
    original = model.sample

    def sample(*arguments):
        seen.append(original(*arguments))
        return seen[-1]

    model.sample = sample
    model.learn(10**9, total_updates=2)
    assert model.total_rollouts == 24
    if "file" in reason:
        model.get_env().close()
        rows = list(csv.DictReader(path.read_text().splitlines()[1:]))
        assert len(rows) == 24
        assert [int(row["l"]) for row in rows] == torch.cat([rollouts.lengths for rollouts in seen]).tolist()
        assert [float(row["r"]) for row in rows] == torch.cat([rollouts.success for rollouts in seen]).tolist()


def test_monitors_without_files_are_not_stepped():
    for env in (Monitor(maze_env()), VecMonitor(DummyVecEnv([maze_env])), VecMonitor(MazeVecEnv(4, POOL, **RULES))):
        assert make(env).fast_path.reason == ""
