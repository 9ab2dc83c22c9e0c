"""The window of render_mode="human": a window of its own for each `MazeWindow`, beside those of other environments."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

from sera_maze.envs.ground.checks import as_number
from sera_maze.envs.pictures.canvas import check_text, pygame

if TYPE_CHECKING:
    from pygame._sdl2.video import Renderer, Window

_SPEED = "a number over 0, or None"
_DRIVER_VARIABLE = "SDL_VIDEODRIVER"
# Events that are left in the queue, for whoever plays.
_INPUT = (
    pygame.KEYDOWN,
    pygame.KEYUP,
    pygame.TEXTINPUT,
    pygame.MOUSEBUTTONDOWN,
    pygame.MOUSEBUTTONUP,
    pygame.MOUSEWHEEL,
)


class NoDisplayError(RuntimeError):
    """There is no display on which a window could open."""


class MazeWindow:
    """A window that shows one picture after another.

    It opens when it is first shown to, and takes the size of each picture. Windows do not know of one another: closing
    one leaves the others alone, and neither pygame nor its display is ever shut down. If something else shuts pygame
    down, the window opens again when it is next shown to. Use it from the main thread, as pygame demands.

    Args:
        title: the text of the title bar.

    Attributes:
        title: the text of the title bar.
        closed_by_user: whether the user has closed the window. From then on `show` does nothing.

    Raises:
        TypeError: for a title that is not a str.
    """

    closed_by_user: bool

    def __init__(self, title: str = "SERA maze"):
        self.title = check_text("title", title)
        self.closed_by_user = False
        self._window: Window | None = None
        self._renderer: Renderer | None = None
        self._clock: pygame.time.Clock | None = None
        self._id = 0

    @property
    def is_open(self) -> bool:
        """Whether the window is on the screen."""
        return self._window is not None

    def show(self, surface: pygame.Surface, frames_per_second: float | None = None) -> None:
        """Show a picture, read the window's events and keep time.

        Events of keys, mouse buttons and the program's own stay in pygame's queue.

        Args:
            surface: the picture; the window takes its size.
            frames_per_second: wait so long that pictures follow one another at most this fast; None does not wait.

        Raises:
            TypeError: if ``surface`` is not a pygame Surface, or ``frames_per_second`` not a number.
            ValueError: if ``frames_per_second`` is not over 0.
            RuntimeError: if there is no display on which a window could open.
        """
        if not isinstance(surface, pygame.Surface):
            raise TypeError(f"surface must be a pygame.Surface, got {type(surface).__name__}")
        if frames_per_second is not None and not as_number("frames_per_second", frames_per_second, _SPEED) > 0:
            raise ValueError(f"frames_per_second={frames_per_second!r} is out of range; allowed is {_SPEED}")
        if self.closed_by_user:
            return
        _forget_lost()
        if self._window is None:
            self._open(surface)
        self._draw(surface)
        _read_events()
        if self._clock is not None and frames_per_second is not None:
            self._clock.tick(frames_per_second)

    def close(self) -> None:
        """Close the window, if it is open; other windows stay."""
        _forget_lost()
        if self._window is not None:
            self._window.destroy()
        self._forget()

    def _open(self, surface: pygame.Surface) -> None:
        from pygame._sdl2.video import Renderer, Window  # only windows need it

        start_display()
        try:
            self._window = Window(self.title, surface.get_size())
            # In software: an accelerated renderer crashes the process when something else shuts pygame down.
            self._renderer = Renderer(self._window, accelerated=0)
            self._id = self._window.id
        except pygame.error as error:
            self._forget()
            raise _no_display(str(error)) from None
        self._clock = pygame.time.Clock()
        # Somebody may have closed the last window before this one was there.
        pygame.event.clear(pygame.QUIT)
        _remember(self)

    def _draw(self, surface: pygame.Surface) -> None:
        from pygame._sdl2.video import Texture  # only windows need it

        if self._window is None or self._renderer is None:
            return
        size = surface.get_size()
        if tuple(self._window.size) != size:
            self._window.size = size
        self._renderer.clear()
        Texture.from_surface(self._renderer, surface).draw(dstrect=pygame.Rect((0, 0), size))
        self._renderer.present()

    def _is_ours(self) -> bool:
        # SDL may answer for a window that it destroyed with no name, and may put another window in its place.
        try:
            return self._window is not None and (self._window.id, self._window.title) == (self._id, self.title)
        except pygame.error:
            return False

    def _forget(self) -> None:
        self._renderer = self._window = self._clock = None
        _open_windows.discard(self)


_open_windows: weakref.WeakSet[MazeWindow] = weakref.WeakSet()
_watching_for_quit = False
# What is left of windows that SDL destroyed before it was started again. Were Python to free these objects, they would
# destroy the windows that took their places in memory.
_lost: list[tuple[object, object]] = []


def start_display() -> None:
    """Start pygame's display.

    Raises:
        RuntimeError: if there is none on which a window could be seen.
    """
    was_on = pygame.display.get_init()
    try:
        pygame.display.init()
    except pygame.error as error:
        raise _no_display(str(error)) from None
    # Where there is no display, SDL takes its driver "offscreen" without being asked, and nothing is seen.
    if pygame.display.get_driver() == "offscreen" and not os.environ.get(_DRIVER_VARIABLE):
        if not was_on:
            pygame.display.quit()
        raise _no_display("no display was found")


def _no_display(reason: str) -> NoDisplayError:
    return NoDisplayError(
        f'a window cannot be opened: {reason}. Use render_mode="rgb_array" where there is no display, or set '
        f"{_DRIVER_VARIABLE}=dummy to run without seeing the window"
    )


def _remember(window: MazeWindow) -> None:
    global _watching_for_quit
    _open_windows.add(window)
    if not _watching_for_quit:
        # SDL frees the windows in pygame.quit(); a window kept beyond could be taken for one that is opened later.
        pygame.register_quit(_close_all)
        _watching_for_quit = True


def _close_all() -> None:
    global _watching_for_quit
    _watching_for_quit = False
    for window in list(_open_windows):
        window.close()


def _forget_lost() -> None:
    """Let go of the windows that went when something else shut the display down, perhaps to start it again."""
    display_is_on = pygame.display.get_init()
    for window in list(_open_windows):
        if not display_is_on:
            window._forget()
        elif not window._is_ours():
            _lost.append((window._renderer, window._window))
            window._forget()


def _read_events() -> None:
    """Close the windows that the user closed; leave input, closed windows of others and custom events in the queue.

    Other events are dropped: unread, they would fill the queue, and the event of a closed window would be lost.
    """
    back = []
    # By exclusion: asked for window events by type, pygame-ce 2.5 finds none.
    for event in pygame.event.get(exclude=_INPUT):
        owner = getattr(event, "window", None)
        is_closing = event.type == pygame.WINDOWCLOSE
        ours = [w for w in _open_windows if event.type == pygame.QUIT or (is_closing and w._window is owner)]
        for window in ours:
            window.closed_by_user = True
            window.close()
        if event.type >= pygame.USEREVENT or (is_closing and owner is not None and not ours):
            back.append(event)
    for event in back:
        pygame.event.post(event)
