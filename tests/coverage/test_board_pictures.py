"""The pictures for TensorBoard, by their pixels."""

import numpy as np
import pytest
import torch

from sera_maze.allocation.allocation import allocate, allocate_uniform
from sera_maze.coverage.dashboard_pictures import (
    CURVE,
    DOT,
    allocation_axes,
    allocation_picture,
    hardest,
    waterline_curve,
)
from sera_maze.coverage.evaluation import difficulty_of
from sera_maze.envs import MazePool

HELD_OUT = MazePool.generate(6, 5, seed=7, endpoints="random")


def dots(image):
    """Middles (x, y) of connected spots of the dots' colour below the legend, from left to right."""
    left = {(y, x) for y, x in np.argwhere((image == DOT).all(-1)).tolist() if y > 40}
    middles = []
    while left:
        edge = [left.pop()]
        spot = list(edge)
        while edge:
            y, x = edge.pop()
            near = {(y + i, x + j) for i in (-1, 0, 1) for j in (-1, 0, 1)} & left
            left -= near
            edge += near
            spot += near
        middles.append(tuple(np.mean(spot, axis=0)[::-1]))
    return sorted(middles)


def test_dots_stand_where_the_counts_are():
    """p = 0.02, 0.1, 0.5 get 38, 8, 2 of 48 rollouts."""
    prob = torch.tensor([0.5, 0.1, 0.02], dtype=torch.float64)
    allocation = allocate(prob, 48)
    assert allocation.counts.tolist() == [2, 8, 38]
    image = allocation_picture(allocation, prob, 16, (2, 64))
    axes = allocation_axes(allocation, prob, 16, (2, 64))
    assert (axes.least, axes.most) == pytest.approx((0.01, 1.06 * 64))
    wanted = [(0.02, 38), (0.1, 8), (0.5, 2)]
    found = dots(image)
    assert len(found) == 3
    for middle, (p, count) in zip(found, wanted, strict=True):
        assert middle == pytest.approx((axes.across(p), axes.down(count)), abs=1)
        y, x = round(axes.down(count)), round(axes.across(p))
        assert tuple(image[y, x]) == DOT  # full
    # The axes themselves, in pixels: dark lines from (58, 58) down to (58, 270), and from there right to (368, 270).
    assert (axes.across(0.01), axes.across(1)) == pytest.approx((58, 368))
    assert (axes.down(axes.most), axes.down(0)) == pytest.approx((58, 270))
    assert image[60:268, 57:60].min(axis=(1, 2)).max() < 100
    assert image[269:272, 60:366].min(axis=(0, 2)).max() < 100
    # Half-way between 0.01 and 1 on a logarithmic axis lies 0.1.
    assert axes.across(0.1) == pytest.approx((axes.across(0.01) + axes.across(1)) / 2)


def test_inactive_prompts_are_hollow_and_at_zero():
    prob = torch.tensor([0.5, 0.3, 1e-9], dtype=torch.float64)
    allocation = allocate(prob, 24)
    assert allocation.active.tolist() == [True, True, False]
    image = allocation_picture(allocation, prob, 8, (2, 32))
    axes = allocation_axes(allocation, prob, 8, (2, 32))
    assert axes.least == pytest.approx(1e-6)  # where smaller ones are drawn
    y, x = round(axes.down(0)), round(axes.across(1e-9))
    assert x == round(axes.across(1e-6))
    assert tuple(image[y, x]) == (255, 255, 255)
    ring = np.abs(image[y - 5 : y + 6, x - 5 : x + 6].astype(int) - DOT).max(-1)
    assert 4 <= (ring < 80).sum() < 40  # thin, so that few of its pixels have quite its colour
    for i in (0, 1):
        place = round(axes.down(allocation.counts[i].item())), round(axes.across(prob[i].item()))
        assert tuple(image[place]) == DOT


def test_the_curve_is_that_of_the_waterline():
    """tau = log 2 and p = 1/2, so c = log 2, give two rollouts; p = 3/4 gives 1.5; the ends are clipped."""
    curve = waterline_curve(np.array([0.5, 0.75, 1 - 1e-12, 1e-12]), 0.5, 1, 50)
    assert curve == pytest.approx([2, 1.5, 1 + np.log(2) / -np.log(1e-12), 50], rel=1e-3)
    assert waterline_curve(np.array([0.5, 0.75]), 0.5, 2, 50).tolist() == [2, 2]
    assert waterline_curve(np.array([0.5]), 0.0, 2, 50).tolist() == [50]
    prob = torch.tensor([0.2, 0.02], dtype=torch.float64)
    allocation = allocate(prob, 32)
    image, axes = allocation_picture(allocation, prob, 16, (2, 64)), allocation_axes(allocation, prob, 16, (2, 64))
    for p in (0.05, 0.012, 0.4):
        n = waterline_curve(np.array([p]), float(allocation.waterline), 2, 64)[0]
        y, x = round(axes.down(n)), round(axes.across(p))
        assert (image[y - 2 : y + 3, x - 2 : x + 3] == CURVE).all(-1).any()
        assert not (image[y - 20 : y - 6, x - 1 : x + 2] == CURVE).all(-1).any()


@pytest.mark.parametrize("prob", [[0.999999], [1e-300, 1 - 1e-16], [0.5] * 5])
def test_extreme_probabilities_can_be_drawn(prob):
    probability = torch.tensor(prob, dtype=torch.float64)
    for allocation in (
        allocate(probability, 8 * len(prob)), allocate_uniform(len(prob), 8 * len(prob), success_prob=probability),
    ):  # fmt: skip
        image = allocation_picture(allocation, probability, 8, (2, 32))
        assert (image == DOT).all(-1).any()


def test_the_hardest_mazes_are_those_with_the_longest_shortest_paths():
    lengths = difficulty_of(HELD_OUT)
    chosen = hardest(lengths, 3).tolist()
    assert chosen == sorted(range(6), key=lambda i: (-lengths[i], i))[:3]
    assert len(hardest(lengths, 50)) == 6
