"""`alignment`: how an estimate of a gradient lies to the exact one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

Gradient = Tensor | Mapping[str, Tensor | None] | Sequence[Tensor | None]


class Alignment(NamedTuple):
    """How an estimate of a gradient lies to the exact one."""

    cosine: float
    """Cosine of the angle between them, -1 to 1; NaN if the estimate is zero."""
    norm_ratio: float
    """Norm of the estimate divided by that of the exact gradient."""


def alignment(estimate: Gradient, exact: Gradient) -> Alignment:
    """How an estimate of a gradient lies to the exact one.

    cosine = <estimate, exact> / (|estimate| |exact|) and norm_ratio = |estimate| / |exact|.

    Args:
        estimate: a tensor, a sequence of tensors, or name -> tensor as `sera_maze.exact.log_likelihood_gradient` gives.
            None in place of a tensor stands for zeros, as the ``.grad`` of a parameter that took no part.
        exact: the same with the same names and shapes.

    Returns:
        cosine (NaN if the estimate is zero) and norm_ratio, Python floats computed in float64.

    Raises:
        ValueError: if names, numbers or shapes differ, a value is not finite, or the exact gradient is zero.
        TypeError: if one is a mapping and the other is not, or a part is no tensor.
    """
    pairs = list(_paired(estimate, exact))
    for name, one, other in pairs:
        if one is not None and other is not None and one.shape != other.shape:
            raise ValueError(f"estimate{name} has shape {tuple(one.shape)}, but exact{name} has {tuple(other.shape)}")
    product = square = exact_square = 0.0
    # Scaled by the largest values, since the squares of the gradient of a tiny p underflow.
    scale = _largest([(f"estimate{name}", one) for name, one, _ in pairs])
    exact_scale = _largest([(f"exact{name}", other) for name, _, other in pairs])
    if exact_scale == 0:
        raise ValueError("the exact gradient is zero, so it has no direction to align with; is every p equal to 1?")
    if scale == 0:
        return Alignment(float("nan"), 0.0)
    for _, one, other in pairs:
        a = None if one is None else _as_double(one) / scale
        b = None if other is None else _as_double(other) / exact_scale
        square += 0.0 if a is None else float(a.square().sum())
        exact_square += 0.0 if b is None else float(b.square().sum())
        product += 0.0 if a is None or b is None else float((a * b.to(a.device)).sum())
    cosine = product / (square * exact_square) ** 0.5
    return Alignment(max(-1.0, min(1.0, cosine)), (square / exact_square) ** 0.5 * (scale / exact_scale))


def _paired(estimate: Gradient, exact: Gradient) -> Iterator[tuple[str, Tensor | None, Tensor | None]]:
    """The parts of two gradients that belong together, each with its place in the error messages."""
    if isinstance(estimate, Mapping) and isinstance(exact, Mapping):
        if estimate.keys() != exact.keys():
            raise ValueError(f"estimate and exact differ in the names {sorted(estimate.keys() ^ exact.keys())}")
        return ((f"[{name!r}]", estimate[name], exact[name]) for name in exact)
    if isinstance(estimate, Mapping) or isinstance(exact, Mapping):
        raise TypeError("one of estimate and exact maps names to tensors, the other does not; give both the same form")
    if isinstance(estimate, Tensor) and isinstance(exact, Tensor):
        return iter((("", estimate, exact),))
    if len(estimate) != len(exact):
        raise ValueError(f"estimate has {len(estimate)} parts, but exact has {len(exact)}; they must be the same")
    return ((f"[{i}]", one, other) for i, (one, other) in enumerate(zip(estimate, exact, strict=True)))


def _largest(parts: Sequence[tuple[str, Tensor | None]]) -> float:
    """The largest absolute value, checked to be finite."""
    largest = 0.0
    for name, part in parts:
        if part is not None and not isinstance(part, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(part).__name__}; wrap arrays in torch.from_numpy")
        if part is not None and part.numel():
            value = float(part.detach().abs().max())  # NaN if there is one
            if not value < float("inf"):
                raise ValueError(f"{name} has values that are not finite; look for a loss of NaN or infinity")
            largest = max(largest, value)
    return largest


def _as_double(part: Tensor) -> Tensor:
    # mps has no float64.
    return (part.detach().cpu() if part.device.type == "mps" else part.detach()).to(torch.float64)
