"""Runs of any environment from a script: CartPole from the first update to the comparison, killed and gone on with."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import safetensors.torch
import torch
from rich.console import Console
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sera_maze import SERA, CoverageCallback, MaxRL, MazeVecEnv
from sera_maze.cli import main
from sera_maze.coverage import evaluate
from sera_maze.coverage.callback import read_history
from sera_maze.envs import MazeEnv, MazePool, PromptQueue
from sera_maze.runs import train_script
from sera_maze.runs.finished import read_groups, read_run
from sera_maze.runs.folder import open_run

ROOT = Path(__file__).parents[2]
# What a user would write; run by itself it trains into the folder that it is given, and goes on there.
SCRIPT = """
import sys
import gymnasium as gym
from sera_maze import SERA
from sera_maze.envs import PromptQueue
from sera_maze.runs import train_script

def cartpole(prompts):
    return PromptQueue(gym.make("CartPole-v1"), prompts, success=lambda episode: episode.steps >= 30)

def model():
    return SERA("MlpPolicy", cartpole(range(8)), prompts_per_batch=4, rollouts_per_prompt=4, seed=0, device="cpu")

train_script(sys.argv[1], model, cartpole(range(1000, 1005)), updates=int(sys.argv[2]), eval_every=2, num_samples=4)
"""


def cartpole(prompts):
    return PromptQueue(gym.make("CartPole-v1"), prompts, success=lambda episode: episode.steps >= 30)


def held_out():
    return cartpole(range(1000, 1005))


def make(kind=SERA, seed=0, **options):
    given = {"prompts_per_batch": 4, "rollouts_per_prompt": 4, "seed": seed, "device": "cpu", **options}
    return lambda: kind("MlpPolicy", **{"env": cartpole(range(8)), **given})


def vec_cartpole():
    return DummyVecEnv([lambda: cartpole(range(8))])


def normalised(**options):
    return lambda: make(env=VecNormalize(vec_cartpole()), **options)()


def run(folder, make_model, updates=4, **options):
    given = {"eval_every": 2, "num_samples": 4, "console": Console(quiet=True), **options}
    return train_script(folder, make_model, held_out(), updates=updates, **given)


def parameters(folder):
    (file,) = folder.glob("checkpoint/v*/tensors.safetensors")
    tensors = safetensors.torch.load_file(file)
    return {name: value for name, value in tensors.items() if not name.startswith("random/")}


def same(one, other):
    first, second = parameters(one), parameters(other)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def start(folder, updates):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), str(updates)], cwd=ROOT, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_the_callback_takes_held_out_prompts_of_any_environment():
    model = make()()
    callback = CoverageCallback(held_out(), eval_freq_updates=1, num_samples=8, ks=(1, 8))
    model.learn(10**6, callback, total_updates=2)
    assert [entry["update"] for entry in callback.history] == [0, 1, 2]
    expected = evaluate(model.policy, held_out(), num_samples=8, ks=(1, 8))
    assert callback.evaluation.successes.tolist() == expected.successes.tolist()
    assert 0 < expected.coverage.pass_at_k[0] < expected.coverage.pass_at_k[1] <= 1
    assert (expected.rules, expected.difficulty, expected.distinct_solutions, expected.probability) == (None,) * 4
    assert "5 prompts, 8 rollouts each (seed 0): " in expected.summary()
    assert "95 % interval over prompts" in expected.markdown()
    many = evaluate(model.policy, DummyVecEnv([held_out] * 3), num_samples=8, ks=(1, 8))
    assert many.successes.tolist() == expected.successes.tolist()


def test_a_run_leaves_its_files_and_compares_with_others(tmp_path, capsys):
    folders = [tmp_path / name for name in ("sera-0", "sera-1", "uniform-0", "uniform-1")]
    for folder, kind, seed in zip(folders, (SERA, SERA, MaxRL, MaxRL), (0, 1, 0, 1), strict=True):
        evaluation = run(folder, make(kind, seed), name="CartPole, 30 steps")
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "checkpoint", "tensorboard", "coverage.jsonl", "evaluation.json", "evaluation.md"} <= names
    assert "solved.png" not in names
    said = json.loads((folder / "evaluation.json").read_text())
    assert said["pass_at_k"] == evaluation.to_json()["pass_at_k"]
    assert (said["prompts"], said["size"], said["per_prompt"]["difficulty"]) == (5, None, None)
    config = json.loads((folder / "config.json").read_text())
    assert config["script"]["name"] == "CartPole, 30 steps"
    assert (config["script"]["algorithm"], config["method"]["allocator"], config["seed"]) == ("MaxRL", "uniform", 1)
    out = tmp_path / "comparison"
    assert main(["compare", *map(str, folders), "--out", str(out)]) == 0
    told = json.loads((out / "comparison.json").read_text())
    assert [group["seeds"] for group in told["groups"]] == [[0, 1], [0, 1]]
    assert [group["label"] for group in told["groups"]] == [
        "algorithm=SERA, allocator=sera", "algorithm=MaxRL, allocator=uniform",
    ]  # fmt: skip
    assert "5 held-out prompts, 4 rollouts each" in " ".join((out / "comparison.md").read_text().split())
    assert (out / "comparison.png").stat().st_size > 10_000
    assert SERA.load(folders[0] / "checkpoint").policy is not None
    with pytest.raises(ValueError, match="holds a run of a script"):
        open_run(folders[0])


def test_a_finished_run_can_be_made_longer(tmp_path):
    run(tmp_path / "whole", make(), updates=4)
    run(tmp_path / "parts", make(), updates=2)
    run(tmp_path / "parts", make(), updates=4)
    assert same(tmp_path / "whole", tmp_path / "parts")
    assert (tmp_path / "parts" / "config.json").read_text() == (tmp_path / "whole" / "config.json").read_text()
    with pytest.raises(ValueError, match="updates=2, but the run has done 4 already"):
        run(tmp_path / "parts", make(), updates=2)
    history = [read_history(tmp_path / name / "coverage.jsonl") for name in ("whole", "parts")]
    assert [entry["update"] for entry in history[0]] == [0, 2, 4]
    assert history[0] == history[1]


SHARED = cartpole(range(8))


def mazes(count=8):
    return MazeVecEnv(2, MazePool.generate(count, (7, 7)))


@pytest.mark.parametrize(
    ("error", "message", "changes"),
    [
        (TypeError, "prompts must be a MazePool, other prompts or", {"held_out": gym.make("CartPole-v1")}),
        (ValueError, "is not what the policy was made for", {"held_out": mazes()}),
        (ValueError, "must be stepped .*: pass env=", {"held_out": MazePool.generate(8, (7, 7))}),
        (TypeError, "make_model must be a function that returns a fresh model, got SERA", {"make_model": make()()}),
        (TypeError, "make_model must return a MaxRL or SERA, got PromptQueue", {"make_model": held_out}),
        (ValueError, "without environments", {"make_model": lambda: MaxRL("MlpPolicy", None, _init_setup_model=False)}),
        (ValueError, "normalise observations, and env does not", {"make_model": normalised()}),
        (TypeError, "learning_rate=<function .* cannot be written", {"make_model": make(learning_rate=lambda _: 0.1)}),
        (ValueError, "warm_start needs a MazePolicy on plain mazes, but each step asks the policy", {"warm_start": 3}),
        (ValueError, "updates=0 is out of range", {"updates": 0}),
        (ValueError, "env is the one trained in", {"make_model": make(env=SHARED), "held_out": SHARED}),
        (TypeError, r"callback must be one of SB3's, a list of them or a function", {"callback": BaseCallback}),
        (TypeError, r"callback must be one of SB3's.*got \[3\]", {"callback": [3]}),
    ],
)
def test_what_could_not_be_finished_is_refused_before_anything_is_written(tmp_path, error, message, changes):
    given = {"make_model": make(), "held_out": held_out(), "updates": 1, **changes}
    with pytest.raises(error, match=message):
        train_script(tmp_path / "new", **given)
    assert not (tmp_path / "new").exists()


class Stops(BaseCallback):
    """Ends the training."""

    def _on_step(self):
        return self.num_timesteps < 10


def test_a_callback_may_stop_it_and_it_goes_on(tmp_path):
    file = io.StringIO()
    run(tmp_path / "run", make(), callback=Stops(), console=Console(file=file))
    assert "a callback stopped the training after update 0 of 4" in file.getvalue()
    with pytest.raises(FileNotFoundError, match=r"not finished, .* update 0 of 4; finish it: run its script again"):
        read_run(tmp_path / "run")
    run(tmp_path / "run", make())
    assert read_run(tmp_path / "run").history[-1]["update"] == 4


class OwnPolicy(ActorCriticPolicy):
    """A policy without an alias."""


def test_a_policy_without_an_alias_goes_on(tmp_path):
    def model():
        return SERA(OwnPolicy, cartpole(range(8)), prompts_per_batch=4, rollouts_per_prompt=2, seed=0, device="cpu")

    run(tmp_path / "whole", model, updates=2, num_samples=1)
    run(tmp_path / "parts", model, updates=1, num_samples=1)
    run(tmp_path / "parts", model, updates=2, num_samples=1)
    assert same(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
def test_killed_it_goes_on_to_the_same_bits(tmp_path):
    whole = start(tmp_path / "whole", 8)
    _, problem = whole.communicate(timeout=300)
    assert whole.returncode == 0, problem
    process = start(tmp_path / "killed", 8)
    log, deadline = tmp_path / "killed" / "coverage.jsonl", time.monotonic() + 200
    while (not log.exists() or len(log.read_text().splitlines()) < 3) and time.monotonic() < deadline:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    again = start(tmp_path / "killed", 8)
    _, problem = again.communicate(timeout=300)
    assert again.returncode == 0, problem
    assert same(tmp_path / "whole", tmp_path / "killed")
    assert log.read_text() == (tmp_path / "whole" / "coverage.jsonl").read_text()


def test_other_arguments_are_refused(tmp_path):
    run(tmp_path / "run", make())
    for other, words in (
        (make(rollouts_per_prompt=8), "holds a run with rollouts_per_prompt=4, and the script says 8"),
        (make(seed=3), "holds a run with seed=0, and the script says 3"),
        (make(MaxRL), "holds a run with algorithm='SERA', and the script says 'MaxRL'"),
        (
            make(policy_kwargs={"net_arch": [8]}),
            r"with policy_kwargs='\{\}', and the script says '.*net_arch",
        ),
        (
            make(learning_rate=LinearSchedule(1e-3, 0.0, 1.0)),
            "with schedule='', and the script says '.*Linear",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            run(tmp_path / "run", other)
    (tmp_path / "mazes").mkdir()
    assert main(["train", "--preset", "quick", "--warm-start", "0", "--updates", "1", "--num-samples", "8",
                 "--num-mazes", "64", "--held-out-mazes", "8", "--out", str(tmp_path / "mazes")]) == 0  # fmt: skip
    with pytest.raises(ValueError, match="is that of a run of 'sera-maze train', not of a script"):
        run(tmp_path / "mazes", make())
    for folders, words in (
        (("mazes", "run"), "are runs of 'sera-maze train' and of a script"),
        (("run", "mazes"), "are runs of a script and of 'sera-maze train'"),
    ):
        with pytest.raises(ValueError, match=words):
            read_groups([tmp_path / folder for folder in folders])


def test_mazes_are_judged_by_the_rules_of_the_training(tmp_path):
    """In the curve and in the final table alike."""
    training, judged = MazePool.generate(12, 7).split(4)
    seen = []

    def model():
        env = MazeEnv(training, on_wall="stay", max_steps=200)
        return SERA("MazePolicy", env, prompts_per_batch=4, rollouts_per_prompt=4, seed=0, device="cpu")

    evaluation = train_script(
        tmp_path, model, judged, updates=2, eval_every=1, num_samples=64, warm_start=150, console=Console(quiet=True),
        callback=lambda values, _: seen.append(values) is None,
    )  # fmt: skip
    table = json.loads((tmp_path / "evaluation.json").read_text())
    assert (table["on_wall"], table["horizon"]) == ("stay", 200)
    last = read_history(tmp_path / "coverage.jsonl")[-1]
    assert last["coverage/pass@1"] == pytest.approx(evaluation.table()[0].sampled)
    assert seen  # a function does for a callback, as in learn


def pool_run(folder, **rules):
    training, judged = MazePool.generate(12, 7).split(4)
    env = {"on_wall": "stay", "max_steps": 30, **rules}

    def model():
        return SERA(
            "MazePolicy", MazeEnv(training, **env), prompts_per_batch=4, rollouts_per_prompt=4, seed=0, device="cpu"
        )

    return train_script(folder, model, judged, updates=1, eval_every=1, num_samples=4, console=Console(quiet=True))


def test_other_environments_of_the_same_prompts_are_refused(tmp_path):
    pool_run(tmp_path / "stay")
    with pytest.raises(
        ValueError, match=r"holds a run with environment=\"rules .*on_wall='stay'.* and the script says"
    ):
        pool_run(tmp_path / "stay", on_wall="fail")
    pool_run(tmp_path / "fail", on_wall="fail")
    with pytest.raises(ValueError, match=r"have different environments"):
        read_groups([tmp_path / "stay", tmp_path / "fail"])
    run(tmp_path / "one", make())
    acrobot = PromptQueue(gym.make("Acrobot-v1"), range(8), success=lambda episode: episode.terminated)
    others = PromptQueue(gym.make("Acrobot-v1"), range(1000, 1005), success=lambda episode: episode.terminated)
    options = {"updates": 1, "eval_every": 2, "num_samples": 4, "console": Console(quiet=True)}
    train_script(tmp_path / "two", make(seed=1, env=acrobot), others, **options)
    with pytest.raises(ValueError, match=r"have different environments .*CartPole-v1.*Acrobot-v1"):
        read_groups([tmp_path / "one", tmp_path / "two"])
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    del config["script"]["environment"], config["script"]["held_out_environment"]
    (tmp_path / "one" / "config.json").write_text(json.dumps(config))
    run(tmp_path / "one", make(), updates=5)  # of a version that did not write them


def test_a_drawn_seed_goes_on(tmp_path):
    run(tmp_path, make(seed=None))
    seed = json.loads((tmp_path / "config.json").read_text())["seed"]
    assert run(tmp_path, make(seed=None), updates=6) is not None
    assert json.loads((tmp_path / "config.json").read_text())["seed"] == seed
    assert SERA.load(tmp_path / "checkpoint").seed == seed


def test_a_checkpoint_without_a_config_is_not_written_over(tmp_path):
    run(tmp_path, make())
    (tmp_path / "config.json").unlink()
    with pytest.raises(ValueError, match=r"holds a checkpoint, but .* no config.json"):
        run(tmp_path, make(seed=5), updates=1)
    assert SERA.load(tmp_path / "checkpoint").updates == 4


def test_images_are_judged_as_they_are_seen_in_training(tmp_path):
    def images(prompts):
        return PromptQueue(Images(), prompts)

    def model():
        return SERA("CnnPolicy", images(range(4)), prompts_per_batch=4, rollouts_per_prompt=2, seed=0, device="cpu")

    found = train_script(
        tmp_path, model, images(range(4, 6)), updates=1, eval_every=1, num_samples=2, console=Console(quiet=True)
    )
    assert found.successes.shape == (2,)


class Images(gym.Env):
    """Images with their channels last, which Stable-Baselines3 turns round."""

    observation_space = gym.spaces.Box(0, 255, (36, 36, 3), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.low.copy(), {}

    def step(self, action):
        return self.observation_space.low.copy(), 1.0, True, False, {"is_success": bool(action)}


def test_evaluations_of_prompts_that_leave_something_open_repeat_too():
    """Options alone leave the environment's generator running; an evaluation seeds it."""

    def starts():
        prompts = [{"low": -0.2, "high": 0.2}] * 4
        return PromptQueue(gym.make("CartPole-v1"), prompts, success=lambda episode: episode.steps >= 20)

    policy = make()().policy
    found = [evaluate(policy, starts(), num_samples=16, ks=(1,)).successes.tolist() for _ in range(2)]
    assert found[0] == found[1]
    assert len(set(found[0])) > 1


def test_a_run_in_vec_normalize_goes_on_bit_for_bit(tmp_path):
    given = {"held_out": VecNormalize(DummyVecEnv([held_out])), "eval_every": 2, "num_samples": 4}
    given["console"] = Console(quiet=True)
    whole = train_script(tmp_path / "whole", normalised(), updates=5, **given)
    train_script(tmp_path / "parts", normalised(), updates=2, **given)
    second = train_script(tmp_path / "parts", normalised(), updates=5, **given)
    assert second.successes.tolist() == whole.successes.tolist()
    assert same(tmp_path / "whole", tmp_path / "parts")
    names = parameters(tmp_path / "whole").keys()
    assert {"normalization/observations/mean", "normalization/returns/count"} <= names
