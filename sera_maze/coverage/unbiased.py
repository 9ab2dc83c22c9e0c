"""Coverage: pass@k from a fixed number of samples, its mean over mazes, and the number of distinct solutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sera_maze.coverage.solutions import distinct_solutions as distinct_solutions
from sera_maze.coverage.solutions import distinct_solutions_by_prompt as distinct_solutions_by_prompt
from sera_maze.envs.generating.generate import check_int
from sera_maze.envs.ground.kernels import kernel, kernel_part

KS = (1, 8, 32, 128, 256)  # the usual values of k
_LARGEST = 2**53  # float64 holds integers up to here
# Terms summed one by one; more are summed by quadrature.
_MAX_TERMS = 256
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NORMAL_95 = 1.959963984540054  # 97.5 % quantile of the standard normal distribution
_FEW = 5  # solved mazes, or unsolved ones, below which the normal interval is not to be trusted


@dataclass(frozen=True, eq=False)
class Coverage:
    """pass@k of M mazes with n samples each, averaged over the mazes.

    Attributes:
        n: samples of each maze.
        ks: the values of k, K of them.
        per_maze: (M, K) float64, pass@k of each maze.
        pass_at_k: (K,) float64, means over the mazes.
        standard_error: (K,) float64, of these means: standard deviation over the mazes (M - 1) / sqrt(M); NaN if M = 1.
        low: (K,) float64, lower end of the 95 % interval, mean -+ 1.96 standard errors, at least 0; NaN if M = 1. A
            normal approximation for mazes drawn at random: rough for few, of width 0 if all have the same pass@k. What
            tables show instead near 0 and 1 is `shown_interval`.
        high: (K,) float64, upper end, at most 1.
        solved_fraction: share of the mazes with at least one success.
    """

    n: int
    ks: tuple[int, ...]
    per_maze: NDArray[np.float64]
    pass_at_k: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    solved_fraction: float


def coverage(successes: ArrayLike, ks: Sequence[int], n: int | None = None) -> Coverage:
    """Mean over mazes of pass@k, for every k.

    Samples of different mazes are never pooled. Each maze needs the same number of samples n, fixed beforehand: counts
    that depend on outcomes bias pass@k.

    Args:
        successes: (M, n) bool, one row a maze; or (M,) integers, the number of successes of each maze.
        ks: values of k, integers from 1 to n.
        n: samples of each maze; needed with numbers of successes.

    Returns:
        A `Coverage`.

    Raises:
        ValueError, TypeError: for other shapes or types, no maze, no k, k above n, or more successes than samples.
    """
    outcomes = np.asarray(successes)
    if outcomes.ndim == 2 and outcomes.dtype == bool:
        samples = check_int("n", outcomes.shape[1] if n is None else n, 1, _LARGEST)
        if samples != outcomes.shape[1]:
            raise ValueError(f"n={n} does not fit successes of shape {outcomes.shape}; leave n out")
        counts = outcomes.sum(1)
    elif outcomes.ndim == 1 and outcomes.dtype.kind in "iu":
        if n is None:
            raise ValueError("numbers of successes need n, the number of samples of each maze; pass n=...")
        samples, counts = check_int("n", n, 1, _LARGEST), outcomes
    else:
        raise TypeError(
            f"successes must be (M, n) bool or (M,) integers, got {outcomes.dtype} of shape {outcomes.shape}"
        )
    if not len(counts) or not len(ks):
        raise ValueError(f"got {len(counts)} mazes and {len(ks)} values of k; need at least one of each")
    checked = tuple(check_int(f"ks[{i}]", k, 1, samples) for i, k in enumerate(ks))
    per_maze = pass_at_k(samples, counts[:, None], np.array(checked))
    mean, error, low, high = interval_over_mazes(per_maze)
    return Coverage(samples, checked, per_maze, mean, error, low, high, float((counts > 0).mean()))


def interval_over_mazes(per_maze: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Mean of (M, K) probabilities over M mazes, its standard error, and the ends of its normal 95 % interval.

    Returns:
        Four arrays (K,) float64; the last three are NaN for a single maze.
    """
    mean, count = per_maze.mean(0), len(per_maze)
    spread = per_maze.std(0, ddof=1) if count > 1 else np.full(per_maze.shape[1], np.nan)
    error = spread / math.sqrt(count)
    return mean, error, np.clip(mean - _NORMAL_95 * error, 0, 1), np.clip(mean + _NORMAL_95 * error, 0, 1)


def shown_interval(mean: float, low: float, high: float, count: int) -> tuple[float, float]:
    """The 95 % interval over mazes to show beside a mean of probabilities.

    The normal interval closes up as the mean comes near 0 or 1: where all of 256 mazes are solved it is 100 to 100 %,
    though 1 % of mazes like these may well be beyond the policy. So it is widened to hold Wilson's interval where
    solved or unsolved mazes come to less than five in all (count * mean or count * (1 - mean)), or all are alike.
    Wilson's is for outcomes that are 0 or 1. Of all values in [0, 1] with one mean these vary most, so that for pass@k
    in between it is rather too wide than too narrow. Where all values are 1 it is right: the chance to draw only such
    mazes is at most mean**count.

    Args:
        mean: over the mazes.
        low: lower end of the normal interval, see `Coverage`; NaN for a single maze.
        high: its upper end.
        count: mazes, M.

    Returns:
        Lower and upper end; NaN for a single maze.

    References:
        Wilson, "Probable inference, the law of succession, and statistical inference", JASA 1927.
    """
    if math.isnan(low) or (count * min(mean, 1 - mean) >= _FEW and low < high):
        return low, high
    share = _NORMAL_95**2 / count
    middle, reach = mean + share / 2, math.sqrt(share * mean * (1 - mean) + share**2 / 4)
    wilson_low, wilson_high = (middle - reach) / (1 + share), (middle + reach) / (1 + share)
    return max(0.0, min(low, wilson_low)), min(1.0, max(high, wilson_high))


@overload
def pass_at_k(n: int, c: int, k: int) -> float: ...
@overload
def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> NDArray[np.float64]: ...
def pass_at_k(n: Any, c: Any, k: Any) -> Any:
    """Unbiased estimate of the probability that at least one of k samples succeeds: 1 - C(n-c, k) / C(n, k).

    Accurate to 12 digits for all n: the quotient is a product over min(c, k) factors 1 - max(c, k) / (n - i), whose
    logarithms are summed, with at most 256 evaluations for any n.

    Args:
        n: number of samples, integers of at least 1.
        c: number of successes among them, 0 to n.
        k: 1 to n. The three are broadcast.

    Returns:
        float64 array, or a Python float if all three are scalars.

    Raises:
        ValueError: for integers outside these ranges, or shapes that do not broadcast.
        TypeError: for anything but integers: floats, NaN and bool among them.

    References:
        Chen et al., "Evaluating large language models trained on code", arXiv 2107.03374: the unbiased estimator.

    Example:
        >>> pass_at_k(4096, 1, 2048)
        0.5
    """
    given = {name: _as_integers(name, value) for name, value in (("n", n), ("c", c), ("k", k))}
    try:
        samples, successes, draws = np.broadcast_arrays(*given.values())
    except ValueError:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in given.items())
        raise ValueError(f"the shapes do not broadcast: {shapes}") from None
    _check_range("n", samples, samples < 1, samples > _LARGEST, samples, f"give 1 to {_LARGEST}")
    _check_range("c", successes, successes < 0, successes > samples, samples, "give 0 to n successes")
    _check_range("k", draws, draws < 1, draws > samples, samples, "give 1 to n; for a larger k, sample more")
    result = np.empty(samples.shape)
    n_flat, c_flat, k_flat = (np.array(values.ravel(), np.int64, order="C") for values in (samples, successes, draws))
    _fill_pass_at_k(n_flat, c_flat, k_flat, result.reshape(-1))
    return result if samples.ndim else float(result)


def _as_integers(name: str, value: object) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got {value!r} of dtype {array.dtype}")
    return array


def _check_range(
    name: str,
    values: NDArray[Any],
    too_small: NDArray[np.bool_],
    too_large: NDArray[np.bool_],
    samples: NDArray[Any],
    remedy: str,
) -> None:
    for place in np.argwhere(too_small | too_large)[:1]:
        at = tuple(place.tolist())
        where = f" at {at}" if at else ""
        raise ValueError(f"{name}={values[at]}{where} is out of range with n={samples[at]}; {remedy}")


@kernel
def _fill_pass_at_k(samples, successes, draws, result):  # type: ignore[no-untyped-def]
    """pass@k of E elements, all (E,): int64 samples, successes and draws to float64 result."""
    for e in range(result.size):
        # The formula is symmetric in c and k: the product runs over the smaller of the two.
        n, few, many = samples[e], min(successes[e], draws[e]), max(successes[e], draws[e])
        if few == 0:
            result[e] = 0.0
        elif few > n - many:
            result[e] = 1.0
        else:
            result[e] = -math.expm1(_log_quotient(float(n), few, float(many)))


@kernel_part
def _log_quotient(n, few, many):  # type: ignore[no-untyped-def]
    """Sum of f(i) = log(1 - many / (n - i)) over i = 0 to few - 1: log of C(n - many, few) / C(n, few)."""
    total = 0.0
    if few <= _MAX_TERMS:
        for i in range(few):
            total += math.log1p(-many / (n - i))
        return total
    # The integral of f from -1/2 to few - 1/2 by Gauss-Legendre quadrature, less 1/24 of the difference of f' (Euler
    # and Maclaurin, midpoint form; the next term is below 1e-14). As f <= -many / n, both the sum and the quadrature
    # are below -40, where 1 - exp is 1 in float64, unless many / n < 40 / few < 40 / 256: then f is smooth.
    half = 0.5 * few
    for j in range(_NODES.size):
        total += half * _WEIGHTS[j] * math.log1p(-many / (n - (half - 0.5 + half * _NODES[j])))
    first, last = -0.5, few - 0.5
    slope_first = -many / ((n - many - first) * (n - first))
    slope_last = -many / ((n - many - last) * (n - last))
    return total - (slope_last - slope_first) / 24.0
