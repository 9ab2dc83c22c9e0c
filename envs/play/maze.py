"""`MazeEnv`: one maze at a time, as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from sera_maze.envs.ground.checks import as_integer, as_options, check_int, did_you_mean, known_arguments
from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.layouts.moves import ACTION_NAMES, flat_steps
from sera_maze.envs.layouts.text import Cell
from sera_maze.envs.pictures.cell_sizes import choose_cell_size
from sera_maze.envs.play.observations import ENCODERS, Encoder, observation_space
from sera_maze.envs.play.prompt_queue import PromptSource, check_prompt
from sera_maze.envs.play.rules import MAX_RESET_SEED, RENDER_MODES, Fixed, MazeRules, choose_pool
from sera_maze.envs.pools.fresh import FreshMazes, Mazes
from sera_maze.envs.pools.pool import MazePool

NO_PROMPT = -1
_BOOLS = (bool, np.bool_)
_OPTIONS = ("prompt", "layout")


class MazeEnv(gym.Env[Any, Any]):
    """Walk from the start of a maze to its goal.

    ## Description
    Every episode takes place in one maze of a pool, the *prompt*. The maze is still and, but for observation="local",
    fully observed. The rules of the papers are the default: a move into a wall ends the episode in failure.

    ## Action Space
    `Discrete(4)`: 0 UP, 1 DOWN, 2 LEFT, 3 RIGHT, one grid square each. `action_masks()` tells which lead to an open
    square, for sb3-contrib's MaskablePPO.

    ## Observation Space
    - `observation="grid"` (default): `Box(0, 255, (3, H, W), uint8)`, planes of walls, agent and goal, 255 where it is.
    - `observation="local"`: `Box(0, 255, (2, 2 radius + 1, 2 radius + 1), uint8)`, walls and goal around the agent, who
      stands in the middle; what lies outside the maze counts as wall.
    - `observation="tokens"`: `Box(0, 31, (L,), uint8)`, the ids of the papers' prompt, then of the moves so far, then
      padding; L = H (W + 1) + 4 + max_steps.
    - `observation="dict"`: `layout`, `Box(0, 1, (2, H, W), uint8)`, planes of walls and goal, 1 where it is;
      `position`, `MultiDiscrete([H, W])`, (row, column) of the agent.

    For Stable-Baselines3: "MlpPolicy" takes grid, local and tokens, "MultiInputPolicy" dict, all of any size. The
    network behind the stock "CnnPolicy" refuses grids under 36x36; give it another, as in
    `policy_kwargs={"features_extractor_class": sera_maze.policies.maze.SmallGridCNN}`.

    ## Rewards
    1 for the move that reaches the goal, 0 for every other. The time limit adds nothing and must not be bootstrapped.

    ## Starting State
    The agent stands on the start of the prompt's maze. The prompt is, in this order: `reset(options={"prompt": i})`;
    the next of `assign(prompts)`; drawn uniformly from the pool by the seed and the number of prompts drawn since.
    `reset(options={"layout": layout})` takes a `MazeLayout` (or its text) of the same size from outside the pool; its
    prompt is -1.

    ## Episode End
    - Terminated, success: the goal is reached, also with the last allowed move.
    - Terminated, failure: a move into a wall, with `on_wall="fail"`. With `on_wall="stay"` the agent stays where it is.
    - Truncated, failure: `max_steps` moves without reaching the goal.

    ## Information
    Always: `prompt` (int), `digest` (str, of walls, start and goal), `position` ((row, column)), `shortest_path_length`
    (moves from start to goal), `steps` (moves so far). At the end of an episode also: `is_success` (bool) and `path`
    (tuple of the cells (row, column) from the start on; a move into a wall adds none).

    ## Arguments
    Args:
        pool: the mazes, a `MazePool` or `FreshMazes`; None generates `num_mazes` different ones from the arguments up
            to `distance`. With a pool, those from `algorithm` on are checked, but not used.
        size: (height, width) or one int, in grid squares, walls included; None: that of the pool, or 17x17.
        num_mazes: number of generated mazes; None: 1024.
        algorithm: "prim", "dfs", "kruskal", "wilson", "division" or "rooms".
        pool_seed: seed of the generated mazes. The seed of `reset` only fixes in which order they come.
        braid: probability with which each dead end is opened, 0 to 1.
        openings: number of further walls removed from each maze.
        endpoints: "corners", "random", "farthest" or "distance".
        distance: moves from start to goal, for endpoints="distance".
        observation: "grid", "local", "tokens" or "dict".
        radius: squares seen in each direction by observation="local".
        on_wall: "fail" or "stay".
        max_steps: the horizon; None: 180 for 17x17, as many for each grid square in other sizes. Prefer it to
            `gymnasium.make(..., max_episode_steps=n)`, whose wrapper cuts episodes off without `is_success`.
        render_mode: "human" (a window), "rgb_array" (an (H, W, 3) uint8 picture, no display needed) or "ansi" (text).
        cell_size: pixels of a grid square in pictures; None: about 512 for the longer side.

    Raises:
        ValueError, TypeError: for an argument outside its range, naming it and what is allowed.

    ## Version History
    - v0: first version.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": list(RENDER_MODES), "render_fps": 10}  # type: ignore[misc]
    pool = Fixed[Mazes]()
    rules = Fixed[MazeRules]()

    @known_arguments
    def __init__(
        self,
        pool: Mazes | None = None,
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
    ):
        generator = {
            "algorithm": algorithm, "seed": pool_seed, "braid": braid,
            "openings": openings, "endpoints": endpoints, "distance": distance,
        }  # fmt: skip
        self.pool = choose_pool(pool, size, num_mazes, generator)
        self.rules = MazeRules(self.pool.size, observation, radius, on_wall, max_steps, render_mode)
        self.render_mode = render_mode
        self.observation_space = observation_space(self.rules)
        self.action_space = spaces.Discrete(len(ACTION_NAMES))
        height, width = self.pool.size
        self._encoder: Encoder = ENCODERS[observation](self.rules)
        self._steps_to = flat_steps(width)
        self._cells: list[Cell] = [(r, c) for r in range(height) for c in range(width)]
        self._width, self._stay, self._horizon = width, on_wall == "stay", self.rules.horizon
        if cell_size is not None:
            choose_cell_size(cell_size, self.pool.size)
        self._prompts = PromptSource(len(self.pool))
        self._mazes = self.pool  # for `reset`, which runs often: reading a plain attribute is faster
        self._over = True
        self._cell_size = cell_size
        self._window: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the window: a copy opens its own."""
        return {**self.__dict__, "_window": None}

    @property
    def prompts(self) -> Mazes:
        """The mazes, as any prompts; see `Prompts`."""
        return self.pool

    @property
    def num_prompts(self) -> int:
        """Number of mazes in the pool."""
        return len(self.pool)

    @property
    def prompts_digest(self) -> str:
        """Names all mazes in their order: environments with the same digest have the same prompts."""
        return self.pool.digest

    @property
    def layout(self) -> MazeLayout:
        """The maze of the present episode.

        Raises:
            ResetNeeded: before the first reset.
        """
        self._check_started("layout")
        return self._pool[self._index]

    def assign(self, prompts: Iterable[int]) -> None:
        """Let the next resets take these prompts, in this order, instead of what is left of an earlier assignment.

        Args:
            prompts: integers 0 to num_prompts - 1.

        Raises:
            ValueError, TypeError: if one is not such an integer; nothing changes then.
        """
        self._prompts.assign(prompts)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: restarts the order of drawn prompts; None goes on with it.
            options: {"prompt": i} or {"layout": MazeLayout or text of the pool's size}, or nothing.

        Raises:
            ValueError, TypeError: for other options, a prompt out of range or a layout of another size, or a seed that
                is not an integer from 0 to 2**128; nothing changes then.
        """
        seed = None if seed is None else check_int("seed", seed, 0, MAX_RESET_SEED)
        chosen = as_options(options)
        pool, prompt = self._options(chosen) if chosen else (self._mazes, None)
        super().reset(seed=seed)
        if seed is not None:
            self._prompts.seed(seed)
        if prompt is None:
            prompt = self._prompts.next(lambda: self.np_random)
        self._prompt = NO_PROMPT if pool is not self._mazes else prompt
        if isinstance(pool, FreshMazes):
            pool, prompt = MazePool.from_layouts([pool[prompt]]), 0
        self._pool, self._index = pool, prompt
        self._squares = pool.planes[prompt].tobytes()
        width = self._width
        self._square = pool.start.item(prompt, 0) * width + pool.start.item(prompt, 1)
        self._goal = pool.goal.item(prompt, 0) * width + pool.goal.item(prompt, 1)
        self._digest, self._length = pool.digests.item(prompt), pool.shortest_lengths.item(prompt)
        self._steps, self._over = 0, False
        self._path = [self._square]
        self._encoder.begin(pool, prompt, self._square, self._goal)
        if self.render_mode == "human":
            self.render()
        return self._encoder.observe(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Move one square.

        Args:
            action: integer 0 to 3 for UP, DOWN, LEFT, RIGHT.

        Returns:
            observation, reward (1.0 or 0.0), terminated, truncated, info.

        Raises:
            ValueError, TypeError: if the action is not such an integer.
            ResetNeeded: if no episode is running.
        """
        if self._over:
            raise ResetNeeded("step() was called with no episode running; call reset() first")
        # Bools would do as numbers; a plain int is told from them at almost no cost.
        if action.__class__ is not int and isinstance(action, _BOOLS):
            raise _action_error(action)
        try:
            square = self._square + self._steps_to[action]
        except (TypeError, IndexError):
            raise _action_error(action) from None
        if action < 0:
            raise _action_error(action)
        self._steps += 1
        hit = self._squares[square]
        if not hit:
            self._square = square
            self._path.append(square)
        success = self._square == self._goal
        terminated = success or (hit > 0 and not self._stay)
        truncated = self._steps >= self._horizon and not terminated
        self._encoder.move(self._square, action)
        info = self._info()
        if terminated or truncated:
            self._over = True
            info["is_success"] = success
            info["path"] = tuple([self._cells[square] for square in self._path])
        if self.render_mode == "human":
            self.render()
        return self._encoder.observe(), 1.0 if success else 0.0, terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """(4,) bool: which of UP, DOWN, LEFT, RIGHT lead to an open square. Never all False.

        Raises:
            ResetNeeded: before the first reset.
        """
        self._check_started("action_masks()")
        return np.array([not self._squares[self._square + step] for step in self._steps_to])

    def render(self) -> Any:
        """Draw the present state: a window ("human"), an (H, W, 3) uint8 array ("rgb_array") or text ("ansi").

        Raises:
            ResetNeeded: before the first reset.
            RuntimeError: if a window is wanted and there is no display.
        """
        if self.render_mode is None:
            gym.logger.warn("render() does nothing without a render_mode; pass MazeEnv(..., render_mode='rgb_array')")
            return None
        self._check_started("render()")
        if self.render_mode != "human":
            return picture(self.layout, self._cells[self._square], self.render_mode, self._cell_size)
        from sera_maze.envs.pictures import drawing as rendering  # pygame is loaded when something is drawn
        from sera_maze.envs.pictures import window

        if self._window is None:
            self._window = window.MazeWindow("sera_maze")
        surface = rendering.draw_layout(self.layout, cell_size=self._cell_size, agent=self._cells[self._square])
        self._window.show(surface, self.metadata["render_fps"])
        return None

    def close(self) -> None:
        """Close the window, if there is one. May be called twice."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def _info(self) -> dict[str, Any]:
        return {
            "prompt": self._prompt,
            "digest": self._digest,
            "position": self._cells[self._square],
            "shortest_path_length": self._length,
            "steps": self._steps,
        }

    def _options(self, options: dict[str, Any]) -> tuple[Mazes, int | None]:
        for name in options:
            if name not in _OPTIONS:
                near = did_you_mean(name, _OPTIONS)
                raise ValueError(f"reset option {name!r} is not known; allowed are 'prompt' and 'layout'{near}")
        if "layout" not in options:
            return self.pool, check_prompt(options["prompt"], len(self.pool), "options['prompt']")
        if "prompt" in options:
            raise ValueError("reset options 'prompt' and 'layout' exclude each other; give one")
        layout = options["layout"]
        if isinstance(layout, str):
            layout = MazeLayout.from_text(layout)
        if not isinstance(layout, MazeLayout):
            raise TypeError(f"options['layout'] must be a MazeLayout or its text, got {type(layout).__name__}")
        if layout.size != self.pool.size:
            raise ValueError(
                f"options['layout'] has size {layout.size}, but this environment shows mazes of size {self.pool.size}; "
                "make one with MazeEnv(MazePool.from_layouts([layout]))"
            )
        return MazePool.from_layouts([layout]), 0

    def _check_started(self, what: str) -> None:
        if not hasattr(self, "_pool"):
            raise ResetNeeded(f"{what} needs a maze; call reset() first")


def picture(layout: MazeLayout, agent: Cell, render_mode: str, cell_size: int | None) -> NDArray[np.uint8] | str:
    """A maze and its agent: an (h, w, 3) uint8 array for "rgb_array", text for "ansi"."""
    if render_mode == "ansi":
        lines = layout.to_text().split("\n")
        row, column = agent
        lines[row] = lines[row][:column] + "A" + lines[row][column + 1 :]
        return "\n".join(lines)
    from sera_maze.envs.pictures import drawing as rendering
    from sera_maze.envs.pictures import sheets as pictures  # pygame is loaded when something is drawn

    return pictures.to_array(rendering.draw_layout(layout, cell_size=cell_size, agent=agent))


def _action_error(action: object) -> Exception:
    names = ", ".join(f"{i} {name}" for i, name in enumerate(ACTION_NAMES))
    kind = TypeError if as_integer(action) is None else ValueError
    return kind(f"action={action!r} is not one of the integers {names}")
