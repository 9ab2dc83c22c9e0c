"""pass@k to 12 digits and its mean over mazes."""

import math
import re
import time
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sera_maze.coverage.unbiased import (
    coverage,
    distinct_solutions,
    distinct_solutions_by_prompt,
    pass_at_k,
    shown_interval,
)


def exact_value(n, c, k):
    """The formula in rational numbers."""
    return float(1 - Fraction(math.comb(n - c, k), math.comb(n, k)))


@pytest.mark.parametrize(
    ("n", "c", "k", "value"),
    [
        (4, 1, 2, 1 / 2), (8, 3, 4, 13 / 14), (10, 3, 5, 11 / 12), (16, 2, 8, 23 / 30), (200, 1, 100, 1 / 2),
        (4096, 1, 2048, 1 / 2), (10**6, 1, 1, 1e-6), (10**15, 1, 1, 1e-15), (2**53, 1, 2**52, 1 / 2),
        (5, 0, 3, 0), (5, 5, 1, 1), (5, 3, 3, 1), (1, 1, 1, 1), (1, 0, 1, 0), (7, 2, 1, 2 / 7), (7, 1, 7, 1),
    ],
)  # fmt: skip
def test_hand_values(n, c, k, value):
    found = pass_at_k(n, c, k)
    assert type(found) is float
    assert found == pytest.approx(value, rel=1e-14, abs=0)


def test_published_values():
    assert round(pass_at_k(10000, 5000, 10), 10) == 0.9990278263
    assert round(pass_at_k(2048, 3, 256), 10) == 0.3302184228


@given(st.integers(1, 1500).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
@settings(max_examples=300, deadline=None)
def test_twelve_digits(case):
    assert pass_at_k(*case) == pytest.approx(exact_value(*case), rel=1e-13, abs=0)


@pytest.mark.parametrize(
    "case",
    [
        (2000, 257, 300), (5000, 300, 300), (10_000, 257, 257), (10_000, 256, 257), (600, 300, 300), (2000, 400, 1600),
        (10**6, 256, 300), (10**6, 257, 300), (10**6, 300, 257), (10**6, 4000, 9000), (10**5, 1000, 3000),
        (70_000, 1600, 1700), (2**40, 300, 400), (2**40, 1000, 2000), (2**53, 500, 2**40),
        (10**6, 3, 999_990), (10**6, 2, 10**6 - 1),
    ],
)  # fmt: skip
def test_twelve_digits_of_long_products(case):
    """Above 256 factors the logarithms are summed by quadrature: the same digits on both sides of that limit."""
    n, c, k = case
    few, many = min(c, k), max(c, k)
    quotient = Fraction(math.prod(range(n - many - few + 1, n - many + 1)), math.prod(range(n - few + 1, n + 1)))
    assert pass_at_k(n, c, k) == pytest.approx(float(1 - quotient), rel=1e-13, abs=0)


def test_is_the_mean_over_all_subsets():
    outcomes = [True, False, False, True, False, False, False]
    for k in range(1, 8):
        subsets = list(combinations(outcomes, k))
        assert pass_at_k(7, 2, k) == pytest.approx(sum(map(any, subsets)) / len(subsets), rel=1e-14)


def test_arrays_broadcast():
    counts = np.array([[0], [1], [8]])
    found = pass_at_k(8, counts, [1, 4, 8])
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, [[0, 0, 0], [1 / 8, 1 / 2, 1], [1, 1, 1]], rtol=1e-15)
    assert pass_at_k(np.int32(8), np.uint8(1), np.int64(4)) == 0.5
    assert pass_at_k(8, np.zeros((0, 3), int), 4).shape == (0, 3)
    assert pass_at_k(np.array([8]), 1, 4).tolist() == [0.5]


def test_cost_is_bounded():
    """Summing every factor of these would take minutes."""
    n = np.full(100_000, 2**53)
    pass_at_k(4, 1, 2)
    start = time.perf_counter()
    found = pass_at_k(n, 2**26, 2**28)
    assert time.perf_counter() - start < 2
    assert found[0] == found[-1] == pytest.approx(-math.expm1(-2), rel=1e-7)


@pytest.mark.parametrize(
    ("n", "c", "k", "message"),
    [
        (4, 1, 5, "k=5 is out of range with n=4; give 1 to n; for a larger k, sample more"),
        (4, 1, 0, "k=0 is out of range"),
        (4, 1, -1, "k=-1 is out of range"),
        (0, 0, 1, "n=0 is out of range"),
        (-3, 0, 1, "n=-3 is out of range"),
        (2**53 + 1, 0, 1, "n=9007199254740993 is out of range"),
        (4, 5, 1, "c=5 is out of range with n=4; give 0 to n successes"),
        (4, -1, 1, "c=-1 is out of range"),
        (4, [[1, 2], [3, 9]], 1, "c=9 at (1, 1) is out of range with n=4"),
        ([4, 4], [1, 2, 3], 1, "the shapes do not broadcast: n (2,), c (3,), k ()"),
    ],
)
def test_errors(n, c, k, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        pass_at_k(n, c, k)


@pytest.mark.parametrize("bad", [1.0, 1.5, math.nan, math.inf, True, "1", None, [1.0], [True], 2**70])
def test_type_errors(bad):
    for place, name in enumerate("nck"):
        arguments = [1, 1, 1]
        arguments[place] = bad
        with pytest.raises(TypeError, match=f"^{name} must be integers"):
            pass_at_k(*arguments)


def test_coverage_by_hand():
    """pass@1 of the three mazes is 0, 1/4 and 1; pass@2 is 0, 1/2 and 1."""
    outcomes = np.array([[0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1]], bool)
    found = coverage(outcomes, [1, 2])
    assert (found.n, found.ks) == (4, (1, 2))
    np.testing.assert_allclose(found.per_maze, [[0, 0], [1 / 4, 1 / 2], [1, 1]], rtol=1e-15)
    np.testing.assert_allclose(found.pass_at_k, [5 / 12, 1 / 2], rtol=1e-15)
    # Variances 13/48 and 1/4 over three mazes.
    np.testing.assert_allclose(found.standard_error, [math.sqrt(13 / 144), math.sqrt(1 / 12)], rtol=1e-14)
    np.testing.assert_allclose(found.low, [0, 0], atol=0)
    np.testing.assert_allclose(found.high, [1, 1], atol=0)
    assert found.solved_fraction == pytest.approx(2 / 3, rel=1e-15)


def test_coverage_of_counts_and_interval():
    counts = np.random.default_rng(0).binomial(64, 0.3, size=100)
    found = coverage(counts, (1, 8), n=64)
    outcomes = np.arange(64) < counts[:, None]
    np.testing.assert_array_equal(found.per_maze, coverage(outcomes, (1, 8), n=64).per_maze)
    assert found.pass_at_k[0] == pytest.approx(counts.mean() / 64, rel=1e-14)
    error = counts.std(ddof=1) / 64 / 10
    assert found.standard_error[0] == pytest.approx(error, rel=1e-12)
    assert found.low[0] == pytest.approx(counts.mean() / 64 - 1.95996 * error, rel=1e-6)
    assert found.high[0] == pytest.approx(counts.mean() / 64 + 1.95996 * error, rel=1e-6)


def test_shown_interval_near_0_and_1_holds_that_of_wilson():
    # All of 100 mazes: 100 / (100 + 1.95996**2).
    assert shown_interval(1.0, 1.0, 1.0, 100) == pytest.approx((0.963007, 1), abs=1e-6)
    assert shown_interval(0.0, 0.0, 0.0, 100) == pytest.approx((0, 0.036993), abs=1e-6)
    assert shown_interval(0.98, 0.975, 0.985, 100) == pytest.approx((0.929988, 0.994498), abs=1e-6)  # 98 of 100
    assert shown_interval(0.95, 0.94, 0.96, 100) == (0.94, 0.96)  # five mazes' worth of failures
    assert shown_interval(0.5, 0.5, 0.5, 100) == pytest.approx((0.403832, 0.596168), abs=1e-6)  # all alike
    assert np.isnan(shown_interval(1.0, np.nan, np.nan, 1)).all()


def test_samples_are_not_pooled():
    """One sure and one hopeless maze: pooling 8 samples with 4 successes would give pass@4 = 69/70."""
    found = coverage([4, 0], [1, 4], n=4)
    assert found.pass_at_k.tolist() == [0.5, 0.5]
    assert pass_at_k(8, 4, 4) == pytest.approx(69 / 70)


def test_coverage_of_a_single_maze_and_of_none_solved():
    alone = coverage([2], [1], n=4)
    assert alone.pass_at_k.tolist() == [0.5]
    assert np.isnan([alone.standard_error, alone.low, alone.high]).all()
    unsolved = coverage(np.zeros((3, 4), bool), [1])
    assert unsolved.solved_fraction == 0


@pytest.mark.parametrize(
    ("successes", "ks", "n", "error", "message"),
    [
        ([1, 2], [1], None, ValueError, "numbers of successes need n"),
        ([1, 5], [1], 4, ValueError, "c=5 at (1, 0) is out of range with n=4"),
        ([1, 2], [5], 4, ValueError, "ks[0]=5 is out of range"),
        ([1, 2], [1.0], 4, TypeError, "ks[0]=1.0 is not an integer"),
        ([1, 2], [], 4, ValueError, "2 mazes and 0 values of k"),
        (np.zeros(0, int), [1], 4, ValueError, "0 mazes and 1 values of k"),
        ([[True, False]], [1], 3, ValueError, "n=3 does not fit successes of shape (1, 2)"),
        ([[1, 0]], [1], None, TypeError, "successes must be (M, n) bool or (M,) integers, got int64 of shape (1, 2)"),
        ([True, False], [1], 2, TypeError, "successes must be (M, n) bool"),
        ([0.5], [1], 2, TypeError, "got float64 of shape (1,)"),
    ],
)
def test_coverage_errors(successes, ks, n, error, message):
    with pytest.raises(error, match=re.escape(message)):
        coverage(successes, ks, n)


def test_distinct_solutions_are_here_too():
    assert distinct_solutions([[(1, 1), (1, 2)]], [True]) == 1
    assert distinct_solutions_by_prompt([[1, 2]], [2], [True], [0], 1).tolist() == [1]
