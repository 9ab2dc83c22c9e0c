"""`PromptOrder`: which prompts the batches take, epoch by epoch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sera_maze.envs.generating.generate import check_int

# A longer epoch would come to no end, and its order would not fit into memory.
LONGEST_EPOCH = 2**24


def is_endless(num_prompts: int) -> bool:
    """Whether there are more prompts than an epoch can have: they come by their numbers, and none comes again."""
    return num_prompts > LONGEST_EPOCH


class PromptOrder:
    """Batches of prompts: every epoch passes over the whole pool once, in an order fixed by (seed, epoch).

    The last batch of an epoch is smaller if the pool is not a multiple of the batch. More than 2**24 prompts, such as
    `FreshMazes`, are taken in the order of their numbers: that is one epoch without end.

    Args:
        num_prompts: M, at least 1.
        batch_size: B, at least 1; a pool smaller than that gives batches of M.
        seed: of the training, any non-negative int.

    Attributes:
        epoch: number of the epoch, from 0.
        position: prompts of it that have been taken.
    """

    def __init__(self, num_prompts: int, batch_size: int, seed: int):
        self.num_prompts = check_int("num_prompts", num_prompts, 1, 2**62)
        self.batch_size = min(check_int("prompts_per_batch", batch_size, 1, 2**31), num_prompts)
        self.seed = seed
        self.epoch = self.position = 0
        self._order = self._shuffled()

    def _shuffled(self) -> np.ndarray | None:
        if is_endless(self.num_prompts):
            return None
        return np.random.default_rng([self.seed, self.epoch]).permutation(self.num_prompts)

    def next_batch(self) -> Tensor:
        """The next (B,) int64 prompts, all different."""
        last = min(self.position + self.batch_size, self.num_prompts)
        places = np.arange(self.position, last)
        self.position = last
        return torch.from_numpy(places if self._order is None else self._order[places])

    @property
    def epoch_is_over(self) -> bool:
        """Whether every prompt of this epoch has been taken."""
        return self.position >= self.num_prompts

    def start_epoch(self) -> None:
        """Begin the next epoch."""
        self.epoch, self.position = self.epoch + 1, 0
        self._order = self._shuffled()

    def state_dict(self) -> dict[str, int]:
        """Epoch and position, to go on from."""
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from what `state_dict` gave."""
        self.epoch, self.position = int(state["epoch"]), int(state["position"])
        self._order = self._shuffled()
