"""The processes that train together; so far there is one, `Alone`."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Team(Protocol):
    """Processes (ranks) that sample parts of the same batches and take the same optimizer steps.

    Attributes:
        rank: number of this process, from 0; that of rank 0 writes files and logs.
        size: number of processes.
    """

    @property
    def rank(self) -> int:
        """Number of this process."""
        ...

    @property
    def size(self) -> int:
        """Number of processes."""
        ...

    def share(self, counts: Tensor) -> Tensor:
        """(B,) int64: how many of the rollouts counts (B,) this process samples; the shares of all sum to counts.

        A group stays together, so each is counts[b] or 0: its rollouts are numbered from 0 and compared to one another.
        """
        ...

    def sum_(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over all processes, in place, and return it."""
        ...

    def gather(self, tensor: Tensor) -> Tensor:
        """The tensors (N, ...) of all processes, one after another by rank: (N', ...)."""
        ...


class Alone:
    """The team of one process."""

    rank = 0
    size = 1

    def share(self, counts: Tensor) -> Tensor:
        """All of them."""
        return counts

    def sum_(self, tensor: Tensor) -> Tensor:
        """The tensor as it is."""
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        """The tensor as it is."""
        return tensor
