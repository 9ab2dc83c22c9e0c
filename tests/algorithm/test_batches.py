"""One batch of MaxRL from its first call to its last: which policy is asked, what callbacks see, what stops it."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from helpers import Steps, parameters, small_model
from sera_maze.algorithm import maxrl
from sera_maze.algorithm.maxrl import SERA, MaxRL
from sera_maze.envs import FreshMazes, MazeEnv, MazePool, PromptQueue
from sera_maze.exact.probability import success_probability
from sera_maze.policies.maze import MazePolicy
from sera_maze.sampling.maps import MapSampler
from sera_maze.sampling.vec_env import MazeVecEnv

POOL = MazePool.generate(9, 5, "prim", seed=1, endpoints="random")
SMALL = {"channels": 4, "iterations": 6}
FEWEST, MOST = 4, 12  # 0.6 times 6, rounded, and twice 6


def maze_env():
    return MazeEnv(POOL, on_wall="stay", max_steps=12)


ENVS = {
    "one": maze_env,
    "dummy": lambda: DummyVecEnv([lambda: Monitor(maze_env())] * 20),
    "vector": lambda: MazeVecEnv(20, POOL, on_wall="stay", max_steps=12),
}


def make(algorithm=SERA, env=None, policy="MazePolicy", **options):
    if policy == "MazePolicy":
        options = {"policy_kwargs": SMALL, **options}
    return small_model(algorithm, maze_env() if env is None else env, policy, **options)


def test_exact_probabilities_are_those_of_the_policy_that_samples(monkeypatch):
    model = make(SERA, success="exact")
    used, expected, iterations = [], [], []
    share_out, sample = maxrl.share_out, MapSampler.sample

    def spy_on_sharing(name, estimate, *arguments):
        used.append(estimate.probability.clone())
        return share_out(name, estimate, *arguments)

    def spy_on_sample(self, policy, prompts, *arguments):
        iterations.append(policy.iterations)
        with torch.no_grad():
            expected.append(success_probability(policy, POOL, 12, "stay", prompts=prompts))
        return sample(self, policy, prompts, *arguments)

    monkeypatch.setattr(maxrl, "share_out", spy_on_sharing)
    monkeypatch.setattr(MapSampler, "sample", spy_on_sample)
    model.learn(10**9, total_updates=6)
    assert len(used) == len(iterations) == 6
    assert len(set(iterations)) > 2
    assert set(iterations) <= set(range(FEWEST, MOST + 1))
    for probability, own in zip(used, expected, strict=True):
        torch.testing.assert_close(probability, own, rtol=1e-12, atol=0)
    assert model.policy.iterations == 6


@pytest.mark.parametrize("sampler", ["map", "step"])
@pytest.mark.parametrize("success", ["critic", "history"])
def test_the_usual_iterations_are_seen_while_the_batch_has_others(sampler, success, monkeypatch):
    """By callbacks, and by whatever else looks at the model meanwhile: while it samples, trains and logs."""
    model = make(SERA, ENVS["vector"](), sampler=sampler, success=success, n_epochs=2)
    seen, run, policy = [], [], model.policy

    def look(name):
        assert model.policy is policy
        seen.append((name, model.policy.iterations))

    class Look(BaseCallback):
        def _on_rollout_start(self):
            look("start")
            run.append(set())

        def _on_step(self):
            look("step")
            return True

        def _on_rollout_end(self):
            look("end")

    maps, dump_logs = MazePolicy.maps, model.dump_logs

    def spy(self, walls, goal):
        look("maps")
        run[-1].add(self.iterations)
        return maps(self, walls, goal)

    monkeypatch.setattr(MazePolicy, "maps", spy)
    model.dump_logs = lambda iteration: look("log") or dump_logs(iteration)
    model.learn(10**9, Look(), total_updates=5)
    assert {name for name, _ in seen} == {"start", "step", "end", "maps", "log"}
    assert {iterations for _, iterations in seen} == {6}
    assert [len(numbers) for numbers in run] == [1] * 5  # a batch is sampled and trained with one number
    numbers = {number for each in run for number in each}
    assert len(numbers - {6}) >= 2
    assert numbers <= set(range(FEWEST, MOST + 1))


@pytest.mark.parametrize("sampler", ["map", "step"])
@pytest.mark.parametrize("moment", ["step", "end", "update"])
def test_the_policy_is_the_same_after_a_batch_has_failed(sampler, moment):
    model = make(SERA, ENVS["vector"](), sampler=sampler)
    policy, before = model.policy, parameters(model)

    def fail(*arguments):
        assert model.policy.iterations == 6
        raise KeyError("mine")

    callback = Steps(fail if moment == "step" else lambda callback: None)
    if moment == "end":
        callback._on_rollout_end = fail
    if moment == "update":
        model.update = fail
    with pytest.raises(KeyError, match="mine"):
        model.learn(10**9, callback)
    assert model.policy is policy
    assert policy.iterations == 6
    assert torch.equal(parameters(model), before)
    assert (model.updates, model.num_timesteps) == (0, 0)
    assert model.prompt_order.state_dict() == {"epoch": 0, "position": 0}


class Lookups(BaseCallback):
    """Counts how often mazes are asked for in each batch, from its first call to its last."""

    def __init__(self, monkeypatch, kind):
        super().__init__()
        self.counts = []
        arrays = kind.arrays

        def counted(mazes, prompts):
            if self.counts:
                self.counts[-1] += 1
            return arrays(mazes, prompts)

        monkeypatch.setattr(kind, "arrays", counted)

    def _on_rollout_start(self):
        self.counts.append(0)

    def _on_step(self):
        return True


@pytest.mark.parametrize(
    "mazes", [FreshMazes(7, seed=3, endpoints="distance", distance=2), POOL], ids=["fresh", "pool"]
)
@pytest.mark.parametrize(
    "options",
    [{"success": "critic"}, {"success": "exact"}, {"allocator": "uniform"}, {"success": "exact", "n_epochs": 3}],
)
def test_the_mazes_of_a_batch_are_looked_up_once(mazes, options, monkeypatch):
    """For the estimate, the rollouts and the gradient together: fresh ones are made when they are looked up."""
    model = make(SERA, MazeEnv(mazes, on_wall="stay", max_steps=12), **options)
    lookups = Lookups(monkeypatch, type(mazes))
    model.learn(10**9, lookups, total_updates=4)
    assert lookups.counts == [1, 1, 1, 1]


@pytest.mark.parametrize(("kind", "sampler"), [("dummy", "step"), ("vector", "step"), ("vector", "map")])
def test_idle_environments_are_not_reported(kind, sampler):
    """20 environments play 12 rollouts, so that 8 of them idle from the first step on."""
    model = make(MaxRL, ENVS[kind](), sampler=sampler, stats_window_size=1000)
    episodes, steps, rewards = [], [], []

    def watch(callback):
        values = callback.locals
        # SB3 fills its buffers after on_step.
        assert len(model.ep_info_buffer) == len(model.ep_success_buffer) == len(episodes)
        ended = [info for info in values["infos"] if "episode" in info]
        assert len(ended) == values["dones"].sum()
        episodes.extend(ended)
        rewards.append(values["rewards"].sum())
        steps.append(model.num_timesteps)

    model.learn(10**9, Steps(watch), total_updates=3)
    assert len(episodes) == model.total_rollouts == 3 * 12
    assert len(model.ep_info_buffer) == len(model.ep_success_buffer) == 3 * 12
    assert sum(info["episode"]["l"] for info in episodes) == model.num_timesteps == steps[-1]
    assert sum(rewards) == sum(info["is_success"] for info in episodes) > 0


def test_parameters_that_are_not_numbers_are_refused_when_sampling():
    model = make(SERA, sampler="map")
    model.policy.net.write.bias.data[2] = np.nan
    with pytest.raises(ValueError, match="the policy gives NaN as log-probabilities: its parameters are not finite"):
        model.learn(10**9, total_updates=1)
    assert model.updates == 0


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("policy", "sampler"), [("MazePolicy", "map"), ("MazePolicy", "step"), ("MlpPolicy", "auto")])
def test_a_gradient_that_is_not_finite_changes_no_parameter(policy, sampler, value):
    model = make(SERA, ENVS["vector"](), policy, sampler=sampler)
    model.learn(10**9, total_updates=2)
    before, counts = parameters(model), [state["step"].item() for state in model.policy.optimizer.state.values()]
    bias = model.policy.net.write.bias if policy == "MazePolicy" else model.policy.action_net.bias
    spoilt = bias.register_hook(lambda grad: grad + value)
    with pytest.raises(ValueError, match=r"gradient of update 2 has the norm (nan|inf): .* go back to a checkpoint"):
        model.learn(10**9, total_updates=3, reset_num_timesteps=False)
    assert torch.equal(parameters(model), before)
    assert [state["step"].item() for state in model.policy.optimizer.state.values()] == counts
    assert model.updates == 2
    spoilt.remove()
    model.learn(10**9, total_updates=3, reset_num_timesteps=False)
    assert torch.isfinite(parameters(model)).all()


@pytest.mark.parametrize("success", ["history", "critic"])
def test_a_monitor_without_early_resets_is_named(success):
    env = Monitor(maze_env(), allow_early_resets=False)
    model = make(SERA, env, "MlpPolicy", success=success)
    with pytest.raises(ValueError, match="Monitor needs allow_early_resets=True"):
        model.learn(10**9, total_updates=3)


class Shaped(gym.Env):
    """Three steps with actions of some shape; a success if their first numbers are positive on average."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)

    def __init__(self, shape):
        self.action_space = spaces.Box(-0.5, 0.5, shape, np.float32)
        self.taken, self.episode = [], []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode = []
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {}

    def step(self, action):
        self.taken.append(action.copy())
        self.episode.append(action[0, 0])
        over = len(self.episode) == 3
        info = {"is_success": bool(np.mean(self.episode) > 0)} if over else {}
        return np.zeros(3, np.float32), 0.0, over, False, info


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("shape", [(1, 2), (2, 2)])
def test_continuous_actions_reach_the_environment_in_their_shape(shape, num_envs):
    envs = [Shaped(shape) for _ in range(num_envs)]
    env = DummyVecEnv([lambda inner=inner: PromptQueue(inner, range(5)) for inner in envs])
    model = make(MaxRL, env, "MlpPolicy")
    rollouts = model.sample(torch.tensor([3, 1]), torch.tensor([4, 2]))
    assert {action.shape for inner in envs for action in inner.taken} == {shape}
    if num_envs == 1:
        expected = rollouts.actions.numpy().reshape(-1, *shape)
        assert (np.abs(expected) > 0.5).any()
        np.testing.assert_array_equal(np.stack(envs[0].taken), expected.clip(-0.5, 0.5))
    before = parameters(model)
    model.learn(10**9, total_updates=3)
    assert (parameters(model) != before).any()
    assert torch.isfinite(parameters(model)).all()


STOPPED = {
    "one": (maze_env, "MazePolicy"),
    "dummy": (lambda: DummyVecEnv([maze_env] * 3), "MazePolicy"),
    "vector": (lambda: MazeVecEnv(3, POOL, on_wall="stay", max_steps=12), "MlpPolicy"),
    "queue": (
        lambda: DummyVecEnv([lambda: PromptQueue(gym.make("CartPole-v1"), range(9), lambda e: e.steps > 9)] * 3),
        "MlpPolicy",
    ),
}


@pytest.mark.parametrize("kind", STOPPED)
def test_nothing_is_assigned_after_a_callback_has_stopped_a_batch(kind):
    """All 60 rollouts of the batch are of one prompt: what was left of it would come again and again."""
    env, policy = STOPPED[kind]
    model = make(MaxRL, env(), policy, prompts_per_batch=1, rollouts_per_prompt=60, sampler="step")
    model.learn(10**9, Steps(lambda callback: callback.calls < 2))
    assert model.updates == 0
    env = model.get_env()
    played = []
    for _ in range(20):
        env.reset()
        played.append([info["prompt"] for info in env.reset_infos])
    for prompts in np.array(played).T:
        assert len(set(prompts.tolist())) > 2


def change_env(model):
    model.set_env(maze_env())


def change_policy(model):
    model.policy = model.policy.at(iterations=6)


def change_parameters(model):
    with torch.no_grad():
        next(iter(model.policy.parameters())).add_(0.1)


def change_rollouts(model):
    model.rollouts_per_prompt = 8


@pytest.mark.parametrize("hook", ["_on_step", "_on_rollout_end"])
@pytest.mark.parametrize("change", [change_env, change_policy, change_parameters, change_rollouts])
@pytest.mark.parametrize("sampler", ["map", "step"])
def test_what_a_batch_was_sampled_from_cannot_be_changed_under_it(hook, change, sampler):
    """Its gradient, and the history, would be those of other mazes, or of another policy."""
    model = make(SERA, ENVS["vector"](), sampler=sampler)
    model.learn(10**9, total_updates=2)
    env, steps = model.env, model.num_timesteps
    before, history = parameters(model), model.success_estimator.state_dict()
    callback = Steps()
    setattr(callback, hook, lambda: change(model) is None)
    with pytest.raises(ValueError, match=r"within a batch, whose rollouts are of .* before.*_on_rollout_start"):
        model.learn(10**9, callback, reset_num_timesteps=False)
    assert model.env is env
    assert (model.updates, model.num_timesteps) == (2, steps)
    assert change is change_parameters or torch.equal(parameters(model), before)
    for name, tensor in model.success_estimator.state_dict().items():
        assert torch.equal(tensor, history[name])
    model.learn(10**9, total_updates=3, reset_num_timesteps=False)
    assert model.updates == 3


def test_environments_may_be_changed_as_a_batch_begins():
    model, other = make(SERA), MazePool.generate(5, 5, seed=9, endpoints="random")
    seen = []

    class Change(Steps):
        def _on_rollout_start(self):
            if self.model.updates == 1:
                self.model.set_env(MazeEnv(other, on_wall="stay", max_steps=12))

        def _on_rollout_end(self):
            seen.append(self.model.num_prompts)

    model.learn(10**9, Change(), total_updates=3)
    assert seen == [9, 5, 5]
    assert len(model.success_estimator.probability(torch.arange(5))) == 5


def test_what_the_loss_reads_may_be_changed_under_a_batch():
    """As callbacks of SB3 anneal a rate or a coefficient: it counts from the next update on."""
    models = [make(SERA) for _ in range(2)]

    def change(callback):
        callback.model.ent_coef, callback.model.lr_schedule = 0.5, lambda _: 1e-2

    models[0].ent_coef, models[0].lr_schedule = 0.5, lambda _: 1e-2
    models[0].learn(10**9, total_updates=1)
    models[1].learn(10**9, Steps(change), total_updates=1)
    assert torch.equal(parameters(models[0]), parameters(models[1]))


@pytest.mark.parametrize(("name", "value"), [("prompts_per_batch", 5), ("success", "critic"), ("sampler", "step")])
def test_options_that_the_prompts_were_set_up_with_count_after_set_env(name, value):
    model = make(SERA)
    setattr(model, name, value)
    with pytest.raises(ValueError, match=rf"{name} was changed from .* to {value!r}.*set_env\(model.get_env\(\)\)"):
        model.learn(10**9, total_updates=1)
    model.set_env(model.get_env())
    model.learn(10**9, total_updates=1)
    assert model.updates == 1
    assert model.prompt_order.batch_size == model.prompts_per_batch


def test_an_attribute_out_of_range_is_told_as_the_argument_is():
    model = make(SERA)
    model.advantage = "rlo"
    with pytest.raises(ValueError, match="advantage='rlo'"):
        model.learn(10**9, total_updates=1)
