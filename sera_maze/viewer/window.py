"""The loop of a window that shows a `Viewer` or a `Player`."""

from __future__ import annotations

from typing import Any, Protocol

from sera_maze.envs.pictures.canvas import pygame
from sera_maze.envs.pictures.window import start_display

FRAMES_PER_SECOND = 60
WINDOW_SIZE = (1120, 800)


class App(Protocol):
    """What `run_window` shows."""

    @property
    def is_over(self) -> bool:
        """Whether the window is to be closed."""
        ...

    def handle(self, event: Any) -> None:
        """Take in one pygame event."""
        ...

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        ...

    def draw(self, size: tuple[int, int]) -> pygame.Surface:
        """Draw the present moment for a window of (width, height) pixels."""
        ...


def run_window(app: App, title: str, *, size: tuple[int, int] = WINDOW_SIZE) -> None:
    """Show an app in a window that can be resized, until it is over, the window is closed, or Ctrl-C.

    Raises:
        RuntimeError: if there is no display.
    """
    start_display()
    try:
        screen = pygame.display.set_mode(size, pygame.RESIZABLE)
        pygame.display.set_caption(title)
        clock = pygame.time.Clock()
        while not app.is_over:
            for event in pygame.event.get():
                app.handle(event)
            app.advance(clock.tick(FRAMES_PER_SECOND) / 1000)
            screen = pygame.display.get_surface()
            screen.blit(app.draw(screen.get_size()), (0, 0))
            pygame.display.flip()
    except KeyboardInterrupt:
        return
    finally:
        pygame.display.quit()
