"""Estimators of success; they live in `sera_maze.allocation.success`."""

from sera_maze.allocation.success import (
    CriticHistory,
    CriticSuccess,
    Estimate,
    ExactSuccess,
    SuccessEstimator,
    SuccessHistory,
)

__all__ = ["CriticHistory", "CriticSuccess", "Estimate", "ExactSuccess", "SuccessEstimator", "SuccessHistory"]
