"""The mathematics of the method: shares of rollouts, advantages, success estimators. Knows no maze and no trainer."""

from sera_maze.allocation.advantages import attenuation, group_advantages
from sera_maze.allocation.allocation import Allocation, allocate, allocate_uniform
from sera_maze.allocation.others import allocate_knapsack, allocate_posterior, allocate_vip
from sera_maze.allocation.success import (
    CriticHistory,
    CriticSuccess,
    Estimate,
    ExactSuccess,
    SuccessEstimator,
    SuccessHistory,
)

__all__ = [
    "Allocation",
    "CriticHistory",
    "CriticSuccess",
    "Estimate",
    "ExactSuccess",
    "SuccessEstimator",
    "SuccessHistory",
    "allocate",
    "allocate_knapsack",
    "allocate_posterior",
    "allocate_uniform",
    "allocate_vip",
    "attenuation",
    "group_advantages",
]
