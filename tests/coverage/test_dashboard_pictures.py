"""The pictures for TensorBoard, by what stands in them and by their pixels."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from sera_maze.allocation.allocation import allocate, allocate_uniform
from sera_maze.coverage.dashboard_pictures import (
    CURVE,
    DOT,
    allocation_figure,
    allocation_picture,
    hardest,
    waterline_curve,
)
from sera_maze.coverage.evaluation import difficulty_of
from sera_maze.envs import MazePool

HELD_OUT = MazePool.generate(6, 5, seed=7, endpoints="random")


def drawn(*arguments):
    """What stands in the figure: its axes; its lines by the beginnings of their names; its words and their heights."""
    figure = allocation_figure(*arguments)
    (axes,) = figure.axes
    lines = {line.get_label().split(":")[0]: line for line in axes.lines if not line.get_label().startswith("_")}
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.texts] == [line.get_label() for line in lines.values()]
    return axes, lines, {text.get_text(): text.xy[1] for text in axes.texts}


def pixel(image, axes, p, rollouts):
    """(row, column) at which a success probability and a number of rollouts stand in the picture."""
    x, y = axes.transData.transform((p, rollouts))
    return round(len(image) - y), round(x)


def test_dots_stand_where_the_counts_are():
    """p = 0.02, 0.1, 0.5 get 38, 8, 2 of 48 rollouts."""
    prob = torch.tensor([0.5, 0.1, 0.02], dtype=torch.float64)
    allocation = allocate(prob, 48)
    assert allocation.counts.tolist() == [2, 8, 38]
    image = allocation_picture(allocation, prob, 16, (2, 64))
    assert (image.shape, image.dtype) == ((320, 460, 3), np.uint8)
    axes, lines, words = drawn(allocation, prob, 16, (2, 64))
    assert list(lines) == ["active", "waterline"]
    assert lines["active"].get_label() == "active: 3"
    assert lines["active"].get_xydata() == pytest.approx(np.array([[0.5, 2], [0.1, 8], [0.02, 38]]))
    assert axes.get_xlim() == pytest.approx((0.01, 1))
    assert axes.get_ylim() == pytest.approx((0, 1.06 * 64))
    assert words == {"n_min = 2": 2, "N0 = 16": 16, "n_max = 64": 64}
    assert axes.get_xscale() == "log"
    for p, count in ((0.5, 2), (0.1, 8), (0.02, 38)):
        assert tuple(image[pixel(image, axes, p, count)]) == DOT
    # Half-way between 0.01 and 1 on a logarithmic axis lies 0.1.
    _, (left, middle, right) = zip(*(pixel(image, axes, p, 0) for p in (0.01, 0.1, 1)), strict=True)
    assert middle == pytest.approx((left + right) / 2, abs=1)


def test_inactive_prompts_are_hollow_and_at_zero():
    prob = torch.tensor([0.5, 0.3, 1e-9], dtype=torch.float64)
    allocation = allocate(prob, 24)
    assert allocation.active.tolist() == [True, True, False]
    image = allocation_picture(allocation, prob, 8, (2, 32))
    axes, lines, _ = drawn(allocation, prob, 8, (2, 32))
    assert axes.get_xlim()[0] == pytest.approx(1e-6)  # where smaller ones are drawn
    assert lines["inactive"].get_label() == "inactive: 1"
    assert lines["inactive"].get_xydata() == pytest.approx(np.array([[1e-6, 0]]))
    y, x = pixel(image, axes, 1e-6, 0)
    assert tuple(image[y, x]) == (255, 255, 255)
    assert (np.abs(image[y - 6 : y + 7, x - 6 : x + 7].astype(int) - DOT).max(-1) < 80).any()  # its rim
    for i in (0, 1):
        assert tuple(image[pixel(image, axes, prob[i].item(), allocation.counts[i].item())]) == DOT


def test_nothing_is_left_of_the_picture_before():
    prob = torch.tensor([0.5, 0.3, 1e-9], dtype=torch.float64)
    first = allocation_picture(allocate(prob, 24), prob, 8, (2, 32))
    other = torch.tensor([0.2, 0.02], dtype=torch.float64)
    uniform = allocation_picture(allocate_uniform(2, 32, success_prob=other), other, 16)
    assert not (uniform == CURVE).all(-1).any()
    assert (allocation_picture(allocate(prob, 24), prob, 8, (2, 32)) == first).all()


def test_the_names_of_lines_do_not_overlap_and_nothing_is_cut_off():
    """1 of at most 4096 rollouts, and 4 on average: all three names would stand on one another or nearly so."""
    prob = torch.tensor([0.9] * 1000 + [1e-5] * 1000, dtype=torch.float64)
    figure = allocation_figure(allocate(prob, 8000, n_min=1, n_max=4096), prob, 4, (1, 4096))
    (axes,), (legend,), page = figure.axes, figure.legends, figure.bbox
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    names = [text.get_window_extent(renderer) for text in axes.texts]
    assert len(names) == 3
    for lower, upper in pairwise(sorted(names, key=lambda box: box.y0)):
        assert lower.y1 <= upper.y0
    for box in (*names, legend.get_window_extent(renderer), axes.get_tightbbox(renderer)):
        assert page.x0 <= box.x0 < box.x1 <= page.x1
        assert page.y0 <= box.y0 < box.y1 <= page.y1
    assert legend.get_window_extent(renderer).y0 >= axes.bbox.y1


def test_the_curve_is_that_of_the_waterline():
    """tau = log 2 and p = 1/2, so c = log 2, give two rollouts; p = 3/4 gives 1.5; the ends are clipped."""
    curve = waterline_curve(np.array([0.5, 0.75, 1 - 1e-12, 1e-12]), 0.5, 1, 50)
    assert curve == pytest.approx([2, 1.5, 1 + np.log(2) / -np.log(1e-12), 50], rel=1e-3)
    assert waterline_curve(np.array([0.5, 0.75]), 0.5, 2, 50).tolist() == [2, 2]
    assert waterline_curve(np.array([0.5]), 0.0, 2, 50).tolist() == [50]
    prob = torch.tensor([0.2, 0.02], dtype=torch.float64)
    allocation = allocate(prob, 32)
    image = allocation_picture(allocation, prob, 16, (2, 64))
    axes, lines, _ = drawn(allocation, prob, 16, (2, 64))
    p, rollouts = lines["waterline"].get_data()
    assert (p[0], p[-1]) == pytest.approx((0.01, 1))
    assert rollouts == pytest.approx(waterline_curve(p, float(allocation.waterline), 2, 64))
    n = waterline_curve(np.array([0.05]), float(allocation.waterline), 2, 64)[0]
    y, x = pixel(image, axes, 0.05, n)
    assert (image[y - 2 : y + 3, x - 2 : x + 3] == CURVE).all(-1).any()


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
