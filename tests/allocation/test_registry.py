"""The allocators by name: each does what its function does, and nothing is shared out by what is not known."""

import pytest
import torch

from sera_maze.allocation.allocation import allocate, allocate_uniform
from sera_maze.allocation.others import allocate_knapsack, allocate_posterior, allocate_vip
from sera_maze.allocation.registry import ALLOCATORS, Bounds, share_out
from sera_maze.allocation.success import Estimate

BOUNDS = Bounds(n_min=1, n_max=9, activation_threshold=0.05, rounding="maxmin")
BUDGET = 16
POSTERIOR = torch.tensor([1.0, 2.0, 0.5, 4.0]).double(), torch.tensor([3.0, 2.0, 7.5, 1.0]).double()
PROBABILITY = POSTERIOR[0] / (POSTERIOR[0] + POSTERIOR[1])
EXPECTED = {
    "uniform": lambda: allocate_uniform(4, BUDGET, success_prob=PROBABILITY),
    "sera": lambda: allocate(PROBABILITY, BUDGET, n_min=1, n_max=9, activation_threshold=0.05, rounding="maxmin"),
    "sera_posterior": lambda: allocate_posterior(*POSTERIOR, BUDGET, n_min=1, n_max=9, activation_threshold=0.05),
    "vip": lambda: allocate_vip(PROBABILITY, BUDGET, n_min=1, n_max=9),
    "knapsack": lambda: allocate_knapsack(PROBABILITY, BUDGET, n_min=1, n_max=9),
}


def shared_out(name, estimate):
    return share_out(name, estimate, 4, BUDGET, BOUNDS, torch.device("cpu"))


def test_every_allocator_has_a_line_here():
    assert EXPECTED.keys() == ALLOCATORS.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_an_estimate_is_shared_out_by_the_allocator_of_that_name(name):
    found, expected = shared_out(name, Estimate(PROBABILITY, POSTERIOR)), EXPECTED[name]()
    assert found.counts.tolist() == expected.counts.tolist()
    assert found.counts.sum() == BUDGET
    assert torch.equal(found.active, expected.active)
    assert found.waterline == expected.waterline
    assert (len(set(found.counts.tolist())) == 1) is (name == "uniform")


@pytest.mark.parametrize("name", EXPECTED)
def test_as_long_as_nothing_is_known_the_budget_is_shared_out_evenly(name):
    assert shared_out(name, None).counts.tolist() == [4, 4, 4, 4]


def test_posteriors_that_an_estimator_has_not_are_asked_for():
    with pytest.raises(ValueError, match="allocator='sera_posterior' needs posteriors, which this estimator"):
        shared_out("sera_posterior", Estimate(PROBABILITY))
