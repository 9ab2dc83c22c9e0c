"""`MazeSpec`: what mazes to generate. Imports no kernels, so that the command line knows it at once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from sera_maze.envs.ground.checks import as_number, as_sides, check_choice, check_int

Algorithm = Literal["prim", "dfs", "kruskal", "wilson", "division", "rooms"]
Endpoints = Literal["corners", "random", "farthest", "distance"]
ALGORITHMS: tuple[str, ...] = get_args(Algorithm)
ENDPOINTS: tuple[str, ...] = get_args(Endpoints)
# Algorithm and braid of the families of mazes: "braid" is that of the registered ids, "braid_dfs" has longer paths.
FAMILIES: dict[str, tuple[str, float]] = {
    **{name: (name, 0.0) for name in ALGORITHMS},
    "braid": ("prim", 1.0),
    "braid_dfs": ("dfs", 1.0),
}
MAX_SIDE, MAX_SEED = 2**12, 2**64 - 1
_BRAID = "a probability from 0 (none) to 1 (all dead ends)"


@dataclass(frozen=True)
class MazeSpec:
    """What to generate, validated: everything but the seed and the number of mazes.

    Args:
        size: (height, width) in grid squares, walls included; both odd, with at least two cells (3x5 is the smallest).
            One int means a square.
        algorithm: "prim" (the papers' randomized Prim), "dfs", "kruskal", "wilson" (every spanning tree has the same
            probability), "division" (recursive division), or "rooms" (rooms and corridors, often several solutions).
        braid: probability, 0 to 1, with which each dead end is opened, row by row, so that several solutions may exist.
            An opening can lead into another dead end, which then is none any more.
        openings: number of further walls between cells removed at random (all of them if there are fewer).
        endpoints: "corners" (start top left, goal bottom right: the papers'), "random" (two different cells),
            "farthest" (the two cells farthest apart, in random order), or "distance".
        distance: for endpoints="distance": moves on a shortest path from start to goal; even, since cells lie two
            squares apart.

    Raises:
        ValueError: for a value outside these ranges.
        TypeError: for a value of another type.
    """

    size: tuple[int, int]
    algorithm: str = "prim"
    braid: float = 0.0
    openings: int = 0
    endpoints: str = "corners"
    distance: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _checked_size(self.size))
        check_choice("algorithm", self.algorithm, ALGORITHMS)
        check_choice("endpoints", self.endpoints, ENDPOINTS)
        braid = as_number("braid", self.braid, _BRAID)
        if not 0 <= braid <= 1:
            raise ValueError(f"braid={self.braid!r} is out of range; allowed is {_BRAID}")
        object.__setattr__(self, "braid", braid)
        object.__setattr__(self, "openings", check_int("openings", self.openings, 0, 2**31 - 1))
        self._check_distance()

    def _check_distance(self) -> None:
        if (self.distance is None) != (self.endpoints != "distance"):
            raise ValueError(
                f"distance={self.distance!r} does not go with endpoints={self.endpoints!r}; "
                "endpoints='distance' needs a distance in moves, and the others take none"
            )
        if self.distance is not None:
            longest = self.size[0] * self.size[1] // 2
            distance = check_int("distance", self.distance, 2, longest)
            if distance % 2:
                raise ValueError(
                    f"distance={distance} is odd; start and goal lie on cells, two squares apart: use even"
                )
            object.__setattr__(self, "distance", distance)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON can hold them."""
        return {**asdict(self), "size": list(self.size)}


def _checked_size(size: object) -> tuple[int, int]:
    height, width = as_sides(size)
    for name, side in (("height", height), ("width", width)):
        if not 3 <= side <= MAX_SIDE or side % 2 == 0:
            hint = f"; the nearest sizes are {max(3, side - 1)} and {max(5, side + 1)}" if 3 < side < MAX_SIDE else ""
            raise ValueError(
                f"size={height}x{width}: the {name} {side} is not an odd number from 3 to {MAX_SIDE}: sizes count "
                f"grid squares, walls included, and walls and cells alternate{hint}"
            )
    if height == width == 3:
        raise ValueError(
            "size=3x3 has a single cell, so no room for start and goal; the smallest sizes are 3x5 and 5x3"
        )
    return height, width
