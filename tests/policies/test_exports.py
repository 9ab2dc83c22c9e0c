"""A `MazePolicy` outside the training that it is made in: traced, exported, under another default type of torch."""

import numpy as np
import pytest
import torch

from helpers import maze_policy, small_model
from sera_maze import SERA, MazeVecEnv
from sera_maze.coverage import evaluate
from sera_maze.envs import MazeEnv, MazePool


def observations(count, seed=0):
    env = MazeEnv(MazePool.generate(count, 9, seed=seed, endpoints="random"))
    return torch.from_numpy(np.stack([env.reset(options={"prompt": i})[0] for i in range(count)]))


def maps_inputs(count, size=9):
    pool = MazePool.generate(count, size, seed=1)
    return torch.from_numpy(pool.walls.copy()), torch.from_numpy(pool.goal.astype(np.int64))


class Greedy(torch.nn.Module):
    """The best action of N observations, as a robot would carry it."""

    def __init__(self, policy):
        super().__init__()
        self.policy = policy

    def forward(self, obs):
        return self.policy.get_distribution(obs).distribution.logits


class Maps(torch.nn.Module):
    """Action log-probabilities of whole mazes."""

    def __init__(self, policy):
        super().__init__()
        self.policy = policy

    def forward(self, walls, goal):
        return self.policy.log_prob_map(walls, goal)


@pytest.mark.filterwarnings("ignore")  # of the tracer, about sizes that are constant here
def test_a_policy_traced_with_one_observation_is_right_for_more():
    policy = maze_policy(MazeEnv(size=9), iterations=6)
    with torch.no_grad():
        traced = torch.jit.trace(Greedy(policy), observations(1), check_trace=False)
        torch.testing.assert_close(traced(observations(5, 3)), Greedy(policy)(observations(5, 3)))


def test_maps_can_be_exported():
    """`torch.export`, from which other runtimes are fed: any number of mazes, of a size."""
    policy, mazes = maze_policy(MazeEnv(size=9), iterations=6).eval(), torch.export.Dim("mazes")
    with torch.no_grad():
        program = torch.export.export(
            Maps(policy).eval(), maps_inputs(2), dynamic_shapes={"walls": {0: mazes}, "goal": {0: mazes}}
        )
        for count in (2, 5):
            torch.testing.assert_close(program.module()(*maps_inputs(count)), Maps(policy)(*maps_inputs(count)))


class Best(torch.nn.Module):
    """The most probable action of N observations."""

    def __init__(self, policy):
        super().__init__()
        self.policy = policy

    def forward(self, obs):
        return self.policy.get_distribution(obs).mode()


@pytest.fixture
def unchecked_distributions():
    """torch.export cannot follow the checks of `torch.distributions`, which look at values."""
    torch.distributions.Distribution.set_default_validate_args(False)
    yield
    torch.distributions.Distribution.set_default_validate_args(__debug__)


@pytest.mark.filterwarnings("ignore")  # of the exporters, about themselves
@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("kind", [Maps, Best])
def test_a_policy_runs_elsewhere_by_onnx(kind, dynamo, tmp_path, unchecked_distributions):
    """Both exporters of torch, any number of mazes or observations, the same numbers."""
    for package in ("onnx", "onnxscript"):
        pytest.importorskip(package)
    runtime = pytest.importorskip("onnxruntime")
    module = kind(maze_policy(MazeEnv(size=9), iterations=6)).eval()
    names = ["walls", "goal"] if kind is Maps else ["obs"]

    def inputs(count):
        return maps_inputs(count) if kind is Maps else (observations(count, seed=3),)

    if dynamo:
        sizes = {"dynamic_shapes": {name: {0: torch.export.Dim("count")} for name in names}}
    else:
        sizes = {"dynamic_axes": {name: {0: "count"} for name in [*names, "result"]}}
    file = str(tmp_path / "policy.onnx")
    with torch.no_grad():
        torch.onnx.export(
            module, inputs(2), file, input_names=names, output_names=["result"], dynamo=dynamo, verbose=False, **sizes
        )
        session = runtime.InferenceSession(file)
        for count in (1, 2, 5):
            given = inputs(count)
            (found,) = session.run(None, {name: each.numpy() for name, each in zip(names, given, strict=True)})
            torch.testing.assert_close(torch.from_numpy(found), module(*given))


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("sampler", ["map", "step"])
@pytest.mark.parametrize("success", ["history", "critic", "exact"])
def test_another_default_type_of_torch(before, sampler, success):
    """As a script sets it for its own reasons, before or after the policy is made."""
    if (sampler, success) == ("step", "exact"):
        pytest.skip("stepped policies have no exact probabilities")

    def make():
        env = MazeVecEnv(4, MazePool.generate(6, 5, endpoints="random"), on_wall="stay", max_steps=12)
        return small_model(SERA, env, sampler=sampler, success=success, ent_coef=0.01)

    model = None if before else make()
    torch.set_default_dtype(torch.float64)
    try:
        model = make() if model is None else model
        model.learn(10**9, total_updates=3)
        evaluation = evaluate(model.policy, MazePool.generate(4, 5, seed=2), num_samples=8)
        if sampler == "map":
            model.warm_start(2)
    finally:
        torch.set_default_dtype(torch.float32)
    assert model.updates == 3
    assert evaluation.ks == (1, 8)
    if not before:
        same = make()
        same.learn(10**9, total_updates=3)
        assert same.num_timesteps == model.num_timesteps
