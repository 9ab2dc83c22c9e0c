"""The names that options of `MaxRL` may have; imports nothing, so that the command line can know them."""

from __future__ import annotations

ALLOCATORS = ("uniform", "sera", "sera_posterior", "vip", "knapsack")
ADVANTAGES = ("maxrl", "rloo", "grpo", "reinforce", "success_average")
SUCCESS = ("history", "critic", "critic_history", "exact")
SAMPLERS = ("auto", "map", "step")
ROUNDINGS = ("fidelity", "maxmin")
