"""The agent that comes with the package."""

import re
from importlib import resources

import numpy as np
import pytest
import torch

from sera_maze import MazePolicy, MazePool, evaluate
from sera_maze.envs.generating.spec import FAMILIES

ASSETS = resources.files("sera_maze.assets")


@pytest.fixture(scope="module")
def policy():
    return MazePolicy.pretrained()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("side", [9, 17])
def test_it_finds_its_way_in_every_family(policy, family, side):
    algorithm, braid = FAMILIES[family]
    pool = MazePool.generate(16, side, algorithm, 12345, braid=braid, endpoints="random")
    evaluation = evaluate(policy.for_size((side, side)), pool, num_samples=8)
    assert evaluation.probability.mean() > 0.995


def test_it_finds_its_way_in_larger_mazes(policy):
    pool = MazePool.generate(4, 33, "prim", 12345, endpoints="random")
    assert evaluate(policy.for_size((33, 33)), pool, num_samples=2).probability.mean() > 0.95


def test_it_predicts_as_other_policies_do(policy):
    from sera_maze.envs import MazeEnv

    env = MazeEnv(MazePool.generate(1, 17, "wilson", 3, endpoints="random"))
    observation, info = env.reset()
    for _ in range(info["shortest_path_length"]):
        action, _ = policy.predict(observation, deterministic=True)
        observation, reward, over, _, info = env.step(action)
    assert (reward, over, info["is_success"]) == (1.0, True, True)


def test_it_is_small_and_its_card_has_its_table():
    files = [ASSETS / name for name in ("general.safetensors", "general.md")]
    assert sum(len(file.read_bytes()) for file in files) < 1_000_000
    rows = re.findall(r"^\| (\w+) \| (.*) \|$", files[1].read_text(encoding="utf-8"), re.MULTILINE)[1:]
    assert [name for name, _ in rows] == list(FAMILIES)
    means = np.array([[float(cell.split()[0]) for cell in cells.split("|")] for _, cells in rows])  # (F, sizes)
    assert means.shape == (len(FAMILIES), 4)
    assert (means[:, :2] >= 99.5).all()


def test_its_mode_is_that_of_evaluations(policy):
    assert not policy.training
    with torch.no_grad():
        assert torch.equal(policy.net.read.bias, MazePolicy.pretrained((9, 9)).net.read.bias)
