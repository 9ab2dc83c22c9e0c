"""`MazeNet`: action logits for every square of a maze at once, by a weight-tied recurrent convolution."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sera_maze.policies.iterations import BLOCK
from sera_maze.policies.iterations import default_iterations as default_iterations

NUM_ACTIONS = 4
_PLANES = 2  # walls, goal


class MazeNet(nn.Module):
    """Walls and goal in, action logits and a value for every square out.

    Blocks of 2 x 2 squares become one position of a hidden state, which is updated again and again by the same 3 x 3
    convolution (weight-tied), with the maze fed in at every iteration.

    Args:
        channels: width of the hidden state.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.read = nn.Conv2d(_PLANES * BLOCK**2, channels, 3, padding=1)
        self.update = nn.Conv2d(channels, channels, 3, padding=1)
        self.write = nn.Conv2d(channels, (NUM_ACTIONS + 1) * BLOCK**2, 1)

    def forward(
        self, walls: Tensor, goal: Tensor, iterations: int, learning: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Run the network.

        Args:
            walls: (M, H, W) bool.
            goal: (M, 2) int64, (row, column).
            iterations: how often the hidden state is updated.
            learning: how many of them, the last ones, the gradient goes through; None: all, and the beginning.

        Returns:
            logits (M, H, W, 4) and values (M, H, W), both of the parameters' type.
        """
        # Without assignments to parts of a tensor, which exporters to ONNX cannot take.
        _, height, width = walls.shape
        more = (0, width % BLOCK, 0, height % BLOCK)
        barred = functional.pad(walls.to(self.read.weight.dtype), more, value=1.0)  # what fills the blocks is wall
        rows, columns = (torch.arange(side, device=walls.device) for side in barred.shape[1:])
        is_goal = (goal[:, 0, None, None] == rows[:, None]) & (goal[:, 1, None, None] == columns)  # (M, H', W')
        planes = torch.stack([barred, is_goal.to(barred.dtype)], dim=1)
        blocks = functional.pixel_unshuffle(planes, BLOCK).contiguous(memory_format=torch.channels_last)
        maze = self.read(blocks)  # (M, C, H/2, W/2)
        state = torch.relu(maze)
        if learning is not None and learning < iterations:
            with torch.no_grad():
                for _ in range(iterations - learning):
                    state = torch.relu(self.update(state) + maze)
            iterations = learning
        for _ in range(iterations):
            state = torch.relu(self.update(state) + maze)
        squares = functional.pixel_shuffle(self.write(state), BLOCK)[:, :, :height, :width]  # (M, 5, H, W)
        return squares[:, :NUM_ACTIONS].permute(0, 2, 3, 1), squares[:, NUM_ACTIONS]
