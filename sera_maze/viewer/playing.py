"""`Player`: a person walks through mazes with the arrow keys, against the shortest path and perhaps an agent."""

from __future__ import annotations

from typing import Any

import numpy as np

from sera_maze.envs.pictures.canvas import blank, pygame
from sera_maze.envs.pictures.drawing import draw_layout, draw_paths
from sera_maze.envs.play.maze import MazeEnv
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.fresh import same_mazes
from sera_maze.envs.pools.pool import MazePool
from sera_maze.viewer.drawing import Background, draw_played
from sera_maze.viewer.scenes import Agent
from sera_maze.viewer.watching import MIN_WINDOW_SIZE
from sera_maze.viewer.words import column_of_text, draw_help, font_size

HELP = (
    ("arrow keys", "walk"),
    ("r", "begin the maze again"),
    ("n, p", "next maze, the one before"),
    ("space", "next maze, when this one is over"),
    ("?", "this help"),
    ("q, esc", "close"),
)
_MARGIN = 16
_PANEL_WIDTH = 300
_ACTIONS = {pygame.K_UP: 0, pygame.K_DOWN: 1, pygame.K_LEFT: 2, pygame.K_RIGHT: 3}


class Player:
    """A person in the mazes of a pool, by the rules of the environments.

    It needs no window, see `Viewer`. When a maze is over, the shortest path and the agent's first rollout are shown
    beside the person's own.

    Args:
        pool: the mazes.
        rules: of the episodes; None: a wall ends the episode, and the default horizon.
        agent: on the same mazes and with the same rules, or None.
        prompt: the first maze.

    Attributes:
        solved: mazes solved so far, the number of moves of the best try of each.

    Raises:
        ValueError: for a maze that there is not, or an agent on other mazes.
    """

    def __init__(self, pool: MazePool, *, rules: MazeRules | None = None, agent: Agent | None = None, prompt: int = 0):
        if not 0 <= prompt < len(pool):
            raise ValueError(f"maze {prompt} is not there; the pool has mazes 0 to {len(pool) - 1}")
        if agent is not None and not same_mazes(agent.pool, pool):
            raise ValueError("the agent is on other mazes; give it the same pool")
        rules = MazeRules(pool.size) if rules is None else rules
        self.env = MazeEnv(pool, on_wall=rules.on_wall, max_steps=rules.max_steps)
        self.pool, self.agent = pool, agent
        self.solved: dict[int, int] = {}
        self.shows_help = self._over = False
        self.begin(prompt)

    @property
    def is_over(self) -> bool:
        """Whether the person has asked to close."""
        return self._over

    def begin(self, prompt: int) -> None:
        """Start maze ``prompt``, counted round the pool."""
        self.prompt = prompt % len(self.pool)
        _, self.info = self.env.reset(options={"prompt": self.prompt})
        self.path = [self.info["position"]]
        self.ended = ""

    def handle(self, event: Any) -> None:
        """Take in one pygame event: keys, and the closing of the window."""
        if event.type == pygame.QUIT:
            self._over = True
        elif event.type == pygame.KEYDOWN:
            self._press(event.key, getattr(event, "unicode", ""))

    def _press(self, key: int, character: str) -> None:
        if character == "?" or key == pygame.K_F1:
            self.shows_help = not self.shows_help
        elif key in (pygame.K_q, pygame.K_ESCAPE):
            self._over, self.shows_help = not self.shows_help, False
        elif key == pygame.K_r:
            self.begin(self.prompt)
        elif key == pygame.K_n or (key == pygame.K_SPACE and self.ended):
            self.begin(self.prompt + 1)
        elif key == pygame.K_p:
            self.begin(self.prompt - 1)
        elif key in _ACTIONS and not self.ended:
            self._walk(_ACTIONS[key])

    def _walk(self, action: int) -> None:
        _, _, terminated, truncated, self.info = self.env.step(action)
        if self.info["position"] != self.path[-1]:
            self.path.append(self.info["position"])
        if terminated or truncated:
            if self.info["is_success"]:
                self.ended = f"solved in {self.info['steps']} moves"
                best = self.solved.get(self.prompt, self.info["steps"])
                self.solved[self.prompt] = min(best, self.info["steps"])
            else:
                self.ended = "no moves left" if truncated else "ran into a wall"

    def advance(self, seconds: float) -> None:
        """Nothing happens by itself."""

    def draw(self, size: tuple[int, int]) -> pygame.Surface:
        """Draw the present moment, at least `MIN_WINDOW_SIZE` large."""
        width, height = (max(given, least) for given, least in zip(size, MIN_WINDOW_SIZE, strict=True))
        page = blank(width, height)
        panel = min(_PANEL_WIDTH, width // 3)
        room = width - panel - 3 * _MARGIN, height - 2 * _MARGIN
        rows, columns = self.pool.size
        cell_size = max(1, min(room[0] // columns, room[1] // rows))
        picture = self._picture(cell_size)
        page.blit(
            picture, (_MARGIN + (room[0] - picture.get_width()) // 2, _MARGIN + (room[1] - picture.get_height()) // 2)
        )
        words = column_of_text(self._lines(), panel, height - 2 * _MARGIN, font_size(height))
        page.blit(words, (width - panel - _MARGIN, _MARGIN))
        if self.shows_help:
            draw_help(page, HELP, (_MARGIN, _MARGIN, *room))
        return page

    def _picture(self, cell_size: int) -> pygame.Surface:
        layout = self.pool[self.prompt]
        if not self.ended:
            picture = draw_layout(layout, cell_size=cell_size)
        else:
            # The shortest path as a success and the agent's as what it is, below the person's own.
            paths, successes = [np.array(layout.shortest_path())], [True]
            if self.agent is not None:
                scene = self.agent.scene(self.prompt)
                paths.append(scene.paths[0])
                successes.append(bool(scene.success[0]))
            picture = draw_paths(layout, paths, successes, cell_size=cell_size, legend=False)
        failed = bool(self.ended) and not self.info["is_success"]
        background: Background = "paths" if self.ended else "plain"
        draw_played(picture, layout, np.array(self.path), cell_size, failed=failed, background=background)
        return picture

    def _lines(self) -> list[tuple[str, bool]]:
        layout = self.pool[self.prompt]
        height, width = layout.size
        lines = [
            (f"maze {self.prompt} of {len(self.pool)}, {height}x{width}", True),
            (f"moves {self.info['steps']} of {self.env.rules.horizon}", False),
            ("", False),
        ]
        if not self.ended:
            return [*lines, ("arrow keys walk, ? for help", False)]
        lines += [(self.ended, True), (f"shortest path {layout.shortest_path_length} moves", False)]
        if self.agent is not None:
            scene = self.agent.scene(self.prompt)
            done = "solves it in" if scene.success[0] else "fails after"
            lines.append((f"{self.agent.name} {done} {scene.steps[0]} moves", False))
        lines += [("", False), (f"solved so far {len(self.solved)}", False)]
        return [*lines, ("", False), ("r: again, space: next maze", False)]
