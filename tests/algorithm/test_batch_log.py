"""What a batch tells the logger and the progress bar."""

import csv

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from helpers import Watch, small_model
from sera_maze.algorithm import resumable
from sera_maze.algorithm.batch_log import LearnBar
from sera_maze.algorithm.maxrl import SERA, MaxRL
from sera_maze.envs import MazeEnv, MazePool, PromptQueue
from sera_maze.exact.probability import success_probability
from sera_maze.sampling.vec_env import MazeVecEnv

POOL = MazePool.generate(9, 5, "prim", seed=1, endpoints="random")


def maze_env():
    return MazeEnv(POOL, on_wall="stay", max_steps=12)


def make(algorithm=MaxRL, env=None, policy="MazePolicy", **options):
    return small_model(algorithm, maze_env() if env is None else env, policy, **options)


def logged(path):
    with (path / "progress.csv").open() as file:
        return list(csv.DictReader(file))


class Paid(gym.Wrapper):
    """CartPole with a reward of 2 for each step."""

    def step(self, action):
        observation, _, terminated, truncated, info = self.env.step(action)
        return observation, 2.0, terminated, truncated, info


def cart_pole():
    return PromptQueue(Paid(gym.make("CartPole-v1", max_episode_steps=40)), range(6), lambda e: e.steps >= 20)


@pytest.mark.parametrize("kind", ["plain", "monitor", "normalised"])
def test_mean_reward_is_that_of_the_returns_a_prompt(kind, tmp_path):
    """Twice the steps, in each group first, so that it does not depend on the allocation; not the success rate."""
    env = {
        "plain": lambda: DummyVecEnv([cart_pole] * 2),
        "monitor": lambda: Monitor(cart_pole()),
        "normalised": lambda: VecNormalize(DummyVecEnv([lambda: Monitor(cart_pole())] * 2), norm_obs=False),
    }[kind]()
    model = make(SERA, env, "MlpPolicy", activation_threshold=None)
    watch = Watch()
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(10**9, watch, total_updates=6)
    model.logger.close()
    rows = logged(tmp_path)
    assert len(rows) == 6
    uneven = 0
    for row, rollouts in zip(rows, watch.rollouts, strict=True):
        lengths, owner = rollouts.lengths.numpy(), rollouts.owner.numpy()
        a_prompt = [lengths[owner == prompt].mean() for prompt in np.unique(owner)]
        assert float(row["rollout/ep_len_mean"]) == pytest.approx(np.mean(a_prompt))
        assert float(row["rollout/ep_rew_mean"]) == pytest.approx(2 * np.mean(a_prompt), rel=1e-6)
        assert float(row["rollout/success_rate"]) <= 1
        uneven += np.mean(a_prompt) != pytest.approx(lengths.mean())
    assert uneven


@pytest.mark.parametrize("sampler", ["map", "step"])
def test_mean_reward_of_mazes_is_the_success_rate(sampler, tmp_path):
    model = make(sampler=sampler)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(10**9, total_updates=3)
    model.logger.close()
    rates = [float(row["rollout/success_rate"]) for row in logged(tmp_path)]
    assert [float(row["rollout/ep_rew_mean"]) for row in logged(tmp_path)] == pytest.approx(rates)
    assert max(rates) > 0


@pytest.mark.parametrize(
    ("interval", "wanted"), [(1, [1, 2, 3, 4, 5, 6, 7, 8]), (3, [3, 6, 8]), (20, [8]), (4, [4, 8])]
)
def test_the_last_updates_are_logged_too(interval, wanted, tmp_path):
    model = make()
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(10**9, total_updates=8, log_interval=interval)
    model.logger.close()
    rows = logged(tmp_path)
    assert [int(row["time/iterations"]) for row in rows] == wanted
    assert [int(row["train/n_updates"]) for row in rows] == wanted
    assert int(rows[-1]["time/total_timesteps"]) == model.num_timesteps


def test_a_training_without_batches_logs_nothing(tmp_path):
    model = make()
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(10**9, total_updates=0, log_interval=3)
    model.logger.close()
    assert (tmp_path / "progress.csv").read_text() == ""


def test_exact_attenuation_of_the_uniform_allocation_is_logged(tmp_path):
    """1 - (1 - p)^(N - 1) with N = 4 for each of the three prompts."""
    model = make(MaxRL, success="exact", policy_kwargs={"channels": 4, "iterations": 4, "vary_iterations": False})
    probability = success_probability(model.policy, POOL, 12, "stay").detach()
    watch = Watch()
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(10**9, watch, total_updates=1)
    model.logger.close()
    attenuation = 1 - (1 - probability[watch.rollouts[0].prompts]) ** 3
    (row,) = logged(tmp_path)
    assert float(row["allocation/attenuation_min"]) == pytest.approx(attenuation.min().item(), rel=1e-6)
    assert float(row["allocation/attenuation_mean"]) == pytest.approx(attenuation.mean().item(), rel=1e-6)
    for name in ("min", "mean"):  # each prompt has N0 rollouts already
        before, after = (float(row[f"allocation/{kind}attenuation_{name}"]) for kind in ("uniform_", ""))
        assert before == pytest.approx(after)
    assert "allocation/waterline" not in row


def test_attenuation_with_the_same_count_for_all_is_logged_beside_that_of_the_waterline(tmp_path):
    """p = 1/2 with 4 rollouts: 1 - (1/2)^3; of prompts without rollouts neither tells."""
    model, watch = make(SERA, success="exact", activation_threshold=0.9), Watch()
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(10**9, watch, total_updates=1)
    model.logger.close()
    allocation, probability = watch.locals["allocation"], watch.locals["probability"]
    assert not allocation.active.all()
    before = 1 - (1 - probability[allocation.active]) ** 3
    after = 1 - (1 - probability[allocation.active]) ** (allocation.counts[allocation.active] - 1)
    (row,) = logged(tmp_path)
    assert float(row["allocation/uniform_attenuation_min"]) == pytest.approx(before.min().item(), rel=1e-6)
    assert float(row["allocation/uniform_attenuation_mean"]) == pytest.approx(before.mean().item(), rel=1e-6)
    assert float(row["allocation/attenuation_min"]) == pytest.approx(after.min().item(), rel=1e-6)
    assert after.min() > before.min()


def test_before_anything_is_known_no_attenuation_is_logged(tmp_path):
    model = make(SERA)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(10**9, total_updates=1)
    model.logger.close()
    assert not any("attenuation" in key for key in logged(tmp_path)[0])


@pytest.mark.filterwarnings("ignore::tqdm.TqdmExperimentalWarning")
@pytest.mark.parametrize(
    ("env", "sampler"),
    [
        (maze_env, "map"), (maze_env, "step"), (lambda: MazeVecEnv(5, POOL, on_wall="stay", max_steps=12), "step"),
        (lambda: MazeVecEnv(20, POOL, on_wall="stay", max_steps=12), "map"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("callback", [None, "one", "list", "function"])
def test_the_progress_bar_counts_every_step(env, sampler, callback, monkeypatch):
    bars, calls = [], []

    class Kept(LearnBar):
        def _on_training_start(self):
            super()._on_training_start()
            bars.append(self.pbar)

    monkeypatch.setattr(resumable, "LearnBar", Kept)
    given = {
        None: None, "one": Watch(), "list": [Watch(), Watch()], "function": lambda *values: calls.append(1) or True
    }[callback]  # fmt: skip
    model = make(env=env(), sampler=sampler)
    model.learn(150, given, progress_bar=True)
    first = model.num_timesteps
    assert first >= 150
    assert (bars[0].total, bars[0].n) == (150, first)
    model.learn(100, given, progress_bar=True, reset_num_timesteps=False)
    assert (bars[1].total, bars[1].n) == (first + 100, model.num_timesteps)
    assert model.num_timesteps >= first + 100
    if callback == "function":
        assert len(calls) > 10
    plain = make(env=env(), sampler=sampler).learn(150)
    plain.learn(100, reset_num_timesteps=False)
    assert torch.equal(*(next(each.policy.parameters()) for each in (model, plain)))


def test_the_progress_bar_counts_updates_where_they_end_the_training(capsys):
    """As text, which a notebook shows without widgets: SB3's bar is empty there."""
    model = make()
    model.learn(10**9, total_updates=2)
    model.learn(10**9, total_updates=5, reset_num_timesteps=False, progress_bar=True)
    shown = capsys.readouterr().err.split("\r")
    assert "2/5" in shown[1]
    assert "learn: 100%" in shown[-1]
    assert "5/5" in shown[-1]
