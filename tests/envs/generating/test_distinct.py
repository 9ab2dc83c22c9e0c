"""Different mazes of a seed: made in batches that cost little more than what was asked for."""

import numpy as np
import pytest

from sera_maze.envs.generating import distinct
from sera_maze.envs.generating.generate import generate_until_failure
from sera_maze.envs.generating.spec import MazeSpec
from sera_maze.envs.layouts.layout import digest_content
from sera_maze.envs.pools.pool import MazePool


@pytest.fixture
def batches(monkeypatch):
    """Sizes of the batches that are made."""
    sizes = []

    def spy(spec, count, *arguments, **options):
        sizes.append(count)
        return generate_until_failure(spec, count, *arguments, **options)

    monkeypatch.setattr(distinct, "generate_until_failure", spy)
    return sizes


@pytest.mark.parametrize("count", [1, 7, 2000])
def test_no_more_mazes_are_made_than_asked_for(batches, count):
    MazePool.generate(count, 17)
    assert batches == [count]


def test_later_batches_grow(batches):
    assert len(MazePool.generate(192, 7, "wilson")) == 192
    assert batches[0] == 192
    assert batches[1] < 192
    spare = [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023]
    missing = [size - extra for size, extra in zip(batches, spare, strict=False)]
    assert missing == sorted(missing, reverse=True)
    assert missing[-1] >= 1


def test_batches_have_a_limit_of_bytes(batches, monkeypatch):
    monkeypatch.setattr(distinct, "_MAX_BATCH_BYTES", 10 * 17 * 17)
    pool = MazePool.generate(25, 17)
    assert batches == [10, 10, 5]
    monkeypatch.setattr(distinct, "_MAX_BATCH_BYTES", 1)
    np.testing.assert_array_equal(MazePool.generate(3, 17).walls, pool.walls[:3])
    assert batches[3:] == [1, 1, 1]


def test_one_large_maze_is_made_alone(batches):
    assert MazePool.generate(1, 1001).size == (1001, 1001)
    assert batches == [1]


def test_a_maze_that_cannot_be_made_is_an_error_only_where_it_is_needed():
    options = {"endpoints": "distance", "distance": 26}
    mazes, failure = generate_until_failure(MazeSpec((9, 9), **options), 200, 0)
    assert failure.startswith("maze 87 of seed 0: no two cells are distance=26 moves apart")
    different = len(set(digest_content(*mazes)))
    assert 80 < different <= 87
    pool = MazePool.generate(different, 9, **options)
    assert (pool.shortest_lengths == 26).all()
    with pytest.raises(ValueError, match="maze 87 of seed 0: no two cells are distance=26 moves apart"):
        MazePool.generate(different + 1, 9, **options)
    with pytest.raises(ValueError, match="maze 87 of seed 0"):
        MazePool.generate(1, 9, exclude=pool, **options)
