"""Cosine and norm ratio of two gradients, in every form that gradients come in."""

import math
import re

import pytest
import torch

from sera_maze.exact.aligning import Alignment, alignment
from sera_maze.exact.probability import alignment as exact_alignment


def test_hand_values():
    exact = torch.tensor([3.0, 4.0])
    assert exact_alignment is alignment
    for estimate, cosine, ratio in (
        ([3.0, 4.0], 1, 1), ([-6.0, -8.0], -1, 2), ([4.0, -3.0], 0, 1), ([10.0, 0.0], 0.6, 2), ([0.0, 2.5], 0.8, 0.5),
    ):  # fmt: skip
        found = alignment(torch.tensor(estimate), exact)
        assert isinstance(found, Alignment)
        assert found.cosine == pytest.approx(cosine, abs=1e-15)
        assert found.norm_ratio == pytest.approx(ratio, rel=1e-15)


def test_forms_agree():
    """A flat vector, a sequence and a mapping; None is zeros; the order of a mapping does not matter."""
    parts = {"a": torch.tensor([[1.0, 2.0]]), "b": torch.tensor(-3.0), "c": torch.zeros(3)}
    other = {"c": torch.tensor([0.0, 5.0, 0.0]), "b": torch.tensor(1.0), "a": torch.tensor([[2.0, 2.0]])}
    flat = [torch.cat([part[name].flatten() for name in "abc"]) for part in (parts, other)]
    expected = alignment(*flat)
    assert expected.cosine == pytest.approx(3 / math.sqrt(14 * 34), rel=1e-15)
    assert expected.norm_ratio == pytest.approx(math.sqrt(14 / 34), rel=1e-15)
    assert alignment(parts, other) == pytest.approx(expected, rel=1e-15)
    assert alignment({**parts, "c": None}, other) == pytest.approx(expected, rel=1e-15)
    assert alignment([parts[k] for k in "abc"], [other[k] for k in "abc"]) == pytest.approx(expected, rel=1e-15)
    grown = alignment(other, {**parts, "c": None})
    assert grown == pytest.approx((expected.cosine, 1 / expected.norm_ratio), rel=1e-15)


def test_types_and_sizes():
    """Squares of gradients of tiny p underflow; float32 sums are taken in float64."""
    exact = torch.tensor([3.0, 4.0], dtype=torch.float64)
    assert alignment(exact * 1e-200, exact) == pytest.approx((1, 1e-200), rel=1e-14)
    assert alignment(exact, exact * 1e-200) == pytest.approx((1, 1e200), rel=1e-14)
    many = torch.full((1_000_000,), 0.1)
    assert alignment(many, many) == pytest.approx((1, 1), rel=1e-15)
    half, single = exact.half().requires_grad_(), exact.float()
    assert alignment(half, single) == (1, 1)


def test_zero_gradients():
    zero, one = torch.zeros(2), torch.ones(2)
    found = alignment(zero, one)
    assert math.isnan(found.cosine)
    assert found.norm_ratio == 0
    assert math.isnan(alignment([None], [one]).cosine)
    for exact in (zero, torch.zeros(0)):
        with pytest.raises(ValueError, match="the exact gradient is zero"):
            alignment(torch.ones(exact.shape), exact)


ONE = torch.ones(2)


@pytest.mark.parametrize(
    ("estimate", "exact", "error", "message"),
    [
        (ONE, torch.ones(3), ValueError, "estimate has shape (2,), but exact has (3,)"),
        ({"a": ONE}, {"a": ONE[:1]}, ValueError, "estimate['a'] has shape (2,), but exact['a'] has (1,)"),
        ({"a": ONE}, {"b": ONE}, ValueError, "differ in the names ['a', 'b']"),
        ([ONE, ONE], [ONE], ValueError, "estimate has 2 parts, but exact has 1"),
        ({"a": ONE}, [ONE], TypeError, "give both the same form"),
        ([ONE.numpy()], [ONE], TypeError, "estimate[0] must be a tensor, got ndarray"),
        (torch.tensor([1.0, math.nan]), ONE, ValueError, "estimate has values that are not finite"),
        ([ONE], [torch.tensor([1.0, math.inf])], ValueError, "exact[0] has values that are not finite"),
    ],
)
def test_errors(estimate, exact, error, message):
    with pytest.raises(error, match=re.escape(message)):
        alignment(estimate, exact)
