"""What there is to see of an agent in one maze: sampled paths, exact figures, the policy's map."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from sera_maze.algorithm.normalization import Normalization
from sera_maze.coverage.evaluator import Evaluator
from sera_maze.coverage.unbiased import KS
from sera_maze.envs.ground.checks import check_int
from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.pool import MazePool
from sera_maze.exact.probability import exact_pass_at_k, success_probability
from sera_maze.policies.maze import MazePolicy

MAX_SAMPLES = 4096
_KEPT_SCENES = 16


@dataclass(frozen=True, eq=False)
class Scene:
    """An agent in one maze.

    Attributes:
        layout: the maze.
        prompt: its number in the pool.
        paths: n sampled paths, each (L, 2) int64, (row, column) of the squares visited.
        success: (n,) bool.
        steps: (n,) int64, moves of each rollout, those into walls included.
        probability: exact success probability.
        action_probabilities: (H, W, 4) float64, of UP, DOWN, LEFT, RIGHT on every square.
    """

    layout: MazeLayout
    prompt: int
    paths: list[NDArray[np.int64]]
    success: NDArray[np.bool_]
    steps: NDArray[np.int64]
    probability: float
    action_probabilities: NDArray[np.float64]

    @property
    def pass_at_k(self) -> dict[int, float]:
        """Exact pass@k for several k."""
        values = exact_pass_at_k(self.probability, np.array(KS))
        return dict(zip(KS, values.tolist(), strict=True))

    @cached_property
    def visits(self) -> NDArray[np.float64]:
        """(H, W) float64: mean visits of a sampled rollout to each square; NaN where none came."""
        counts = np.zeros(self.layout.size)
        for path in self.paths:
            np.add.at(counts, tuple(path.T), 1)
        return np.where(counts > 0, counts / len(self.paths), np.nan)

    @cached_property
    def solutions(self) -> list[tuple[int, int]]:
        """Different successful paths as (times sampled, moves), the most frequent and then the shortest first."""
        found: Counter[bytes] = Counter()
        moves: dict[bytes, int] = {}
        for path, done in zip(self.paths, self.success, strict=True):
            if done:
                executed = _without_stops(path)
                key = executed.tobytes()
                found[key] += 1
                moves[key] = len(executed) - 1
        return sorted(((times, moves[key]) for key, times in found.items()), key=lambda item: (-item[0], item[1]))


def _without_stops(path: NDArray[np.int64]) -> NDArray[np.int64]:
    """A path without the squares that a wall hit repeats."""
    moved = np.ones(len(path), bool)
    moved[1:] = (path[1:] != path[:-1]).any(1)
    return np.ascontiguousarray(path[moved])


class Agent:
    """A policy that is watched on the mazes of a pool.

    Args:
        name: what it is called in pictures.
        policy: a `MazePolicy`.
        pool: the mazes.
        rules: of the episodes; None: a wall ends the rollout, and the default horizon.
        iterations: of the policy; None: its own, and on mazes of another size than it was made for
            `default_iterations`.
        num_samples: rollouts of each maze, 1 to 4096.
        seed: of the rollouts.
        normalization: of the environments that the policy was trained in, if it is known; see `Evaluator`.

    Raises:
        ValueError, TypeError: for arguments outside these ranges.
    """

    def __init__(
        self,
        name: str,
        policy: MazePolicy,
        pool: MazePool,
        *,
        rules: MazeRules | None = None,
        iterations: int | None = None,
        num_samples: int = 256,
        seed: int = 0,
        normalization: Normalization | None = None,
    ):
        if not isinstance(policy, MazePolicy):
            raise TypeError(
                f"policy must be a MazePolicy, got {type(policy).__name__}; paths of other policies can be drawn with "
                "sera_maze.envs.rendering.draw_paths"
            )
        if not isinstance(pool, MazePool):
            raise TypeError(f"pool must be a MazePool, got {type(pool).__name__}")
        self.name, self.policy, self.pool = name, policy.for_size(pool.size, iterations), pool
        self.rules = MazeRules(pool.size) if rules is None else rules
        self.num_samples = check_int("num_samples", num_samples, 1, MAX_SAMPLES)
        self.evaluator = Evaluator(self.policy, pool, rules=self.rules, seed=seed, normalization=normalization)
        self._scenes: OrderedDict[int, Scene] = OrderedDict()
        self._chances: NDArray[np.float64] | None = None

    @property
    def chances(self) -> NDArray[np.float64]:
        """(M,) float64: exact success probability in each maze."""
        if self._chances is None:
            with torch.no_grad():
                found = success_probability(self.policy, self.pool, self.rules.horizon, self.rules.on_wall)
            self._chances = found.cpu().numpy()
        return self._chances

    def scene(self, prompt: int) -> Scene:
        """The agent in maze ``prompt``; kept for a while."""
        if prompt not in self._scenes:
            self._scenes[prompt] = self._made(prompt)
            if len(self._scenes) > _KEPT_SCENES:
                self._scenes.popitem(last=False)
        self._scenes.move_to_end(prompt)
        return self._scenes[prompt]

    def _made(self, prompt: int) -> Scene:
        chosen = np.array([prompt])
        (rollouts,) = self.evaluator.sample(chosen, self.num_samples)
        mazes = self.pool.arrays(chosen)
        walls, goal = (torch.from_numpy(array).to(self.policy.device) for array in (mazes.walls, mazes.goal))
        with torch.no_grad():
            log_probs = self.policy.log_prob_map(walls, goal)[0]
        return Scene(
            self.pool[prompt], prompt, self.evaluator.paths(rollouts) or [], rollouts.success.cpu().numpy(),
            rollouts.lengths.cpu().numpy(), float(self.evaluator.probability(rollouts)[0]),
            log_probs.double().exp().cpu().numpy(),
        )  # fmt: skip
