"""What the studies have in common: packages of the extra ``studies``, paired differences, checks and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.ground.atomic_files import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CONFIDENCE = 0.95


def missing(package: str) -> ValueError:
    """The error that tells that a package of the extra is missing."""
    return ValueError(
        f'{package} is missing, which the extra "studies" of this package brings: pip install -c constraints.txt -e '
        f'".[studies]" in the repository, or pip install {package}'
    )


def scipy_stats() -> Any:
    """The module ``scipy.stats``.

    Raises:
        ValueError: if scipy is missing.
    """
    try:
        from scipy import stats
    except ImportError:
        raise missing("scipy") from None
    return stats


class PairedTest(NamedTuple):
    """Mean of paired differences, both ends of its 95 % t interval, and the p-value of the t test."""

    mean: float
    low: float
    high: float
    p_value: float


def paired_t_test(one: NDArray[np.float64], other: NDArray[np.float64]) -> PairedTest:
    """Test the differences one - other of pairs (S,).

    All but the mean are NaN for fewer than two pairs, and where all differences are the same.

    Raises:
        ValueError: if scipy is missing.
    """
    gap = one - other
    if len(gap) < 2 or not np.ptp(gap):
        return PairedTest(float(gap.mean()), *(float("nan"),) * 3)
    result = scipy_stats().ttest_1samp(gap, 0.0)
    ends = result.confidence_interval(_CONFIDENCE)
    return PairedTest(float(gap.mean()), float(ends.low), float(ends.high), float(result.pvalue))


def check_several(name: str, values: object) -> None:
    """Check that an option of a study is a tuple of one or more values, all different.

    Raises:
        TypeError, ValueError: if it is not.
    """
    if not isinstance(values, tuple):
        raise TypeError(f"{name}={values!r}; allowed is a tuple of one or more")
    if not values or len(set(values)) < len(values):
        raise ValueError(f"{name}={values!r}; allowed are one or more, all different")


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure as a PNG file, whole or not at all; return its path."""
    with whole_file(path) as file:
        figure.savefig(file, format="png", dpi=110)
    return path
