"""What `MazeEnv` and `MazeVectorEnv` share: their options, their checks and the choice of their mazes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args

from sera_maze.envs.generating.spec import MAX_SEED, MAX_SIDE, MazeSpec
from sera_maze.envs.ground.checks import as_sides, check_choice, check_int
from sera_maze.envs.layouts.moves import OnWall
from sera_maze.envs.pools.fresh import FreshMazes, Mazes
from sera_maze.envs.pools.pool import MazePool

OBSERVATIONS = ("grid", "local", "tokens", "dict")
ON_WALL: tuple[str, ...] = get_args(OnWall)
RENDER_MODES = ("human", "rgb_array", "ansi")
# The papers allow 180 moves in a 17x17 maze; other sizes get the same number of moves for each grid square.
_PAPERS_MAX_STEPS, _PAPERS_SQUARES = 180, 17 * 17
DEFAULT_NUM_MAZES = 1024
MAX_RESET_SEED = 2**128
Value = TypeVar("Value")


@dataclass(frozen=True)
class MazeRules:
    """How an episode runs and what is seen of it, validated.

    Args:
        size: (height, width) of the mazes in grid squares.
        observation: "grid", "local", "tokens" or "dict", see `MazeEnv`.
        radius: squares seen in each direction by observation="local", 1 to 1000.
        on_wall: "fail" (a move into a wall ends the episode) or "stay" (it leaves the agent where it is).
        max_steps: moves after which an episode is truncated, the horizon; None: 180 for 17x17 mazes, and in other sizes
            as many for each grid square.
        render_mode: None, "human", "rgb_array" or "ansi".

    Raises:
        ValueError, TypeError: for a value outside these ranges.
    """

    size: tuple[int, int]
    observation: str = "grid"
    radius: int = 3
    on_wall: str = "fail"
    max_steps: int | None = None
    render_mode: str | None = None

    def __post_init__(self) -> None:
        check_choice("observation", self.observation, OBSERVATIONS)
        check_choice("on_wall", self.on_wall, ON_WALL)
        if self.render_mode is not None:
            check_choice("render_mode", self.render_mode, RENDER_MODES)
        object.__setattr__(self, "radius", check_int("radius", self.radius, 1, 1000))
        if self.max_steps is not None:
            object.__setattr__(self, "max_steps", check_int("max_steps", self.max_steps, 1, 2**31 - 1))

    @property
    def horizon(self) -> int:
        """Number of moves after which an episode is truncated."""
        if self.max_steps is not None:
            return self.max_steps
        return round(_PAPERS_MAX_STEPS * self.size[0] * self.size[1] / _PAPERS_SQUARES)


class Fixed(Generic[Value]):
    """An attribute that an environment is made with: all the rest was made from it, so a later value is refused."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, environment: Any, owner: type | None = None) -> Value:
        if environment is None:
            return self  # type: ignore[return-value]
        try:
            found: Value = environment.__dict__[self.name]
        except KeyError:
            raise AttributeError(f"{type(environment).__name__} has no {self.name} yet") from None
        return found

    def __set__(self, environment: Any, value: Value) -> None:
        if self.name in environment.__dict__:
            kind = type(environment).__name__
            raise AttributeError(f"the {self.name} of a {kind} cannot be changed; build another environment")
        environment.__dict__[self.name] = value


def choose_pool(
    pool: Mazes | None, size: int | Sequence[int] | None, num_mazes: int | None, generator: dict[str, Any]
) -> Mazes:
    """The given pool, checked against ``size``; or a generated one.

    Args:
        pool: mazes of the user, or None to generate.
        size: (height, width) or one int; None: that of the pool, or 17x17.
        num_mazes: how many mazes to generate; None: 1024.
        generator: the other options of `MazePool.generate`; with a pool they are only checked.
    """
    generator = {**generator, "seed": check_int("pool_seed", generator["seed"], 0, MAX_SEED)}
    if pool is None:
        count = DEFAULT_NUM_MAZES if num_mazes is None else check_int("num_mazes", num_mazes, 1, 2**31)
        return MazePool.generate(count, (17, 17) if size is None else size, **generator)
    if not isinstance(pool, MazePool | FreshMazes):
        raise TypeError(
            f"pool must be a MazePool or FreshMazes, got {type(pool).__name__}; make one with "
            "MazePool.from_layouts([...])"
        )
    if num_mazes is not None:
        raise ValueError(
            f"num_mazes={num_mazes} does not go with a pool, which has {len(pool)} mazes; leave num_mazes out"
            + (f", or use pool[:{num_mazes}]" if isinstance(pool, MazePool) else "")
        )
    height, width = pool.size
    if size is not None and as_sides(size) != pool.size:
        raise ValueError(
            f"size={size!r} does not go with a pool of {height}x{width} mazes; take the id of that size, or leave size "
            "out, as MazeEnv(pool) does, which takes pools of any size"
        )
    # A pool may have even sides, which a generator cannot make.
    nearest = min(height | 1, MAX_SIDE - 1), min(width | 1, MAX_SIDE - 1)
    MazeSpec(nearest, **{name: value for name, value in generator.items() if name != "seed"})
    return pool
