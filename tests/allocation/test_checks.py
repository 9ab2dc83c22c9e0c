"""Checks of what users hand over."""

import numpy as np
import pytest
import torch

from sera_maze.allocation.checks import as_tensor, check_integers, refuse_first


def test_tensors_stay_and_everything_else_is_copied():
    tensor = torch.tensor([1, 2])
    assert as_tensor("x", tensor) is tensor
    array = np.array([1.0, 2.0])
    copy = as_tensor("x", array)
    array[0] = 7
    assert copy.tolist() == [1.0, 2.0]
    assert copy.dtype == torch.float64
    assert as_tensor("x", np.array(0.5)).shape == ()
    assert as_tensor("x", np.arange(3)[::-1]).tolist() == [2, 1, 0]


def test_dtype_is_converted_before_digits_are_lost():
    assert as_tensor("x", [1e-300], dtype=torch.float64).item() == 1e-300
    assert as_tensor("x", tensor := torch.tensor([1]), dtype=torch.int64) is tensor


def test_what_is_no_array_is_named():
    with pytest.raises(TypeError, match="x does not consist of numbers"):
        as_tensor("x", [None])
    with pytest.raises(TypeError, match="x does not consist of numbers"):
        as_tensor("x", np.array(["a"]))
    with pytest.raises(ValueError, match="x is not an array"):
        as_tensor("x", [[1], [1, 2]])


def test_integers():
    check_integers("x", torch.tensor([1, 2], dtype=torch.uint8))
    check_integers("x", torch.tensor([]))
    for values in ([1.0], [True], [1j]):
        with pytest.raises(TypeError, match=r"x has dtype torch\.\w+; allowed: integers"):
            check_integers("x", torch.tensor(values))


def test_the_first_refused_value_is_named():
    values = torch.tensor([[1, 2], [3, 4]])
    refuse_first("x", values, values > 4, "up to 4")
    with pytest.raises(ValueError, match=r"x\[1, 0\] is 3; allowed are up to 2"):
        refuse_first("x", values, values > 2, "up to 2")
    with pytest.raises(ValueError, match="x is 5; allowed are up to 2"):
        refuse_first("x", torch.tensor(5), torch.tensor(True), "up to 2")
