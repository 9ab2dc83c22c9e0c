"""`Viewer`: agents at work in mazes, rollout by rollout, as a window shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sera_maze.algorithm.normalization import model_normalization
from sera_maze.coverage.evaluator import policy_of
from sera_maze.coverage.path_sheets import path_sheet
from sera_maze.coverage.tables import readable_percent, readable_probability
from sera_maze.envs.ground.checks import check_int
from sera_maze.envs.pictures.canvas import blank, pygame
from sera_maze.envs.pictures.sheets import save_png, to_array
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.fresh import same_mazes
from sera_maze.envs.pools.pool import MazePool
from sera_maze.viewer.drawing import Background, column_of_text, draw_help, draw_played, draw_scene, font_size
from sera_maze.viewer.scenes import Agent, Scene
from sera_maze.viewer.window import WINDOW_SIZE

MIN_WINDOW_SIZE = (420, 320)
SPEEDS = (1, 2, 4, 8, 16, 32, 64, 128)
_PAUSE_AT_END = 0.8  # seconds
_MARGIN = 16
_PANEL_WIDTH = 300
_MAX_LISTED = 12
_WITH_HELP = (pygame.K_F1, pygame.K_q, pygame.K_ESCAPE)
_BACKGROUNDS: tuple[Background, ...] = ("plain", "paths", "visits")
HELP = (
    ("space", "pause and go on"),
    ("right, left", "one step forward, one back"),
    ("end, home", "to the end of the rollout, to its beginning"),
    ("down, up", "next rollout, the one before"),
    ("+, -", "faster, slower"),
    ("n, p", "next maze, the one before"),
    ("h", "the hardest maze; again: the next hardest"),
    ("f", "next maze with a failed rollout"),
    ("o", "all sampled paths over one another"),
    ("v", "heat map of the visits"),
    ("a", "the policy's arrows and probabilities"),
    ("d", "list of the distinct solutions"),
    ("s", "save a picture into the present folder"),
    ("?", "this help"),
    ("q, esc", "close"),
)


class Viewer:
    """Plays rollouts of one or two agents in the mazes of a pool; two agents are seen side by side in the same maze.

    It needs no window: `handle` takes pygame's events, `advance` the time, and `draw` gives a picture of any size.

    Args:
        agents: one or two, on the same mazes.
        prompt: the first maze to show.
        background: "plain", "paths" or "visits", see `draw_scene`.
        arrows: whether the policy's arrows are shown at first.
        folder: where pictures are saved to.

    Attributes:
        prompt: the maze that is shown.
        rollout: number of the rollout that is played.
        step: its moves so far.
        paused: whether time stands still.
        speed: steps a second.

    Raises:
        ValueError: for another number of agents, agents on other mazes, or a maze that there is not.
    """

    def __init__(
        self, agents: Sequence[Agent], prompt: int = 0, *, background: Background = "plain", arrows: bool = False,
        folder: Path | None = None,
    ):  # fmt: skip
        if not 1 <= len(agents) <= 2:
            raise ValueError(f"got {len(agents)} agents; one or two can be watched at a time")
        first = agents[0].pool
        for agent in agents[1:]:
            if not same_mazes(agent.pool, first):
                raise ValueError(f"{agent.name} is on other mazes than {agents[0].name}; give both the same pool")
        if not 0 <= prompt < len(first):
            raise ValueError(f"maze {prompt} is not there; the pool has mazes 0 to {len(first) - 1}")
        self.agents, self.pool, self.folder = list(agents), first, folder or Path()
        self.prompt, self.rollout, self.step = prompt, 0, 0
        self.background: Background = background
        self.arrows, self.paused, self.lists_solutions, self.shows_help = arrows, False, False, False
        self.speed = 8
        self.message = ""
        self._time = 0.0
        self._over = False
        self._pictures: dict[tuple[Any, ...], pygame.Surface] = {}

    @property
    def is_over(self) -> bool:
        """Whether the user has asked to close."""
        return self._over

    @property
    def scenes(self) -> list[Scene]:
        """Each agent in the present maze."""
        return [agent.scene(self.prompt) for agent in self.agents]

    @property
    def last_step(self) -> int:
        """Steps of the rollout that is played, of the longer one with two agents."""
        return max(int(scene.steps[self.rollout]) for scene in self.scenes)

    def go_to(self, prompt: int) -> None:
        """Show maze ``prompt``, counted round the pool."""
        self.prompt, self.rollout, self.step, self._time = prompt % len(self.pool), 0, 0, 0.0

    def handle(self, event: Any) -> None:
        """Take in one pygame event: keys, and the closing of the window."""
        if event.type == pygame.QUIT:
            self._over = True
        elif event.type == pygame.KEYDOWN:
            self.message = ""
            if self.shows_help and event.key not in _WITH_HELP and getattr(event, "unicode", "") != "?":
                return
            self._press(event.key, getattr(event, "unicode", ""))

    def _press(self, key: int, character: str) -> None:
        actions = {
            pygame.K_SPACE: self._toggle_pause,
            pygame.K_RIGHT: lambda: self._move_step(1),
            pygame.K_LEFT: lambda: self._move_step(-1),
            pygame.K_END: lambda: self._move_step(self.last_step),
            pygame.K_HOME: lambda: self._move_step(-self.last_step),
            pygame.K_DOWN: lambda: self._move_rollout(1),
            pygame.K_UP: lambda: self._move_rollout(-1),
            pygame.K_n: lambda: self.go_to(self.prompt + 1),
            pygame.K_p: lambda: self.go_to(self.prompt - 1),
            pygame.K_h: self._go_to_hardest,
            pygame.K_f: self._go_to_failure,
            pygame.K_o: lambda: self._toggle_background("paths"),
            pygame.K_v: lambda: self._toggle_background("visits"),
            pygame.K_a: lambda: self._toggle("arrows"),
            pygame.K_d: lambda: self._toggle("lists_solutions"),
            pygame.K_s: self._save,
            pygame.K_F1: lambda: self._toggle("shows_help"),
            pygame.K_q: self._quit,
            pygame.K_ESCAPE: self._quit,
        }
        by_character = {
            "?": lambda: self._toggle("shows_help"),
            "+": lambda: self._change_speed(1), "=": lambda: self._change_speed(1),
            "-": lambda: self._change_speed(-1),
        }  # fmt: skip
        act = by_character.get(character) or actions.get(key)
        if act is not None:
            act()

    def _toggle(self, name: str) -> None:
        setattr(self, name, not getattr(self, name))

    def _toggle_pause(self) -> None:
        self.paused = not self.paused
        if not self.paused and self.step >= self.last_step:
            self.step = 0

    def _toggle_background(self, kind: Background) -> None:
        self.background = "plain" if self.background == kind else kind

    def _move_step(self, by: int) -> None:
        self.paused, self._time = True, 0.0
        self.step = min(max(self.step + by, 0), self.last_step)

    def _move_rollout(self, by: int) -> None:
        self.rollout = (self.rollout + by) % min(agent.num_samples for agent in self.agents)
        self.step, self._time = 0, 0.0

    def _change_speed(self, by: int) -> None:
        place = SPEEDS.index(self.speed) + by
        self.speed = SPEEDS[min(max(place, 0), len(SPEEDS) - 1)]

    def _go_to_hardest(self) -> None:
        """The maze with the lowest success probability of the first agent; if that is shown, the next lowest."""
        order = np.argsort(self.agents[0].chances, kind="stable").tolist()
        is_shown = getattr(self, "_hardest_shown", None) == self.prompt
        self.go_to(order[(order.index(self.prompt) + 1) % len(order)] if is_shown else order[0])
        self._hardest_shown = self.prompt

    def _go_to_failure(self) -> None:
        """The next maze, from here on, in which a sampled rollout fails; and that rollout."""
        for offset in range(1, len(self.pool) + 1):
            prompt = (self.prompt + offset) % len(self.pool)
            if min(agent.chances[prompt] for agent in self.agents) == 1:
                continue
            failed = ~np.logical_and.reduce([agent.scene(prompt).success for agent in self.agents])
            if failed.any():
                self.go_to(prompt)
                self.rollout = int(failed.argmax())
                return
        self.message = "no sampled rollout fails in any maze"

    def _save(self) -> None:
        path = self.folder / f"maze{self.prompt}-rollout{self.rollout}-step{self.step}.png"
        try:
            save_png(self.draw(WINDOW_SIZE), path)
        except OSError as error:
            self.message = f"cannot save {path}: {error.strerror}"
        else:
            self.message = f"saved {path}"

    def _quit(self) -> None:
        if self.shows_help:
            self.shows_help = False
        else:
            self._over = True

    def advance(self, seconds: float) -> None:
        """Let the rollout go on; after a moment at its end, the next one begins."""
        if self.paused or self.shows_help:
            return
        self._time += seconds
        if self.step >= self.last_step:
            if self._time >= _PAUSE_AT_END:
                self._move_rollout(1)
            return
        steps = math.floor(self._time * self.speed)
        self._time -= steps / self.speed
        self.step = min(self.step + steps, self.last_step)

    def draw(self, size: tuple[int, int]) -> pygame.Surface:
        """Draw the present moment, at least `MIN_WINDOW_SIZE` large."""
        width, height = (max(given, least) for given, least in zip(size, MIN_WINDOW_SIZE, strict=True))
        page = blank(width, height)
        if len(self.agents) == 1:
            panel = min(_PANEL_WIDTH, width // 3)
            self._draw_agent(page, 0, (_MARGIN, _MARGIN, width - panel - 3 * _MARGIN, height - 2 * _MARGIN))
            lines = [*self._maze_lines(), *self._agent_lines(0), *self._state_lines()]
            self._write(page, lines, (width - panel - _MARGIN, _MARGIN, panel, height - 2 * _MARGIN))
        else:
            self._draw_two(page)
        if self.shows_help:
            draw_help(page, HELP)
        return page

    def _draw_two(self, page: pygame.Surface) -> None:
        width, height = page.get_size()
        half, below = (width - 3 * _MARGIN) // 2, min(height // 3, 13 * font_size(height))
        head = 2 * font_size(height)
        state = "   ".join(line for line, _ in [*self._maze_lines()[:1], *self._state_lines()] if line)
        self._write(page, [(state, False)], (_MARGIN, _MARGIN // 2, width - 2 * _MARGIN, head))
        for i in range(2):
            left = _MARGIN + i * (half + _MARGIN)
            self._draw_agent(page, i, (left, head + _MARGIN // 2, half, height - below - head - _MARGIN))
            self._write(page, self._agent_lines(i), (left, height - below, half, below - _MARGIN // 2))

    def _write(self, page: pygame.Surface, lines: list[tuple[str, bool]], room: tuple[int, int, int, int]) -> None:
        left, top, width, height = room
        page.blit(column_of_text(lines, width, height, font_size(page.get_height())), (left, top))

    def _draw_agent(self, page: pygame.Surface, number: int, room: tuple[int, int, int, int]) -> None:
        """Draw an agent's maze and the rollout so far into the middle of a rectangle (left, top, width, height)."""
        scene, (left, top, width, height) = self.scenes[number], room
        rows, columns = scene.layout.size
        cell_size = max(1, min(width // columns, height // rows))
        picture = self._picture(number, scene, cell_size).copy()
        step = min(self.step, int(scene.steps[self.rollout]))
        is_end = step == scene.steps[self.rollout]
        path = scene.paths[self.rollout]
        failed = bool(is_end and not scene.success[self.rollout])
        draw_played(picture, path[: step + 1], cell_size, failed=failed, others=self.background == "paths")
        page.blit(picture, (left + (width - picture.get_width()) // 2, top + (height - picture.get_height()) // 2))

    def _picture(self, number: int, scene: Scene, cell_size: int) -> pygame.Surface:
        """The part that stands still; drawn anew only when something about it has changed."""
        key = number, scene.prompt, cell_size, self.background, self.arrows
        if key not in self._pictures:
            self._pictures = {old: picture for old, picture in self._pictures.items() if old[0] != number}
            self._pictures[key] = draw_scene(scene, cell_size, self.background, arrows=self.arrows)
        return self._pictures[key]

    def _maze_lines(self) -> list[tuple[str, bool]]:
        layout = self.pool[self.prompt]
        height, width = layout.size
        return [
            (f"maze {self.prompt} of {len(self.pool)}, {height}x{width}", True),
            (f"shortest path {layout.shortest_path_length} moves", False),
            ("", False),
        ]

    def _agent_lines(self, number: int) -> list[tuple[str, bool]]:
        scene, agent = self.scenes[number], self.agents[number]
        solutions, successes = scene.solutions, int(scene.success.sum())
        lines = [
            (agent.name, True),
            (f"success probability {readable_percent(scene.probability)}", False),
            (
                f"pass@k {', '.join(f'{k}: {readable_percent(value, 1)}' for k, value in scene.pass_at_k.items())}",
                False,
            ),
            (f"{successes} of {len(scene.success)} sampled rollouts succeed", False),
            (f"{len(solutions)} distinct solutions", False),
        ]
        done, steps = bool(scene.success[self.rollout]), int(scene.steps[self.rollout])
        end = f", {'success' if done else 'failure'}" if self.step >= steps else ""
        lines += [(f"rollout {self.rollout}: step {min(self.step, steps)} of {steps}{end}", True)]
        if self.lists_solutions:
            lines += [(f"  {times} x {moves} moves", False) for times, moves in solutions[:_MAX_LISTED]]
            if len(solutions) > _MAX_LISTED:
                lines.append((f"  and {len(solutions) - _MAX_LISTED} more", False))
        return lines

    def _state_lines(self) -> list[tuple[str, bool]]:
        return [
            ("paused" if self.paused else f"{self.speed} steps a second", False),
            (self.message or "? for help", False),
        ]


def render_paths(
    model: Any,
    pool: MazePool,
    *,
    prompts: Sequence[int] | None = None,
    num_samples: int = 256,
    rules: MazeRules | None = None,
    iterations: int | None = None,
    columns: int | None = None,
    cell_size: int | None = None,
    seed: int = 0,
) -> NDArray[np.uint8]:
    """Draw the sampled paths of an agent in some mazes, on one sheet.

    Args:
        model: a `MaxRL` (or another algorithm) with a `MazePolicy`, or that policy.
        pool: the mazes; of any size.
        prompts: which of them; None: the first twelve.
        num_samples: rollouts of each maze, 1 to 4096.
        rules: of the episodes; None: a wall ends the rollout, and the default horizon.
        iterations: of the policy; None: its own, and on mazes of another size `default_iterations`.
        columns: mazes in a row; None makes the sheet about square.
        cell_size: pixels a square; None: about 300 pixels a maze.
        seed: of the rollouts.

    Returns:
        (H, W, 3) uint8.

    Raises:
        ValueError, TypeError: for another policy, one that was trained on normalised observations, mazes that are not
            there, arguments out of range.
    """
    agent = Agent(
        "", policy_of(model), pool, rules=rules, iterations=iterations, num_samples=num_samples, seed=seed,
        normalization=model_normalization(model),
    )  # fmt: skip
    chosen = range(min(12, len(pool))) if prompts is None else prompts
    if not len(chosen):
        raise ValueError("prompts is empty; give at least one maze, such as prompts=[0]")
    mazes = np.array([check_int(f"prompts[{i}]", prompt, 0, len(pool) - 1) for i, prompt in enumerate(chosen)])
    size = max(4, 300 // max(pool.size)) if cell_size is None else cell_size
    chances = agent.chances[mazes].tolist()
    labels = [f"maze {maze}: {readable_probability(p)}" for maze, p in zip(mazes.tolist(), chances, strict=True)]
    sheet = path_sheet(agent.evaluator, mazes, num_samples, labels, cell_size=size, columns=columns)
    return to_array(sheet)  # type: ignore[arg-type]  # of plain mazes there are always paths
