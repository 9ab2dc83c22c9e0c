"""Group advantages: hand values, invariances, and by simulation that each estimator's mean is what its formula says."""

import doctest
import math

import numpy as np
import pytest
import torch

from sera_maze.allocation import advantages
from sera_maze.allocation.advantages import KINDS, attenuation, group_advantages

THIRD = 1 / 3


@pytest.mark.parametrize(
    ("success", "expected"),
    [
        ([1, 0, 0, 0], [3, -1, -1, -1]),
        ([1, 1, 0, 0], [1, 1, -1, -1]),
        ([1, 1, 0], [0.5, 0.5, -1]),
        ([1] + [0] * 15, [15] + [-1] * 15),
        ([0, 1, 1, 0, 1, 0, 0, 0], [-1, 5 / 3, 5 / 3, -1, 5 / 3, -1, -1, -1]),
        ([0] * 127 + [1], [-1] * 127 + [127]),
        ([1, 1, 1, 1], [0, 0, 0, 0]),
        ([0, 0, 0, 0], [0, 0, 0, 0]),
        ([1], [0]),
        ([0], [0]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool])
def test_maxrl_by_hand(success, expected, dtype):
    result = group_advantages(torch.tensor(success, dtype=dtype), torch.zeros(len(success), dtype=torch.int64))
    assert result.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert result.tolist() == torch.tensor(expected, dtype=result.dtype).tolist()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("reinforce", [1, 0, 0, 1, 1, 0, 0, 1, 0]),
        ("rloo", [1 - THIRD, -2 * THIRD, -2 * THIRD, 1 - THIRD, 0, 0, 0, 0, 0]),
        ("grpo", [0.5 / 0.500001, -0.5 / 0.500001, -0.5 / 0.500001, 0.5 / 0.500001, 0, 0, 0, 0, 0]),
        ("success_average", [2, 0, 0, 2, 1, 0, 0, 1, 0]),
        ("maxrl", [1, -1, -1, 1, 0, 0, 0, 0, 0]),
    ],
)
def test_every_kind_by_hand(kind, expected):
    """Group 4 has the rewards 1, 0, 0, 1, group 9 only successes, group 2 only failures, group 0 a lone failure."""
    success = torch.tensor([1, 0, 0, 1, 1, 0, 0, 1, 0], dtype=torch.float64)
    group = torch.tensor([4, 4, 4, 4, 9, 2, 2, 9, 0])
    assert group_advantages(success, group, kind).tolist() == pytest.approx(expected, abs=1e-15)


def test_lone_rollouts():
    """A lone success keeps its reward only where nothing is compared: never 1 / epsilon."""
    values = {kind: group_advantages([1, 0], [0, 1], kind).tolist() for kind in KINDS}
    assert values == {
        "reinforce": [1, 0], "rloo": [0, 0], "grpo": [0, 0], "success_average": [1, 0], "maxrl": [0, 0],
    }  # fmt: skip


def test_interleaved_and_not_contiguous_groups():
    assert group_advantages([1, 0, 0, 0], [0, 1, 0, 1]).tolist() == [1, 0, -1, 0]
    assert group_advantages([1, 0, 1, 1], [0, 0, 2, 2]).tolist() == [1, -1, 0, 0]
    assert group_advantages([1, 0, 1, 0], [10**15, 10**15, 3, 2**62]).tolist() == [1, -1, 0, 0]
    assert group_advantages(np.array([1.0, 0.0])[::-1], np.array([7, 7], np.int16)).tolist() == [-1, 1]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int16])
def test_groups_of_any_integers(dtype):
    group = torch.tensor([7, 200, 7, 200], dtype=dtype)
    assert group_advantages([1, 0, 0, 0], group).tolist() == [1, 0, -1, 0]
    large = torch.tensor([torch.iinfo(dtype).max // 2, 0, 0], dtype=dtype)
    assert group_advantages([1, 1, 0], large, "reinforce").tolist() == [1, 1, 0]


def test_loss_weights_of_the_mean_in_a_maze_then_over_mazes():
    """Groups A = [1,0,0,0] and B = [1,0]: advantage over (rollouts of the group times groups)."""
    group = torch.tensor([0, 0, 0, 0, 1, 1])
    advantages = group_advantages([1, 0, 0, 0, 1, 0], group)
    weights = advantages / (torch.bincount(group)[group] * 2)
    assert weights.tolist() == [0.375, -0.125, -0.125, -0.125, 0.25, -0.25]


@pytest.mark.parametrize("kind", KINDS)
def test_any_order_and_any_names_of_the_groups(kind):
    generator = torch.Generator().manual_seed(0)
    success = torch.rand(500, generator=generator) < 0.3
    group = torch.randint(0, 40, (500,), generator=generator) ** 2
    expected = group_advantages(success, group, kind)
    order = torch.randperm(500, generator=generator)
    assert torch.equal(group_advantages(success[order], group[order], kind), expected[order])
    assert torch.equal(group_advantages(success, group * 10**12 + 5, kind), expected)
    alone = [group_advantages(success[group == g], group[group == g], kind) for g in group.unique()]
    assert torch.equal(torch.cat(alone), torch.cat([expected[group == g] for g in group.unique()]))


@pytest.mark.parametrize("kind", KINDS)
def test_no_rollouts(kind):
    assert group_advantages([], [], kind).shape == (0,)
    empty = group_advantages(torch.zeros(0, dtype=torch.bool), torch.zeros(0, dtype=torch.int64), kind)
    assert empty.shape == (0,)
    assert empty.dtype == torch.float32


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", KINDS)
def test_on_a_gpu_as_on_the_cpu(kind):
    success, group = torch.rand(10_000) < 0.3, torch.randint(0, 99, (10_000,))
    result = group_advantages(success.cuda(), group.cuda(), kind)
    assert result.device.type == "cuda"
    assert torch.equal(result.cpu(), group_advantages(success, group, kind))


@pytest.mark.parametrize(
    ("success", "group", "message"),
    [
        ([1, -1, 0], [0, 0, 0], r"success\[1\] is -1; allowed are 0 and 1"),
        ([1.0, 0.0, 0.5], [0, 0, 0], r"success\[2\] is 0.5; .* binary success only"),
        ([1.001], [0], r"success\[0\] is 1.00"),
        ([1.0, float("nan")], [0, 0], r"success\[1\] is nan"),
        ([1, 2], [0, 0], r"success\[1\] is 2"),
        ([1, 0], [0, -1], r"group\[1\] is -1; .* every rollout needs a group"),
        ([1, 0], [0], r"success has shape \(2,\) and group \(1,\)"),
        ([[1, 0]], [[0, 0]], r"success has shape \(1, 2\)"),
        (1, 0, r"success has shape \(\)"),
        ([[1, 0], [1]], [0, 0], "success is not an array"),
    ],
)
def test_refuses_wrong_values(success, group, message):
    with pytest.raises(ValueError, match=message):
        group_advantages(success, group)


@pytest.mark.parametrize(
    ("success", "group", "message"),
    [
        ([1, 0], [0.0, 0.0], "group has dtype torch.float32; allowed: integers"),
        ([1, 0], [True, False], "group has dtype torch.bool"),
        ([1, 0], [0, None], "group does not consist of numbers"),
        ([1, 0], None, "group does not consist of numbers"),
        ([1j, 0], [0, 0], "success has dtype torch.complex64"),
    ],
)
def test_refuses_wrong_types(success, group, message):
    with pytest.raises(TypeError, match=message):
        group_advantages(success, group)


def test_refuses_unknown_kinds():
    with pytest.raises(ValueError, match=r"kind='maxlr' is not known here; .* did you mean 'maxrl'"):
        group_advantages([1], [0], "maxlr")
    with pytest.raises(ValueError, match=r"kind='rlo' is not known here; .* did you mean 'rloo'"):
        attenuation(0.5, 2, "rlo")


def test_attenuation_by_hand():
    assert attenuation(0.5, [0, 1, 2, 3]).tolist() == [0, 0, 0.5, 0.75]
    assert attenuation(0.5, [0, 1, 2, 3], "success_average").tolist() == [0, 0.5, 0.75, 0.875]
    assert attenuation([0.0, 1.0], torch.tensor([[1], [2]])).tolist() == [[0, 0], [0, 1]]
    assert attenuation(0.25, 2).item() == pytest.approx(0.25, rel=1e-15)
    assert attenuation(np.float64(0.25), np.int64(2)).dtype == torch.float64


def test_attenuation_is_exact_for_any_p():
    assert attenuation([1e-300, 1e-17], 101).tolist() == pytest.approx([1e-298, 1e-15], rel=1e-14, abs=0)
    assert attenuation(1 - 1e-16, 2).item() == 1 - 2.0**-53
    assert attenuation(1e-9, 1001, "success_average").item() == pytest.approx(
        -math.expm1(1001 * math.log1p(-1e-9)), rel=1e-14
    )


def test_attenuation_of_estimators_of_other_gradients():
    assert attenuation(0.3, [0, 1, 2], "reinforce").tolist() == [0, 0.3, 0.3]
    assert attenuation(0.3, [0, 1, 2], "rloo").tolist() == [0, 0, 0.3]
    # Of two rollouts one succeeds with probability 2 p (1 - p); s = 1/2 then.
    assert attenuation([0.0, 0.3, 1.0], 2, "grpo").tolist() == pytest.approx([0, 0.3, 1.0], rel=1e-5)
    assert attenuation(0.5, [0, 1], "grpo").tolist() == [0, 0]
    for p, size in ((0.01, 7), (0.6, 50), (0.999, 1000)):
        assert attenuation(p, [size, 1], "grpo")[0].item() == pytest.approx(expected_factor("grpo", p, size), rel=1e-9)
    assert attenuation(1.0, 101, "grpo").item() == pytest.approx(10, rel=1e-4)  # sqrt(N - 1)
    assert attenuation(torch.zeros((0,)), 5, "grpo").shape == (0,)


def test_attenuation_refuses():
    with pytest.raises(ValueError, match=r"success_prob\[1\] is 1.5"):
        attenuation(torch.tensor([0.5, 1.5]), 2)
    with pytest.raises(ValueError, match="success_prob is nan"):
        attenuation(float("nan"), 2)
    with pytest.raises(ValueError, match=r"counts\[0\] is -1"):
        attenuation(0.5, [-1])
    with pytest.raises(TypeError, match=r"counts has dtype torch.float32"):
        attenuation(0.5, 2.0)
    with pytest.raises(ValueError, match=r"success_prob has shape \(2,\) and counts \(3,\); allowed are shapes that"):
        attenuation([0.5, 0.5], [1, 2, 3])


def test_attenuation_takes_any_integers_and_has_no_gradient():
    assert attenuation(0.5, torch.tensor([2, 3], dtype=torch.uint64)).tolist() == [0.5, 0.75]
    assert not attenuation(torch.tensor(0.5, requires_grad=True), 2).requires_grad


class Bandit:
    """A softmax policy over arms that succeed with given probabilities: everything is known in closed form."""

    def __init__(self, logits, arm_success):
        self.policy = torch.softmax(torch.tensor(logits, dtype=torch.float64), 0)  # (A,)
        self.arm_success = torch.tensor(arm_success, dtype=torch.float64)
        self.p = (self.policy @ self.arm_success).item()
        self.grad_p = self.policy * (self.arm_success - self.p)  # (A,)
        self.grad_log_p = self.grad_p / self.p

    def sample(self, num_groups, size, generator):
        """Success (num_groups, size) bool and scores (num_groups, size, A), the gradients of the log-policy."""
        cumulative = self.policy.cumsum(0)[:-1]
        uniform = torch.rand((num_groups, size), generator=generator, dtype=torch.float64)
        arms = torch.searchsorted(cumulative, uniform)
        success = torch.rand(arms.shape, generator=generator, dtype=torch.float64) < self.arm_success[arms]
        return success, torch.nn.functional.one_hot(arms, len(self.policy)) - self.policy


def group_gradients(success, scores, taken, kind):
    """Mean over the rollouts taken of advantage times score: (G, A); groups in rows, ``taken`` (G, N) bool."""
    group = torch.arange(len(success))[:, None].expand_as(success)
    advantages = torch.zeros(success.shape, dtype=torch.float64)
    advantages[taken] = group_advantages(success[taken].double(), group[taken], kind)
    return (advantages[:, :, None] * scores).sum(dim=1) / taken.sum(dim=1, keepdim=True)


def assert_mean(samples, expected):
    """Within 4 standard errors in every component, which must be small beside the value to mean anything."""
    error = samples.std(dim=0) / len(samples) ** 0.5
    assert ((samples.mean(dim=0) - expected).abs() <= 4 * error).all()
    assert error.max() < 0.05 * expected.abs().max()


def expected_factor(kind, p, size):
    """What the expected group gradient is as a multiple of grad log p."""
    if kind == "grpo":  # the mean score of successes is grad log p, that of failures -grad p / (1 - p)
        total = 0.0
        for wins in range(1, size):
            chance = math.comb(size, wins) * p**wins * (1 - p) ** (size - wins)
            rate = wins / size
            scale = math.sqrt(rate * (1 - rate)) + 1e-6
            total += chance * (rate * (1 - rate) / scale) * (1 + p / (1 - p))
        return total
    exact = {"reinforce": p, "rloo": p if size > 1 else 0.0}
    return exact[kind] if kind in exact else attenuation(p, size, kind).item()


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_mean_of_every_estimator(kind, size):
    bandit = Bandit([0.3, -0.4], [0.35, 0.1])
    success, scores = bandit.sample(200_000, size, torch.Generator().manual_seed(size))
    gradients = group_gradients(success, scores, torch.ones_like(success), kind)
    assert_mean(gradients, expected_factor(kind, bandit.p, size) * bandit.grad_log_p)


def test_grpo_is_about_the_gradient_of_p_over_its_deviation():
    p = 0.3
    assert expected_factor("grpo", p, 1000) == pytest.approx(p / math.sqrt(p * (1 - p)), rel=1e-2)


@pytest.mark.parametrize("kind", ["maxrl", "success_average", "rloo", "grpo"])
def test_counts_chosen_from_earlier_outcomes_leave_the_direction(kind):
    """Two pilots, and six more if both fail: with three arms, the mean must still be parallel to grad log p."""
    bandit = Bandit([0.5, 0.0, -0.5], [0.4, 0.1, 0.3])
    success, scores = bandit.sample(200_000, 8, torch.Generator().manual_seed(1))
    both_fail = ~success[:, :2].any(dim=1)
    taken = torch.ones_like(success)
    taken[~both_fail, 2:] = False
    gradients = group_gradients(success, scores, taken, kind)

    along = bandit.grad_log_p / bandit.grad_log_p.norm()
    across = torch.linalg.cross(along, torch.full((3,), 3**-0.5, dtype=torch.float64))  # scores sum to 0
    error = gradients.std(dim=0).norm() / len(gradients) ** 0.5
    assert (gradients @ along).mean() > 20 * error
    assert (gradients @ across).mean().abs() <= 4 * (gradients @ across).std() / len(gradients) ** 0.5
    if kind == "success_average":  # any success among the eight is counted
        scale = (gradients @ along).mean() / bandit.grad_log_p.norm()
        assert scale.item() == pytest.approx(1 - (1 - bandit.p) ** 8, abs=(4 * error / bandit.grad_log_p.norm()).item())


def test_examples_in_the_documentation():
    result = doctest.testmod(advantages)
    assert result.attempted > 0
    assert result.failed == 0
