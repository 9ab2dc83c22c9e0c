"""`CoverageCallback`: the right policy at the right step, in every output, and a training that does not notice."""

import json
import math
import random

import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.logger import KVWriter, Logger, configure

from sera_maze.algorithm.maxrl import SERA, MaxRL
from sera_maze.coverage.callback import CoverageCallback, coverage_figures, coverage_intervals, read_history
from sera_maze.coverage.evaluation import evaluate
from sera_maze.envs import MazeEnv, MazePool
from sera_maze.envs.play.rules import MazeRules
from sera_maze.exact.probability import exact_pass_at_k
from sera_maze.policies.maze import MazePolicy
from sera_maze.sampling.vec_env import MazeVecEnv

HELD_OUT = MazePool.generate(6, 5, seed=7, endpoints="random")
POOL = MazePool.generate(12, 5, seed=8, endpoints="random")
STAY = MazeRules((5, 5), on_wall="stay", max_steps=12)
OPTIONS = {"num_samples": 16, "ks": (1, 4, 16)}
SMALL = {"channels": 4, "iterations": 10}
LARGEST = {"pass@4294967296", "exact_pass@4294967296", "solved_fraction", "distinct_solutions", "mean_steps"}


def make_env():
    return MazeVecEnv(4, POOL, on_wall="stay", max_steps=12)


def make_model(kind=MaxRL, seed=0):
    if kind in (MaxRL, SERA):
        options = {"prompts_per_batch": 4, "rollouts_per_prompt": 4}
        return kind("MazePolicy", make_env(), seed=seed, device="cpu", policy_kwargs=SMALL, **options)
    options = {"batch_size": 16} if kind is PPO else {}
    return kind(MazePolicy, make_env(), n_steps=8, seed=seed, device="cpu", policy_kwargs=SMALL, **options)


def make_stock_model(env=None):
    return PPO("MlpPolicy", env or make_env(), n_steps=8, batch_size=16, seed=0, device="cpu")


class Memory(KVWriter):
    """Keeps what is logged."""

    def __init__(self):
        self.rows = []

    def write(self, key_values, key_excluded, step=0):
        self.rows.append((step, dict(key_values)))

    def close(self):
        pass

    def coverage_rows(self):
        return [(step, row) for step, row in self.rows if "coverage/pass@1" in row]


class Snapshots(BaseCallback):
    """Keeps a copy of the parameters, and the step, where each batch begins and the training ends; may stop it."""

    def __init__(self, most_batches=10**9):
        super().__init__()
        self.most_batches, self.batches = most_batches, 0
        self.steps, self.parameters = [], []

    def keep(self):
        self.steps.append(self.model.num_timesteps)
        self.parameters.append({name: value.clone() for name, value in self.model.policy.state_dict().items()})

    def _on_rollout_start(self):
        self.keep()

    def _on_training_end(self):
        self.keep()

    def _on_rollout_end(self):
        self.batches += 1

    def _on_step(self):
        return self.batches < self.most_batches


def train(model, callback, batches):
    """Learn for a number of batches, with a logger that keeps everything; return it and the snapshots.

    A callback can only stop a batch that has begun, so one more begins and is dropped.
    """
    memory, snapshots = Memory(), Snapshots(batches)
    model.set_logger(Logger(None, [memory]))
    callbacks = [snapshots] if callback is None else [snapshots, callback]
    model.learn(10**6, CallbackList(callbacks), log_interval=3)
    return memory, snapshots


@pytest.mark.parametrize("kind", [MaxRL, SERA, PPO, A2C])
def test_each_evaluation_is_of_the_policy_at_its_step(kind):
    model = make_model(kind)
    callback = CoverageCallback(HELD_OUT, eval_freq_updates=2, **OPTIONS)
    memory, snapshots = train(model, callback, batches=5)
    rows = memory.coverage_rows()
    assert [entry["update"] for entry in callback.history] == [0, 2, 4, 5]
    assert [step for step, _ in rows] == [entry["timesteps"] for entry in callback.history]
    wanted = snapshots.steps[:5:2]
    assert [step for step, _ in rows][:3] == wanted
    fresh = make_model(kind, seed=1)
    for place, (_, row) in zip([0, 2, 4, -1], rows, strict=True):
        fresh.policy.load_state_dict(snapshots.parameters[place])
        evaluation = evaluate(fresh.policy, HELD_OUT, rules=STAY, **OPTIONS)
        assert {key: value for key, value in row.items() if key != "time/total_timesteps"} == coverage_figures(
            evaluation
        )
    for entry, (step, row) in zip(callback.history, rows, strict=True):
        assert row["time/total_timesteps"] == step
        assert row.items() <= {**entry, "time/total_timesteps": step}.items()
    keys = rows[0][1].keys()
    assert {f"coverage/{name}" for name in ("pass@1", "pass@16", "exact_pass@4", "solved_fraction")} <= keys
    assert {"coverage/distinct_solutions", "coverage/mean_steps"} <= keys
    assert max(len(f"coverage/{name}") for name in LARGEST) < 36
    assert callback.evaluation.rules == STAY
    if isinstance(model, MaxRL):
        assert [entry["rollouts"] for entry in callback.history] == [0, 32, 64, 80]


@pytest.mark.parametrize("kind", [SERA, PPO, A2C])
def test_the_training_does_not_notice(kind):
    outcomes = []
    for callback in (None, CoverageCallback(HELD_OUT, eval_freq_updates=1, **OPTIONS)):
        model = make_model(kind)
        memory, snapshots = train(model, callback, batches=4)
        others = [
            (step, {key: value for key, value in row.items() if not key.startswith("time/")})
            for step, row in memory.rows
            if "coverage/pass@1" not in row
        ]
        state = torch.get_rng_state(), str(np.random.get_state()), random.getstate()  # noqa: NPY002
        outcomes.append((snapshots, others, state))
    (plain, rows, state), (watched, watched_rows, watched_state) = outcomes
    assert plain.steps == watched.steps
    for one, other in zip(plain.parameters, watched.parameters, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
    # With log_interval=3 there are records that wait over several evaluations, and they are neither lost nor early.
    assert str(rows) == str(watched_rows)
    assert rows
    assert torch.equal(state[0], watched_state[0])
    assert state[1:] == watched_state[1:]


def test_the_mode_of_the_policy_is_put_back():
    model = make_model()
    callback = CoverageCallback(HELD_OUT, **OPTIONS)
    for training in (True, False):
        model.policy.set_training_mode(training)
        model._setup_learn(1, None)
        callback.init_callback(model)
        callback.on_training_start({}, {})
        assert model.policy.training is training


def test_other_policies_are_stepped():
    env = MazeVecEnv(3, HELD_OUT, on_wall="stay", max_steps=12)
    callback = CoverageCallback(HELD_OUT, eval_freq_updates=2, env=env, **OPTIONS)
    model = make_stock_model()
    memory, _ = train(model, callback, batches=2)
    rows = memory.coverage_rows()
    assert [entry["update"] for entry in callback.history] == [0, 2]
    assert not any("exact" in key for _, row in rows for key in row)
    expected = evaluate(model.policy, HELD_OUT, env=env, **OPTIONS)
    assert rows[-1][1]["coverage/pass@4"] == expected.table()[1].sampled
    assert callback.evaluation.rules == STAY


@pytest.mark.parametrize(
    ("error", "message", "env"),
    [
        (ValueError, r"this policy must be stepped .*: pass env=", None),
        (ValueError, "env is the one trained in", "training"),
    ],
)
def test_environments_that_are_missing_or_trained_in_are_refused_at_the_start(error, message, env):
    training = make_env()
    callback = CoverageCallback(POOL, env=training if env == "training" else env, **OPTIONS)
    with pytest.raises(error, match=message):
        make_stock_model(training).learn(8, callback)


def test_an_environment_that_is_trained_in_is_refused_inside_another_vec_env_too():
    env = MazeEnv(HELD_OUT)
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=8, device="cpu")
    with pytest.raises(ValueError, match="env is the one trained in"):
        model.learn(8, CoverageCallback(HELD_OUT, env=env, **OPTIONS))


@pytest.mark.parametrize(
    ("error", "message", "changes"),
    [
        (TypeError, "prompts must be a MazePool, other prompts or promptable environments, got list", {"prompts": []}),
        (ValueError, "eval_freq_updates=0", {"eval_freq_updates": 0}),
        (ValueError, "num_samples=0", {"num_samples": 0}),
        (ValueError, r"ks\[1\]=256", {"num_samples": 128, "ks": (1, 256)}),
        (TypeError, "env must be a VecEnv or a gymnasium.Env, got list", {"env": []}),
    ],
)
def test_wrong_arguments(error, message, changes):
    with pytest.raises(error, match=message):
        CoverageCallback(**{"prompts": HELD_OUT, **changes})


def test_exact_figures_can_be_left_out_and_rules_given():
    rules = MazeRules((5, 5))
    callback = CoverageCallback(HELD_OUT, exact=False, rules=rules, seed=3, **OPTIONS)
    model = make_model()
    train(model, callback, batches=1)
    assert not any("exact" in key for key in callback.history[-1])
    expected = evaluate(model.policy, HELD_OUT, rules=rules, seed=3, **OPTIONS)
    assert callback.history[-1]["coverage/pass@4"] == expected.table()[1].sampled


def test_larger_mazes_get_their_own_horizon():
    callback = CoverageCallback(MazePool.generate(3, 9), **OPTIONS)
    train(make_model(), callback, batches=1)
    assert callback.evaluation.rules == MazeRules((9, 9), on_wall="stay")


def test_the_files_of_the_logger(tmp_path):
    model = make_model()
    model.set_logger(configure(str(tmp_path), ["csv", "json", "log"]))
    callback = CoverageCallback(HELD_OUT, eval_freq_updates=1, verbose=1, **OPTIONS)
    model.learn(150, callback, log_interval=1)
    model.logger.close()
    rows = [json.loads(line) for line in (tmp_path / "progress.json").read_text().splitlines()]
    rows = [row for row in rows if "coverage/pass@1" in row]
    assert [row["time/total_timesteps"] for row in rows] == [entry["timesteps"] for entry in callback.history]
    assert [row["coverage/exact_pass@16"] for row in rows] == [x["coverage/exact_pass@16"] for x in callback.history]
    # A header, a line for each evaluation and one for each batch, of which there is one less.
    assert (tmp_path / "progress.csv").read_text().count("\n") == 1 + len(rows) + len(rows) - 1
    text = (tmp_path / "log.txt").read_text()
    assert f"after 0 updates on 6 held-out mazes: pass@1 {100 * rows[0]['coverage/pass@1']:.2f} %, pass@4" in text


def test_a_training_that_goes_on_has_the_history_of_one_that_was_never_stopped(tmp_path):
    whole_file, parts_file = tmp_path / "whole.jsonl", tmp_path / "new" / "parts.jsonl"
    whole = CoverageCallback(HELD_OUT, eval_freq_updates=2, log_path=whole_file, **OPTIONS)
    make_model().learn(500, whole)
    assert read_history(whole_file) == whole.history
    assert [entry["update"] for entry in whole.history[:3]] == [0, 2, 4]

    # Stopped after two batches; the file also has an evaluation of what came after that and is lost.
    model = make_model()
    first = CoverageCallback(HELD_OUT, eval_freq_updates=2, log_path=parts_file, **OPTIONS)
    model.learn(whole.history[1]["timesteps"], first)
    assert parts_file.read_text() == "".join(whole_file.read_text().splitlines(keepends=True)[:2])
    lost = {**first.history[-1], "update": 3, "timesteps": first.history[-1]["timesteps"] + 1}
    parts_file.write_text(parts_file.read_text() + json.dumps(lost) + "\n")
    memory = Memory()
    model.set_logger(Logger(None, [memory]))
    second = CoverageCallback(HELD_OUT, eval_freq_updates=2, log_path=parts_file, **OPTIONS)
    model.learn(500 - model.num_timesteps, second, reset_num_timesteps=False)
    assert second.history == whole.history
    assert parts_file.read_text() == whole_file.read_text()
    # The evaluation at the very step of the stop was logged then; a second one would stand in the log twice.
    assert [step for step, _ in memory.coverage_rows()] == [entry["timesteps"] for entry in whole.history[2:]]


def test_one_callback_over_several_trainings():
    model = make_model()
    callback = CoverageCallback(HELD_OUT, eval_freq_updates=2, **OPTIONS)
    train(model, callback, batches=2)
    assert [entry["update"] for entry in callback.history] == [0, 2]
    memory = Memory()
    model.set_logger(Logger(None, [memory]))
    model.learn(10**6, CallbackList([Snapshots(2), callback]), reset_num_timesteps=False)
    # What was evaluated at the end is not evaluated again at the beginning.
    assert [entry["update"] for entry in callback.history] == [0, 2, 4]
    assert len(memory.coverage_rows()) == 1
    # A training that counts from 0 again begins the history anew.
    train(model, callback, batches=1)
    assert [(entry["update"], entry["timesteps"] == 0) for entry in callback.history] == [(4, True), (5, False)]


def test_a_spoilt_history_file_is_named(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text('{"update": 0, "timesteps": 0}\n{"upd')
    with pytest.raises(ValueError, match="line 2 is not JSON"):
        read_history(path)
    path.write_text('{"other": 1}\n')
    with pytest.raises(ValueError, match="line 1 is no entry of a CoverageCallback"):
        read_history(path)


@pytest.mark.parametrize("mazes", [3, 1])
def test_a_training_records_intervals_and_does_not_log_them(tmp_path, mazes):
    pool = MazePool.generate(8, 5, seed=8, endpoints="random")
    held_out = MazePool.generate(mazes, 5, seed=7, endpoints="random")
    model = MaxRL(
        "MazePolicy", MazeEnv(pool), prompts_per_batch=4, rollouts_per_prompt=4, seed=0, device="cpu",
        policy_kwargs={"channels": 4, "iterations": 10}, tensorboard_log=None,
    )  # fmt: skip
    callback = CoverageCallback(held_out, num_samples=8, ks=(1, 8), log_path=tmp_path / "log.jsonl")
    model.learn(20, callback)
    evaluation = callback.evaluation
    recorded = callback.history[-1]["interval"]
    assert recorded == coverage_intervals(evaluation)
    assert read_history(tmp_path / "log.jsonl") == callback.history
    assert "NaN" not in (tmp_path / "log.jsonl").read_text()
    if mazes == 1:
        assert recorded == {}
        return
    assert list(recorded) == ["pass@1", "pass@8", "exact_pass@1", "exact_pass@8"]
    assert recorded["pass@8"] == [evaluation.coverage.low[1], evaluation.coverage.high[1]]
    chances = exact_pass_at_k(evaluation.probability, 8)
    margin = 1.959964 * chances.std(ddof=1) / math.sqrt(3)
    ends = np.clip([chances.mean() - margin, chances.mean() + margin], 0, 1)
    assert recorded["exact_pass@8"] == pytest.approx(ends)
    assert not any("interval" in key for key in model.logger.name_to_value)
