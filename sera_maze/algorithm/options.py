"""The names that options of `MaxRL` may have, and how they go together.

Imports nothing, so that the command line can know them.
"""

from __future__ import annotations

ALLOCATORS = ("uniform", "sera", "sera_posterior", "vip", "knapsack")
ADVANTAGES = ("maxrl", "rloo", "grpo", "reinforce", "success_average")
SUCCESS = ("history", "critic", "critic_history", "exact")
SAMPLERS = ("auto", "map", "step")
ROUNDINGS = ("fidelity", "maxmin")


def check_sharing(allocator: str, success: str, rollouts_per_prompt: int) -> None:
    """Check that an allocator has something to share out, and knows what it needs.

    Raises:
        ValueError: if not.
    """
    if allocator != "uniform" and rollouts_per_prompt == 1:
        raise ValueError(
            f"rollouts_per_prompt=1 leaves nothing to share out: allocator={allocator!r} needs at least 2 (a single "
            "one has no MaxRL advantage either)"
        )
    if allocator == "sera_posterior" and success != "history":
        raise ValueError(
            f"allocator='sera_posterior' needs the posteriors of success='history', got success={success!r}; use "
            "allocator='sera' with that"
        )
