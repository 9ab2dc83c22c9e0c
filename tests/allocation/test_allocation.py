"""The allocation as users call it: the golden cases, an independent reading of the rule, invariants, errors."""

import doctest
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sera_maze.allocation import allocation
from sera_maze.allocation.allocation import LARGEST_BUDGET, ROUNDINGS, Allocation, _solve, allocate, allocate_uniform

GOLDEN = json.loads((Path(__file__).parent / "data" / "allocation.json").read_text())


def options(case):
    return {name: case[name] for name in ("n_min", "n_max", "activation_threshold")}


def random_prob(num_prompts, seed, power=3):
    return torch.rand(num_prompts, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) ** power


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['kind']}-{len(case['success_prob'])}")
def test_golden_cases(case):
    result = allocate(case["success_prob"], case["budget"], **options(case))
    assert result.counts.tolist() == case["counts"]
    assert result.active.tolist() == case.get("active", [True] * len(case["counts"]))
    assert result.continuous.tolist() == pytest.approx(case["continuous"], rel=1e-6, abs=0)
    assert result.waterline.item() == pytest.approx(case["waterline"], rel=1e-6, abs=0)


def test_golden_cases_of_a_size_at_once():
    cases = [case for case in GOLDEN if len(case["success_prob"]) == 64 and case["activation_threshold"] == 0.05]
    assert len(cases) == 6
    result = allocate([case["success_prob"] for case in cases], 2048, n_max=128)
    assert result.counts.tolist() == [case["counts"] for case in cases]


def test_one_batch_by_hand():
    """c = log 2, log 4: one unclipped level needs tau/c to be 4 and 2 at tau = 4 log 2, so that 5 + 3 = 8 rollouts."""
    result = allocate([0.5, 0.75], 8, activation_threshold=None)
    assert result.counts.tolist() == [5, 3]
    assert result.continuous.tolist() == pytest.approx([5.0, 3.0])
    assert result.waterline.item() == pytest.approx(1 / 16)
    assert result.attenuation.tolist() == pytest.approx([15 / 16, 15 / 16])
    assert result.weights.tolist() == pytest.approx([4 / 5, 4 / 3])
    assert result.active.tolist() == [True, True]


def mixed(p, count):
    return -math.expm1(count * math.log1p(-p)) - p**count


def plain_waterline(decays, budget, n_min, n_max):
    """Counts of active prompts by bisection of tau, then the papers' rounding, prompt by prompt."""

    def rollouts(tau):
        return [min(max(1 + tau / c, n_min), n_max) for c in decays]

    low, high = 0.0, n_max * max(decays)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.fsum(rollouts(middle)) < budget else (low, middle)
    counts = [math.floor(n + 1e-9) for n in rollouts(high)]
    level = -math.expm1(-high)

    def kappa(i, count):
        return -math.expm1(-(count - 1) * decays[i])

    def change(i):
        return (kappa(i, counts[i] + 1) - level) ** 2 - (kappa(i, counts[i]) - level) ** 2

    order = sorted((i for i in range(len(decays)) if counts[i] < n_max), key=lambda i: (change(i), i))
    for i in order[: budget - sum(counts)]:
        counts[i] += 1
    return counts


def plain_allocation(prob, budget, n_min, n_max, threshold):
    """The rule of the active set, read off its description."""
    order = sorted(range(len(prob)), key=lambda i: (-mixed(prob[i], n_max), i))

    def solve(size):
        chosen = sorted(order[:size])
        counts = plain_waterline([-math.log1p(-prob[i]) for i in chosen], budget, n_min, n_max)
        enough = all(mixed(prob[i], n) >= threshold - 1e-12 for i, n in zip(chosen, counts, strict=True))
        return {i: n for i, n in zip(chosen, counts, strict=True)}, enough

    low = best = math.ceil(budget / n_max)
    high = sum(mixed(p, n_max) >= threshold for p in prob)
    while low <= high:
        middle = (low + high) // 2
        if solve(middle)[1]:
            low, best = middle + 1, middle
        else:
            high = middle - 1
    chosen = solve(best)[0]
    return [chosen.get(i, 0) for i in range(len(prob))]


@pytest.mark.parametrize("seed", range(12))
def test_agrees_with_a_plain_reading_of_the_rule(seed):
    num_prompts = (5, 12, 40)[seed % 3]
    prob = random_prob(num_prompts, seed, power=(1, 4)[seed % 2])
    threshold, n_min, mean, n_max = ((0.05, 2, 8, 32), (0.3, 1, 4, 12), (0.6, 3, 6, 9), (0.0, 2, 5, 40))[seed % 4]
    result = allocate(prob, num_prompts * mean, n_min=n_min, n_max=n_max, activation_threshold=threshold)
    assert result.counts.tolist() == plain_allocation(prob.tolist(), num_prompts * mean, n_min, n_max, threshold)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_counts_always_sum_to_the_budget_within_bounds(data):
    open_unit = st.floats(5e-324, 1 - 2**-53)
    tiny = st.floats(-300, -0.001).map(lambda exponent: 10.0**exponent)
    near_one = st.floats(0, 15).map(lambda exponent: 1 - 0.5 * 10.0**-exponent)
    history = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: (pair[0] + 0.5) / (sum(pair) + 1))
    prob = data.draw(st.lists(open_unit | tiny | near_one | history, min_size=1, max_size=12))
    n_min = data.draw(st.integers(1, 4))
    n_max = data.draw(st.integers(n_min, 40))
    budget = data.draw(st.integers(len(prob) * n_min, len(prob) * n_max))
    threshold = data.draw(st.none() | st.floats(0, 0.99))
    rounding = data.draw(st.sampled_from(sorted(ROUNDINGS)))
    result = allocate(prob, budget, n_min=n_min, n_max=n_max, activation_threshold=threshold, rounding=rounding)
    counts = result.counts
    assert counts.sum() == budget
    assert counts.dtype == torch.int64
    assert ((counts == 0) == ~result.active).all()
    assert ((counts >= n_min) & (counts <= n_max) | ~result.active).all()
    assert threshold is not None or result.active.all()
    assert result.continuous.sum().item() == pytest.approx(budget, rel=1e-9)
    if rounding == "fidelity":
        assert (counts - result.continuous).abs().max() <= 1 + 1e-9
    assert (counts * result.weights)[result.active].tolist() == pytest.approx(
        [budget / len(prob)] * int(result.active.sum())
    )


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("threshold", [None, 0.05])
def test_budgets_at_both_bounds(rounding, threshold):
    prob = [1e-12, 0.3, 0.5, 1 - 1e-9]
    least = allocate(prob, 12, n_min=3, n_max=9, activation_threshold=threshold, rounding=rounding)
    assert least.counts.sum() == 12
    most = allocate(prob, 36, n_min=3, n_max=9, activation_threshold=threshold, rounding=rounding)
    assert most.counts.tolist() == [9, 9, 9, 9]
    if threshold is None:
        assert least.counts.tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_equal_prompts_differ_by_one_at_most_the_first_first(rounding):
    assert allocate([0.2] * 4, 10, rounding=rounding).counts.tolist() == [3, 3, 2, 2]
    assert allocate([0.2] * 4, 12, rounding=rounding).counts.tolist() == [3, 3, 3, 3]
    assert allocate([1e-8] * 3, 8, activation_threshold=None, rounding=rounding).counts.tolist() == [3, 3, 2]


def test_p_and_one_less_p_are_worth_the_same_so_that_the_index_decides():
    """Both have u = 1 - p^4 - (1 - p)^4, which rounding errors must not tell apart. Only two prompts can be active."""
    for prob in ([0.1, 0.9, 0.1], [0.9, 0.1, 0.1], [0.1, 0.1, 0.9]):
        assert allocate(prob, 6, n_min=1, n_max=4, activation_threshold=0.6).active.tolist() == [True, True, False]


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_permuting_prompts_permutes_the_counts(rounding):
    prob = random_prob(100, 1)
    order = torch.randperm(100, generator=torch.Generator().manual_seed(2))
    result = allocate(prob, 1600, rounding=rounding)
    permuted = allocate(prob[order], 1600, rounding=rounding)
    assert (permuted.counts == result.counts[order]).all()
    assert permuted.waterline.item() == pytest.approx(result.waterline.item(), rel=1e-12)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_batches_together_are_as_each_alone(rounding):
    prob = torch.stack([random_prob(33, seed, power) for seed, power in enumerate((1, 3, 8, 30))]).reshape(2, 2, 33)
    together = allocate(prob, 33 * 8, rounding=rounding)
    assert together.counts.shape == together.active.shape == together.continuous.shape == (2, 2, 33)
    assert together.weights.shape == together.attenuation.shape == (2, 2, 33)
    assert together.waterline.shape == (2, 2)
    for i in range(2):
        for j in range(2):
            alone = allocate(prob[i, j], 33 * 8, rounding=rounding)
            assert (together.counts[i, j] == alone.counts).all()
            assert (together.active[i, j] == alone.active).all()
            assert together.waterline[i, j].item() == pytest.approx(alone.waterline.item(), rel=1e-12)
    assert len({tuple(row.tolist()) for row in together.active.reshape(4, 33)}) > 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_other_float_dtypes_are_solved_in_float64(dtype):
    prob = random_prob(20, 3).clamp(0.01, 0.9).to(dtype).requires_grad_()
    result = allocate(prob, 160)
    expected = allocate(prob.detach().double(), 160)
    assert (result.counts == expected.counts).all()
    assert result.continuous.dtype == result.weights.dtype == result.attenuation.dtype == torch.float64
    assert not result.weights.requires_grad


def test_lists_and_arrays_are_taken():
    expected = allocate(torch.tensor([0.1, 0.5, 0.7], dtype=torch.float64), 24).counts.tolist()
    array = np.array([0.7, 0.5, 0.1])
    array.setflags(write=False)
    assert allocate([0.1, 0.5, 0.7], 24).counts.tolist() == expected
    assert allocate(array[::-1], np.int64(24)).counts.tolist() == expected


def test_most_rollouts_default_to_four_times_the_mean_rounded_up():
    counts = allocate([1e-9, 0.999999, 0.999999], 10, n_min=1, activation_threshold=None).counts
    assert counts.tolist() == [8, 1, 1]
    assert allocate([1e-9] + [0.999999] * 8, 18, n_min=1, activation_threshold=None).counts.max() == 8
    assert allocate([1e-9] + [0.999999] * 8, 19, n_min=1, activation_threshold=None).counts.max() == 9


def test_pitfall_floor_of_two_for_four_mazes():
    assert allocate([0.1, 0.2, 0.3, 0.4], 10).counts.sum() == 10
    for threshold in (0.05, None):
        with pytest.raises(ValueError, match=r"budget=7 .* 4 prompts with n_min=2; allowed are 8 to "):
            allocate([0.1, 0.2, 0.3, 0.4], 7, activation_threshold=threshold)


def test_no_device_is_waited_for():
    """Meta tensors have no values: reading one raises."""
    for rounding in ROUNDINGS.values():
        result, invalid = _solve(torch.empty((3, 50), dtype=torch.float64, device="meta"), 400, 2, 32, 0.05, rounding)
        assert result.counts.shape == invalid.shape == (3, 50)
    with pytest.raises(RuntimeError):
        bool(invalid.any())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_as_on_the_cpu_without_waiting():
    for case in GOLDEN:
        prob = torch.tensor(case["success_prob"], dtype=torch.float64, device="cuda")
        result = allocate(prob, case["budget"], **options(case))
        assert {value.device.type for value in result} == {"cuda"}
        assert result.counts.tolist() == case["counts"]
    for rounding in ROUNDINGS.values():
        torch.cuda.set_sync_debug_mode("error")
        try:
            _solve(prob, 32768, 2, 512, 0.05, rounding)
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize(
    ("prob", "place"),
    [
        ([0.1, 0.0, 1.0], r"success_prob\[1\] is 0.0"),
        ([0.1, 0.5, 1.0], r"success_prob\[2\] is 1.0"),
        ([-0.5, 0.5], r"success_prob\[0\] is -0.5"),
        ([0.5, float("nan")], r"success_prob\[1\] is nan"),
        ([0.5, float("inf")], r"success_prob\[1\] is inf"),
        ([[0.1, 0.2], [0.3, 1.5]], r"success_prob\[1, 1\] is 1.5"),
    ],
)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_refuses_what_is_no_probability(prob, place, rounding):
    with pytest.raises(ValueError, match=place + "; allowed are numbers above 0 and below 1"):
        allocate(prob, 16, rounding=rounding)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 9, "n_min": 5}, r"budget=9 .* 2 prompts with n_min=5; allowed are 10 to"),
        ({"budget": 21, "n_max": 10}, r"budget=21 .* n_min=2 and n_max=10; allowed are 4 to 20 rollouts"),
        ({"budget": 2 * LARGEST_BUDGET}, f"allowed are 4 to {LARGEST_BUDGET}"),
        ({"n_min": 0}, "n_min=0; allowed is 1 or more"),
        ({"n_max": 1}, "n_max=1 is below n_min=2"),
        ({"n_max": 2**63}, f"n_max={2**63} is out of range; allowed is at most {LARGEST_BUDGET}, or None"),
        ({"rounding": "fidelty"}, "rounding='fidelty' is not known; .* did you mean 'fidelity'"),
        ({"rounding": None}, "rounding=None is not known; allowed are 'fidelity' and 'maxmin'$"),
        ({"activation_threshold": 1.0}, "activation_threshold=1.0; allowed is 0 or more and below 1"),
        ({"activation_threshold": -0.1}, "activation_threshold=-0.1"),
        ({"activation_threshold": float("nan")}, "activation_threshold=nan"),
        ({"success_prob": []}, r"success_prob has shape \(0,\); allowed: \(..., B\)"),
        ({"success_prob": 0.5}, r"success_prob has shape \(\)"),
        ({"success_prob": [[0.5, 0.5], [0.5]]}, "success_prob is not an array"),
    ],
)
def test_refuses_wrong_values(changes, message):
    with pytest.raises(ValueError, match=message):
        allocate(**{"success_prob": [0.1, 0.2], "budget": 16, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 16.0}, "budget=16.0 is a float; allowed is an int"),
        ({"budget": True}, "budget=True is a bool"),
        ({"n_min": 2.0}, "n_min=2.0 is a float"),
        ({"n_max": np.bool_(True)}, "n_max=.* is a bool"),
        ({"activation_threshold": "low"}, "activation_threshold='low'"),
        ({"activation_threshold": True}, "activation_threshold=True"),
        ({"success_prob": [1, 0]}, "success_prob has dtype int64; allowed is floating point"),
        ({"success_prob": torch.tensor([True, False])}, "success_prob has dtype torch.bool"),
        ({"success_prob": ["a", "b"]}, "success_prob has dtype <U1"),
    ],
)
def test_refuses_wrong_types(changes, message):
    with pytest.raises(TypeError, match=message):
        allocate(**{"success_prob": [0.1, 0.2], "budget": 16, **changes})


def test_uniform_counts_differ_by_one_at_most():
    assert allocate_uniform(4, 12).counts.tolist() == [3, 3, 3, 3]
    result = allocate_uniform(4, 10)
    assert result.counts.tolist() == [3, 3, 2, 2]
    assert result.counts.dtype == torch.int64
    assert result.weights.tolist() == pytest.approx([2.5 / 3, 2.5 / 3, 1.25, 1.25])
    assert result.continuous.tolist() == [2.5] * 4
    assert result.active.tolist() == [True] * 4
    assert result.waterline is None
    assert result.attenuation is None
    assert allocate_uniform((2, 3), 4).counts.tolist() == [[2, 1, 1], [2, 1, 1]]


def test_uniform_attenuation_of_known_probabilities():
    prob = torch.tensor([0.5, 0.25], dtype=torch.float32)
    result = allocate_uniform(prob.shape, 5, success_prob=prob)
    assert result.counts.tolist() == [3, 2]
    assert result.attenuation.tolist() == pytest.approx([0.75, 0.25])
    assert allocate_uniform(1, 7, success_prob=[1e-300]).attenuation.item() == pytest.approx(6e-300, abs=0)


def test_uniform_refuses():
    with pytest.raises(ValueError, match=r"budget=3 .* allowed are 4 to"):
        allocate_uniform(4, 3)
    with pytest.raises(ValueError, match="shape=0 has no prompts"):
        allocate_uniform(0, 3)
    with pytest.raises(ValueError, match=r"shape=\(\) has no prompts"):
        allocate_uniform((), 3)
    with pytest.raises(TypeError, match=r"shape=2\.5 is a float"):
        allocate_uniform(2.5, 3)
    with pytest.raises(TypeError, match=r"budget=8\.0 is a float"):
        allocate_uniform(4, 8.0)
    with pytest.raises(ValueError, match=r"success_prob has shape \(3,\), but shape=4"):
        allocate_uniform(4, 8, success_prob=[0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"success_prob\[1\] is 1.0"):
        allocate_uniform(2, 8, success_prob=[0.5, 1.0])


def test_uniform_is_what_equal_prompts_get():
    uniform, equal = allocate_uniform(7, 45), allocate([0.3] * 7, 45)
    assert isinstance(uniform, Allocation)
    assert (uniform.counts == equal.counts).all()
    assert uniform.weights.tolist() == pytest.approx(equal.weights.tolist())


def test_examples_in_the_documentation():
    result = doctest.testmod(allocation)
    assert result.attempted > 0
    assert result.failed == 0
