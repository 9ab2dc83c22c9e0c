"""`MazePool`: many different mazes of one size, as arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sera_maze.envs.generating.distinct import generate_distinct
from sera_maze.envs.generating.generate import LayoutArrays
from sera_maze.envs.generating.spec import MAX_SEED, MazeSpec
from sera_maze.envs.ground.checks import as_integer, as_list, check_choice, check_int, known_arguments
from sera_maze.envs.ground.errors import LayoutError
from sera_maze.envs.layouts.distances import shortest_lengths
from sera_maze.envs.layouts.files import read_layout
from sera_maze.envs.layouts.layout import MazeLayout, digest_content, digest_of
from sera_maze.envs.pools.arrays import as_cells, as_places, as_walls, no_such_maze
from sera_maze.envs.pools.files import load_arrays, package_version, save_arrays
from sera_maze.envs.pools.provenance import checked_provenance, put_together, taken
from sera_maze.envs.pools.splitting import choose_groups, nearest_totals

# The papers' sets: a fixed pool of 7,424 mazes to train on and 256 held-out ones, 17x17 randomized Prim from corner to
# corner. The mazes are ours, since the papers' own are not published with a licence; the 256 are shipped in assets/.
PAPERS_TRAINING_MAZES = 7424
PAPERS_HELD_OUT_MAZES = 256
PAPERS_SPEC = MazeSpec((17, 17), "prim")
PAPERS_TRAINING_SEED = 2602
PAPERS_HELD_OUT_SEED = 2609
_HELD_OUT_FILE = "held_out_17x17_prim.npz"

Element = TypeVar("Element", bound=np.generic)


class MazePool:
    """Many different mazes of one size; prompt ``i`` of an environment is maze ``i`` of its pool.

    All arrays of a pool are read-only, also after it was copied or pickled.

    Args:
        walls: (M, H, W) bool, True where there is a wall.
        start: (M, 2) integers, (row, column).
        goal: (M, 2) integers, (row, column).
        provenance: where the mazes come from, as JSON can hold it; kept by `save`.

    Attributes:
        walls: (M, H, W) bool.
        start: (M, 2) int64.
        goal: (M, 2) int64.
        provenance: dict, a copy of what was given.

    Raises:
        LayoutError: if a maze breaks the rules of `MazeLayout`; the message starts with its number.
        ValueError: if there is no maze, two are the same, or shapes do not fit.
        TypeError: if cells are not integers, or ``provenance`` holds something that JSON cannot.
    """

    walls: NDArray[np.bool_]
    start: NDArray[np.int64]
    goal: NDArray[np.int64]
    provenance: dict[str, Any]

    def __init__(
        self, walls: ArrayLike, start: ArrayLike, goal: ArrayLike, *, provenance: dict[str, Any] | None = None
    ):
        source = {"made_by": "arrays"} if provenance is None else checked_provenance(provenance)
        arrays = {"walls": as_walls(walls), "start": as_cells("start", start), "goal": as_cells("goal", goal)}
        self.__setstate__({**arrays, "provenance": source})
        self._check_shapes()
        self._check_mazes()
        self._check_distinct()

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("walls", "start", "goal", "provenance")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for array in (self.walls, self.start, self.goal):
            array.setflags(write=False)

    def _check_shapes(self) -> None:
        if self.walls.ndim != 3 or not len(self.walls):
            raise ValueError(f"walls must be (M, H, W) with at least one maze, got shape {self.walls.shape}")
        for name in ("start", "goal"):
            if getattr(self, name).shape != (len(self.walls), 2):
                raise ValueError(f"{name} must be ({len(self.walls)}, 2), got shape {getattr(self, name).shape}")

    def _check_mazes(self) -> None:
        """Find a maze that breaks the rules with array operations, then let MazeLayout say what is wrong with it."""
        inside = np.ones(len(self), bool)
        for cells in (self.start, self.goal):
            inside &= ((cells >= 0) & (cells < self.walls.shape[1:])).all(1)
        border = np.ones(self.size, bool)
        border[1:-1, 1:-1] = False
        good = inside & self.walls[:, border].all(1) & (self.start != self.goal).any(1)
        each = np.arange(len(self))
        for cells in (self.start, self.goal):
            good[good] &= ~self.walls[each[good], cells[good, 0], cells[good, 1]]
        if good.all() and min(self.size) >= 3:
            good = self.shortest_lengths > 0
        for bad in np.flatnonzero(~good)[:1]:
            try:
                MazeLayout(self.walls[bad], self.start[bad].tolist(), self.goal[bad].tolist())
            except LayoutError as error:
                raise error.prefixed(f"maze {bad} of the pool: ") from None

    def _check_distinct(self) -> None:
        seen: dict[bytes, int] = {}
        for i, content in enumerate(self._contents):
            if seen.setdefault(content, i) != i:
                raise ValueError(
                    f"maze {i} of the pool repeats maze {seen[content]}; a pool holds different mazes: drop one"
                )

    @cached_property
    def _contents(self) -> list[bytes]:
        return digest_content(self.walls, self.start, self.goal)

    @classmethod
    @known_arguments
    def generate(
        cls,
        count: int,
        size: int | Sequence[int] = (17, 17),
        algorithm: str = "prim",
        seed: int = 0,
        *,
        braid: float = 0.0,
        openings: int = 0,
        endpoints: str = "corners",
        distance: int | None = None,
        exclude: MazePool | Iterable[MazePool] = (),
    ) -> MazePool:
        """Generate ``count`` different mazes: the first different ones of ``seed`` that are in none of ``exclude``.

        Args:
            count: number of mazes M, at least 1.
            size: grid squares, walls included, as (height, width) or one int; both odd.
            algorithm: "prim", "dfs", "kruskal", "wilson", "division" or "rooms", see `MazeSpec`.
            seed: 0 to 2**64 - 1.
            braid: probability with which each dead end is opened, 0 to 1, see `MazeSpec`.
            openings: further walls removed.
            endpoints: "corners", "random", "farthest" or "distance".
            distance: moves from start to goal, for endpoints="distance".
            exclude: one or more pools of the same size whose mazes, that is, whose walls, must not occur, whatever
                start and goal.

        Raises:
            ValueError: if fewer different mazes exist, none is found for a long time, or no two cells of a maze that
                is needed are ``distance`` moves apart; else as `generate_layouts`.
            TypeError: for an argument of another type.
        """
        spec = MazeSpec(size, algorithm, braid, openings, endpoints, distance)  # type: ignore[arg-type]
        count, seed = check_int("count", count, 1, 2**31), check_int("seed", seed, 0, MAX_SEED)
        excluded = [exclude] if isinstance(exclude, MazePool) else _as_pools("exclude", exclude)
        arrays = generate_distinct(spec, count, seed, {x for pool in excluded for x in digest_content(pool.walls)})
        provenance = {
            "made_by": "generate",
            "count": count,
            "seed": seed,
            **spec.to_dict(),
            "version": package_version(),
        }
        return cls(*arrays, provenance=provenance)

    @classmethod
    def graded(
        cls, count: int, distances: Sequence[int], size: int | Sequence[int] = (17, 17), algorithm: str = "prim",
        seed: int = 0, *, braid: float = 0.0, openings: int = 0, exclude: MazePool | Iterable[MazePool] = (),
    ) -> MazePool:  # fmt: skip
        """Generate ``count`` mazes for each shortest-path distance, in the order of ``distances``, all of other walls.

        Args:
            count: mazes for each distance, at least 1.
            distances: different even numbers of moves from start to goal.
            size: as in `generate`.
            algorithm: as in `generate`.
            seed: as in `generate`.
            braid: as in `generate`.
            openings: as in `generate`.
            exclude: as in `generate`.

        Raises:
            ValueError, TypeError: as `generate`, and if distances repeat.
        """
        numbers = as_list("distances", distances, "one or more even numbers, as in [4, 8, 16]")
        wanted = [check_int(f"distances[{i}]", number, 2, 2**31) for i, number in enumerate(numbers)]
        if not wanted or len(set(wanted)) < len(wanted):
            raise ValueError(f"distances={wanted}: give one or more, all different")
        options: dict[str, Any] = {"braid": braid, "openings": openings, "endpoints": "distance"}
        excluded = [exclude] if isinstance(exclude, MazePool) else _as_pools("exclude", exclude)
        pools: list[MazePool] = []
        for distance in wanted:
            others = [*excluded, *pools]
            pools.append(cls.generate(count, size, algorithm, seed, distance=distance, exclude=others, **options))
        return cls.concatenate(pools)

    @classmethod
    def concatenate(cls, pools: Sequence[MazePool]) -> MazePool:
        """One pool of the mazes of several pools of one size, in order; no maze may occur twice."""
        pools = _as_pools("pools", pools)
        if not pools or len({pool.size for pool in pools}) > 1:
            raise ValueError(f"need one or more pools of one size, got sizes {[pool.size for pool in pools]}")
        arrays = (np.concatenate([getattr(pool, name) for pool in pools]) for name in ("walls", "start", "goal"))
        return cls(*arrays, provenance=put_together([pool.provenance for pool in pools]))

    @classmethod
    def from_layouts(
        cls, layouts: Sequence[MazeLayout], *, drop_repeated: bool = False, provenance: dict[str, Any] | None = None
    ) -> MazePool:
        """Gather layouts of one size.

        Args:
            layouts: at least one `MazeLayout`.
            drop_repeated: keep the first of equal mazes instead of refusing them.
            provenance: where they come from.

        Raises:
            ValueError: if there is none, sizes differ, or mazes repeat.
            TypeError: if one is not a `MazeLayout`.
        """
        layouts = as_list("layouts", layouts, "a list of MazeLayout")
        for i, layout in enumerate(layouts):
            if not isinstance(layout, MazeLayout):
                remedy = "; read drawings with MazeLayout.from_text" if isinstance(layout, str) else ""
                raise TypeError(f"layouts[{i}] is a {type(layout).__name__}; allowed is a MazeLayout{remedy}")
        layouts = list(dict.fromkeys(layouts)) if drop_repeated else layouts
        if not layouts:
            raise ValueError("layouts is empty; a pool needs at least one maze")
        for i, layout in enumerate(layouts):
            if layout.size != layouts[0].size:
                raise ValueError(
                    f"layout {i} has size {layout.size}, but layout 0 has {layouts[0].size}; a pool holds one size"
                )
        arrays = (np.array([getattr(layout, name) for layout in layouts]) for name in ("walls", "start", "goal"))
        return cls(*arrays, provenance={"made_by": "layouts"} if provenance is None else provenance)

    @classmethod
    def from_folder(cls, folder: str | Path, pattern: str = "*.txt", *, drop_repeated: bool = False) -> MazePool:
        """Read a folder of drawings, one maze a file, in the order of the file names (see `MazeLayout.from_text`).

        Hidden files, such as those that macOS leaves beside others, are passed over unless ``pattern`` names them.

        Raises:
            FileNotFoundError: if the folder has no such file.
            LayoutError: for a file that is not a maze; the message starts with its name.
            ValueError: if sizes differ or mazes repeat (``drop_repeated`` keeps the first).
        """
        hidden = pattern.startswith(".")
        files = [file for file in sorted(Path(folder).glob(pattern)) if hidden or not file.name.startswith(".")]
        if not files:
            raise FileNotFoundError(
                f"no file matches {Path(folder) / pattern}; write one maze a file, with # walls, S and G"
            )
        layouts: list[MazeLayout] = []
        first: dict[MazeLayout, Path] = {}
        for file in files:
            layout = read_layout(file)
            layouts.append(layout)
            if layout.size != layouts[0].size:
                raise ValueError(f"{file} has size {layout.size}, but {files[0]} has {layouts[0].size}")
            if first.setdefault(layout, file) is not file and not drop_repeated:
                raise ValueError(
                    f"{file} holds the same maze as {first[layout]}; a pool holds different mazes: remove one of the "
                    "files, or pass drop_repeated=True"
                )
        provenance = {"made_by": "folder", "files": [file.name for file in files]}
        return cls.from_layouts(layouts, drop_repeated=drop_repeated, provenance=provenance)

    @classmethod
    def papers(cls, part: str) -> MazePool:
        """The sets of the papers' size and kind: "train" (7,424 mazes) or "held_out" (256); they share no maze.

        References:
            SERA (arXiv 2609.36552): the fixed pool and the held-out set of its maze experiment.
        """
        check_choice("part", part, ("train", "held_out"))
        with resources.as_file(resources.files("sera_maze.assets") / _HELD_OUT_FILE) as file:
            held_out = cls.load(file)
        if part == "held_out":
            return held_out
        spec, seed = PAPERS_SPEC, PAPERS_TRAINING_SEED
        return cls.generate(PAPERS_TRAINING_MAZES, spec.size, spec.algorithm, seed, exclude=[held_out])

    def save(self, path: str | Path) -> Path:
        """Write walls, start, goal and provenance (JSON) into one ``.npz`` file, whole or not at all; return its path.

        Raises:
            ValueError: if the name does not end in ``.npz``.
        """
        return save_arrays(
            path, self.walls, self.start, self.goal, {**self.provenance, "saved_by_version": package_version()}
        )

    @classmethod
    def load(cls, path: str | Path) -> MazePool:
        """Read what `save` wrote. Runs no code from the file.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if it is not a whole pool file; LayoutError if a maze in it breaks the rules.
        """
        walls, start, goal, provenance = load_arrays(path)
        return cls(walls, start, goal, provenance=provenance)

    def split(self, held_out: int, seed: int = 0) -> tuple[MazePool, MazePool]:
        """Part the pool at random into (training, held-out) pools that share no walls, whatever start and goal.

        Args:
            held_out: number of held-out mazes, 1 to M - 1.
            seed: which split, 0 to 2**64 - 1.

        Raises:
            ValueError: if there are too few mazes, or mazes with the same walls cannot be parted into these numbers.
            TypeError: if an argument is not an integer.
        """
        if len(self) < 2:
            raise ValueError(f"held_out={held_out!r}: a pool of one maze cannot be split; make a larger one")
        held_out, seed = check_int("held_out", held_out, 1, len(self) - 1), check_int("seed", seed, 0, MAX_SEED)
        groups: dict[bytes, list[int]] = {}
        for i, content in enumerate(digest_content(self.walls)):
            groups.setdefault(content, []).append(i)
        members = list(groups.values())
        sizes = [len(group) for group in members]
        chosen = choose_groups(sizes, held_out, np.random.default_rng(seed).permutation(len(members)).tolist())
        if chosen is None:
            near = " and ".join(map(str, nearest_totals(sizes, held_out))) or "none"
            raise ValueError(
                f"held_out={held_out}: mazes with the same walls stay together, and the {len(members)} different walls "
                f"of this pool do not add up to that; the nearest numbers that work: {near}"
            )
        is_held_out = np.zeros(len(self), bool)
        is_held_out[[i for group in chosen for i in members[group]]] = True
        how = {"made_by": "split", "held_out": held_out, "seed": seed}
        return (
            self._subset(np.flatnonzero(~is_held_out), {**how, "part": "train"}),
            self._subset(np.flatnonzero(is_held_out), {**how, "part": "held_out"}),
        )

    def _subset(self, indices: NDArray[np.intp], how: dict[str, Any]) -> MazePool:
        arrays = self.walls[indices], self.start[indices], self.goal[indices]
        return MazePool(*arrays, provenance=taken(how, self.provenance))

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) in grid squares, walls included."""
        return self.walls.shape[1], self.walls.shape[2]

    @cached_property
    def shortest_lengths(self) -> NDArray[np.int32]:
        """(M,) int32: moves on a shortest path from start to goal."""
        return _read_only(shortest_lengths(self.walls, self.start, self.goal))

    @property
    def difficulty(self) -> NDArray[np.int32]:
        """(M,) int32: what makes a maze hard, its `shortest_lengths`."""
        return self.shortest_lengths

    def describe(self, index: int) -> str:
        """The maze's number and the length of its shortest path."""
        return f"maze {index}, shortest path {self.shortest_lengths[index]} moves"

    def arrays(self, prompts: NDArray[np.integer[Any]]) -> LayoutArrays:
        """The mazes of prompts (B,), repeated or not, in their order, as arrays."""
        return LayoutArrays(self.walls[prompts], self.start[prompts], self.goal[prompts])

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the mazes in their order, whatever their provenance."""
        digest = hashlib.sha256(repr(self.walls.shape).encode())
        for array in (self.walls, self.start, self.goal):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    @cached_property
    def planes(self) -> NDArray[np.uint8]:
        """(M, H, W) uint8: the walls as observation="grid" shows them, 255 where there is a wall, else 0."""
        return _read_only(self.walls.astype(np.uint8) * np.uint8(255))

    @cached_property
    def digests(self) -> NDArray[np.object_]:
        """(M,) str objects: the digest of each maze, as `MazeLayout.digest`."""
        return _read_only(np.array([digest_of(content) for content in self._contents], object))

    def __len__(self) -> int:
        return len(self.walls)

    @overload
    def __getitem__(self, index: int) -> MazeLayout: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | NDArray[Any]) -> MazePool: ...
    def __getitem__(self, index: Any) -> MazeLayout | MazePool:
        """Maze ``i`` as a `MazeLayout`; a slice, a list of numbers or a mask gives a smaller pool.

        Raises:
            IndexError: for a maze that the pool does not have, or a mask of another length.
            ValueError: if no maze is selected.
            TypeError: for other indices.
        """
        i = as_integer(index)
        if i is None:
            return self._subset(as_places(index, len(self)), {"made_by": "selection"})
        if not -len(self) <= i < len(self):
            raise IndexError(no_such_maze(i, len(self)))
        start, goal = self.start[i].tolist(), self.goal[i].tolist()
        return MazeLayout._trusted(self.walls[i], (start[0], start[1]), (goal[0], goal[1]))

    def __iter__(self) -> Iterator[MazeLayout]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"MazePool({len(self)} mazes of {self.size[0]}x{self.size[1]}, made by {self.provenance.get('made_by')})"


def _as_pools(name: str, pools: Iterable[MazePool]) -> list[MazePool]:
    listed = as_list(name, pools, "a list of MazePool")
    for i, pool in enumerate(listed):
        if not isinstance(pool, MazePool):
            raise TypeError(f"{name}[{i}] is a {type(pool).__name__}; allowed is a MazePool")
    return listed


def _read_only(array: NDArray[Element]) -> NDArray[Element]:
    array.setflags(write=False)
    return array
