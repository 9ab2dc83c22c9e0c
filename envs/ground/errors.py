"""The error that every malformed maze ends in."""

from __future__ import annotations

from typing import Any


class LayoutError(ValueError):
    """A maze that cannot be: says where (``row``, ``column``), what was ``found`` and what is ``allowed``.

    Rows and columns count from 0, from the top left. ``row`` and ``column`` are None where the fault has no place.
    """

    def __init__(self, problem: str, *, row: int | None = None, column: int | None = None, found: str, allowed: str):
        self.problem, self.row, self.column, self.found, self.allowed = problem, row, column, found, allowed
        place = "" if row is None else f" at row {row}" + ("" if column is None else f", column {column}")
        super().__init__(f"{problem}{place}: found {found}; allowed: {allowed} (rows and columns count from 0)")

    def prefixed(self, where: str) -> LayoutError:
        """The same error with the maze's place, such as its file or its number in a pool, before the message."""
        return LayoutError(
            where + self.problem, row=self.row, column=self.column, found=self.found, allowed=self.allowed
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the fields when the error travels between processes."""
        return _rebuild_error, (self.problem, self.row, self.column, self.found, self.allowed)


def _rebuild_error(problem: str, row: int | None, column: int | None, found: str, allowed: str) -> LayoutError:
    return LayoutError(problem, row=row, column=column, found=found, allowed=allowed)
