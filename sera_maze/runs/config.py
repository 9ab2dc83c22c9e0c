"""What a training run is made of, `RunConfig`, and the presets of ``sera-maze train``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from sera_maze.envs.ground.atomic_files import write_text
from sera_maze.envs.ground.checks import as_number, check_choice, check_flag, check_int
from sera_maze.envs.generating.generate import MazeSpec
from sera_maze.algorithm.options import ADVANTAGES, ALLOCATORS, SUCCESS, check_sharing

_RATE = "a number above 0, at most 1"
_THRESHOLD = "a number from 0 to below 1, or None (all active)"
_NORM = "a finite number above 0"
# Fields that earlier config.json lack, whose runs did what the defaults say.
_LATER_FIELDS = {"distances", "activation_threshold", "max_grad_norm"}


@dataclass(frozen=True)
class RunConfig:
    """Everything that fixes a training run, validated; written as config.json into its folder.

    Args:
        size: (height, width) of the mazes in grid squares.
        algorithm: of the generator, see `MazeSpec`.
        num_mazes: mazes of the training pool.
        fresh_mazes: train on mazes that never come twice (`FreshMazes`) instead of a pool; num_mazes is not used then.
        distances: shortest-path distances of start and goal, as many training and held-out mazes of each; None: start
            and goal in opposite corners.
        held_out_mazes: mazes of the held-out pool; for 17x17 Prim mazes the 256 shipped ones.
        on_wall: "fail" or "stay".
        warm_start: updates that imitate shortest paths, before the reinforcement learning.
        updates: updates of the reinforcement learning.
        prompts_per_batch: B.
        rollouts_per_prompt: N0.
        n_max: most rollouts of a prompt; None: 4 N0.
        allocator: see `MaxRL`.
        advantage: see `group_advantages`.
        success: where the success probabilities come from.
        activation_threshold: see `allocate`.
        learning_rate: of the first update; it falls linearly to zero.
        max_grad_norm: see `MaxRL`.
        channels: of the `MazePolicy`.
        iterations: of the `MazePolicy`; None: by size.
        eval_every: updates between evaluations on the held-out mazes.
        num_samples: rollouts for each held-out maze.
        seed: fixes mazes, parameters and rollouts.
    """

    size: tuple[int, int] = (17, 17)
    algorithm: str = "prim"
    num_mazes: int = 16384
    fresh_mazes: bool = False
    distances: tuple[int, ...] | None = None
    held_out_mazes: int = 256
    on_wall: str = "fail"
    warm_start: int = 1000
    updates: int = 4000
    prompts_per_batch: int = 64
    rollouts_per_prompt: int = 32
    n_max: int | None = None
    allocator: str = "sera"
    advantage: str = "maxrl"
    success: str = "history"
    activation_threshold: float | None = 0.05
    learning_rate: float = 1e-3
    max_grad_norm: float = 1.0
    channels: int = 32
    iterations: int | None = None
    eval_every: int = 200
    num_samples: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        spec = MazeSpec(self.size, self.algorithm)
        object.__setattr__(self, "size", spec.size)
        check_choice("on_wall", self.on_wall, ("fail", "stay"))
        check_choice("allocator", self.allocator, ALLOCATORS)
        check_choice("advantage", self.advantage, ADVANTAGES)
        check_choice("success", self.success, SUCCESS)
        for name in ("num_mazes", "held_out_mazes", "updates", "prompts_per_batch", "rollouts_per_prompt",
                     "channels", "eval_every", "num_samples"):  # fmt: skip
            check_int(name, getattr(self, name), 1, 2**31)
        for name in ("warm_start", "seed"):
            check_int(name, getattr(self, name), 0, 2**32 - 1)
        # Equal shares can do without a history, but not without the critic that another one begins with.
        learns = self.success == "critic_history" or (self.success == "history" and self.allocator != "uniform")
        if self.fresh_mazes and learns:
            raise ValueError(
                f"success={self.success!r} learns about mazes that come again, and fresh mazes do not: choose "
                "success='critic', success='exact' or allocator='uniform'"
            )
        check_sharing(self.allocator, self.success, self.rollouts_per_prompt)
        for name in ("n_max", "iterations"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1, 2**31)
        check_flag("fresh_mazes", self.fresh_mazes)
        self._check_distances()
        if self.activation_threshold is not None:
            if not 0 <= as_number("activation_threshold", self.activation_threshold, _THRESHOLD) < 1:
                raise ValueError(
                    f"activation_threshold={self.activation_threshold!r} is out of range; allowed is {_THRESHOLD}"
                )
        if not 0 < as_number("max_grad_norm", self.max_grad_norm, _NORM) < float("inf"):
            raise ValueError(f"max_grad_norm={self.max_grad_norm!r} is out of range; allowed is {_NORM}")
        if not 0 < as_number("learning_rate", self.learning_rate, _RATE) <= 1:
            raise ValueError(f"learning_rate={self.learning_rate!r} is out of range; allowed is {_RATE}")

    def _check_distances(self) -> None:
        if self.distances is None:
            return
        if not isinstance(self.distances, Sequence) or isinstance(self.distances, str):
            raise TypeError(f"distances={self.distances!r}; give several, such as (4, 8), or None")
        distances = tuple(check_int("distances", distance, 2, 2**31) for distance in self.distances)
        object.__setattr__(self, "distances", distances)
        if not distances or len(set(distances)) < len(distances):
            raise ValueError(f"distances={distances}; give one or more, all different, or None")
        if self.fresh_mazes:
            raise ValueError("distances are those of a pool; leave them out with fresh_mazes")
        for name in ("num_mazes", "held_out_mazes"):
            if getattr(self, name) % len(distances):
                raise ValueError(
                    f"{name}={getattr(self, name)} mazes cannot be shared out evenly over {len(distances)} distances; "
                    "give a multiple"
                )

    def save(self, path: Path) -> None:
        """Write as JSON."""
        write_text(path, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> RunConfig:
        """Read what `save` wrote.

        Raises:
            ValueError: for another file.
        """
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(data, dict):
                raise TypeError("it is not an object")
            names = {field.name for field in fields(cls)}
            if unknown := sorted(data.keys() - names):
                raise TypeError(f"it has {', '.join(unknown)}, which sera_maze does not know")
            if missing := sorted(names - data.keys() - _LATER_FIELDS):
                raise TypeError(f"it lacks {', '.join(missing)}")
            return cls(**data)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is not the config.json of a run ({error})") from None

    def changed(self, changes: dict[str, Any]) -> RunConfig:
        """The same run with some fields replaced, those that are not None."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})


PRESETS = {
    "default": RunConfig(),
    # 9x9 mazes, within 90 seconds on two cores.
    "quick": RunConfig(size=(9, 9), num_mazes=4096, warm_start=400, updates=1000, eval_every=100),
    # Mazes that never come twice, so that there is always something left to learn.
    "hour": RunConfig(fresh_mazes=True, success="critic", warm_start=2000, updates=30_000, eval_every=1000),
    # The papers' setting of the maze experiment (SERA, arXiv 2609.36552).
    "paper": RunConfig(
        num_mazes=7424,
        updates=3000,
        prompts_per_batch=256,
        rollouts_per_prompt=128,
        n_max=512,
        eval_every=100,
        num_samples=2048,
    ),
}
