"""What only the extra ``studies`` brings."""

from __future__ import annotations

from typing import Any


def scipy_stats() -> Any:
    """The module ``scipy.stats``.

    Raises:
        ValueError: if scipy is missing.
    """
    try:
        from scipy import stats
    except ImportError:
        raise ValueError(
            'scipy is missing, which the extra "studies" of this package brings: pip install -c constraints.txt -e '
            '".[studies]" in the repository, or pip install scipy'
        ) from None
    return stats
