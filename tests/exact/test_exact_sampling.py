"""Exact probabilities against sampled rollouts: written out in numpy, and played in the environments."""

import numpy as np
import pytest
import torch

from sera_maze.envs.layouts.moves import ACTION_STEPS
from sera_maze.envs.play.vector import MazeVectorEnv
from sera_maze.envs.pools.pool import MazePool
from sera_maze.exact.probability import expected_steps, success_probability, visits

HORIZON = 40
POOL = MazePool.generate(4, 9, "prim", seed=1, braid=0.5)


def leaning_policy(pool, on_wall):
    """Log-probabilities (M, H, W, 4) that lean towards the goal, so that success is neither rare nor sure."""
    strength = 1.6 if on_wall == "fail" else 0.2
    logits = np.zeros((*pool.walls.shape, 4))
    for m, layout in enumerate(pool):
        distances = layout.distances()
        for a, (down, right) in enumerate(ACTION_STEPS):
            ahead = np.roll(distances, (-down, -right), (0, 1))
            logits[m, ..., a] = strength * (ahead == distances - 1)
        logits[m] -= 2.5 * ~layout.action_masks()
    return torch.log_softmax(torch.from_numpy(logits), -1)


def sampled_actions(rng, probs):
    """One action for each row of probs (N, 4)."""
    return (rng.random(len(probs))[:, None] > probs.cumsum(1)[:, :3]).sum(1)


@pytest.mark.parametrize("on_wall", ["fail", "stay"])
@pytest.mark.parametrize("maze", [0, 3])
def test_200000_rollouts(maze, on_wall):
    count, log_probs = 200_000, leaning_policy(POOL, on_wall)
    mazes = POOL.walls[maze : maze + 1], POOL.start[maze : maze + 1], POOL.goal[maze : maze + 1]
    exact = [
        function(log_probs[maze : maze + 1], *mazes, HORIZON, on_wall)[0]
        for function in (success_probability, expected_steps, visits)
    ]
    probs, walls = log_probs[maze].exp().numpy().reshape(-1, 4), POOL.walls[maze].ravel()
    rng, shifts = np.random.default_rng(17), np.array(ACTION_STEPS) @ (9, 1)
    start, goal = (int(cells[maze] @ (9, 1)) for cells in (POOL.start, POOL.goal))
    square, steps = np.full(count, start), np.zeros(count, int)
    alive, stood = np.ones(count, bool), np.bincount([start], minlength=81) * count
    for _ in range(HORIZON):
        moving = np.flatnonzero(alive)
        to = square[moving] + shifts[sampled_actions(rng, probs[square[moving]])]
        hit = walls[to]
        steps[moving] += 1
        square[moving[~hit]] = to[~hit]
        alive[moving] = (square[moving] != goal) & ~(hit & (on_wall == "fail"))
        still = moving[~hit] if on_wall == "fail" else moving
        stood += np.bincount(square[still], minlength=81)
    success = square == goal
    assert 0.02 < success.mean() < 0.98
    for sample, value in ((success, exact[0]), (steps, exact[1])):
        assert abs(sample.mean() - float(value)) < 4 * sample.std() / np.sqrt(count)
    np.testing.assert_allclose(stood.reshape(9, 9) / count, exact[2], atol=0.05)
    assert stood[goal] / count == success.mean()


@pytest.mark.parametrize("on_wall", ["fail", "stay"])
def test_environments_play_the_same_chain(on_wall):
    """2,000 episodes of each maze in `MazeVectorEnv`, assigned beforehand, each kept."""
    each = 2000
    log_probs = leaning_policy(POOL, on_wall)
    mazes = POOL.walls, POOL.start, POOL.goal
    p = success_probability(log_probs, *mazes, HORIZON, on_wall).numpy()
    length = expected_steps(log_probs, *mazes, HORIZON, on_wall).numpy()
    prompts = np.arange(4).repeat(each)
    env = MazeVectorEnv(len(prompts), POOL, on_wall=on_wall, max_steps=HORIZON)
    _, info = env.reset(options={"prompt": prompts})
    rng, probs = np.random.default_rng(3), log_probs.exp().numpy()
    success, steps, over = np.zeros(len(prompts)), np.zeros(len(prompts)), np.zeros(len(prompts), bool)
    while not over.all():
        position = info["position"]
        actions = sampled_actions(rng, probs[info["prompt"], position[:, 0], position[:, 1]])
        _, rewards, terminated, truncated, info = env.step(actions)
        ends = (terminated | truncated) & ~over
        success[ends], steps[ends] = rewards[ends], info["steps"][ends]
        over |= ends
    for sample, exact in ((success, p), (steps, length)):
        groups = sample.reshape(4, each)
        assert (groups.std(1) > 0.05).all()
        assert (np.abs(groups.mean(1) - exact) < 4 * groups.std(1) / np.sqrt(each)).all()
