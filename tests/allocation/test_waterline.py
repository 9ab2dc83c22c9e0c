"""The continuous solution against arithmetic with 400 digits, for success probabilities of any size."""

from decimal import Decimal, getcontext, localcontext

import numpy as np
import pytest
import torch

from sera_maze.allocation.allocation import allocate
from sera_maze.allocation.waterline import first_true

HIGHEST = 1 - 1e-16

EXTREMES = {
    "all orders": [10.0**-k for k in range(300, 0, -13)] + [1 - 10.0**-k for k in range(1, 16)] + [HIGHEST],
    "two worlds": [1e-300] * 5 + [HIGHEST] * 5,
    "one tiny": [1e-300, 0.5, 0.5, 0.5],
    "one easy": [HIGHEST, 1e-5, 1e-6, 1e-7],
    "tiny only": [10.0**-k for k in range(290, 301)],
    "easy only": [1 - 2.0**-k for k in range(40, 54)],
    "close": [0.3, 0.3 + 1e-15, 0.3 - 1e-15, 0.1],
    "single": [0.37],
}


def exact_solution(prob, budget, n_min, n_max):
    """Rollouts of every prompt, in Decimal: the segment is found by trying all breakpoints."""
    with localcontext() as context:
        context.prec = 400
        decays = [-(1 - Decimal(p)).ln() for p in prob]

        def rollouts(tau):
            return [min(max(1 + tau / c, Decimal(n_min)), Decimal(n_max)) for c in decays]

        # 1 + (n - 1) c / c may be 1e-399 off
        points = sorted((bound - 1) * c for c in decays for bound in (n_min, n_max))
        right = next(i for i, tau in enumerate(points) if sum(rollouts(tau)) >= budget - Decimal("1e-100"))
        low, high = points[max(right - 1, 0)], points[right]
        at_low, at_high = sum(rollouts(low)), sum(rollouts(high))
        share = 0 if at_high == at_low else (budget - at_low) / (at_high - at_low)
        tau = low + (high - low) * share
        return [float(n) for n in rollouts(tau)], (-tau).exp()


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize(("n_min", "n_max", "mean"), [(2, 64, 16), (1, 1000, 10), (2, 9, 3), (2, 8, 8), (3, 20, 3)])
def test_agrees_with_exact_arithmetic(name, n_min, n_max, mean):
    prob = EXTREMES[name]
    budget = len(prob) * mean
    expected, waterline = exact_solution(prob, budget, n_min, n_max)
    result = allocate(prob, budget, n_min=n_min, n_max=n_max, activation_threshold=None)
    assert result.continuous.tolist() == pytest.approx(expected, rel=1e-10, abs=0)
    # a relative error of tau of 1e-14 changes exp(-tau) by a factor 1 + 1e-14 tau
    assert result.waterline.item() == pytest.approx(float(waterline), rel=1e-10, abs=1e-310)
    assert (result.counts - torch.tensor(expected)).abs().max() < 1 + 1e-6


def test_prefix_sums_would_be_off_by_hundreds():
    """The fault this guards against: differences of running sums of 1 / c, in which the tiny p drown all others."""
    prob = np.array(EXTREMES["all orders"])
    budget, n_min, n_max = len(prob) * 100, 2, 1000
    expected, _ = exact_solution(prob.tolist(), budget, n_min, n_max)
    between = (np.array(expected) > n_min) & (np.array(expected) < n_max)
    assert between.sum() > 0

    inverse = 1 / -np.log1p(-np.sort(prob))
    running = np.concatenate([[0.0], np.cumsum(inverse)])
    first, last = np.flatnonzero(between[np.argsort(prob, kind="stable")])[[0, -1]]
    slope = running[last + 1] - running[first]
    true_slope = inverse[first : last + 1].sum()
    assert abs(slope - true_slope) > 0.5 * true_slope

    result = allocate(prob, budget, n_min=n_min, n_max=n_max, activation_threshold=None)
    assert np.abs(result.counts.numpy() - expected).max() < 1
    assert result.counts.sum() == budget


def test_waterline_is_the_lowest_level_reached_before_rounding():
    result = allocate([0.02, 0.1, 0.5, 0.9], 64, activation_threshold=None)
    level = 1 - (1 - np.array([0.02, 0.1, 0.5, 0.9])) ** (result.continuous.numpy() - 1)
    assert 1 - level.min() == pytest.approx(result.waterline.item(), rel=1e-12)


def test_a_budget_that_ends_at_a_breakpoint_stays_there():
    """In every batch the first prompt alone is active and takes the budget whole, so tau is the end of its rise.

    The total there may be rounded below the budget; tau must still not move on to the breakpoints of the other prompt.
    """
    first = torch.rand(1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 0.8 + 0.1
    result = allocate(torch.stack([first, torch.full_like(first, HIGHEST)], dim=1), 10, n_min=1, n_max=10)
    assert result.active[:, 0].all()
    assert not result.active[:, 1].any()
    assert (result.counts[:, 0] == 10).all()
    assert (result.continuous[:, 0] - 10).abs().max() < 1e-11
    assert result.waterline.tolist() == pytest.approx(((1 - first) ** 9).tolist(), rel=1e-12)


def test_decimal_settings_are_left_alone():
    assert getcontext().prec == 28


@pytest.mark.parametrize("width", [1, 2, 7, 31])
@pytest.mark.parametrize("span", [0, 1, 2, 30, 31, 32, 1000])
def test_first_true_finds_every_place(span, width):
    answers = torch.arange(span + 1)[:, None]
    start = torch.zeros_like(answers)
    tried = []

    def is_true(places):
        tried.append(places)
        assert (places >= 0).all()
        assert (places <= span).all()
        return places >= answers

    assert (first_true(start, start + span, span, width, is_true) == answers).all()
    assert (first_true(start, start + span, span, width, lambda places: places < 0) == span).all()
    assert len(tried) <= np.ceil(np.log(span + 1.5) / np.log(width + 1))


def test_first_true_of_the_largest_numbers():
    start = torch.zeros((1, 1), dtype=torch.int64)
    stop = torch.full_like(start, 0x7FF0_0000_0000_0000)
    for answer in (0, 1, 12345678901234567, 0x7FEF_FFFF_FFFF_FFFF):
        for width in (1, 7, 31):
            found = first_true(start, stop, int(stop), width, lambda places, answer=answer: places >= answer)
            assert found.item() == answer
