"""`MazePolicy`: one forward pass for a whole maze."""

from __future__ import annotations

import copy
import os
from importlib import resources
from typing import Any, get_args

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.distributions import CategoricalDistribution, Distribution
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import Tensor
from typing_extensions import Self

from sera_maze.envs.generating.generate import check_int
from sera_maze.envs.ground.checks import check_choice, check_flag, did_you_mean
from sera_maze.policies.iterations import Growth, default_iterations, reach
from sera_maze.policies.network import NUM_ACTIONS, MazeNet
from sera_maze.policies.weights import read_weights, write_weights

# Numbers in the hidden states that one pass may keep for its gradient: 256 MiB of float32.
_MAX_STATES = 2**26
_IN_FILE = ("channels", "vary_iterations", "growth", "learning_iterations")
_USED = ("optimizer_class", "optimizer_kwargs")  # of ActorCriticPolicy's arguments
_ARGUMENTS = ("channels", "iterations", "vary_iterations", "growth", "learning_iterations", *_USED)


class MazePolicy(ActorCriticPolicy):
    """A policy for fully observed mazes that gives the action probabilities of every square in one pass.

    A maze is still, so π(a | layout, cell) is computed for all cells at once (`maps`), and `forward` and SB3's other
    methods only look it up where the agent stands: PPO, A2C, predict() and evaluate_policy work as with any policy.
    The value of a square is the probability of success from there.

    Args:
        observation_space: that of `MazeEnv` with observation="grid" or "dict".
        action_space: Discrete(4).
        lr_schedule: learning rate by the remaining progress (1 to 0).
        channels: width of the hidden state.
        iterations: how often the hidden state is updated; None chooses by the maze's size (`default_iterations`). More
            can be taken later, by `at`, to run a policy on larger mazes than it was trained on.
            Each costs one convolution of the maze, forward and backward.
        vary_iterations: whether `MaxRL` trains each update with another number of iterations, see `varied`.
        growth: how the iterations that are chosen by size grow: "sides" or "area", see `default_iterations`.
        learning_iterations: through how many of an update's iterations, the last ones, the gradient goes; None: all of
            them. Fewer save time and memory where there are many; the imitation then trains every stretch of the
            iterations in turn, see `imitating` (as the progressive loss of Bansal et al., arXiv 2202.05826).
        **kwargs: ``optimizer_class`` and ``optimizer_kwargs`` of SB3's ActorCriticPolicy.

    Raises:
        ValueError: for spaces that are not those of a fully observed maze, or arguments that would have no effect.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        channels: int = 32,
        iterations: int | None = None,
        vary_iterations: bool = True,
        growth: Growth = "sides",
        learning_iterations: int | None = None,
        **kwargs: Any,
    ):
        self.maze_size = _maze_size(observation_space)
        if not isinstance(action_space, spaces.Discrete) or action_space.n != NUM_ACTIONS:
            raise ValueError(f"MazePolicy needs the action space Discrete({NUM_ACTIONS}), got {action_space}")
        self.channels = check_int("channels", channels, 1, 4096)
        check_choice("growth", growth, get_args(Growth))
        self.growth: Growth = growth
        self.iterations = default_iterations(*self.maze_size, growth) if iterations is None else iterations
        check_iterations(self.iterations)
        self.learning_iterations = learning_iterations
        if learning_iterations is not None:
            self.learning_iterations = check_int("learning_iterations", learning_iterations, 1, 100_000)
        self._early = False  # a variant whose iterations may be too few to solve a maze
        check_flag("vary_iterations", vary_iterations)
        self.vary_iterations = vary_iterations
        for name, value in kwargs.items():
            if name not in _USED and not (name == "use_sde" and not value):
                raise ValueError(
                    f"{name}={value!r} has no effect on a MazePolicy, leave it out; it takes {', '.join(_ARGUMENTS)}"
                    f"{did_you_mean(name, _ARGUMENTS)}"
                )
        super().__init__(observation_space, action_space, lr_schedule, **kwargs)

    def _build(self, lr_schedule: Schedule) -> None:
        self.net = MazeNet(self.channels)
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)  # type: ignore[call-arg]

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        return {
            **{name: data[name] for name in ("observation_space", "action_space", "lr_schedule", *_USED)},
            "channels": self.channels,
            "iterations": self.iterations,
            "vary_iterations": self.vary_iterations,
            "growth": self.growth,
            "learning_iterations": self.learning_iterations,
        }

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """Write the parameters, and how the network is built, into a file that `from_weights` reads."""
        options = {name: getattr(self, name) for name in _IN_FILE}
        write_weights(path, self.state_dict(), options)

    @classmethod
    def from_weights(
        cls, path: str | os.PathLike[str], size: tuple[int, int] = (17, 17), device: torch.device | str = "cpu"
    ) -> Self:
        """The policy of a file of `save_weights`, which holds no code, for mazes of a size; `for_size` gives others.

        Args:
            path: of the file.
            size: (height, width) of the mazes that ``predict`` and SB3's other methods will see, as grid observations.
            device: torch's.

        Raises:
            FileNotFoundError, ValueError: if it is not such a file.
        """
        tensors, options = read_weights(path)
        observations = spaces.Box(0, 255, (3, *size), np.uint8)
        try:
            policy = cls(observations, spaces.Discrete(NUM_ACTIONS), lambda _: 1e-3, **options)
            policy.load_state_dict(tensors)
        except (TypeError, RuntimeError) as error:
            raise ValueError(f"{path} holds another network than this version's ({error})") from None
        policy.set_training_mode(False)
        return policy.to(device)

    @classmethod
    def pretrained(cls, size: tuple[int, int] = (17, 17), device: torch.device | str = "cpu") -> Self:
        """The agent that comes with the package: it finds its way in mazes of all families, sizes and endpoints.

        ``sera-maze train --preset general`` trained it; `sera_maze.assets` has its table, general.md.

        Args:
            size: as for `from_weights`.
            device: torch's.

        Example:
            >>> evaluation = evaluate(MazePolicy.pretrained(), MazePool.generate(100, 17, "wilson", endpoints="random"))
        """
        with resources.as_file(resources.files("sera_maze.assets") / "general.safetensors") as path:
            return cls.from_weights(path, size, device)

    def at(self, *, iterations: int) -> Self:
        """The same policy with another number of iterations: it shares the parameters, and this one stays as it is.

        Raises:
            ValueError, TypeError: if it is not an integer from 1 to 100,000.
        """
        variant = copy.copy(self)
        variant.iterations = check_iterations(iterations)
        return variant

    def for_size(self, size: tuple[int, int], iterations: int | None = None) -> Self:
        """The variant for mazes of a size: with so many iterations; None: its own, on another size the usual ones."""
        if iterations is None:
            iterations = self.iterations if size == self.maze_size else default_iterations(*size, self.growth)
        return self.at(iterations=iterations)

    @property
    def settings(self) -> dict[str, int]:
        """What `at` takes to come back to this variant."""
        return {"iterations": self.iterations}

    def varied(self, generator: np.random.Generator) -> Self:
        """A variant with a random number of iterations, from 0.6 to 2 times ``iterations``, if ``vary_iterations``.

        Training with ever other numbers keeps the hidden state where it is once it has solved the maze, so that more
        iterations do no harm, and larger mazes can be solved with them.
        """
        if not self.vary_iterations:
            return self
        low, high = max(1, round(0.6 * self.iterations)), 2 * self.iterations
        return self.at(iterations=int(generator.integers(low, high + 1)))

    def imitating(self, generator: np.random.Generator) -> Self:
        """A variant for one update of imitation: `varied`, or with ``learning_iterations`` from its first iteration on.

        Then the number of iterations is drawn from 1 to 1.5 times ``iterations``, half of the time at most twice
        ``learning_iterations``, and only squares are trained that information from the goal has reached, `reach`.
        """
        if self.learning_iterations is None:
            return self.varied(generator)
        high = max(1, round(1.5 * self.iterations))
        if generator.random() < 0.5:
            high = min(high, 2 * self.learning_iterations)
        variant = self.at(iterations=int(generator.integers(1, high + 1)))
        variant._early = True
        return variant

    @property
    def reach(self) -> int | None:
        """Moves from the goal that a variant of `imitating` has had the time to learn of; None: any."""
        return reach(self.iterations) if self._early else None

    def most_mazes(self, height: int, width: int) -> int:
        """How many mazes of a size one pass may take without keeping too much for its gradient."""
        positions = height * width // 4 + 1  # of the hidden state, one for four squares
        kept = min(self.iterations, self.learning_iterations or self.iterations)
        return max(1, _MAX_STATES // (self.channels * kept * positions))

    @property
    def most_observations(self) -> int:
        """How many observations a pass may take, each of which costs that of a whole maze."""
        return self.most_mazes(*self.maze_size)

    def maps(self, walls: Tensor, goal: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the actions and logits of success, for every square of M mazes of any size.

        Args:
            walls: (M, H, W) bool, on the policy's device.
            goal: (M, 2) int64, (row, column).

        Returns:
            (M, H, W, 4) and (M, H, W) float32.
        """
        logits, values = self.net(walls, goal, self.iterations, self.learning_iterations)
        return logits.log_softmax(dim=-1), values

    def log_prob_map(self, walls: Tensor, goal: Tensor) -> Tensor:
        """Log-probabilities (M, H, W, 4) float32 of UP, DOWN, LEFT, RIGHT on every square; arguments as in `maps`."""
        return self.maps(walls, goal)[0]

    def _look_up(self, obs: PyTorchObs) -> tuple[Tensor, Tensor]:
        """Action log-probabilities (N, 4) and success logits (N,) where the agents of N observations stand."""
        walls, goal, agent = _read(obs)
        log_probs, values = self.maps(walls, goal)
        rows = torch.arange(agent.shape[0], device=agent.device)  # traced as a size that may be another one
        return log_probs[rows, agent[:, 0], agent[:, 1]], values[rows, agent[:, 0], agent[:, 1]]

    def success_logits(self, obs: PyTorchObs) -> Tensor:
        """Logits (N,) of the probability of success from where the agents of N observations stand."""
        return self._look_up(obs)[1]

    def _distribution(self, log_probs: Tensor) -> CategoricalDistribution:
        return CategoricalDistribution(NUM_ACTIONS).proba_distribution(action_logits=log_probs)

    def forward(self, obs: Tensor, deterministic: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Actions (N,), values (N, 1) and log-probabilities (N,) for N observations, as SB3 wants them."""
        log_probs, values = self._look_up(obs)
        distribution = self._distribution(log_probs)
        actions = distribution.get_actions(deterministic=deterministic)
        return actions, values.sigmoid()[:, None], distribution.log_prob(actions)

    def evaluate_actions(self, obs: PyTorchObs, actions: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values (N, 1), log-probabilities (N,) of given actions (N,), and entropies (N,)."""
        log_probs, values = self._look_up(obs)
        distribution = self._distribution(log_probs)
        return values.sigmoid()[:, None], distribution.log_prob(actions), distribution.entropy()

    def get_distribution(self, obs: PyTorchObs) -> Distribution:
        """The action distribution of N observations."""
        return self._distribution(self._look_up(obs)[0])

    def predict_values(self, obs: PyTorchObs) -> Tensor:
        """Probabilities of success (N, 1) of N observations."""
        return self.success_logits(obs).sigmoid()[:, None]


def as_maze_policy(policy: BasePolicy) -> MazePolicy:
    """The policy, if it is a `MazePolicy`.

    Raises:
        TypeError: if not.
    """
    if not isinstance(policy, MazePolicy):
        raise TypeError(f"policy must be a MazePolicy, got {type(policy).__name__}")
    return policy


def check_iterations(iterations: object) -> int:
    """Check a number of iterations of a `MazePolicy`.

    Raises:
        ValueError, TypeError: if it is not an integer from 1 to 100,000.
    """
    return check_int("iterations", iterations, 1, 100_000)


def _maze_size(space: spaces.Space[Any]) -> tuple[int, int]:
    if isinstance(space, spaces.Box) and len(space.shape) == 3 and space.shape[0] == 3:
        return space.shape[1], space.shape[2]
    if isinstance(space, spaces.Dict) and set(space.keys()) == {"layout", "position"}:
        shape = space["layout"].shape
        if shape is not None and len(shape) == 3 and shape[0] == 2:
            return shape[1], shape[2]
    raise ValueError(
        f"MazePolicy needs a fully observed maze, MazeEnv(observation='grid') or 'dict', got the space {space}; "
        "for other observations use MlpPolicy, CnnPolicy or MultiInputPolicy"
    )


def _read(obs: PyTorchObs) -> tuple[Tensor, Tensor, Tensor]:
    """Walls (N, H, W) bool, goal (N, 2) and agent (N, 2) int64 of N grid or dict observations."""
    if isinstance(obs, dict):
        planes = obs["layout"] > 0
        return planes[:, 0], _place(planes[:, 1]), obs["position"].long()
    planes = obs > 0
    return planes[:, 0], _place(planes[:, 2]), _place(planes[:, 1])


def _place(plane: Tensor) -> Tensor:
    """(row, column) of the one filled square of each plane (N, H, W)."""
    squares = plane.flatten(1).byte().argmax(dim=1)
    return torch.stack([squares // plane.shape[2], squares % plane.shape[2]], dim=1)
