"""`Prompts`: what mazes, fresh mazes and the entries of a queue have in common."""

import gymnasium as gym
import pytest

from sera_maze.envs import FreshMazes, MazeEnv, MazePool, MazeVectorEnv, PromptQueue
from sera_maze.envs.pools.prompts import NumberedPrompts, Prompts

POOL = MazePool.generate(4, 5, "prim", seed=1)


def queue(prompts):
    return PromptQueue(gym.make("CartPole-v1"), prompts).prompts


@pytest.mark.parametrize(
    ("prompts", "length", "words"),
    [
        (POOL, 4, f"maze 2, shortest path {POOL.shortest_lengths[2]} moves"),
        (FreshMazes(5), 2**40, "maze 2"),
        (queue(range(7)), 7, "prompt 2, seed 2"),
        (queue([5, {"low": -0.1}, (3, {"low": 0.2})]), 3, "prompt 2, seed 3, "),
        (NumberedPrompts(9, "name"), 9, "prompt 2"),
    ],
)
def test_all_are_prompts(prompts, length, words):
    assert isinstance(prompts, Prompts)
    assert len(prompts) == length
    assert prompts.describe(2).startswith(words)
    assert isinstance(prompts.digest, str)


def test_other_things_are_none():
    for other in ([1, 2], range(3), "maze", MazeEnv(POOL)):
        assert not isinstance(other, Prompts)


def test_environments_say_what_their_prompts_are():
    for env in (MazeEnv(POOL), MazeVectorEnv(2, POOL)):
        assert env.prompts is POOL
        assert env.prompts_digest == POOL.digest
    env = PromptQueue(gym.make("CartPole-v1"), range(7))
    assert env.prompts.digest == env.prompts_digest
    assert queue(range(7)).digest == env.prompts_digest != queue(range(6)).digest


def test_what_cannot_be_named_has_no_digest():
    assert queue([{"low": object()}]).digest is None
    assert NumberedPrompts(3).digest is None


def test_the_difficulty_of_a_maze_is_its_shortest_path():
    assert POOL.difficulty.tolist() == POOL.shortest_lengths.tolist()
    assert not hasattr(FreshMazes(5), "difficulty")
