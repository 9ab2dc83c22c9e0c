"""The three render modes of `MazeEnv`."""

import numpy as np
import pytest

from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.play.maze import MazeEnv
from sera_maze.envs.pools.pool import MazePool

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


def test_ansi_shows_the_agent():
    env = room_env(render_mode="ansi")
    env.reset()
    assert env.render() == "#######\n#A    #\n# ### #\n#    G#\n#######"
    env.step(RIGHT)
    assert env.render() == "#######\n#SA   #\n# ### #\n#    G#\n#######"


@pytest.mark.parametrize(("size", "shape"), [((3, 7), (9, 21, 3)), ((9, 5), (27, 15, 3))])
def test_rgb_array_needs_no_display(size, shape, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    env = MazeEnv(size=size, num_mazes=1, render_mode="rgb_array", cell_size=3)
    env.reset()
    picture = env.render()
    assert picture.shape == shape
    assert picture.dtype == np.uint8
    agent = picture[3:6, 3:6].copy()
    action = int(np.flatnonzero(env.action_masks())[0])
    env.step(action)
    assert (env.render()[3:6, 3:6] != agent).any()
    env.close()
    env.close()


def test_render_without_a_mode_warns():
    env = room_env()
    env.reset()
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None


def test_human_mode_shows_every_step(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setitem(MazeEnv.metadata, "render_fps", 1000)
    env = room_env(render_mode="human")
    env.reset()
    env.step(RIGHT)
    assert env.render() is None
    env.close()
    env.close()
    env.reset()
    env.close()
