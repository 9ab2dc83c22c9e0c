"""Where mazes come from: as JSON holds it, and never nested without end."""

import numpy as np
import pytest

from sera_maze.envs.pools.pool import MazePool
from sera_maze.envs.pools.provenance import checked_provenance, put_together, taken


@pytest.fixture(scope="module")
def pool():
    return MazePool.generate(12, 9)


def test_it_is_copied_as_it_comes_back_from_a_file(pool):
    mine = {"made_by": "hand", "sides": (9, 9), "notes": {1: None}}
    made = MazePool(pool.walls, pool.start, pool.goal, provenance=mine)
    assert made.provenance == {"made_by": "hand", "sides": [9, 9], "notes": {"1": None}}
    mine["made_by"] = "changed"
    assert made.provenance["made_by"] == "hand"
    assert MazePool(pool.walls, pool.start, pool.goal, provenance={}).provenance == {}


def nested(depth):
    inner = {}
    for _ in range(depth):
        inner = {"of": inner}
    return inner


@pytest.mark.parametrize(
    ("provenance", "error", "words"),
    [
        ("by hand", TypeError, "provenance is a str; allowed is a dict"),
        ([], TypeError, "provenance is a list"),
        ({"seed": np.int64(3)}, TypeError, "cannot be written as JSON .*int64"),
        ({"seed": {1, 2}}, TypeError, "cannot be written as JSON .*set"),
        ({(1, 2): 3}, TypeError, "cannot be written as JSON .*keys"),
        ({"share": float("nan")}, ValueError, "cannot be written as JSON"),
        (nested(100_000), ValueError, "cannot be written as JSON"),
    ],
)
def test_what_json_cannot_hold_is_refused(pool, provenance, error, words):
    with pytest.raises(error, match=words):
        MazePool(pool.walls, pool.start, pool.goal, provenance=provenance)
    with pytest.raises(error, match=words):
        MazePool.from_layouts(list(pool), provenance=provenance)
    with pytest.raises(error, match=words):
        checked_provenance(provenance)


def test_the_last_step_and_the_first_source_are_told(pool):
    part = pool
    for _ in range(2000):
        part = part[::-1]
    assert part.provenance == {"made_by": "selection", "of": pool.provenance}
    for seed in range(5):
        part = part.split(1, seed)[0]
    assert part.provenance == {"made_by": "split", "held_out": 1, "seed": 4, "part": "train", "of": pool.provenance}


def test_sources_of_parts_are_told_once_each(pool):
    other = MazePool.generate(3, 9, seed=1)
    whole = pool[:1]
    for i in range(1, 12):
        whole = MazePool.concatenate([whole, pool[i : i + 1]])
    assert whole.provenance == {"made_by": "concatenate", "parts": [pool.provenance]}
    both = MazePool.concatenate([whole, other])
    assert both.provenance == {"made_by": "concatenate", "parts": [pool.provenance, other.provenance]}
    assert both[:4].provenance == {"made_by": "selection", "of": both.provenance}
    assert whole[:4].provenance == {"made_by": "selection", "of": pool.provenance}


def test_a_long_history_from_elsewhere():
    assert taken({"made_by": "selection"}, nested(5000)) == {"made_by": "selection", "of": {}}
    assert put_together([nested(5000), {"parts": []}]) == {"made_by": "concatenate", "parts": [{}, {"parts": []}]}
