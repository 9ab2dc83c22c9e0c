"""`FreshMazes`: so many mazes of one kind that none need come twice, each made when it is asked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.generating.generate import LayoutArrays, generate_from_spec
from sera_maze.envs.generating.spec import MAX_SEED, MazeSpec
from sera_maze.envs.ground.checks import as_integer, check_int
from sera_maze.envs.layouts.layout import MazeLayout, digest_content
from sera_maze.envs.pools.arrays import no_such_maze
from sera_maze.envs.pools.mixing import largest, walled_in
from sera_maze.envs.pools.pool import MazePool

NUM_FRESH_MAZES = 2**40
_MAX_ATTEMPTS = 1000


@dataclass(frozen=True, eq=False)
class FreshMazes:
    """Random mazes 0 to 2**40 - 1 of one seed, in place of a `MazePool` where each maze is to be seen once.

    Maze ``i`` is that of `generate_layouts` with ``first_index=i``, unless its walls are among those of ``exclude``:
    then the first of indices i + 2**40, i + 2 * 2**40, ... whose walls are not. Nothing is kept, so mazes can repeat by
    chance, which in small sizes is common: of 5x5 squares there are 4.

    Args:
        size: grid squares, walls included, as (height, width) or one int; both odd.
        algorithm: "prim", "dfs", "kruskal", "wilson", "division" or "rooms", see `MazeSpec`.
        seed: 0 to 2**64 - 1.
        braid: see `MazeSpec`.
        openings: see `MazeSpec`.
        endpoints: see `MazeSpec`.
        distance: see `MazeSpec`.
        exclude: a pool of held-out mazes of the same size, whose walls must not occur, whatever start and goal.
        kinds: mazes of several kinds in turn, see `mixed`, which sets the arguments before to those of the largest.

    Raises:
        ValueError, TypeError: for an argument outside its range.

    Example:
        >>> env = MazeEnv(FreshMazes((9, 9), seed=1))
        >>> model = SERA("MazePolicy", env, success="critic")
    """

    size: tuple[int, int] = (17, 17)
    algorithm: str = "prim"
    seed: int = 0
    braid: float = 0.0
    openings: int = 0
    endpoints: str = "corners"
    distance: int | None = None
    exclude: MazePool | None = None
    kinds: tuple[MazeSpec, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", self.spec.size)
        if self.kinds and self.spec != largest(self.kinds):
            raise ValueError("kinds go with the options of the largest of them; use FreshMazes.mixed(kinds)")
        object.__setattr__(self, "seed", check_int("seed", self.seed, 0, MAX_SEED))
        if self.exclude is None:
            return
        if not isinstance(self.exclude, MazePool):
            raise TypeError(
                f"exclude must be a MazePool or None, got {type(self.exclude).__name__}; put several together with "
                "MazePool.concatenate"
            )
        if self.exclude.size != self.size:
            raise ValueError(f"exclude has mazes of size {self.exclude.size}, the others have {self.size}")

    @classmethod
    def mixed(cls, kinds: Sequence[MazeSpec], seed: int = 0, exclude: MazePool | None = None) -> FreshMazes:
        """Mazes of K kinds in turn: maze ``i`` is maze ``i // K`` of kind ``i % K``.

        Args:
            kinds: of any sizes; mazes smaller than the largest height and width get more wall to the right and below.
                One kind must have both.
            seed: 0 to 2**64 - 1.
            exclude: a pool of the largest size, whose walls must not occur.

        Raises:
            ValueError, TypeError: if there are no kinds, none is the largest, or an argument is outside its range.

        Example:
            >>> FreshMazes.mixed([MazeSpec((9, 9), "prim"), MazeSpec((17, 17), "dfs", endpoints="random")])[0].size
            (17, 17)
        """
        given = tuple(kinds)
        options = {field.name: getattr(largest(given), field.name) for field in fields(MazeSpec)}
        return cls(**options, seed=seed, exclude=exclude, kinds=given if len(given) > 1 else ())

    @cached_property
    def spec(self) -> MazeSpec:
        """What the mazes are, but for the seed."""
        return MazeSpec(self.size, self.algorithm, self.braid, self.openings, self.endpoints, self.distance)

    @cached_property
    def _excluded(self) -> frozenset[bytes]:
        return frozenset(() if self.exclude is None else digest_content(self.exclude.walls))

    @property
    def provenance(self) -> dict[str, Any]:
        """Where the mazes come from, as JSON can hold it; without ``exclude``."""
        return {"made_by": "fresh", **self._options}

    @property
    def _options(self) -> dict[str, Any]:
        """The arguments, as JSON can hold them; without ``exclude``."""
        options = {"seed": self.seed, **self.spec.to_dict()}
        return options | ({"kinds": [kind.to_dict() for kind in self.kinds]} if self.kinds else {})

    @property
    def digest(self) -> str:
        """SHA-256 of all that fixes the mazes."""
        digest = hashlib.sha256(json.dumps(self.provenance).encode())
        digest.update(b"".join(sorted(self._excluded)))
        return digest.hexdigest()

    def describe(self, index: int) -> str:
        """The maze's number."""
        return f"maze {index}"

    def arrays(self, prompts: Sequence[int] | NDArray[np.integer[Any]]) -> LayoutArrays:
        """The mazes of prompts (B,), repeated or not, in their order.

        Raises:
            IndexError: for a prompt below 0 or from 2**40 on.
            ValueError: as `generate_layouts`, or if 1,000 mazes in a row were excluded.
        """
        wanted, place = np.unique(np.asarray(prompts, np.int64), return_inverse=True)
        for prompt in wanted[(wanted < 0) | (wanted >= NUM_FRESH_MAZES)]:
            raise IndexError(no_such_maze(prompt, NUM_FRESH_MAZES))
        made, turn = self._made(wanted), NUM_FRESH_MAZES * max(1, len(self.kinds))
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            again = [i for i, content in enumerate(digest_content(made.walls)) if content in self._excluded]
            if not again:
                return LayoutArrays(made.walls[place], made.start[place], made.goal[place])
            for array, part in zip(made, self._made(wanted[again] + attempt * turn), strict=True):
                array[again] = part
        raise ValueError(
            f"maze {wanted[again[0]]} of seed {self.seed}: {_MAX_ATTEMPTS} mazes in a row have walls of exclude, which "
            f"holds {len(self._excluded)}; exclude fewer or take a larger size"
        )

    def _made(self, indices: NDArray[np.int64]) -> LayoutArrays:
        """Mazes of rising indices (B,)."""
        if not self.kinds:
            return self._of_kind(self.spec, indices)
        count, made = len(self.kinds), generate_from_spec(self.spec, 0, self.seed)
        made = LayoutArrays(*(np.empty((len(indices), *array.shape[1:]), array.dtype) for array in made))
        for k, kind in enumerate(self.kinds):
            of_kind = indices % count == k
            mazes = self._of_kind(kind, indices[of_kind] // count)
            made.walls[of_kind] = walled_in(mazes.walls, self.size)
            made.start[of_kind], made.goal[of_kind] = mazes.start, mazes.goal
        return made

    def _of_kind(self, kind: MazeSpec, indices: NDArray[np.int64]) -> LayoutArrays:
        """Mazes of one kind by rising generator indices (B,), one call for each run of consecutive ones."""
        cuts = np.flatnonzero(np.diff(indices) > 1) + 1
        runs = [run for run in np.split(indices, cuts) if len(run)]
        parts = [generate_from_spec(kind, len(run), self.seed, first_index=int(run[0])) for run in runs]
        if not parts:
            return generate_from_spec(kind, 0, self.seed)
        return LayoutArrays(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def __len__(self) -> int:
        return NUM_FRESH_MAZES

    def __getitem__(self, index: int) -> MazeLayout:
        """Maze ``i``.

        Raises:
            IndexError: for a maze that there is not.
            TypeError: for anything but an integer; `arrays` gives many.
        """
        i = as_integer(index)
        if i is None:
            raise TypeError(f"{index!r} selects no maze; allowed is an int, and arrays(prompts) gives many mazes")
        walls, start, goal = self.arrays([i])
        return MazeLayout(walls[0], start[0].tolist(), goal[0].tolist())

    def __iter__(self) -> Iterator[MazeLayout]:
        """Refuse: 2**40 mazes are too many to go through."""
        raise TypeError("FreshMazes has too many mazes to go through; take some by their numbers, as in mazes[7]")

    def __repr__(self) -> str:
        algorithm = f"{len(self.kinds)} kinds" if self.kinds else self.algorithm
        return f"FreshMazes({self.size[0]}x{self.size[1]} {algorithm}, seed {self.seed})"


Mazes: TypeAlias = MazePool | FreshMazes


def same_mazes(one: Mazes, other: Mazes) -> bool:
    """Whether prompt i of one is prompt i of the other, for all i."""
    return one is other or one.digest == other.digest


def fresh_part(mazes: Mazes) -> tuple[dict[str, Any] | None, MazePool | None]:
    """What makes mazes again, `mazes_again`: options of `FreshMazes` that JSON can hold or None, and a pool or None."""
    if isinstance(mazes, FreshMazes):
        return mazes._options, mazes.exclude
    return None, mazes


def mazes_again(fresh: dict[str, Any] | None, pool: MazePool | None) -> Mazes:
    """The mazes of which `fresh_part` gave the parts.

    Raises:
        ValueError: if both are None.
    """
    if fresh is not None and fresh.get("kinds"):
        return FreshMazes.mixed([MazeSpec(**kind) for kind in fresh["kinds"]], fresh["seed"], pool)
    if fresh is not None:
        return FreshMazes(**fresh, exclude=pool)
    if pool is None:
        raise ValueError("there are no mazes: neither a pool nor options of fresh ones")
    return pool
