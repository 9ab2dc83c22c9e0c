"""The wrapper that makes any env promptable: prompts, resets, steps and success."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.vec_env import DummyVecEnv

from sera_maze.envs.play.prompt_queue import Episode, PromptQueue


class Countdown(gym.Env[Any, Any]):
    """Ends after ``length`` steps (reset option, default 3); action 1 earns 1; counts its resets' arguments."""

    observation_space = spaces.Box(0, 1, (2,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, reports: Any = None):
        self.calls: list[tuple[int | None, dict[str, Any] | None]] = []
        self.reports = reports
        self.info: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.calls.append((seed, copy.deepcopy(options)))
        self.left = (options or {}).get("length", 3)
        if options:
            options["mark"] = "written by the env"
            options.get("list", []).append("written by the env")
        self.info = {"left": self.left}
        return self.np_random.random(2), self.info

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        self.info = {"left": self.left}
        if self.reports is not None:
            self.info["is_success"] = self.reports
        return self.np_random.random(2), float(action), self.left == 0, False, self.info


def counted(prompts: Any = range(10), **kwargs: Any) -> tuple[PromptQueue[Any, Any], Countdown]:
    base = Countdown()
    return PromptQueue(base, prompts, **{"success": lambda episode: episode.total_reward > 0, **kwargs}), base


def play(env: gym.Env[Any, Any], action: Any = 0) -> dict[str, Any]:
    while True:
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return info


class TestPrompts:
    def test_seeds_options_and_pairs(self):
        prompts = [7, {"length": 1}, (np.int64(8), {"length": 2}), [9, {"length": 4}], np.int32(5)]
        env, base = counted(prompts)
        assert env.num_prompts == 5
        for prompt in range(5):
            assert env.reset(options={"prompt": prompt})[1] == {"left": [3, 1, 2, 4, 3][prompt], "prompt": prompt}
        assert base.calls == [(7, None), (None, {"length": 1}), (8, {"length": 2}), (9, {"length": 4}), (5, None)]
        assert all(type(seed) in (int, type(None)) for seed, _ in base.calls)

    def test_arrays_of_seeds(self):
        env, base = counted(np.array([11, 12], np.uint32))
        env.reset(options={"prompt": 1})
        assert base.calls == [(12, None)]

    def test_other_options_reach_the_env(self):
        env, base = counted([3, (4, {"length": 5})])
        env.reset(options={"prompt": 0, "length": 2})
        env.reset(options={"prompt": 1, "colour": "red"})
        assert base.calls == [(3, {"length": 2}), (4, {"colour": "red", "length": 5})]

    def test_an_option_of_the_prompt_is_not_overridden(self):
        env, _ = counted([3, (4, {"length": 5})])
        with pytest.raises(ValueError, match=r"options sets \['length'\], which prompt 1 sets already"):
            env.reset(options={"prompt": 1, "length": 2})

    def test_dicts_of_the_caller_are_not_modified(self):
        options, prompts = {"prompt": 0, "other": 1}, [{"length": 2, "list": [1]}]
        env, base = counted(prompts)
        env.reset(options=options)
        env.reset(options={"prompt": 0})
        assert options == {"prompt": 0, "other": 1}
        assert prompts == [{"length": 2, "list": [1]}]
        prompts[0]["list"].append(2)  # type: ignore[attr-defined]
        env.reset(options={"prompt": 0})
        assert base.calls[1:] == [(None, {"length": 2, "list": [1]})] * 2

    @pytest.mark.parametrize(
        ("prompts", "error", "message"),
        [
            ([], ValueError, "prompts is empty"),
            (np.array([], int), ValueError, "prompts is empty"),
            (5, TypeError, "prompts is a int"),
            ("123", TypeError, "prompts is a str"),
            (iter([1]), TypeError, "prompts is a list_iterator"),
            ({1: 2}, TypeError, "prompts is a dict"),
            ([1, -1], ValueError, r"prompts\[1\]=-1; allowed is an integer of at least 0"),
            ([1.0], TypeError, r"prompts\[0\]=1.0 is a float"),
            ([True], TypeError, r"prompts\[0\]=True is a bool"),
            ([None], TypeError, r"prompts\[0\]=None"),
            ([(1,)], ValueError, r"prompts\[0\]=\(1,\) has 1 parts"),
            ([(1, 2)], TypeError, r"prompts\[0\]\[1\]=2 is a int; allowed are options"),
            ([("a", {})], TypeError, r"prompts\[0\]\[0\]='a' is a str"),
            ([(-3, {})], ValueError, r"prompts\[0\]\[0\]=-3"),
        ],
    )
    def test_malformed(self, prompts: Any, error: type[Exception], message: str):
        with pytest.raises(error, match=message):
            counted(prompts)

    @pytest.mark.parametrize("env", [None, Countdown, "CartPole-v1", DummyVecEnv([Countdown])])
    def test_env_must_be_an_env(self, env: Any):
        with pytest.raises(TypeError, match=r"env is a .*; allowed is a gymnasium\.Env"):
            PromptQueue(env, [1])

    def test_success_must_be_a_function(self):
        with pytest.raises(TypeError, match="success=True is a bool"):
            counted(success=True)


class TestReset:
    def test_assigned_prompts_in_order(self):
        env, _ = counted()
        env.assign([4, 4, 9])
        assert [env.reset()[1]["prompt"] for _ in range(3)] == [4, 4, 9]

    def test_a_seeded_reset_keeps_the_assignment(self):
        env, base = counted()
        env.assign([4, 9])
        assert [env.reset(seed=8)[1]["prompt"], env.reset(seed=8)[1]["prompt"]] == [4, 9]
        assert base.calls == [(4, None), (9, None)]

    def test_a_chosen_prompt_comes_before_the_assignment(self):
        env, _ = counted()
        env.assign([4])
        assert env.reset(options={"prompt": 2})[1]["prompt"] == 2
        assert env.reset()[1]["prompt"] == 4

    def test_assign_lets_the_episode_go_on(self):
        env, _ = counted()
        env.assign([4, 5])
        env.reset()
        env.step(0)
        env.assign([6])
        assert play(env)["prompt"] == 4
        assert env.reset()[1]["prompt"] == 6

    def test_a_refused_assignment_changes_nothing(self):
        env, _ = counted()
        env.assign([4])
        with pytest.raises(ValueError, match=r"prompts\[1\]=10 is out of range"):
            env.assign([1, 10])
        assert env.reset()[1]["prompt"] == 4

    def test_drawn_prompts_are_uniform(self):
        env, _ = counted(range(4))
        env.reset(seed=3)
        counts = np.bincount([env.reset()[1]["prompt"] for _ in range(4000)], minlength=4)
        assert counts.sum() == 4000
        assert np.abs(counts - 1000).max() < 5 * np.sqrt(4000 * 0.25 * 0.75)  # five standard deviations

    def test_a_seed_repeats_the_drawn_prompts(self):
        env, other = counted(range(1000))[0], counted(range(1000))[0]
        first = [env.reset(seed=5)[1]["prompt"], *(env.reset()[1]["prompt"] for _ in range(20))]
        assert first == [other.reset(seed=5)[1]["prompt"], *(other.reset()[1]["prompt"] for _ in range(20))]
        assert first == [env.reset(seed=np.int64(5))[1]["prompt"], *(env.reset()[1]["prompt"] for _ in range(20))]
        assert first != [env.reset(seed=6)[1]["prompt"], *(env.reset()[1]["prompt"] for _ in range(20))]
        assert len(set(first)) > 10  # the seeds that the prompts give the env do not bring the drawing to a halt

    def test_unseeded_wrappers_differ(self):
        draws = [[env.reset()[1]["prompt"] for _ in range(8)] for env in (counted(range(1000))[0] for _ in range(2))]
        assert draws[0] != draws[1]

    def test_same_prompt_same_first_observation(self):
        env, _ = counted(range(100))
        first = [env.reset(options={"prompt": prompt})[0].tolist() for prompt in range(100)]
        again = [env.reset(options={"prompt": prompt})[0].tolist() for prompt in reversed(range(100))]
        assert first == again[::-1]
        assert len({tuple(observation) for observation in first}) == 100

    def test_the_seed_reaches_the_env_of_a_prompt_without_one(self):
        env, base = counted([{"length": 1}])
        env.reset(seed=5)
        env.reset()
        assert base.calls == [(5, {"length": 1}), (None, {"length": 1})]

    def test_global_generators_are_untouched(self):
        numpy_before, random_before = np.random.get_state(), random.getstate()  # noqa: NPY002  the state under test
        env, _ = counted()
        env.reset()
        env.reset(seed=1)
        play(env)
        numpy_after = np.random.get_state()  # noqa: NPY002  the state under test
        assert pickle.dumps(numpy_before) == pickle.dumps(numpy_after)
        assert random_before == random.getstate()

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"options": {"prompt": 10}}, ValueError, r'options\["prompt"\]=10 is out of range'),
            ({"options": {"prompt": -1}}, ValueError, r'options\["prompt"\]=-1 is out of range'),
            ({"options": {"prompt": 1.0}}, TypeError, r'options\["prompt"\]=1.0 is a float'),
            ({"options": {"prompt": None}}, TypeError, r'options\["prompt"\]=None'),
            ({"seed": -1}, ValueError, "seed=-1; allowed is an integer of at least 0"),
            ({"seed": 1.5}, TypeError, "seed=1.5 is a float"),
            ({"seed": True}, TypeError, "seed=True is a bool"),
            ({"options": 5}, TypeError, "options=5 is a int; allowed is a dict, or None"),
            ({"options": [1]}, TypeError, "options=.* is a list"),
        ],
    )
    def test_malformed(self, arguments: dict[str, Any], error: type[Exception], message: str):
        env, base = counted()
        env.assign([4])
        with pytest.raises(error, match=message):
            env.reset(**arguments)
        assert base.calls == []
        assert env.reset()[1]["prompt"] == 4


class TestStep:
    def test_info_names_the_prompt_and_the_last_one_the_success(self):
        env, _ = counted()
        assert env.reset(options={"prompt": 6})[1] == {"left": 3, "prompt": 6}
        assert env.step(0)[4] == {"left": 2, "prompt": 6}
        assert env.step(1)[4] == {"left": 1, "prompt": 6}
        last = env.step(0)[4]
        assert last == {"left": 0, "prompt": 6, "is_success": True}
        assert last["is_success"] is True
        env.reset(options={"prompt": 6})
        assert play(env)["is_success"] is False

    def test_infos_of_the_env_are_copied(self):
        env, base = counted()
        _, info = env.reset()
        assert info is not base.info
        play(env)
        assert base.info == {"left": 0}

    def test_the_rule_sees_the_episode(self):
        seen: list[Episode] = []
        env, _ = counted(success=lambda episode: seen.append(episode) or True)
        for prompt, actions in ((8, (1, 0, 1)), (2, (0, 0, 0))):
            env.reset(options={"prompt": prompt})
            for action in actions:
                env.step(action)
        assert seen == [
            Episode(8, 3, 2.0, True, False, {"left": 0, "prompt": 8}),
            Episode(2, 3, 0.0, True, False, {"left": 0, "prompt": 2}),
        ]

    def test_an_early_reset_starts_the_counts_anew(self):
        env, _ = counted(success=lambda episode: episode.total_reward == 1 and episode.steps == 3)
        env.reset()
        env.step(1)
        env.reset()
        assert play(env)["is_success"] is False
        env.reset()
        env.step(1)
        assert play(env)["is_success"] is True

    def test_truncation(self):
        env = PromptQueue(TimeLimit(Countdown(), 2), range(3), success=lambda episode: episode.truncated)
        env.reset()
        env.step(0)
        _, _, terminated, truncated, info = env.step(0)
        assert (terminated, truncated, info["is_success"]) == (False, True, True)

    @pytest.mark.parametrize(
        ("reported", "expected"), [(True, True), (np.True_, True), (np.float32(1), True), (0, False), (0.0, False)]
    )
    def test_the_env_may_report_success(self, reported: Any, expected: bool):
        env = PromptQueue(Countdown(reports=reported), range(3))
        env.reset()
        assert play(env)["is_success"] is expected

    def test_the_rule_comes_before_the_report(self):
        env = PromptQueue(Countdown(reports=True), range(3), success=lambda episode: False)
        env.reset()
        assert play(env)["is_success"] is False

    def test_without_rule_and_report(self):
        env, _ = counted(success=None)
        env.reset(options={"prompt": 2})
        with pytest.raises(
            ValueError, match=r"prompt 2 has no 'is_success', only \['left', 'prompt'\].*success=lambda"
        ):
            play(env)

    @pytest.mark.parametrize("answer", [None, "yes", 0.5, 2, np.array([True])])
    def test_the_rule_must_answer_yes_or_no(self, answer: Any):
        env, _ = counted(success=lambda episode: answer)
        env.reset()
        with pytest.raises(ValueError, match=r"success\(episode\) is .*; allowed are True and False"):
            play(env)

    def test_needs_a_reset(self):
        env, _ = counted()
        with pytest.raises(ResetNeeded, match="call reset"):
            env.step(0)
        env.reset()
        play(env)
        with pytest.raises(ResetNeeded, match="call reset"):
            env.step(0)


def test_a_long_range_of_seeds_stays_a_range() -> None:
    env = PromptQueue(Countdown(), range(2**40), success=lambda episode: True)
    assert env.num_prompts == 2**40
    _, info = env.reset(options={"prompt": 2**39})
    assert info["prompt"] == 2**39
    assert env.env.calls[-1] == (2**39, None)  # type: ignore[attr-defined]
    assert PromptQueue(Countdown(), range(5, 2, -1))._prompts[2] == 3
    for prompts, words in ((range(-1, 3), r"prompts\[0\]=-1"), (range(3, -2, -1), r"prompts\[4\]=-1")):
        with pytest.raises(ValueError, match=words):
            PromptQueue(Countdown(), prompts)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (range(2), [0, 1], True), (range(0, 3, 2), range(0, 4, 2), True), ([5], range(5, 6), True),
        ([5], range(5, 7, 3), True), ([0, 2, 4], range(0, 6, 2), True), ([(3, {}), 4], range(3, 5), True),
        ([0, 1, 3], range(3), False), ([1, 0], range(2), False), ([1, 0], [0, 1], False),
        ([0, {"low": 1}], [0, {"low": 2}], False), (range(2), range(3), False), (range(1, 3), range(2), False),
    ],
)  # fmt: skip
def test_the_same_prompts_have_one_digest(one, other, same):
    digests = [PromptQueue(gym.make("CartPole-v1"), each).prompts_digest for each in (one, other)]
    assert (digests[0] == digests[1]) is same
