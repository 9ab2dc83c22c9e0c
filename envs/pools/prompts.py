"""`Prompts`: what evaluations, callbacks, runs and checkpoints know of prompts, whatever these are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@runtime_checkable
class Prompts(Protocol):
    """Many prompts, numbered from 0: mazes, images, seeds of an environment, questions.

    Some have more: ``difficulty``, (M,) integers by which an evaluation sorts its table (of mazes the moves on a
    shortest path), and ``save(path)``.
    """

    @property
    def digest(self) -> str | None:
        """Names all prompts in their order; None if they cannot be named."""
        ...

    def __len__(self) -> int:
        """Number of prompts M."""
        ...

    def describe(self, index: int) -> str:
        """What prompt ``index`` is, in a few words."""
        ...


@dataclass(frozen=True)
class NumberedPrompts:
    """Prompts of which only the number is known.

    Attributes:
        count: number of prompts.
        digest: names them all; None if they cannot be named.
    """

    count: int
    digest: str | None = None

    def __len__(self) -> int:
        return self.count

    def describe(self, index: int) -> str:
        """Its number."""
        return f"prompt {index}"
