"""`SmallGridCNN`, with which stock policies see small grids, and `SmallGridPolicy` that uses it."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn


class SmallGridCNN(BaseFeaturesExtractor):
    """Features of a small grid for SB3's stock policies: NatureCNN refuses anything under 36 x 36 squares.

    Two 3 x 3 convolutions that keep the size, then one linear layer.

    Args:
        observation_space: (C, H, W) Box; SB3 divides images by 255 before.
        features_dim: number of features.
        channels: of the convolutions.
        normalized_image: accepted because SB3 passes it to extractors of images; changes nothing.
    """

    def __init__(
        self,
        observation_space: spaces.Box,
        features_dim: int = 128,
        channels: int = 32,
        normalized_image: bool = False,
    ):
        super().__init__(observation_space, features_dim)
        if len(observation_space.shape) != 3:
            raise ValueError(
                f"SmallGridCNN needs observations (C, H, W), MazeEnv(observation='grid') or 'local', got the space "
                f"{observation_space}; for others use MlpPolicy or MultiInputPolicy"
            )
        planes, height, width = observation_space.shape
        self.layers = nn.Sequential(
            nn.Conv2d(planes, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(channels * height * width, features_dim),
            nn.ReLU(),
        )

    def forward(self, observations: Tensor) -> Tensor:
        """(N, C, H, W) float to (N, features_dim)."""
        return self.layers(observations)


class SmallGridPolicy(ActorCriticPolicy):
    """SB3's actor-critic policy with `SmallGridCNN`: what "CnnPolicy" means to MaxRL."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        features_extractor_class: type[BaseFeaturesExtractor] = SmallGridCNN,
        **kwargs: Any,
    ):
        super().__init__(
            observation_space, action_space, lr_schedule, features_extractor_class=features_extractor_class, **kwargs
        )
