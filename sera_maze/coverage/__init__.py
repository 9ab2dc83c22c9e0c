"""What a policy covers: pass@k, distinct solutions, evaluations, and the callback that logs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sera_maze.envs.ground.lazy import lazy_names

if TYPE_CHECKING:
    from sera_maze.coverage.callback import CoverageCallback as CoverageCallback
    from sera_maze.coverage.evaluation import evaluate as evaluate
    from sera_maze.coverage.solutions import distinct_solutions as distinct_solutions
    from sera_maze.coverage.tables import Evaluation as Evaluation
    from sera_maze.coverage.unbiased import Coverage as Coverage
    from sera_maze.coverage.unbiased import coverage as coverage
    from sera_maze.coverage.unbiased import pass_at_k as pass_at_k

__all__ = [
    "Coverage",
    "CoverageCallback",
    "Evaluation",
    "coverage",
    "distinct_solutions",
    "evaluate",
    "pass_at_k",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Coverage": "unbiased",
        "CoverageCallback": "callback",
        "Evaluation": "tables",
        "coverage": "unbiased",
        "distinct_solutions": "solutions",
        "evaluate": "evaluation",
        "pass_at_k": "unbiased",
    },
)
