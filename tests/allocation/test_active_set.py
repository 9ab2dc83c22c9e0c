"""Which prompts are worth rollouts."""

from fractions import Fraction

import pytest
import torch

from sera_maze.allocation.active_set import choose_active, mixed_probability
from sera_maze.allocation.allocation import allocate
from sera_maze.allocation.rounding import round_fidelity
from sera_maze.allocation.waterline import Problem


def test_probability_of_a_mixed_group():
    half = torch.tensor(0.5, dtype=torch.float64)
    assert mixed_probability(half, torch.tensor([1.0, 2.0, 3.0])).tolist() == pytest.approx([0.0, 0.5, 0.75])
    tiny = torch.tensor([1e-300, 1e-20, 1e-3], dtype=torch.float64)
    assert mixed_probability(tiny, 4.0).tolist() == pytest.approx(
        [4e-300, 4e-20, 1 - 0.999**4 - 1e-12], rel=1e-12, abs=0
    )


def test_hopeless_and_solved_prompts_get_nothing():
    prob = [1e-9, 0.5, 1 - 1e-9, 0.3]
    assert allocate(prob, 16, n_max=8).active.tolist() == [False, True, False, True]
    assert allocate(prob, 16, n_max=8, activation_threshold=None).active.all()


def test_as_few_as_can_take_the_budget_where_too_few_are_eligible():
    """Only 0.5 reaches the threshold, but it takes 8 rollouts at most; 0.9 and 1e-3 have the next best chances."""
    assert allocate([1e-9, 0.5, 1e-3, 1 - 1e-9], 24, n_max=8, activation_threshold=0.5).counts.tolist() == [8, 8, 8, 0]


def test_every_active_group_can_be_mixed_at_its_actual_count():
    """At n_max both reach 0.9, but not with 10 rollouts for both of them, so that one is left out."""
    both = Problem.of(torch.tensor([[0.3, 0.31]], dtype=torch.float64), 10, 2, 10)
    assert (mixed_probability(both.success_prob, 10) > 0.9).all()
    assert (mixed_probability(both.success_prob, 5) < 0.9).all()
    assert choose_active(both, 0.9, round_fidelity).tolist() == [[False, True]]
    assert choose_active(both, 0.8, round_fidelity).tolist() == [[True, True]]


@pytest.mark.parametrize("percent", range(5, 100, 5))
@pytest.mark.parametrize("count", [2, 4, 7])
def test_a_threshold_that_is_just_met_counts_as_met(percent, count):
    """Rounding errors, of 1e-16 or so, must not decide; the tolerance is 1e-12."""
    p = Fraction(percent, 100)
    threshold = float(1 - (1 - p) ** count - p**count)
    prob = [percent / 100] * 2

    def counts(threshold):
        return allocate(prob, 2 * count, n_max=2 * count, activation_threshold=threshold).counts.tolist()

    assert counts(threshold) == [count, count]
    assert counts(threshold + 5e-13) == [count, count]
    assert counts(threshold + 2e-12) == [2 * count, 0]


def test_the_search_stops_where_the_papers_rule_does():
    """Rare (1 in 240,000 random problems): 5 to 12 prompts do, 13 do not, 14 do again, which the search never sees."""
    prob = [
        0.24135470821202318, 0.6619423453584323, 0.8435232820680157, 0.8747381057976933, 0.16053662371745397,
        0.9398942180193083, 0.46447660968203563, 0.9273387547460024, 0.47472604705546373, 0.8175314324004201,
        0.8558060885318882, 0.24215548003803658, 0.912041104641033, 0.8046136265540255,
    ]  # fmt: skip
    threshold = 0.10915159213663207
    assert allocate(prob, 42, n_min=1, n_max=9, activation_threshold=threshold).active.sum() == 12
    counts = allocate(prob, 42, n_min=1, n_max=9, activation_threshold=None).counts
    everyone = mixed_probability(torch.tensor(prob, dtype=torch.float64), counts.double())
    assert (everyone >= threshold).all()


def test_steps_of_the_search_one_by_one_or_two_together_come_to_the_same():
    """Small problems take two steps together; 400 of them at once take them one by one."""
    generator = torch.Generator().manual_seed(0)
    prob = torch.rand((400, 12), generator=generator, dtype=torch.float64) ** 2
    for threshold in (0.3, 0.7):
        problem = Problem.of(prob, 72, 2, 24)
        at_once = choose_active(problem, threshold, round_fidelity)
        assert len(at_once.sum(dim=1).unique()) > 5
        for row in range(400):
            alone = Problem.of(prob[row : row + 1], 72, 2, 24)
            assert torch.equal(choose_active(alone, threshold, round_fidelity), at_once[row : row + 1])
