"""How many iterations a `MazePolicy` takes, which of them learn, and files of its parameters."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from helpers import maze_policy
from sera_maze.algorithm.imitation import warm_start
from sera_maze.envs import FreshMazes, MazeEnv, MazePool
from sera_maze.envs.layouts.distances import distances_from, shortest_actions
from sera_maze.envs.play.rules import MazeRules
from sera_maze.policies.asking import for_mazes, imitating
from sera_maze.policies.iterations import default_iterations, reach
from sera_maze.policies.maze import MazePolicy
from sera_maze.sampling.maps import MapSampler
from sera_maze.sampling.plain_mazes import PlainMazes

POOL = MazePool.generate(12, 9, "dfs", seed=1)
WALLS, GOAL = torch.from_numpy(POOL.walls.copy()), torch.from_numpy(POOL.goal.copy())


def policy_of(**options):
    return maze_policy(MazeEnv(POOL), **options)


@pytest.mark.parametrize(
    ("size", "sides", "area"), [((9, 9), 11, 14), ((17, 17), 20, 48), ((33, 33), 40, 182), ((5, 5), 8, 12)]
)
def test_iterations_grow_with_the_sides_or_the_area(size, sides, area):
    assert (default_iterations(*size), default_iterations(*size, "area")) == (sides, area)
    assert for_mazes(policy_of(), size).iterations == sides
    assert for_mazes(policy_of(growth="area"), size).iterations == area


def test_options_out_of_range_are_refused():
    with pytest.raises(ValueError, match="growth='length' is not known; allowed are 'sides', 'area'"):
        policy_of(growth="length")
    with pytest.raises(ValueError, match="learning_iterations=0 is out of range"):
        policy_of(learning_iterations=0)


def test_information_comes_from_as_far_as_the_reach_and_not_from_much_farther():
    policy = policy_of(iterations=2)
    moved = GOAL.clone()
    moved[:, 1] -= 2  # two squares to the left of the corner
    with torch.no_grad():
        changed = (policy.maps(WALLS, GOAL)[0] != policy.maps(WALLS, moved)[0]).any(dim=-1)  # (M, H, W)
    squares = changed.nonzero()[:, 1:]
    assert reach(2) == 3
    assert ((GOAL[0] - squares).amax(dim=1) >= 3).any()
    assert (GOAL[0] - squares).amax() <= 2 * (2 + 1) + 2 + 1  # blocks of two, one more by the reading of the maze


def test_the_gradient_goes_through_the_last_iterations_alone():
    def of_layers(**options):
        policy = policy_of(iterations=6, **options)
        log_probs, _ = policy.maps(WALLS, GOAL)
        log_probs.square().mean().backward()
        return log_probs.detach(), {name: p.grad for name, p in policy.net.named_parameters()}

    full, gradients = of_layers()
    for enough in (6, 50):
        same, others = of_layers(learning_iterations=enough)
        assert torch.equal(same, full)
        assert all(torch.equal(others[name], gradients[name]) for name in gradients)
    same, fewer = of_layers(learning_iterations=2)
    assert torch.equal(same, full)
    assert torch.equal(fewer["write.weight"], gradients["write.weight"])
    assert not torch.allclose(fewer["update.weight"], gradients["update.weight"])


def test_imitation_of_few_learning_iterations_trains_every_stretch_and_only_what_can_be_known():
    policy = policy_of(iterations=20, learning_iterations=4)
    generator = np.random.default_rng(0)
    drawn = np.array([imitating(policy, generator).iterations for _ in range(2000)])
    assert (drawn.min(), drawn.max()) == (1, 30)
    assert (drawn <= 8).mean() == pytest.approx(0.5 + 0.5 * 8 / 30, abs=0.03)
    variant = policy.imitating(generator)
    assert variant.reach == 2 * variant.iterations - 1
    assert policy.reach is None
    assert policy.varied(generator).reach is None
    assert policy_of(iterations=20).imitating(generator).reach is None


def test_squares_beyond_the_reach_have_no_part_in_the_imitation():
    policy = policy_of(iterations=20, learning_iterations=4)
    sampler = MapSampler(PlainMazes(POOL, MazeRules(POOL.size)), 0)
    variant = next(
        found for found in (policy.imitating(np.random.default_rng(n)) for n in range(99)) if found.iterations == 2
    )
    loss = sampler.imitation_loss(variant, torch.arange(12))
    near = torch.from_numpy(distances_from(POOL.walls, POOL.goal))
    near = (near > 0) & (near <= 3)
    log_probs = variant.log_prob_map(WALLS, GOAL)  # (M, H, W, 4); in a tree of paths one move is best
    best = torch.from_numpy(shortest_actions(POOL.walls, POOL.goal)).argmax(dim=-1)
    picked = log_probs.gather(-1, best[..., None])[..., 0][near]
    assert loss.item() == pytest.approx(-picked.mean().item(), rel=1e-5)


def test_the_warm_start_of_few_learning_iterations_learns(capsys):
    mazes = FreshMazes(7, "dfs", endpoints="random")
    torch.manual_seed(0)
    policy = maze_policy(MazeEnv(mazes), channels=16, growth="area", learning_iterations=6)
    losses = warm_start(policy, MapSampler(PlainMazes(mazes, MazeRules((7, 7))), 0), 150, progress_bar=True)
    assert "150/150" in capsys.readouterr().err
    assert np.mean(losses[-20:]) < 0.7 * np.mean(losses[:20])


def test_weights_are_written_and_read(tmp_path):
    policy = policy_of(channels=8, growth="area", learning_iterations=5, vary_iterations=False)
    policy.save_weights(tmp_path / "agent.safetensors")
    again = MazePolicy.from_weights(tmp_path / "agent.safetensors", (9, 9))
    assert (again.channels, again.growth, again.learning_iterations, again.vary_iterations) == (8, "area", 5, False)
    assert (again.training, again.iterations) == (False, 14)
    assert torch.equal(again.log_prob_map(WALLS, GOAL), policy.log_prob_map(WALLS, GOAL))
    assert MazePolicy.from_weights(tmp_path / "agent.safetensors", (17, 9)).maze_size == (17, 9)


def test_other_files_are_no_weights(tmp_path):
    with pytest.raises(FileNotFoundError):
        MazePolicy.from_weights(tmp_path / "none.safetensors")
    (tmp_path / "text").write_text("no tensors")
    save_file({"a": torch.zeros(1)}, tmp_path / "tensors")
    save_file({"a": torch.zeros(1)}, tmp_path / "other", metadata={"policy": json.dumps({"channels": 8})})
    for name, message in (("text", "is no file of"), ("tensors", "is no file of"), ("other", "holds another network")):
        with pytest.raises(ValueError, match=message):
            MazePolicy.from_weights(tmp_path / name)
