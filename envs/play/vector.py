"""`MazeVectorEnv`: the rules of `MazeEnv` for thousands of mazes in one kernel call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import logger, spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from sera_maze.envs.ground.checks import (
    as_integer,
    as_list,
    as_options,
    check_choice,
    check_int,
    did_you_mean,
    known_arguments,
)
from sera_maze.envs.ground.random_bits import prompt_key
from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.layouts.moves import ACTION_NAMES, action_masks
from sera_maze.envs.pictures.cell_sizes import choose_cell_size
from sera_maze.envs.play import stepping
from sera_maze.envs.play.maze import MazeEnv, picture
from sera_maze.envs.play.observations import observation_space
from sera_maze.envs.play.prompt_queue import check_prompt
from sera_maze.envs.play.rules import MAX_RESET_SEED, Fixed, MazeRules, choose_pool
from sera_maze.envs.play.vector_observations import VECTOR_ENCODERS
from sera_maze.envs.pools.pool import MazePool

_DRAW = -1
_MODES = {mode.value: mode for mode in AutoresetMode}


class MazeVectorEnv(VectorEnv[Any, Any, Any]):
    """N mazes side by side: the same episodes as N `MazeEnv`, given the same seeds or assignments and actions.

    Observations, rewards, ends and rules are those of `MazeEnv`, batched; see there. A seed s of `reset` seeds
    environment n with s + n, as Gymnasium's SyncVectorEnv does.

    Info follows Gymnasium's convention for vector environments: an array for each key, and under ``_key`` which of the
    environments have it. ``prompt``, ``shortest_path_length`` and ``steps`` are (N,) int64, ``digest`` is (N,) str
    objects, ``position`` is (N, 2) int64; where episodes ended ``is_success`` is (N,) bool, and with ``record_paths``
    ``path`` holds for each its tuple of cells (row, column).

    Args:
        num_envs: number of environments N.
        pool: as in `MazeEnv`, like all arguments up to ``cell_size``; the environments share it.
        size: see `MazeEnv`.
        num_mazes: see `MazeEnv`.
        algorithm: see `MazeEnv`.
        pool_seed: see `MazeEnv`.
        braid: see `MazeEnv`.
        openings: see `MazeEnv`.
        endpoints: see `MazeEnv`.
        distance: see `MazeEnv`.
        observation: see `MazeEnv`.
        radius: see `MazeEnv`.
        on_wall: see `MazeEnv`.
        max_steps: see `MazeEnv`.
        render_mode: "rgb_array" or "ansi": `render` gives one picture for each environment.
        cell_size: see `MazeEnv`.
        autoreset_mode: what follows the end of an episode: AutoresetMode.NEXT_STEP (the next step begins a new one and
            ignores its action), SAME_STEP (the same step does; the last observation and info are ``final_obs`` and
            ``final_info``) or DISABLED (call ``reset(options={"reset_mask": mask})``).
        copy: whether `reset` and `step` return copies of the observations. Without, they are written over by the next
            call, which is faster.
        record_paths: whether the last info of an episode has its ``path``.
        max_episode_steps: another name of ``max_steps``, by which `gymnasium.make_vec` hands it over.

    Raises:
        ValueError, TypeError: for an argument outside its range, naming it and what is allowed.
    """

    pool = Fixed[MazePool]()
    rules = Fixed[MazeRules]()

    @known_arguments
    def __init__(
        self,
        num_envs: int = 1,
        pool: MazePool | None = None,
        *,
        size: int | Sequence[int] | None = None,
        num_mazes: int | None = None,
        algorithm: str = "prim",
        pool_seed: int = 0,
        braid: float = 0.0,
        openings: int = 0,
        endpoints: str = "corners",
        distance: int | None = None,
        observation: str = "grid",
        radius: int = 3,
        on_wall: str = "fail",
        max_steps: int | None = None,
        render_mode: str | None = None,
        cell_size: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        record_paths: bool = False,
        max_episode_steps: int | None = None,
    ):
        self.num_envs = check_int("num_envs", num_envs, 1, 2**24)
        generator = {
            "algorithm": algorithm, "seed": pool_seed, "braid": braid,
            "openings": openings, "endpoints": endpoints, "distance": distance,
        }  # fmt: skip
        if not isinstance(autoreset_mode, AutoresetMode):
            check_choice("autoreset_mode", autoreset_mode, tuple(_MODES))
            autoreset_mode = _MODES[autoreset_mode]
        if render_mode == "human":
            raise ValueError("render_mode='human' is for one maze; allowed here are 'rgb_array' and 'ansi'")
        if max_episode_steps is not None:
            steps = check_int("max_episode_steps", max_episode_steps, 1, 2**31 - 1)
            if max_steps is not None and max_steps != steps:
                raise ValueError(f"max_episode_steps={steps} is another name of max_steps={max_steps!r}; give one")
            max_steps = steps
        mazes = choose_pool(pool, size, num_mazes, generator)
        if not isinstance(mazes, MazePool):
            raise TypeError(
                f"a MazeVectorEnv needs all mazes at hand, a MazePool, got {mazes!r}; use MazeEnv(...) for those, also "
                "several in a vector environment"
            )
        self.pool = mazes
        self.rules = MazeRules(self.pool.size, observation, radius, on_wall, max_steps, render_mode)
        self.render_mode, self.autoreset_mode, self.copy = render_mode, autoreset_mode, copy
        self.metadata = {**MazeEnv.metadata, "render_modes": ["rgb_array", "ansi"], "autoreset_mode": autoreset_mode}
        self.single_observation_space = observation_space(self.rules)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.single_action_space = spaces.Discrete(len(ACTION_NAMES))
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        if cell_size is not None:
            choose_cell_size(cell_size, self.pool.size)
        self._mazes = _as_mazes(self.pool)
        self._state = stepping.empty_state(self.num_envs, self.rules.horizon + 1 if record_paths else 0)
        self._encoder = VECTOR_ENCODERS[observation](self.rules, self.pool, self.num_envs)
        self._assigned = np.zeros(0, np.int64)
        self._actions = np.zeros(self.num_envs, np.int64)
        self._draws = np.full(self.num_envs, _DRAW, np.int64)
        self._seeded = self._started = False
        self._cell_size = cell_size

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_mazes"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._mazes = _as_mazes(self.pool)

    @property
    def prompts(self) -> MazePool:
        """See `MazeEnv.prompts`."""
        return self.pool

    @property
    def num_prompts(self) -> int:
        """Number of mazes in the pool."""
        return len(self.pool)

    @property
    def layouts(self) -> tuple[MazeLayout, ...]:
        """The maze of each environment's present episode.

        Raises:
            ResetNeeded: before the first reset.
        """
        self._check_started()
        return tuple(self.pool[prompt] for prompt in self._state.prompt.tolist())

    @property
    def prompts_digest(self) -> str:
        """See `MazeEnv.prompts_digest`."""
        return self.pool.digest

    def assign(self, prompts: Sequence[Iterable[int] | None]) -> None:
        """Let the next episodes of each environment take these prompts, instead of what is left of earlier ones.

        Args:
            prompts: N lists or arrays of integers 0 to num_prompts - 1, possibly empty ones; None keeps what an
                environment has left.

        Raises:
            ValueError, TypeError: if there are not N lists or a prompt is not such an integer; nothing changes then.
        """
        rows = as_list("prompts", prompts, f"{self.num_envs} lists of prompts, one for each environment")
        if len(rows) != self.num_envs:
            raise ValueError(f"prompts has {len(rows)} lists; give one for each of the {self.num_envs} environments")
        checked = [self._left(n) if row is None else self._checked_row(n, row) for n, row in enumerate(rows)]
        ends = np.cumsum([len(row) for row in checked])
        self._assigned = np.array([prompt for row in checked for prompt in row], np.int64)
        self._state.next_assigned[:] = np.concatenate([[0], ends[:-1]])
        self._state.end_assigned[:] = ends

    def _left(self, n: int) -> list[int]:
        return self._assigned[self._state.next_assigned[n] : self._state.end_assigned[n]].tolist()

    def _checked_row(self, n: int, row: Iterable[int]) -> list[int]:
        listed = as_list(f"prompts[{n}]", row, "a list of the prompts of one environment, or None")
        return [check_prompt(prompt, self.num_prompts, f"prompts[{n}][{i}]") for i, prompt in enumerate(listed)]

    @property
    def num_assigned(self) -> NDArray[np.int64]:
        """(N,) int64: how many assigned prompts each environment has left."""
        return self._state.end_assigned - self._state.next_assigned

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every environment, or in those of a mask.

        Args:
            seed: restarts the order of drawn prompts: an int s seeds environment n with s + n, a list gives one seed
                (or None, to go on) for each environment.
            options: {"prompt": i} with one prompt for all or (N,) of them, None where it is drawn as usual;
                {"reset_mask": (N,) bool array}, at least one of it True, to reset only those environments.

        Raises:
            ValueError, TypeError: for other options, prompts or seeds out of range, or arrays of another length;
                nothing changes then.
        """
        seeds = self._checked_seeds(seed)
        mask, chosen = self._options(as_options(options))
        if not self._started and not mask.all():
            raise ResetNeeded("the first reset must start every environment; leave out options['reset_mask']")
        if (first := as_integer(seed)) is not None:
            super().reset(seed=first)
        self._seed(seeds, mask)
        stepping.begin(self._state, self._mazes, self._assigned, chosen, mask)
        self._started = True
        self._encoder.update(self._state, self._mazes, self._actions)
        return self._observations(), self._info(mask)

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Move every agent one square.

        Args:
            actions: (N,) integers 0 to 3 for UP, DOWN, LEFT, RIGHT.

        Returns:
            observations, rewards (N,) float64, terminations (N,) bool, truncations (N,) bool, infos.

        Raises:
            ValueError, TypeError: if actions are not such integers; nothing changes then.
            ResetNeeded: before the first reset, and with autoreset disabled if an episode is over.
        """
        moves = self._checked_actions(actions)
        state = self._state
        rewards, ends = np.empty(self.num_envs), np.empty((2, self.num_envs), bool)
        terminated, truncated = ends
        stepping.begin(state, self._mazes, self._assigned, self._draws, state.over.copy())
        ended = stepping.advance(
            state, self._mazes, moves, int(self.rules.on_wall == "fail"), self.rules.horizon, self.pool.size[1],
            rewards, terminated, truncated,
        )  # fmt: skip
        self._encoder.update(state, self._mazes, moves)
        infos = self._info(np.ones(self.num_envs, bool))
        if ended:
            over = terminated | truncated
            self._add_outcomes(infos, over, rewards)
            if self.autoreset_mode == AutoresetMode.SAME_STEP:
                infos = self._begin_again(infos, over)
        return self._observations(), rewards, terminated, truncated, infos

    def action_masks(self) -> NDArray[np.bool_]:
        """(N, 4) bool: which of UP, DOWN, LEFT, RIGHT lead to an open square."""
        self._check_started()
        rows, columns = np.divmod(self._state.square, self.pool.size[1])
        prompts = self._state.prompt
        return action_masks(self.pool.walls[prompts])[np.arange(self.num_envs), rows, columns]

    def render(self) -> tuple[Any, ...] | None:
        """One picture for each environment: (h, w, 3) uint8 arrays ("rgb_array") or texts ("ansi")."""
        if self.render_mode is None:
            logger.warn("render() does nothing without a render_mode; pass MazeVectorEnv(..., render_mode='rgb_array')")
            return None
        layouts = self.layouts
        cells = [divmod(square, self.pool.size[1]) for square in self._state.square.tolist()]
        return tuple(
            picture(layout, cell, self.render_mode, self._cell_size)
            for layout, cell in zip(layouts, cells, strict=True)
        )

    def _observations(self) -> Any:
        return _copied(self._encoder.observe()) if self.copy else self._encoder.observe()

    def _info(self, mask: NDArray[np.bool_]) -> dict[str, Any]:
        prompt, length, steps = np.empty((3, self.num_envs), np.int64)
        position = np.empty((self.num_envs, 2), np.int64)
        stepping.fill_info(self._state, self._mazes, self.pool.size[1], prompt, position, length, steps)
        values = {
            "prompt": prompt, "digest": self.pool.digests[prompt], "position": position,
            "shortest_path_length": length, "steps": steps,
        }  # fmt: skip
        infos: dict[str, Any] = {}
        for key, value in values.items():
            infos[key], infos[f"_{key}"] = value, mask
        return infos

    def _add_outcomes(self, infos: dict[str, Any], over: NDArray[np.bool_], rewards: NDArray[np.float64]) -> None:
        infos["is_success"], infos["_is_success"] = rewards > 0, over
        if self._state.path.shape[1]:
            paths = np.full(self.num_envs, None, object)
            for n in np.flatnonzero(over):
                squares = self._state.path[n, : self._state.path_length[n]].tolist()
                paths[n] = tuple(divmod(square, self.pool.size[1]) for square in squares)
            infos["path"], infos["_path"] = paths, over

    def _begin_again(self, last: dict[str, Any], over: NDArray[np.bool_]) -> dict[str, Any]:
        """Autoreset in the same step: keep the last observations and infos, and begin new episodes."""
        final = np.full(self.num_envs, None, object)
        for n, observation in zip(np.flatnonzero(over), _rows(self._encoder.observe(), over), strict=True):
            final[n] = observation
        stepping.begin(self._state, self._mazes, self._assigned, self._draws, over)
        self._encoder.update(self._state, self._mazes, self._actions)
        infos = self._info(np.ones(self.num_envs, bool))
        last = {key: over if key.startswith("_") else value for key, value in last.items()}
        infos.update(final_obs=final, _final_obs=over, final_info=last, _final_info=over)
        return infos

    def _checked_seeds(self, seed: object) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if as_integer(seed) is not None:
            first = check_int("seed", seed, 0, MAX_RESET_SEED)
            return range(first, first + self.num_envs)
        seeds: list[Any] = as_list("seed", seed, "an int, or a list of one for each environment")  # type: ignore[arg-type]
        if len(seeds) != self.num_envs:
            raise ValueError(
                f"seed has {len(seeds)} entries; give an int or one for each of {self.num_envs} environments"
            )
        return [None if x is None else check_int(f"seed[{n}]", x, 0, 2 * MAX_RESET_SEED) for n, x in enumerate(seeds)]

    def _seed(self, seeds: Sequence[int | None], mask: NDArray[np.bool_]) -> None:
        if not self._seeded:
            self._state.key[:] = self.np_random.integers(2**63, size=self.num_envs)
            self._seeded = True
        for n, value in enumerate(seeds):
            if value is not None and mask[n]:
                self._state.key[n] = prompt_key(value)
                self._state.drawn[n] = 0

    def _options(self, options: dict[str, Any]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        for name in options:
            if name not in ("prompt", "reset_mask"):
                near = did_you_mean(name, ("prompt", "reset_mask"))
                hint = "; make a pool of your layouts with MazePool.from_layouts" if name == "layout" else near
                raise ValueError(f"reset option {name!r} is not known; allowed are 'prompt' and 'reset_mask'{hint}")
        mask = options.get("reset_mask", np.ones(self.num_envs, bool))
        if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(
                f"options['reset_mask'] must be a ({self.num_envs},) bool array, at least one True, got {mask!r}"
            )
        chosen = np.full(self.num_envs, _DRAW, np.int64)
        if "prompt" in options:
            prompt = options["prompt"]
            is_one = as_integer(prompt) is not None or not isinstance(prompt, Iterable)
            prompts = [prompt] * self.num_envs if is_one else as_list("options['prompt']", prompt, "one or N prompts")
            if len(prompts) != self.num_envs:
                raise ValueError(f"options['prompt'] holds {len(prompts)} prompts; give one, or {self.num_envs}")
            for n, each in enumerate(prompts):
                if is_one or each is not None:
                    chosen[n] = check_prompt(each, self.num_prompts, f"options['prompt'][{n}]")
        return mask.copy(), chosen

    def _checked_actions(self, actions: Any) -> NDArray[np.int64]:
        self._check_started()
        try:
            given = np.asarray(actions)
        except ValueError as error:
            raise ValueError(f"actions must have shape ({self.num_envs},), got what is no array: {error}") from None
        if given.dtype.kind not in "iu":
            raise TypeError(f"actions must be integers 0 to 3, got dtype {given.dtype}")
        if given.shape != (self.num_envs,):
            raise ValueError(f"actions must have shape ({self.num_envs},), got {given.shape}")
        moves = self._actions  # kernels want one type, and the caller's array may be of any
        moves[:] = given
        bad = stepping.first_bad_action(moves)
        if bad >= 0:
            raise ValueError(f"actions[{bad}]={given[bad]} is not one of 0 UP, 1 DOWN, 2 LEFT, 3 RIGHT")
        if self.autoreset_mode == AutoresetMode.DISABLED and (over := stepping.first_over(self._state.over)) >= 0:
            raise ResetNeeded(
                f"the episode of environment {over} is over and autoreset is disabled; "
                "call reset(options={'reset_mask': mask}) first"
            )
        return moves

    def _check_started(self) -> None:
        if not self._started:
            raise ResetNeeded("the environments have no mazes yet; call reset() first")


def _as_mazes(pool: MazePool) -> stepping.Mazes:
    """What the kernels read of a pool, always of the same types."""
    count, width = len(pool), pool.size[1]
    return stepping.Mazes(
        walls=pool.walls.reshape(count, -1).view(np.uint8),
        planes=pool.planes.reshape(count, -1),
        start=(pool.start @ (width, 1)).astype(np.int32),
        goal=(pool.goal @ (width, 1)).astype(np.int32),
        length=pool.shortest_lengths,
    )


def _rows(observations: Any, mask: NDArray[np.bool_]) -> Iterator[Any]:
    """Copies of the single observations under a mask."""
    if isinstance(observations, dict):
        columns = [value[mask] for value in observations.values()]
        return (dict(zip(observations, row, strict=True)) for row in zip(*columns, strict=True))
    return iter(observations[mask])


def _copied(observations: Any) -> Any:
    if isinstance(observations, dict):
        return {key: value.copy() for key, value in observations.items()}
    return observations.copy()
