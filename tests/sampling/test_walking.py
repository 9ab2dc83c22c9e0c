"""Walks through tables: the kernel, torch and a GPU go the same ways."""

import numpy as np
import pytest
import torch

from sera_maze.envs import MazeEnv, MazePool
from sera_maze.sampling.maps import MapSampler
from sera_maze.sampling.plain_mazes import PlainMazes
from sera_maze.sampling.randomness import action_thresholds, rollout_keys
from sera_maze.sampling.rollouts import owners
from sera_maze.sampling.walking import walk_in_torch, walk_on_cpu

POOL = MazePool.generate(40, 7, "prim", seed=1, braid=0.5, endpoints="random")


def arguments():
    """Thresholds, mazes, owners and keys of 20 prompts with 0 to 6 rollouts each."""
    rng = np.random.default_rng(0)
    prompts, counts = torch.from_numpy(rng.permutation(40)[:20]), torch.from_numpy(rng.integers(0, 7, 20))
    sampler = MapSampler(PlainMazes(POOL, MazeEnv(POOL, on_wall="stay").rules), seed=3)
    owner, number = owners(counts)
    log_probs = torch.randn(20, 49, 4, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    mazes = sampler.flat(sampler.look_up(prompts))
    return action_thresholds(log_probs), mazes, owner, rollout_keys(1, 2, prompts[owner], number)


def test_kernel_and_torch_walk_alike():
    for one, other in zip(walk_on_cpu(*arguments()), walk_in_torch(*arguments()), strict=True):
        assert torch.equal(one, other)


@pytest.mark.gpu
def test_gpu_walks_as_the_cpu_does():
    thresholds, mazes, owner, keys = arguments()
    moved = mazes._replace(walls=mazes.walls.cuda(), start=mazes.start.cuda(), goal=mazes.goal.cuda())
    there = walk_in_torch(thresholds.cuda(), moved, owner.cuda(), keys.cuda())
    for one, other in zip(walk_on_cpu(thresholds, mazes, owner, keys), there, strict=True):
        assert torch.equal(one, other.cpu())
