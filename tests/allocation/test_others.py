"""The other allocators: against brute force over all divisions, against closed forms, and what they refuse."""

import doctest
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sera_maze.allocation import others as allocators
from sera_maze.allocation.allocation import allocate
from sera_maze.allocation.others import allocate_knapsack, allocate_posterior, allocate_vip

PROBABILITIES = st.lists(st.floats(1e-4, 1 - 1e-4), min_size=2, max_size=4)


def divisions(num_prompts, budget, n_min, n_max):
    """All counts that are allowed."""
    for counts in itertools.product(range(n_min, n_max + 1), repeat=num_prompts):
        if sum(counts) == budget:
            yield counts


def variance(p, n):
    return p * (1 - p) / (n - 1)


def knapsack_value(p, n):
    return (1 - p**n - (1 - p) ** n) * p * (1 - p) ** 2


def expected_failure(a, b, n):
    """E[(1 - p)^n] for p from Beta(a, b), by its definition with gamma functions."""
    return math.exp(math.lgamma(b + n) - math.lgamma(a + b + n) + math.lgamma(a + b) - math.lgamma(b))


@settings(max_examples=60, deadline=None)
@given(PROBABILITIES, st.integers(0, 8))
def test_vip_is_the_least_variance_of_all_divisions(p, more):
    budget = min(2 * len(p) + more, 7 * len(p))
    counts = allocate_vip(p, budget, n_max=7).counts.tolist()
    found = sum(map(variance, p, counts))
    assert sum(counts) == budget
    assert found <= min(sum(map(variance, p, other)) for other in divisions(len(p), budget, 2, 7)) * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(PROBABILITIES, st.integers(0, 8))
def test_knapsack_is_the_largest_value_of_all_divisions(p, more):
    budget = min(2 * len(p) + more, 7 * len(p))
    counts = allocate_knapsack(p, budget, n_max=7).counts.tolist()
    found = sum(map(knapsack_value, p, counts))
    assert sum(counts) == budget
    best = max(sum(map(knapsack_value, p, other)) for other in divisions(len(p), budget, 2, 7))
    assert found >= best * (1 - 1e-12)


def test_vip_approaches_its_closed_form():
    """N - 1 proportional to sqrt(p (1 - p))."""
    p = np.array([0.5, 0.1, 0.01, 0.9])
    counts = allocate_vip(p, 10_000, n_max=10_000).counts.numpy()
    shares = np.sqrt(p * (1 - p))
    np.testing.assert_allclose(counts - 1, (10_000 - 4) * shares / shares.sum(), atol=1)


def test_knapsack_by_hand():
    """p = 1/2: the third rollout adds 1/4 to u, worth 1/32, the fourth 1/64; p = 0.9: 0.09, worth 0.00081."""
    result = allocate_knapsack([0.9, 0.5], 6, n_max=4)
    assert result.counts.tolist() == [2, 4]
    assert result.weights.tolist() == [3 / 2, 3 / 4]
    assert result.attenuation.tolist() == pytest.approx([0.9, 7 / 8])
    assert result.active.tolist() == [True, True]
    assert result.waterline is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 30), st.floats(0.1, 30)), min_size=2, max_size=4), st.integers(0, 8))
def test_posterior_is_the_max_min_of_expected_attenuations(posterior, more):
    budget = min(2 * len(posterior) + more, 7 * len(posterior))
    a, b = (list(numbers) for numbers in zip(*posterior, strict=True))
    result = allocate_posterior(a, b, budget, n_max=7, activation_threshold=None)
    counts = result.counts.tolist()

    def highest_failure(numbers):
        return max(expected_failure(a[i], b[i], n - 1) for i, n in enumerate(numbers))

    assert sum(counts) == budget
    assert highest_failure(counts) <= min(map(highest_failure, divisions(len(a), budget, 2, 7))) * (1 + 1e-9)
    expected = [1 - expected_failure(a[i], b[i], n - 1) for i, n in enumerate(counts)]
    assert result.attenuation.tolist() == pytest.approx(expected, rel=1e-9)


def test_a_sharp_posterior_is_the_waterline_in_whole_rollouts():
    p = torch.rand(40, generator=torch.Generator().manual_seed(0), dtype=torch.float64) ** 2
    sharp = 1e9
    for threshold in (None, 0.05, 0.5):
        expected = allocate(p, 640, rounding="maxmin", activation_threshold=threshold)
        found = allocate_posterior(sharp * p, sharp * (1 - p), 640, activation_threshold=threshold)
        assert found.active.tolist() == expected.active.tolist()
        assert found.counts.tolist() == expected.counts.tolist()
        torch.testing.assert_close(found.attenuation, expected.attenuation, rtol=1e-6, atol=0)


def test_a_vague_posterior_gets_more_than_a_sharp_one_of_the_same_mean():
    counts = allocate_posterior([0.5, 50.0], [0.5, 50.0], 20, n_max=18, activation_threshold=None).counts
    assert counts[0] > counts[1]


def test_prompts_that_are_hardly_ever_mixed_are_left_out():
    result = allocate_posterior([5.0, 0.001, 5.0], [5.0, 1000.0, 5.0], 24)
    assert result.counts.tolist() == [12, 0, 12]
    assert result.weights.tolist() == pytest.approx([8 / 12, 0, 8 / 12])
    assert result.attenuation[1] == 0


@pytest.mark.parametrize("share", [allocate_vip, allocate_knapsack])
def test_extreme_probabilities_and_many_batches(share):
    p = torch.tensor([[1e-300, 0.5, 1 - 1e-16], [0.2, 0.3, 0.4]], dtype=torch.float64)
    result = share(p, 30, n_min=1)
    assert result.counts.sum(-1).tolist() == [30, 30]
    assert result.counts.min() >= 1
    assert torch.isfinite(result.attenuation).all()
    for row, alone in zip(p, result.counts, strict=True):
        assert share(row, 30, n_min=1).counts.tolist() == alone.tolist()


def test_equal_prompts_get_equal_counts_and_the_rest_goes_to_the_first():
    for result in (
        allocate_vip([0.3] * 4, 18), allocate_knapsack([0.3] * 4, 18), allocate_posterior([0.5] * 4, [0.5] * 4, 18)
    ):  # fmt: skip
        assert result.counts.tolist() == [5, 5, 4, 4]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: allocate_vip([0.5, 1.0], 8), r"success_prob\[1\] is 1.0"),
        (lambda: allocate_knapsack([0.5, 0.5], 3), "budget=3 does not suit 2 prompts"),
        (lambda: allocate_vip([0.5, 0.5], 8, n_min=3, n_max=2), "n_max=2 is below n_min=3"),
        (lambda: allocate_posterior([0.5, 0.0], [0.5, 0.5], 8), r"successes\[1\] is 0.0"),
        (lambda: allocate_posterior([0.5, 1.0], [0.5, float("inf")], 8), r"failures\[1\] is inf"),
        (lambda: allocate_posterior([0.5, 1.0], [0.5], 8), r"successes has shape \(2,\) and failures \(1,\)"),
        (lambda: allocate_posterior([0.5], [0.5], 4, activation_threshold=1.0), "activation_threshold=1.0"),
        (lambda: allocate_vip([0.5] * 4, 2**28, n_max=2**28), "too many for this allocator"),
        (lambda: allocate_posterior([0.5] * 4, [0.5] * 4, 8, n_max=2**23), "too many for this allocator"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_equal_scores_are_ranked_by_index_as_in_the_waterline():
    for p in ([0.1, 0.9, 0.1, 0.9], [0.9, 0.1, 0.1, 0.9]):
        posterior = [10 * x for x in p], [10 - 10 * x for x in p]
        expected = allocate(p, 16, activation_threshold=0.5).active.tolist()
        assert allocate_posterior(*posterior, 16, activation_threshold=0.5).active.tolist() == expected


def test_more_than_can_be_had_is_no_limit():
    assert allocate_vip([0.5, 0.4], 100, n_max=2**30).counts.sum() == 100
    assert allocate_knapsack([0.5, 0.4], 100, n_max=2**30).counts.tolist() == (
        allocate_knapsack([0.5, 0.4], 100, n_max=98).counts.tolist()
    )


def test_no_gradient_and_no_other_numbers():
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    assert not allocate_posterior(a, a, 8).attenuation.requires_grad
    with pytest.raises(TypeError, match=r"successes has dtype torch.complex64; allowed are real"):
        allocate_posterior(torch.tensor([1j, 2]), [0.5, 0.5], 8)
    with pytest.raises(ValueError, match="failures is not an array"):
        allocate_posterior([0.5, 0.5], ["x", 1.0], 8)


def test_examples():
    assert doctest.testmod(allocators).failed == 0
