"""Training that is stopped and gone on with ends bit for bit where training without a stop ends."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import DummyVecEnv

from sera_maze.algorithm.maxrl import SERA
from sera_maze.envs import MazeEnv, MazePool, PromptQueue
from sera_maze.sampling.vec_env import MazeVecEnv
from sera_maze.storage.files import POINTER

ROOT = Path(__file__).parents[2]
UPDATES = 9  # three epochs of three batches


class DropoutPolicy(ActorCriticPolicy):
    """A policy whose updates use torch's own random numbers."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.mlp_extractor.policy_net.append(torch.nn.Dropout(0.2))


def cart_poles():
    def one():
        return PromptQueue(gym.make("CartPole-v1"), range(10), lambda episode: episode.steps >= 20)

    return DummyVecEnv([one] * 3)


def mazes(kind, **options):
    return kind(pool=MazePool.generate(10, 7, braid=1.0, endpoints="random"), on_wall="stay", max_steps=30, **options)


def model(name):
    """A small model for each way to train; it has ten prompts, so epochs of batches of 4, 4 and 2."""
    options = {"prompts_per_batch": 4, "rollouts_per_prompt": 5, "warmup_updates": 3, "seed": 5}
    options["learning_rate"] = LinearSchedule(3e-3, 1e-3, 1.0)
    if name == "map":
        return SERA("MazePolicy", mazes(MazeEnv), policy_kwargs={"channels": 8}, **options)
    if name in ("critic", "critic_history"):
        return SERA("MazePolicy", mazes(MazeEnv), success=name, policy_kwargs={"channels": 8}, **options)
    if name == "vector":
        options["policy_kwargs"] = {"net_arch": [16], "activation_fn": torch.nn.ReLU}
        return SERA("MlpPolicy", mazes(MazeVecEnv, num_envs=8), n_epochs=2, ent_coef=0.01, **options)
    return SERA(DropoutPolicy if name == "dropout" else "MlpPolicy", cart_poles(), **options)


def load(name, folder):
    """As `model`, but from a checkpoint; plain mazes come from it too."""
    env = cart_poles() if name in ("step", "dropout") else None
    return SERA.load(folder, env, **({"policy": DropoutPolicy} if name == "dropout" else {}))


class Until(BaseCallback):
    """Stop within the batch after so many updates."""

    def __init__(self, updates):
        super().__init__()
        self.updates = updates

    def _on_step(self):
        return self.model._n_updates < self.updates


class SaveAt(BaseCallback):
    """Save once in the batch after so many updates, when a callback is called."""

    def __init__(self, updates, moment, folder):
        super().__init__()
        self.updates, self.moment, self.folder = updates, moment, folder

    def save(self, moment):
        if self.model._n_updates == self.updates and moment == self.moment and not self.folder.exists():
            self.model.save_checkpoint(self.folder)
        return True

    def _on_step(self):
        return self.save("step")

    def _on_rollout_start(self):
        self.save("start")

    def _on_rollout_end(self):
        self.save("end")


STEPS = 10**6  # the schedule's; the updates end a run before


def train(trained, updates=UPDATES, steps=STEPS):
    trained.learn(steps - trained.num_timesteps, Until(updates), reset_num_timesteps=trained._n_updates == 0)
    return trained


def state(trained):
    """Everything that must be the same, as plain values and tensors; a batch that was stopped does not count."""
    with trained.between_batches():
        counters = {
            name: getattr(trained, name)
            for name in ("num_timesteps", "_n_updates", "total_rollouts", "_episode_num", "_total_timesteps", "seed")
        }
        return {
            "counters": counters,
            "order": trained.prompt_order.state_dict(),
            "success": trained.success_estimator.state_dict(),
            "policy": trained.policy.state_dict(),
            "optimizer": trained.policy.optimizer.state_dict(),
        }


def assert_equal(one, other, place="state"):
    assert type(one) is type(other), place
    if isinstance(one, dict):
        assert one.keys() == other.keys(), place
        for key in one:
            assert_equal(one[key], other[key], f"{place}[{key!r}]")
    elif isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype, place
        assert torch.equal(one, other), place
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), place
        for i, (left, right) in enumerate(zip(one, other, strict=True)):
            assert_equal(left, right, f"{place}[{i}]")
    else:
        assert one == other, place


@pytest.fixture(autouse=True)
def one_thread():
    """How sums are shared out over threads changes their last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def run(*arguments, **options):
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, **options)


# Within the first epoch, at its end, within the last.
CASES = [
    ("map", 2),
    ("map", 3),
    ("map", 7),
    ("critic", 7),
    ("critic_history", 7),
    ("vector", 2),
    ("step", 3),
    ("step", 7),
    ("dropout", 7),
]


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    """Folder of all cases: trained k updates here, gone on with in another process."""
    folder = tmp_path_factory.mktemp("cases")
    torch.set_num_threads(1)
    for name, k in CASES:
        stopped = train(model(name), k)
        assert stopped._n_updates == k
        stopped.save_checkpoint(folder / f"{name}-{k}")
    assert run("resume", folder).wait() == 0
    return folder


class Gradients(BaseCallback):
    """Note which updates changed the parameters."""

    def __init__(self):
        super().__init__()
        self.changed, self.before = [], None

    def _on_step(self):
        return True

    def _on_rollout_start(self):
        present = [parameter.clone() for parameter in self.model.policy.parameters()]
        if self.before is not None:
            self.changed.append(not all(torch.equal(*pair) for pair in zip(self.before, present, strict=True)))
        self.before = present


@pytest.fixture(scope="module")
def uninterrupted():
    torch.set_num_threads(1)
    states = {}
    for name in {name for name, _ in CASES}:
        trained, gradients = model(name), Gradients()
        trained.learn(STEPS, [gradients, Until(UPDATES)])
        # Where nothing is learnt everything ends at the same bits.
        assert len(gradients.changed) == UPDATES
        assert sum(gradients.changed) >= UPDATES - 2
        assert all(gradients.changed[-2:])
        states[name] = state(trained)
        assert states[name]["order"] == {"epoch": 3, "position": 0}
    return states


@pytest.mark.parametrize(("name", "k"), CASES)
def test_going_on_in_another_process_ends_at_the_same_bits(resumed, uninterrupted, name, k):
    assert_equal(torch.load(resumed / f"{name}-{k}.final"), uninterrupted[name])


def test_what_was_saved_is_what_there_was(tmp_path):
    stopped = train(model("map"), 5)
    stopped.save_checkpoint(tmp_path / "agent")
    loaded = load("map", tmp_path / "agent")
    assert_equal(state(loaded), state(stopped))
    assert loaded._current_progress_remaining == stopped._current_progress_remaining < 1
    assert loaded.prompt_order.state_dict() == {"epoch": 1, "position": 8}


def test_other_seeds_end_elsewhere(uninterrupted):
    """That the comparison can fail."""
    other = model("map")
    other.seed += 1
    other._setup_model()
    with pytest.raises(AssertionError, match="policy"):
        assert_equal({"policy": state(train(other))["policy"]}, {"policy": uninterrupted["map"]["policy"]})


@pytest.mark.parametrize("name", ["map", "step"])
@pytest.mark.parametrize("moment", ["start", "step", "end"])
def test_saved_by_a_callback_in_a_batch_it_is_the_state_before_the_batch(tmp_path, uninterrupted, name, moment):
    folder = tmp_path / "agent"
    going = model(name)
    going.learn(STEPS, [SaveAt(4, moment, folder), Until(UPDATES)])
    assert_equal(state(going), uninterrupted[name])  # saving has disturbed nothing
    loaded = load(name, folder)
    assert loaded._n_updates == 4
    assert loaded.prompt_order.state_dict() == {"epoch": 1, "position": 4}
    assert_equal(state(train(loaded)), uninterrupted[name])


@pytest.mark.parametrize("moment", ["sampling", "update"])
def test_ctrl_c_and_a_save_afterwards_lose_at_most_the_batch(tmp_path, monkeypatch, uninterrupted, moment):
    """In the update Ctrl-C waits until the batch is complete; before it, the batch has not begun."""
    going = model("map")
    owner, method = {"sampling": (going.rollout_sampler, "sample"), "update": (going, "update")}[moment]
    real = getattr(owner, method)

    def interrupted(*arguments):
        result = real(*arguments)
        if going._n_updates in (4, 5):
            os.kill(os.getpid(), signal.SIGINT)
        return result

    monkeypatch.setattr(owner, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(going)
    going.save_checkpoint(tmp_path / "agent")
    monkeypatch.undo()
    loaded = load("map", tmp_path / "agent")
    assert loaded._n_updates == 4
    assert loaded.prompt_order.state_dict() == {"epoch": 1, "position": 4}
    assert_equal(state(train(loaded)), uninterrupted["map"])
    going.learn(STEPS - loaded.num_timesteps, Until(5), reset_num_timesteps=False)  # it also goes on by itself
    assert going.prompt_order.state_dict() == {"epoch": 1, "position": 8}


LONG = 250  # updates


@pytest.mark.slow
def test_killed_at_five_random_moments_it_ends_at_the_same_bits(tmp_path):
    """SIGKILL to a training that saves after every update, and a start from what it has left, five times over."""
    assert run("long", tmp_path / "whole").wait() == 0
    folder, generator, reached = tmp_path / "killed", random.Random(7), 0
    for _ in range(5):
        process = run("long", folder)
        goal = reached + generator.randint(1, 35)
        deadline = time.monotonic() + 60
        while reached < goal:
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.001)
            if (folder / POINTER).exists():
                reached = int(json.loads((folder / POINTER).read_text())["version"][1:])
        time.sleep(generator.uniform(0, 0.03))
        process.kill()
        assert process.wait() == -signal.SIGKILL
        reached = int(json.loads((folder / POINTER).read_text())["version"][1:])
    last = SERA.load(folder)
    assert 5 < last._n_updates < LONG
    assert run("long", folder).wait() == 0
    whole, resumed = (SERA.load(path) for path in (tmp_path / "whole", folder))
    assert whole._n_updates == LONG
    assert_equal(state(resumed), state(whole))
    with pytest.raises(AssertionError, match="policy"):  # there was something left to learn
        assert_equal({"policy": state(last)["policy"]}, {"policy": state(whole)["policy"]})


def _resume(folder):
    for name, k in CASES:
        loaded = load(name, folder / f"{name}-{k}")
        assert loaded._n_updates == k
        torch.save(state(train(loaded)), folder / f"{name}-{k}.final")


def _train_long(folder):
    """Train on a checkpoint if there is one, and save after every update."""

    class Save(BaseCallback):
        def _on_step(self):
            return True

        def _on_rollout_start(self):
            self.model.save_checkpoint(folder)

    trained = SERA.load(folder) if (folder / POINTER).exists() else model("map")
    trained.learn(STEPS - trained.num_timesteps, [Save(), Until(LONG)], reset_num_timesteps=trained._n_updates == 0)
    trained.save_checkpoint(folder)


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"resume": _resume, "long": _train_long}[sys.argv[1]](Path(sys.argv[2]))
