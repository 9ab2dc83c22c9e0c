"""Many rollouts at once: where each is at a moment, and how they are counted."""

from types import SimpleNamespace

import numpy as np

from sera_maze.envs import MazeLayout
from sera_maze.envs.pictures.canvas import PALETTE
from sera_maze.envs.pictures.drawing import draw_layout
from sera_maze.envs.pictures.sheets import to_array
from sera_maze.viewer.crowd import CrowdCounts, crowd_counts, crowd_moves, draw_counts, draw_crowd

LAYOUT = MazeLayout.from_text("#######\n#S...G#\n#######")
WAY = np.array([(1, 1), (1, 2), (1, 3), (1, 4), (1, 5)])
# Two arrive, after 4 and 6 moves; one fails at its second move, into the wall above the third square.
SCENE = SimpleNamespace(
    layout=LAYOUT,
    paths=[WAY, WAY[[0, 1, 0, 1, 2, 3, 4]], WAY[[0, 1, 1]]],
    success=np.array([True, True, False]),
    steps=np.array([4, 6, 2]),
)
SIZE = 40


def squares(moment, count):
    """The row of open squares, and the columns of those between start and goal that differ from the empty maze."""
    picture = draw_layout(LAYOUT, cell_size=SIZE)
    empty = to_array(picture)
    draw_crowd(picture, SCENE, count, moment, SIZE)
    differs = (to_array(picture) != empty).any(axis=-1)[SIZE : 2 * SIZE]
    return to_array(picture)[SIZE : 2 * SIZE], {int(i) for i in np.flatnonzero(differs.any(axis=0)) // SIZE} & {2, 3, 4}


def test_counts():
    assert crowd_moves(SCENE, 3) == 6
    assert crowd_moves(SCENE, 1) == 4
    assert crowd_counts(SCENE, 3, 0) == CrowdCounts(arrived=0, walking=3, failed=0)
    assert crowd_counts(SCENE, 3, 1.9) == CrowdCounts(0, 3, 0)
    assert crowd_counts(SCENE, 3, 2) == CrowdCounts(0, 2, 1)
    assert crowd_counts(SCENE, 3, 4) == CrowdCounts(1, 1, 1)
    assert crowd_counts(SCENE, 2, 6) == CrowdCounts(2, 0, 0)


def test_dots_walk_failures_stay_as_crosses_and_arrivals_are_gone():
    picture, columns = squares(3, 1)
    assert (picture[:, 4 * SIZE : 5 * SIZE] == PALETTE.agent).all(axis=-1).any()
    assert columns >= {3, 4}  # with its trail
    half, _ = squares(2.5, 1)
    dot = np.flatnonzero((half == PALETTE.agent).all(axis=-1).any(axis=0)).mean() / SIZE
    assert abs(dot - 4.0) < 0.3  # on the edge of two squares, a little beside its middle
    picture, columns = squares(6, 3)
    assert columns == {2}
    red, _, blue = np.moveaxis(picture[:, 2 * SIZE : 3 * SIZE].astype(int), -1, 0)
    assert (red - blue).max() > 100  # orange
    assert not (picture == PALETTE.agent).all(axis=-1).any()


def test_the_bar_is_as_long_as_the_shares():
    bar = to_array(draw_counts(CrowdCounts(arrived=25, walking=25, failed=50), 200, 16))[2]
    assert (bar == PALETTE.success).all(axis=-1).sum() == 50
    assert (bar == PALETTE.failure).all(axis=-1).sum() == 100
    assert (bar[:50] == PALETTE.success).all()
    assert (bar[100:] == PALETTE.failure).all()
