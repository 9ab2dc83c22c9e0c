"""Copies of environments, pools and layouts, by deepcopy and by pickle, are whole and go on as the originals do."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest

from sera_maze.envs.play.maze import MazeEnv
from sera_maze.envs.play.prompt_queue import PromptQueue
from sera_maze.envs.play.vector import MazeVectorEnv
from sera_maze.envs.pools.pool import MazePool

OBSERVATIONS = ("grid", "local", "tokens", "dict")
COPIES = [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
copying = pytest.mark.parametrize("again", COPIES, ids=["deepcopy", "pickle"])


def assert_equal(one, other):
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, tuple):
        for a, b in zip(one, other, strict=True):
            assert_equal(a, b)
    else:
        np.testing.assert_array_equal(one, other)


def play(env, actions):
    """Everything that a single environment tells on its way, resets included."""
    told = []
    for action in actions:
        told.append(env.step(action))
        if told[-1][2] or told[-1][3]:
            told.append(env.reset())
    return told


@copying
@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_single_environments(observation, again):
    env = MazeEnv(MazePool.generate(20, 7, seed=1), observation=observation, on_wall="stay", max_steps=9)
    env.reset(seed=3)
    env.assign([4, 4, 7])
    actions = np.random.default_rng(0).integers(0, 4, 60).tolist()
    play(env, actions[:6])  # into the middle of an episode
    twin = again(env)
    assert twin.layout == env.layout
    for one, other in zip(play(env, actions), play(twin, actions), strict=True):
        assert_equal(one, other)
    # The copy stands on its own.
    _, before = env.reset(options={"prompt": 2})
    twin.reset(options={"prompt": 5})
    twin.step(int(np.flatnonzero(twin.action_masks())[0]))
    assert env.step(int(np.flatnonzero(env.action_masks())[0]))[4]["digest"] == before["digest"]


@copying
@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_vector_environments(observation, again):
    env = MazeVectorEnv(5, MazePool.generate(20, 7, seed=1), observation=observation, on_wall="stay", max_steps=9)
    env.reset(seed=3)
    env.assign([[4, 4, 7], [], [1], [2], []])
    actions = np.random.default_rng(0).integers(0, 4, (60, 5))
    for row in actions[:6]:
        env.step(row)
    twin = again(env)
    for row in actions:
        assert_equal(env.step(row), twin.step(row))
    assert_equal(env.reset(), twin.reset())
    third = again(env)
    twin.reset(options={"prompt": 5})  # the copies stand on their own
    assert_equal(env.step(actions[0]), third.step(actions[0]))


@copying
def test_environments_before_their_first_reset(again):
    for env in (MazeEnv(size=7, num_mazes=5), MazeVectorEnv(2, size=7, num_mazes=5)):
        twin = again(env)
        assert_equal(env.reset(seed=1), twin.reset(seed=1))


@copying
def test_made_and_wrapped_environments(again):
    made = gym.make("SeraMaze/Prim-9x9-v0", num_mazes=5)
    queue = PromptQueue(MazeEnv(size=9, num_mazes=5), prompts=[{"prompt": 3}, 8])
    for env in (made, queue):
        env.reset(seed=1)
        twin = again(env)
        assert_equal(env.step(1), twin.step(1))
        assert_equal(env.reset(), twin.reset())


@copying
def test_a_copy_opens_a_window_of_its_own(again, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setitem(MazeEnv.metadata, "render_fps", 1000)
    env = MazeEnv(size=5, num_mazes=1, render_mode="human")
    env.reset()
    twin = again(env)
    twin.render()
    twin.close()
    assert env._window.is_open
    env.close()


@copying
def test_pools(again):
    pool = MazePool.generate(6, 7, endpoints="random")
    for original in (pool, pool[2:5]):
        original.planes, original.digests, original.shortest_lengths  # noqa: B018  kept from now on
        twin = again(original)
        assert twin.provenance == original.provenance
        assert list(twin) == list(original)
        for name in ("walls", "start", "goal", "planes", "digests", "shortest_lengths"):
            np.testing.assert_array_equal(getattr(twin, name), getattr(original, name))
            assert not getattr(original, name).flags.writeable, name
            assert not getattr(twin, name).flags.writeable, name


@copying
def test_layouts(again):
    layout = MazePool.generate(1, 7)[0]
    twin = again(layout)
    assert (twin, twin.digest) == (layout, layout.digest)
    assert not twin.walls.flags.writeable
