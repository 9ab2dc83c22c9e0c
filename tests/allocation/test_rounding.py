"""The two ways to whole rollouts: against all allocations there are, and handing out against its shortcut."""

import itertools
import math

import pytest
import torch

from sera_maze.allocation.allocation import allocate
from sera_maze.allocation.rounding import WholeRollouts, round_fidelity, round_maxmin
from sera_maze.allocation.waterline import Problem, solve


def random_prob(num_prompts, seed, power):
    return torch.rand(num_prompts, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) ** power


def lowest_level(decays, counts):
    """(N - 1) c of the worst prompt, which orders allocations as their lowest attenuation does."""
    return min((n - 1) * c for n, c in zip(counts, decays, strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_maxmin_is_the_best_of_all_allocations(seed):
    num_prompts = 2 + seed % 4
    prob = random_prob(num_prompts, seed, power=(1, 3, 10, 100)[seed // 4 % 4]).clamp(1e-300, 1 - 1e-16)
    n_min, n_max = ((2, 6), (1, 7), (3, 8), (2, 5))[seed % 4]
    budget = num_prompts * n_min + (seed * 7) % (num_prompts * (n_max - n_min) + 1)
    decays = (-torch.log1p(-prob)).tolist()
    choices = itertools.product(range(n_min, n_max + 1), repeat=num_prompts)
    best = max(lowest_level(decays, counts) for counts in choices if sum(counts) == budget)
    result = allocate(prob, budget, n_min=n_min, n_max=n_max, activation_threshold=None, rounding="maxmin")
    assert result.counts.sum() == budget
    assert lowest_level(decays, result.counts.tolist()) == pytest.approx(best, rel=1e-15, abs=0)


def test_maxmin_can_be_better_than_fidelity():
    """Levels of the papers' rule: 1/2, 1 - .8^4, 1 - .9^9; taking one rollout from the last for the first is better."""
    prob = [0.5, 0.2, 0.1]
    fidelity = allocate(prob, 17, activation_threshold=None)
    maxmin = allocate(prob, 17, activation_threshold=None, rounding="maxmin")
    assert fidelity.counts.tolist() == [2, 5, 10]
    assert maxmin.counts.tolist() == [3, 5, 9]
    assert fidelity.attenuation.min().item() == pytest.approx(0.5)
    assert maxmin.attenuation.min().item() == pytest.approx(1 - 0.9**8)


def test_maxmin_by_hand():
    """c = log 2, log 4; of 6 rollouts: (4, 2) has levels 3 and 2 log 2, (3, 3) 2 and 4, (5, 1) is below n_min.

    At the level 2 log 2 the base is (3, 2), and the prompts are tied at that level: the one left goes to the first.
    """
    assert allocate([0.5, 0.75], 6, activation_threshold=None, rounding="maxmin").counts.tolist() == [4, 2]
    assert allocate([0.75, 0.5], 6, activation_threshold=None, rounding="maxmin").counts.tolist() == [3, 3]


def test_whole_solutions_stay_whole():
    """With decays c and 3c and tau = 5c, the solution is 6 and 8/3: the two left are for the latter.

    Rounding errors must not make 5 of the 6, for then there were three left, and none for the first.
    """
    for first in torch.linspace(0.01, 0.8, 300, dtype=torch.float64).tolist():
        prob = [first] + [1 - (1 - first) ** 3] * 3
        assert allocate(prob, 14, activation_threshold=None).counts.tolist() == [6, 3, 3, 2]


@pytest.mark.parametrize("seed", range(20))
def test_fidelity_adds_where_the_squared_distance_falls_most(seed):
    """Of the continuous solution rounded down, prompt by prompt, with Python's own functions."""
    prob = random_prob(9, seed, 2)
    budget, n_min, n_max = 9 * 7 + seed, 2, 28
    result = allocate(prob, budget, n_min=n_min, n_max=n_max, activation_threshold=None)
    counts = [math.floor(n) for n in result.continuous.tolist()]
    level = 1 - result.waterline.item()

    def change(i):
        before, after = (1 - (1 - prob[i].item()) ** (counts[i] + more - 1) for more in (0, 1))
        return (after - level) ** 2 - (before - level) ** 2

    order = sorted((i for i in range(9) if counts[i] < n_max), key=change)
    for i in order[: budget - sum(counts)]:
        counts[i] += 1
    assert result.counts.tolist() == counts


def test_what_is_left_goes_to_the_lowest_priority_numbers_ties_by_index():
    inf = float("inf")
    base = torch.tensor([[2.0, 3.0, 0.0, 2.0, 2.0], [1.0, 1.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    priority = torch.tensor([[5.0, inf, inf, -1.0, 5.0], [0.0, 0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    whole = WholeRollouts(base, priority, torch.tensor([[2.0], [3.0]], dtype=torch.float64))
    assert whole.counts().tolist() == [[3, 3, 0, 3, 2], [2, 2, 2, 1, 1]]


@pytest.mark.parametrize("rule", [round_fidelity, round_maxmin])
def test_all_reach_tells_what_handing_out_gives(rule):
    generator = torch.Generator().manual_seed(0)
    groups, num_prompts = 400, 7
    prob = torch.rand((groups, num_prompts), generator=generator, dtype=torch.float64)
    prob = (prob * 6).ceil() / 7  # many ties
    problem = Problem.of(prob, 38, 2, 19)
    active = torch.rand(prob.shape, generator=generator) < 0.8
    active[:, :2] = True  # enough of them for the budget
    whole = rule(problem, active, *solve(problem, active))
    counts = whole.counts()
    assert (counts.sum(dim=1) == 38).all()
    seen = set()
    for _ in range(5):
        least = counts + torch.randint(-2, 2, counts.shape, generator=generator) * (torch.rand(counts.shape) < 0.5)
        expected = ((counts >= least) | ~active).all(dim=1, keepdim=True)
        assert (whole.all_reach(least, active) == expected).all()
        assert whole.all_reach(counts, active).all()
        seen |= set(expected[:, 0].tolist())
    assert seen == {True, False}
