"""`Viewer`: agents at work in mazes, rollout by rollout, as a window shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sera_maze.coverage.tables import percent_number, readable_percent
from sera_maze.envs.pictures.canvas import blank, pygame
from sera_maze.envs.pictures.legends import colour_bar, marker_legend, path_legend
from sera_maze.envs.pictures.sheets import save_png
from sera_maze.envs.pools.fresh import same_mazes
from sera_maze.viewer.arrows import draw_arrows
from sera_maze.viewer.crowd import CROWD, crowd_counts, crowd_moves, draw_counts, draw_crowd
from sera_maze.viewer.drawing import Background, draw_played, draw_scene
from sera_maze.viewer.scenes import Agent, Scene
from sera_maze.viewer.window import WINDOW_SIZE
from sera_maze.viewer.words import Line, column_height, column_of_text, draw_help, font_size, table

MIN_WINDOW_SIZE = (420, 320)
SPEEDS = (1, 2, 4, 8, 16, 32, 64, 128)
_PAUSE_AT_END = 0.8  # seconds
_MARGIN = 16
_PANEL_WIDTH = 16  # of the panel beside one maze, in sizes of its text
_MAX_LISTED = 12
_WITH_HELP = (pygame.K_F1, pygame.K_q, pygame.K_ESCAPE)
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
    ("c", "many rollouts at once"),
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
        background: "plain", "paths" or "visits", see `draw_scene`, or "crowd", many rollouts at once.
        arrows: whether the policy's arrows are shown at first.
        folder: where pictures are saved to.

    Attributes:
        prompt: the maze that is shown.
        rollout: number of the rollout that is played.
        step: its moves so far.
        part: how much of the next move is done, 0 to 1; only a crowd is drawn between its moves.
        crowd: rollouts in a crowd, at most all that are sampled.
        shows_keys: whether speed and help are told; pictures and films leave them out.
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
        self.speed, self.part, self.crowd, self.shows_keys = 8, 0.0, CROWD, True
        self.message = ""
        self._time = 0.0
        self._over = False
        self._pictures: dict[tuple[Any, ...], tuple[pygame.Surface, pygame.Surface | None]] = {}

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
        """Steps of the rollout that is played, of the longest one with two agents or a crowd."""
        if self.background == "crowd":
            return max(crowd_moves(scene, self.crowd) for scene in self.scenes)
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
            pygame.K_c: lambda: self._toggle_background("crowd"),
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
        was_crowd = self.background == "crowd"
        self.background = "plain" if self.background == kind else kind
        if was_crowd or kind == "crowd":  # which have other lengths
            self.step, self._time = 0, 0.0

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
        self.part = self._time * self.speed

    def draw(self, size: tuple[int, int]) -> pygame.Surface:
        """Draw the present moment, at least `MIN_WINDOW_SIZE` large."""
        width, height = (max(given, least) for given, least in zip(size, MIN_WINDOW_SIZE, strict=True))
        page = blank(width, height)
        is_beside = len(self.agents) == 1 and width >= height
        mazes = self._draw_beside(page) if is_beside else self._draw_below(page)
        if self.shows_help:
            draw_help(page, HELP, mazes)
        return page

    def _draw_beside(self, page: pygame.Surface) -> tuple[int, int, int, int]:
        """Draw the maze with its figures at its right; return where mazes have room: (left, top, width, height)."""
        (width, height), size = page.get_size(), font_size(min(page.get_size()))
        panel = min(_PANEL_WIDTH * size, width // 3)
        rows, columns = self.pool.size
        room = width - panel - 3 * _MARGIN, height - 2 * _MARGIN
        cell_size = max(1, min(room[0] // columns, room[1] // rows))
        # Maze and panel stand together in the middle of a page that is wider than they are.
        left = _MARGIN + max(0, room[0] - columns * cell_size) // 2
        page.blit(self._maze(0, cell_size), (left, (height - rows * cell_size) // 2))
        parts = [*self._maze_lines(), ("", False), *self._agent_parts(0, panel, size), *self._state_lines()]
        words = column_of_text(parts, panel, height - 2 * _MARGIN, size)
        page.blit(words, (left + columns * cell_size + _MARGIN, _MARGIN))
        return (_MARGIN, _MARGIN, *room)

    def _draw_below(self, page: pygame.Surface) -> tuple[int, int, int, int]:
        """Draw the mazes side by side with their figures below; return as `_draw_beside`."""
        (width, height), size = page.get_size(), font_size(min(page.get_size()))
        number, head = len(self.agents), 2 * size + _MARGIN // 2
        share = (width - _MARGIN) // number - _MARGIN
        state = "   ".join(line for line, _ in [*self._maze_lines(), *self._state_lines()] if line)
        words = column_of_text([(state, False)], width - 2 * _MARGIN, head, size)
        page.blit(words, (_MARGIN, _MARGIN // 2))
        rows, columns = self.pool.size
        narrow = round(0.9 * share)  # the figures begin where the maze does, which may be right of its room's edge
        parts = [self._agent_parts(i, narrow, size) for i in range(number)]
        below = min(height // 2, max(column_height(part, narrow, size) for part in parts) + size // 2)
        room = height - head - below - _MARGIN
        cell_size = max(1, min(share // columns, room // rows))
        for i in range(number):
            indent = max(0, share - columns * cell_size) // 2
            left = _MARGIN + i * (share + _MARGIN) + indent
            page.blit(self._maze(i, cell_size), (left, head + (room - rows * cell_size) // 2))
            page.blit(column_of_text(parts[i], share - indent, below, size), (left, height - below))
        return (_MARGIN, head, width - 2 * _MARGIN, room)

    def _maze(self, number: int, cell_size: int) -> pygame.Surface:
        """An agent's maze and the rollout, or the crowd, so far."""
        scene = self.scenes[number]
        still, arrows = self._pictures_of(number, scene, cell_size)
        picture = still.copy()
        if self.background == "crowd":
            draw_crowd(picture, scene, self.crowd, self._moment, cell_size)
        else:
            step = min(self.step, int(scene.steps[self.rollout]))
            failed = bool(step == scene.steps[self.rollout] and not scene.success[self.rollout])
            path = scene.paths[self.rollout][: step + 1]
            draw_played(picture, scene.layout, path, cell_size, failed=failed, background=self.background)
        if arrows is not None:
            picture.blit(arrows, (0, 0))
        return picture

    @property
    def _moment(self) -> float:
        return self.step + (self.part if self.step < self.last_step else 0.0)

    def _pictures_of(self, number: int, scene: Scene, cell_size: int) -> tuple[pygame.Surface, pygame.Surface | None]:
        """What stands still, below the rollout and above it; drawn anew only when something about it has changed."""
        key = number, scene.prompt, cell_size, self.background, self.arrows
        if key not in self._pictures:
            self._pictures = {old: pictures for old, pictures in self._pictures.items() if old[0] != number}
            limits = (0.0, self._most_visits) if self.background == "visits" else None
            arrows = draw_arrows(scene.layout, scene.action_probabilities, cell_size) if self.arrows else None
            self._pictures[key] = draw_scene(scene, cell_size, self.background, limits=limits), arrows
        return self._pictures[key]

    @property
    def _most_visits(self) -> float:
        """Where the colours of all heat maps end."""
        return max(float(np.nanmax(scene.visits)) for scene in self.scenes)

    def _maze_lines(self) -> list[Line]:
        layout = self.pool[self.prompt]
        height, width = layout.size
        return [
            (f"maze {self.prompt} of {len(self.pool)}, {height}x{width}", True),
            (f"shortest path {layout.shortest_path_length} moves", False),
        ]

    def _agent_parts(self, number: int, width: int, size: int) -> list[Line | pygame.Surface]:
        scene, agent = self.scenes[number], self.agents[number]
        parts: list[Line | pygame.Surface] = [
            (agent.name, True),
            (f"success probability {readable_percent(scene.probability)}", False),
        ]
        if self.background == "crowd":
            return [*parts, ("", False), draw_counts(crowd_counts(scene, self.crowd, self._moment), width, size)]
        solutions, successes = scene.solutions, int(scene.success.sum())
        parts += [
            (f"{successes} of {len(scene.success)} sampled rollouts succeed", False),
            (f"{len(solutions)} distinct solutions", False),
            ("", False),
        ]
        passed = scene.pass_at_k.items()
        heads, values = [str(k) for k, _ in passed], [percent_number(value, 1) for _, value in passed]
        parts.append(table([["k", *heads], ["pass@k, %", *values]], size, width, "> 99.9"))
        done, steps = bool(scene.success[self.rollout]), int(scene.steps[self.rollout])
        end = f", {'success' if done else 'failure'}" if self.step >= steps else ""
        parts += [(f"rollout {self.rollout}: step {min(self.step, steps)} of {steps}{end}", True)]
        if self.lists_solutions:
            parts += [(f"  {times} x {moves} moves", False) for times, moves in solutions[:_MAX_LISTED]]
            if len(solutions) > _MAX_LISTED:
                parts.append((f"  and {len(solutions) - _MAX_LISTED} more", False))
        return [*parts, ("", False), *self._legend(scene, width)]

    def _legend(self, scene: Scene, width: int) -> list[Line | pygame.Surface]:
        """What the marks and colours of the present background mean."""
        successes = int(scene.success.sum())
        if self.background == "paths":
            return [path_legend(successes, len(scene.success) - successes, width)]
        if self.background == "visits":
            return [colour_bar(0.0, self._most_visits, "visits of a rollout to a square", width)]
        return [marker_legend(("start", "goal", "agent"), width)]

    def _state_lines(self) -> list[Line]:
        if not self.shows_keys:
            return []
        return [
            ("paused" if self.paused else f"{self.speed} steps a second", False),
            (self.message or "? for help", False),
        ]
