"""The four observations of `MazeEnv`, square by square."""

import gymnasium as gym
import numpy as np

from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.play.maze import MazeEnv
from sera_maze.envs.pools.pool import MazePool
from sera_maze.envs.tokens import TOKENS, encode_prompt

UP, DOWN, LEFT, RIGHT = range(4)
ROOM = """
#######
#S    #
# ### #
#    G#
#######
"""


def room_env(**options):
    return MazeEnv(MazePool.from_layouts([MazeLayout.from_text(ROOM)]), **options)


def walk(env, actions):
    results = [env.step(action) for action in actions]
    return results[-1]


def test_the_spaces_of_the_docstring():
    assert MazeEnv(size=17).observation_space == gym.spaces.Box(0, 255, (3, 17, 17), np.uint8)
    assert MazeEnv(size=9, observation="local", radius=2).observation_space.shape == (2, 5, 5)
    assert MazeEnv(size=17, observation="tokens").observation_space == gym.spaces.Box(0, 31, (310 + 180,), np.uint8)
    assert MazeEnv(size=(5, 9), num_mazes=3, observation="dict").observation_space["position"].nvec.tolist() == [5, 9]


def test_grid_observation():
    env = room_env()
    observation, _ = env.reset()
    layout = MazeLayout.from_text(ROOM)
    np.testing.assert_array_equal(observation[0], layout.walls * 255)
    assert np.argwhere(observation[1]).tolist() == [[1, 1]]
    assert np.argwhere(observation[2]).tolist() == [[3, 5]]
    assert set(observation.ravel()) == {0, 255}
    moved = env.step(DOWN)[0]
    assert np.argwhere(moved[1]).tolist() == [[2, 1]]
    assert np.argwhere(observation[1]).tolist() == [[1, 1]]  # the earlier one is not written over


def test_local_observation():
    env = room_env(observation="local", radius=1)
    observation, _ = env.reset()
    assert (observation[0] // 255).tolist() == [[1, 1, 1], [1, 0, 0], [1, 0, 1]]
    assert not observation[1].any()
    observation = walk(env, [DOWN, DOWN, RIGHT, RIGHT, RIGHT])[0]
    assert (observation[0] // 255).tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]
    assert (observation[1] // 255).tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 0]]
    wide = room_env(observation="local", radius=9).reset()[0]
    assert wide.shape == (2, 19, 19)
    assert np.argwhere(wide[1]).tolist() == [[9 + 2, 9 + 4]]
    assert (wide[0, :8] == 255).all()


def test_token_observation():
    env = room_env(observation="tokens", max_steps=4)
    layout = MazeLayout.from_text(ROOM)
    observation, _ = env.reset()
    prompt = encode_prompt(layout).tolist()
    assert observation.tolist() == [*prompt, 0, 0, 0, 0]
    observation = walk(env, [RIGHT, RIGHT])[0]
    assert [TOKENS[i] for i in observation[len(prompt) :]] == ["RIGHT", "RIGHT", "<pad>", "<pad>"]
    observation = walk(env, [LEFT, LEFT])[0]
    assert [TOKENS[i] for i in observation[len(prompt) :]] == ["RIGHT", "RIGHT", "LEFT", "LEFT"]


def test_dict_observation():
    env = room_env(observation="dict")
    observation, _ = env.reset()
    assert observation["position"].tolist() == [1, 1]
    observation = env.step(RIGHT)[0]
    assert observation["position"].tolist() == [1, 2]
    np.testing.assert_array_equal(observation["layout"][0], MazeLayout.from_text(ROOM).walls)
    assert np.argwhere(observation["layout"][1]).tolist() == [[3, 5]]
    assert set(observation["layout"].ravel().tolist()) == {0, 1}
    assert observation["layout"].dtype == np.uint8
    assert env.observation_space["layout"] == gym.spaces.Box(0, 1, (2, 5, 7), np.uint8)
