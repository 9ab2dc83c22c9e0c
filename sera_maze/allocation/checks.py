"""Checks of tensors that users hand over; every error names the argument, the place, the value and what is allowed."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor


def as_tensor(
    name: str,
    values: Tensor | ArrayLike,
    *,
    device: torch.device | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Give back a tensor as it is, and a copy of anything else as a tensor.

    Args:
        name: of the argument.
        values: a tensor, or what NumPy takes for an array.
        device: where to; None leaves a tensor where it is.
        dtype: to convert to; None leaves what there is, and makes float32 of lists of floats.

    Raises:
        TypeError: for what does not consist of numbers.
        ValueError: for ragged lists.
    """
    if isinstance(values, Tensor):
        return values.to(device=device, dtype=dtype)
    try:
        # PyTorch cannot read arrays with negative strides.
        return torch.tensor(values.copy() if isinstance(values, np.ndarray) else values, device=device, dtype=dtype)
    except ValueError as error:
        raise ValueError(f"{name} is not an array: {error}; allowed: numbers in a rectangular shape") from None
    except (TypeError, RuntimeError) as error:
        raise TypeError(f"{name} does not consist of numbers: {error}; allowed: a tensor or an array") from None


def check_integers(name: str, values: Tensor) -> None:
    """Check the dtype; an empty list, which has none to speak of, passes.

    Raises:
        TypeError: for floating point, complex numbers or bool.
    """
    if values.numel() and (values.is_floating_point() or values.is_complex() or values.dtype == torch.bool):
        raise TypeError(f"{name} has dtype {values.dtype}; allowed: integers")


def refuse_first(name: str, values: Tensor, refused: Tensor, allowed: str) -> None:
    """Read from the device whether any value is refused, and name the first.

    Args:
        name: of the argument.
        values: any shape.
        refused: bool, of the shape of ``values``.
        allowed: what would be right, with the remedy.

    Raises:
        ValueError: if any value is refused.
    """
    if refused.any():
        place = refused.nonzero()[0].tolist()
        where = f"{name}[{', '.join(map(str, place))}]" if place else name
        raise ValueError(f"{where} is {values[tuple(place)].item()!r}; allowed are {allowed}")
