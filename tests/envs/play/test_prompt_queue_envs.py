"""Promptable versions of known envs, through Gymnasium's and Stable-Baselines3's own machinery."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv, generate_random_map
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import TimeLimit, TransformReward
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

from sera_maze.envs.play.prompt_queue import PromptQueue


def pole(num_prompts: int = 20) -> PromptQueue[Any, Any]:
    return PromptQueue(gym.make("CartPole-v1"), range(num_prompts), success=lambda episode: episode.steps >= 10)


def play(env: gym.Env[Any, Any], action: Any = 0) -> tuple[int, dict[str, Any]]:
    """Repeat one action to the end; return the number of steps and the last info."""
    steps, is_over = 0, False
    while not is_over:
        _, _, terminated, truncated, info = env.step(action)
        steps, is_over = steps + 1, terminated or truncated
    return steps, info


class RandomLake(gym.Wrapper[Any, Any, Any, Any]):
    """FrozenLake takes its map at construction; this builds the map of ``options["map"]`` at each reset."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        desc = generate_random_map(size=4, seed=(options or {}).get("map", 0))
        self.env = FrozenLakeEnv(desc=desc, is_slippery=False)
        return self.env.reset(seed=seed)


def lake(num_maps: int = 50) -> PromptQueue[Any, Any]:
    maps = [{"map": i} for i in range(num_maps)]
    env = TimeLimit(RandomLake(FrozenLakeEnv(is_slippery=False)), 20)
    return PromptQueue(env, maps, success=lambda episode: episode.total_reward > 0)


class TestFrozenLake:
    def test_a_prompt_is_a_map(self):
        env = lake()
        for prompt in (3, 8, 3):
            env.reset(options={"prompt": prompt})
            rows = ["".join(row) for row in env.unwrapped.desc.astype(str)]
            assert rows == generate_random_map(size=4, seed=prompt)

    def test_success_is_reaching_the_goal(self):
        env = lake()
        for prompt in range(20):
            desc = generate_random_map(size=4, seed=prompt)
            path = _lake_path(desc)
            env.reset(options={"prompt": prompt})
            for action in path:
                _, _, terminated, _, info = env.step(action)
            assert terminated
            assert (info["prompt"], info["is_success"]) == (prompt, True)
            env.reset(options={"prompt": prompt})
            assert play(env, action=0)[1]["is_success"] is False  # LEFT from the left edge, until the limit


def _lake_path(desc: list[str]) -> list[int]:
    """Actions (0 left, 1 down, 2 right, 3 up) along a shortest way over the ice, by breadth-first search."""
    ways: dict[tuple[int, int], list[int]] = {(0, 0): []}
    for row, column in (order := [(0, 0)]):
        for action, (down, right) in enumerate([(0, -1), (1, 0), (0, 1), (-1, 0)]):
            cell = row + down, column + right
            if cell not in ways and 0 <= min(cell) and max(cell) < 4 and desc[cell[0]][cell[1]] != "H":
                ways[cell] = [*ways[row, column], action]
                order.append(cell)
    return ways[3, 3]


class TestCartPole:
    def test_success_is_lasting_long_enough(self):
        env = PromptQueue(gym.make("CartPole-v1"), range(50), success=lambda episode: episode.steps >= 100)
        outcomes = set()
        for prompt in range(3):
            for balances in (False, True):
                observation, info = env.reset(options={"prompt": prompt})
                assert info == {"prompt": prompt}
                steps, is_over = 0, False
                while not is_over:
                    action = int(observation[2] + observation[3] > 0) if balances else 0
                    observation, _, terminated, truncated, info = env.step(action)
                    steps, is_over = steps + 1, terminated or truncated
                assert info == {"prompt": prompt, "is_success": steps >= 100}
                outcomes.add((balances, info["is_success"]))
        assert outcomes == {(False, False), (True, True)}

    def test_first_observation_is_that_of_the_seed(self):
        env = PromptQueue(gym.make("CartPole-v1"), [70, 80])
        for prompt, seed in ((0, 70), (1, 80), (0, 70)):
            expected, _ = gym.make("CartPole-v1").reset(seed=seed)
            assert np.array_equal(env.reset(options={"prompt": prompt})[0], expected)


class TestGymnasium:
    # The checker asks to check the bare env; here the wrapper is what is to be checked.
    @pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version.*:UserWarning")
    @pytest.mark.filterwarnings("ignore:.*A Box observation space (minimum|maximum) value is.*:UserWarning")
    @pytest.mark.parametrize(
        "make",
        [
            lambda: pole(100),
            lambda: PromptQueue(gym.make("CartPole-v1"), [{"low": -0.01, "high": 0.01}], success=lambda episode: True),
            lake,
        ],
    )
    def test_checker(self, make: Callable[[], PromptQueue[Any, Any]]):
        check_env(make(), skip_render_check=True)

    def test_through_further_wrappers(self):
        env = TransformReward(Monitor(pole()), lambda reward: reward)
        env.get_wrapper_attr("assign")([5, 3])
        assert env.get_wrapper_attr("num_prompts") == 20
        assert [env.reset()[1]["prompt"], env.reset()[1]["prompt"]] == [5, 3]

    def test_spec_rebuilds_the_env(self):
        prompts = [7, {"low": -0.01, "high": 0.01}, (np.int64(8), {"low": -0.02, "high": 0.02})]
        env = PromptQueue(gym.make("CartPole-v1"), prompts)
        assert env.spec is not None
        for spec in (env.spec, EnvSpec.from_json(env.spec.to_json())):
            again = gym.make(spec)
            assert isinstance(again, PromptQueue)
            assert again.num_prompts == 3
            for prompt in (0, 2):
                options = {"prompt": prompt}
                assert np.array_equal(again.reset(options=options)[0], env.reset(options=options)[0])

    def test_spec_keeps_the_rule(self):
        env = PromptQueue(gym.make("CartPole-v1"), range(5), success=lambda episode: episode.steps == 9)
        again = gym.make(env.spec)
        again.reset(options={"prompt": 3})
        steps = 0
        while "is_success" not in (info := again.step(1)[4]):
            steps += 1
        assert info == {"prompt": 3, "is_success": steps + 1 == 9}

    def test_sync_vector_env(self):
        envs = gym.vector.SyncVectorEnv([lambda: pole() for _ in range(2)])
        for env, prompts in zip(envs.envs, ([1, 2], [3, 4]), strict=True):
            env.get_wrapper_attr("assign")(prompts)
        assert envs.reset(seed=0)[1]["prompt"].tolist() == [1, 3]
        envs.close()


def _episodes(venv: VecEnv, num_steps: int) -> list[list[tuple[int, int, bool]]]:
    """The (prompt, steps, is_success) of every finished episode, for each env, under action 1."""
    finished: list[list[tuple[int, int, bool]]] = [[] for _ in range(venv.num_envs)]
    steps = np.zeros(venv.num_envs, int)
    for _ in range(num_steps):
        _, _, dones, infos = venv.step(np.ones(venv.num_envs, int))
        steps += 1
        for i in range(venv.num_envs):
            assert ("is_success" in infos[i]) == dones[i]
            if dones[i]:
                finished[i].append((infos[i]["prompt"], int(steps[i]), infos[i]["is_success"]))
        steps[dones] = 0
    return finished


def _alone(prompt: int) -> tuple[int, int, bool]:
    env = pole()
    env.reset(options={"prompt": prompt})
    steps, info = play(env, action=1)
    return prompt, steps, info["is_success"]


class TestStableBaselines:
    def test_prompts_differ_in_length_and_success(self):
        assert {is_success for _, _, is_success in map(_alone, range(20))} == {False, True}

    @pytest.mark.parametrize("kind", [DummyVecEnv, SubprocVecEnv])
    def test_every_assigned_episode_is_seen(self, kind: type[VecEnv]):
        # Local, so that it travels to the worker processes by value.
        def make() -> gym.Env[Any, Any]:
            env = gym.make("CartPole-v1")
            return Monitor(PromptQueue(env, range(20), success=lambda episode: episode.steps >= 10))

        venv = kind([make, make])
        try:
            assert venv.get_attr("num_prompts") == [20, 20]
            assignments = [[3, 3, 17, 0], [5, 19, 5]]
            venv.seed(1)
            for i, prompts in enumerate(assignments):
                venv.env_method("assign", prompts, indices=[i])
            venv.reset()
            assert [info["prompt"] for info in venv.reset_infos] == [3, 5]
            for prompts, episodes in zip(assignments, _episodes(venv, 100), strict=True):
                assert episodes[: len(prompts)] == [_alone(prompt) for prompt in prompts]
                assert len(episodes) > len(prompts)  # drawn prompts follow

            venv.env_method("assign", [7, 8], indices=[1])
            assert [episode[0] for episode in _episodes(venv, 60)[1]][1:3] == [7, 8]  # the running one ends first
        finally:
            venv.close()

    def test_options_choose_the_prompt_of_each_env(self):
        venv = DummyVecEnv([pole, pole])
        venv.set_options([{"prompt": 4}, {"prompt": 9}])
        first = venv.reset()
        assert [info["prompt"] for info in venv.reset_infos] == [4, 9]
        assert np.array_equal(first[1], pole().reset(options={"prompt": 9})[0])
        assert [episodes[0] for episodes in _episodes(venv, 20)] == [_alone(4), _alone(9)]
