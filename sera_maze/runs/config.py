"""What a training run is made of, `RunConfig`, and the presets of ``sera-maze train``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from typing_extensions import Self

from sera_maze.algorithm.options import MaxRLOptions
from sera_maze.envs.generating.spec import FAMILIES, Algorithm, MazeSpec
from sera_maze.envs.ground.atomic_files import write_text
from sera_maze.envs.ground.checks import check_int, did_you_mean
from sera_maze.envs.ground.options import Number, Whole, changed, check_options, differences, leaves
from sera_maze.envs.layouts.moves import OnWall
from sera_maze.policies.iterations import Growth

_COUNT, _COUNT_FROM_0 = Whole(1, 2**31), Whole(0, 2**32 - 1)
# Options that config.json lacked in earlier versions, whose runs did what the defaults say.
_LATER_OPTIONS = {
    "distances", "activation_threshold", "max_grad_norm", "n_min", "rounding", "multiplicity_correction", "token_mean",
    "n_epochs", "clip_range", "ent_coef", "critic_coef", "warmup_updates", "sampler", "braid", "openings", "endpoints",
    "smaller_sizes", "growth", "learning_iterations",
}  # fmt: skip


@dataclass(frozen=True)
class MazeOptions:
    """The mazes of a run, to train on and held out for evaluation.

    Args:
        size: height and width of the mazes in grid squares, walls included; odd.
        algorithm: how the mazes are carved, see `MazeSpec`; "all": eight families in turn, those of every algorithm
            and braided ones of "prim" and of "dfs".
        braid: probability with which each dead end is opened, so that several solutions may exist.
        openings: further walls between cells that are removed.
        endpoints: of mazes without distances: "corners" (start top left, goal bottom right), "random" (two different
            cells) or "farthest" (the two cells farthest apart).
        smaller_sizes: sides of smaller square mazes, odd, that come in turn with those of ``size``, as many of each;
            None: none.
        num_mazes: mazes of the training pool.
        fresh_mazes: train on mazes that never come twice (`FreshMazes`) instead of a pool; num_mazes is not used then.
        distances: shortest-path distances of start and goal, as many training and held-out mazes of each; None: start
            and goal in opposite corners.
        held_out_mazes: mazes of the held-out pool; for 17x17 Prim mazes the 256 shipped ones.
        on_wall: what a move into a wall does: "fail" ends the episode, "stay" leaves the agent where it is.
    """

    size: tuple[int, int] = (17, 17)
    algorithm: Literal[Algorithm, "all"] = "prim"
    braid: Annotated[float, Number("a probability from 0 (none) to 1 (all dead ends)", 0, 1, "[]")] = 0.0
    openings: Annotated[int, _COUNT_FROM_0] = 0
    endpoints: Literal["corners", "random", "farthest"] = "corners"
    smaller_sizes: tuple[int, ...] | None = None
    num_mazes: Annotated[int, _COUNT] = 16384
    fresh_mazes: bool = False
    distances: tuple[int, ...] | None = None
    held_out_mazes: Annotated[int, _COUNT] = 256
    on_wall: OnWall = "fail"

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", MazeSpec(self.size).size)
        check_options(self)
        if self.algorithm == "all" and self.braid:
            raise ValueError(
                "braid goes with one algorithm; leave it out with 'all', which has braided mazes of its own"
            )
        if self.smaller_sizes is not None:
            self._check_sizes(self.smaller_sizes)
        if self.distances is not None:
            self._check_distances(self.distances)
        if min(self.num_mazes, self.held_out_mazes) < len(self.kinds()):
            raise ValueError(f"there are {len(self.kinds())} kinds of mazes; give as many mazes of each pool or more")

    def curriculum(self) -> list[list[MazeSpec]]:
        """The kinds of mazes of each stage of a warm start: of the smallest size, of the two smallest, and so on."""
        sides = sorted(self.smaller_sizes or ())
        kinds = [[kind for side in sides[: i + 1] for kind in self.kinds((side, side))] for i in range(len(sides))]
        return [*kinds, self.kinds()]

    def kinds(self, size: tuple[int, int] | None = None) -> list[MazeSpec]:
        """The kinds of mazes, as many mazes of each; of one size, or of all if that is None. Without distances."""
        smaller = [(side, side) for side in self.smaller_sizes or ()]
        sizes = [*smaller, self.size] if size is None else [size]
        families = list(FAMILIES.values()) if self.algorithm == "all" else [(self.algorithm, self.braid)]
        return [
            MazeSpec(sides, algorithm, braid, self.openings, self.endpoints)
            for sides in sizes
            for algorithm, braid in families
        ]

    def _check_sizes(self, given: object) -> None:
        if not isinstance(given, Sequence) or isinstance(given, str):
            raise TypeError(f"smaller_sizes={given!r}; give one or more sides, such as (9, 17), or None")
        sides = tuple(check_int("smaller_sizes", side, 5, min(self.size) - 2) for side in given)
        object.__setattr__(self, "smaller_sizes", sides)
        if not sides or len(set(sides)) < len(sides):
            raise ValueError(f"smaller_sizes={sides}; give one or more, all different, or None")

    def _check_distances(self, given: object) -> None:
        if not isinstance(given, Sequence) or isinstance(given, str):
            raise TypeError(f"distances={given!r}; give several, such as (4, 8), or None")
        distances = tuple(check_int("distances", distance, 2, 2**31) for distance in given)
        object.__setattr__(self, "distances", distances)
        if not distances or len(set(distances)) < len(distances):
            raise ValueError(f"distances={distances}; give one or more, all different, or None")
        if self.fresh_mazes:
            raise ValueError("distances are those of a pool; leave them out with fresh_mazes")
        if len(self.kinds()) > 1 or self.endpoints != "corners":
            raise ValueError("distances go with one kind of mazes, and choose the endpoints; leave the others out")
        for name in ("num_mazes", "held_out_mazes"):
            if getattr(self, name) % len(distances):
                raise ValueError(
                    f"{name}={getattr(self, name)} mazes cannot be shared out evenly over {len(distances)} distances; "
                    "give a multiple"
                )


@dataclass(frozen=True)
class PolicyOptions:
    """The `MazePolicy` of a run.

    Args:
        channels: width of the policy's hidden state.
        iterations: how often the policy updates its hidden state; None: by the size of the mazes.
        growth: how these iterations grow with the size: with its "sides", or with its "area", for long winding paths.
        learning_iterations: through how many iterations, the last ones, the gradient goes; None: all of them.
    """

    channels: Annotated[int, _COUNT] = 32
    iterations: Annotated[int, _COUNT] | None = None
    growth: Growth = "sides"
    learning_iterations: Annotated[int, _COUNT] | None = None

    def __post_init__(self) -> None:
        check_options(self)


class _InFile:
    """The part of a config that is written as config.json into a run's folder."""

    def save(self, path: Path) -> None:
        """Write as JSON."""
        data = asdict(self)  # type: ignore[call-overload]
        if math.isinf(data["method"]["max_grad_norm"]):  # not clipped; JSON has no number for it
            data["method"]["max_grad_norm"] = "inf"
        write_text(path, json.dumps(data, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote, or what it wrote in earlier versions.

        Raises:
            ValueError: for another file, or the config of another kind of run.
        """
        found = load_config(path)
        if not isinstance(found, cls):
            raise ValueError(
                f"{path} is that of a run of {MADE_BY[type(found)]}, not of {MADE_BY[cls]}; choose another folder"
            )
        return found


@dataclass(frozen=True)
class RunConfig(_InFile):
    """Everything that fixes a training run, validated; written as config.json into its folder.

    Args:
        mazes: to train on and to evaluate on.
        policy: that is trained.
        method: how it is trained.
        warm_start: updates that imitate shortest paths, before the reinforcement learning.
        updates: updates of the reinforcement learning.
        learning_rate: that of the first update; it falls linearly to zero.
        eval_every: updates between evaluations on the held-out mazes.
        num_samples: rollouts for each held-out maze.
        seed: fixes mazes, parameters and rollouts.
    """

    mazes: MazeOptions = MazeOptions()
    policy: PolicyOptions = PolicyOptions()
    method: MaxRLOptions = field(default_factory=lambda: MaxRLOptions(allocator="sera"))
    warm_start: Annotated[int, _COUNT_FROM_0] = 1000
    updates: Annotated[int, _COUNT] = 2400
    learning_rate: Annotated[float, Number("a number above 0, at most 1", 0, 1, "(]")] = 1e-3
    eval_every: Annotated[int, _COUNT] = 200
    num_samples: Annotated[int, _COUNT] = 256
    seed: Annotated[int, _COUNT_FROM_0] = 0

    def __post_init__(self) -> None:
        check_options(self)
        success, allocator = self.method.success, self.method.allocator
        # Equal shares can do without a history, but not without the critic that another one begins with.
        learns = success == "critic_history" or (success == "history" and allocator != "uniform")
        if self.mazes.fresh_mazes and learns:
            raise ValueError(
                f"success={success!r} learns about mazes that come again, and fresh mazes do not: choose "
                "success='critic', success='exact' or allocator='uniform'"
            )

    @classmethod
    def of(cls, **options: Any) -> RunConfig:
        """The default run with other values of some options, by the names that they have in the parts of the tree.

        Raises:
            ValueError, TypeError: for a name that there is not, or a value that is not allowed.
        """
        return changed(cls(), options)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunConfig:
        """The run of an `asdict`, or of the flat dict of options that earlier versions wrote.

        Raises:
            ValueError, TypeError: for other data.
        """
        if not isinstance(data, Mapping):
            raise TypeError("it is not an object")
        options: dict[str, Any] = {}
        for name, value in data.items():
            part = value if isinstance(value, Mapping) else {name: value}
            if twice := sorted(options.keys() & part.keys()):
                raise TypeError(f"it has {', '.join(twice)} twice")
            options |= part
        names = leaves(cls())
        if unknown := sorted(options.keys() - names.keys()):
            near = did_you_mean(unknown[0], names)
            raise TypeError(f"it has {', '.join(unknown)}, which sera_maze does not know{near}")
        if missing := sorted(names.keys() - options.keys() - _LATER_OPTIONS):
            raise TypeError(f"it lacks {', '.join(missing)}")
        return cls.of(**options)

    def changed(self, options: Mapping[str, Any]) -> RunConfig:
        """The same run with other values of some options, by their names, as `of`."""
        return changed(self, options)


@dataclass(frozen=True)
class ScriptOptions:
    """What a script trains, and on what.

    Args:
        name: what the run is, in the script's words.
        algorithm: name of the class.
        policy: name of the class.
        policy_kwargs: the model's ``policy_kwargs``, as JSON.
        schedule: of the learning rate, as JSON; empty for a constant one.
        num_prompts: training prompts.
        prompts: digest of them; None if they cannot be named.
        num_held_out: prompts of the evaluations.
        held_out: digest of them.
        environment: that is trained in, as far as it can be told; empty in runs of earlier versions.
        held_out_environment: of the evaluations; empty without one.
    """

    name: str
    algorithm: str
    policy: str
    policy_kwargs: str
    schedule: str
    num_prompts: int
    prompts: str | None
    num_held_out: int
    held_out: str | None
    environment: str = ""
    held_out_environment: str = ""


@dataclass(frozen=True)
class ScriptConfig(_InFile):
    """Everything that a run knows of what fixes it, where a script makes its model; written as config.json.

    Args:
        script: what is trained, and on what.
        method: how it is trained.
        warm_start: updates of imitation, before the reinforcement learning.
        updates: updates of the reinforcement learning.
        learning_rate: that of the first update.
        eval_every: updates between evaluations on the held-out prompts.
        num_samples: rollouts for each held-out prompt.
        seed: of the model.
    """

    script: ScriptOptions
    method: MaxRLOptions
    updates: Annotated[int, _COUNT]
    warm_start: Annotated[int, _COUNT_FROM_0] = 0
    learning_rate: Annotated[float, Number("a finite number of at least 0")] = 1e-3
    eval_every: Annotated[int, _COUNT] = 50
    num_samples: Annotated[int, _COUNT] = 256
    seed: Annotated[int, _COUNT_FROM_0] = 0

    def __post_init__(self) -> None:
        check_options(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ScriptConfig:
        """The run of an `asdict`.

        Raises:
            ValueError, TypeError: for other data.
        """
        if not isinstance(data, Mapping) or "script" not in data:
            raise TypeError("it is not that of a script's run")
        parts = {"script": ScriptOptions(**data["script"]), "method": MaxRLOptions(**data["method"])}
        return cls(**{**data, **parts})

    def refuse_others(self, other: ScriptConfig, folder: Path) -> None:
        """Check that the run in a folder is this one, but for the number of updates.

        Raises:
            ValueError: naming the first option that differs.
        """
        for name, (said, was) in differences(self, other).items():
            is_unknown = name in ("environment", "held_out_environment") and not other.script.environment
            if name != "updates" and not is_unknown:
                raise ValueError(
                    f"{folder} holds a run with {name}={was!r}, and the script says {said!r}: put that back (only "
                    "updates may change), or choose another folder"
                )


Config = RunConfig | ScriptConfig
MADE_BY: dict[type, str] = {RunConfig: "'sera-maze train'", ScriptConfig: "a script"}


def config_from_dict(data: Mapping[str, Any]) -> Config:
    """The config that an `asdict` is of.

    Raises:
        ValueError, TypeError: for other data.
    """
    is_script = isinstance(data, Mapping) and "script" in data
    return ScriptConfig.from_dict(data) if is_script else RunConfig.from_dict(data)


def _with_infinity(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "max_grad_norm": math.inf} if data.get("max_grad_norm") == "inf" else data


def load_config(path: Path) -> Config:
    """Read the config.json of any run.

    Raises:
        ValueError: for another file.
    """
    try:
        return config_from_dict(json.loads(path.read_text(encoding="utf-8"), object_hook=_with_infinity))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is not the config.json of a run ({error})") from None


PRESETS = {
    "default": RunConfig(),
    # 9x9 mazes, within 90 seconds on two cores.
    "quick": RunConfig.of(size=(9, 9), num_mazes=4096, warm_start=400, updates=1000, eval_every=100),
    # Mazes that never come twice, so that there is always something left to learn.
    "hour": RunConfig.of(fresh_mazes=True, success="critic", warm_start=2000, updates=30_000, eval_every=1000),
    # The papers' setting of the maze experiment (SERA, arXiv 2609.36552).
    "paper": RunConfig.of(
        num_mazes=7424,
        updates=3000,
        prompts_per_batch=256,
        rollouts_per_prompt=128,
        n_max=512,
        eval_every=100,
        num_samples=2048,
    ),
    # The agent that comes with the package: all families and endpoints, in sizes that a curriculum goes through.
    "general": RunConfig.of(
        size=(33, 33),
        smaller_sizes=(9, 17),
        algorithm="all",
        endpoints="random",
        fresh_mazes=True,
        held_out_mazes=264,
        channels=48,
        growth="area",
        learning_iterations=20,
        warm_start=7500,
        updates=300,
        prompts_per_batch=32,
        success="exact",
        learning_rate=1e-4,
        eval_every=50,
    ),
}
