"""The window of render_mode="human", under SDL's dummy driver, which shows nothing but does the rest."""

import pytest

import sera_maze.envs.pictures.window as window_module
from sera_maze.envs.pictures.canvas import blank, pygame
from sera_maze.envs.pictures.window import MazeWindow

RED, BLUE = (200, 30, 30), (30, 30, 200)


@pytest.fixture(autouse=True)
def dummy_driver(monkeypatch):
    pygame.quit()
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    yield
    pygame.quit()


def content(window):
    """Size of the window, and colour of its last pixel."""
    surface = window._renderer.to_surface()
    width, height = surface.get_size()
    return tuple(window._window.size), tuple(surface.get_at((width - 1, height - 1)))[:3]


def user_closes(window):
    pygame.event.post(pygame.event.Event(pygame.WINDOWCLOSE, window=window._window))


def test_window_opens_when_first_shown_to_and_follows_the_size():
    window = MazeWindow("maze")
    assert not window.is_open
    assert not pygame.display.get_init()
    for width, height, colour in ((40, 30, RED), (40, 30, BLUE), (90, 20, RED), (20, 90, BLUE)):
        window.show(blank(width, height, colour))
        assert window.is_open
        assert window._window.title == "maze"
        assert content(window) == ((width, height), colour)
    window.close()
    assert not window.is_open


def test_closing_one_window_leaves_the_other_alone():
    first, second = MazeWindow("first"), MazeWindow("second")
    first.show(blank(40, 30, RED))
    second.show(blank(60, 50, BLUE))
    first.close()
    first.close()
    assert (first.is_open, second.is_open) == (False, True)
    assert content(second) == ((60, 50), BLUE)
    second.show(blank(60, 50, RED))
    assert content(second) == ((60, 50), RED)
    first.show(blank(40, 30, BLUE))
    assert content(first) == ((40, 30), BLUE)
    first.close()
    second.close()
    assert pygame.display.get_init()


def test_closing_a_window_that_never_opened_does_nothing():
    window = MazeWindow("maze")
    window.close()
    window.close()
    assert not pygame.display.get_init()


def test_windows_leave_the_display_of_others_alone():
    pygame.display.init()
    display = pygame.display.set_mode((70, 60))
    display.fill(RED)
    window = MazeWindow("maze")
    window.show(blank(40, 30, BLUE))
    window.close()
    assert pygame.display.get_surface() is display
    assert display.get_size() == (70, 60)
    assert display.get_at((0, 0))[:3] == RED
    pygame.display.flip()


def test_window_closed_by_the_user_stays_closed():
    first, second = MazeWindow("first"), MazeWindow("second")
    first.show(blank(40, 30))
    second.show(blank(40, 30))
    user_closes(first)
    second.show(blank(40, 30))
    assert (first.closed_by_user, second.closed_by_user) == (True, False)
    assert (first.is_open, second.is_open) == (False, True)
    for _ in range(2):
        first.show(blank(40, 30))
        assert not first.is_open
    first.close()
    assert first.closed_by_user


def test_window_closed_while_it_is_shown_to():
    window = MazeWindow("maze")
    window.show(blank(40, 30))
    user_closes(window)
    window.show(blank(40, 30), 50)
    assert window.closed_by_user
    assert not window.is_open


def test_quitting_the_program_closes_all_windows():
    windows = [MazeWindow("first"), MazeWindow("second")]
    for window in windows:
        window.show(blank(40, 30))
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    windows[0].show(blank(40, 30))
    assert all(window.closed_by_user and not window.is_open for window in windows)


def test_quitting_before_a_window_opened_does_not_concern_it():
    pygame.display.init()
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    window = MazeWindow("maze")
    window.show(blank(40, 30))
    assert window.is_open
    assert not window.closed_by_user


def test_events_of_others_stay_in_the_queue():
    from pygame._sdl2.video import Window

    pygame.display.init()
    foreign = Window("window of something else")
    window = MazeWindow("maze")
    window.show(blank(40, 30))
    pygame.event.clear()
    pygame.event.post(pygame.event.Event(pygame.WINDOWCLOSE, window=foreign))
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_UP))
    pygame.event.post(pygame.event.Event(pygame.USEREVENT, code=7))
    pygame.event.post(pygame.event.Event(pygame.MOUSEMOTION, pos=(1, 1)))
    for _ in range(2):
        window.show(blank(40, 30))
    assert window.is_open
    left = {event.type: event for event in pygame.event.get()}
    assert set(left) == {pygame.WINDOWCLOSE, pygame.KEYDOWN, pygame.USEREVENT}
    assert left[pygame.WINDOWCLOSE].window is foreign
    assert left[pygame.KEYDOWN].key == pygame.K_UP
    assert left[pygame.USEREVENT].code == 7


@pytest.mark.parametrize("shut_down", [pygame.display.quit, pygame.quit], ids=["display", "pygame"])
def test_windows_open_again_after_something_else_shut_pygame_down(shut_down):
    windows = [MazeWindow("first"), MazeWindow("second")]
    for window in windows:
        window.show(blank(40, 30, RED))
    shut_down()
    for window in windows:
        window.show(blank(50, 20, BLUE))
    for window in windows:
        assert content(window) == ((50, 20), BLUE)
        window.close()


def test_windows_stand_beside_a_display_that_was_started_anew():
    windows = [MazeWindow("first"), MazeWindow("second")]
    for window in windows:
        window.show(blank(40, 30, RED))
    pygame.quit()
    assert not any(window.is_open for window in windows)
    pygame.display.init()
    display = pygame.display.set_mode((70, 60))
    for window in windows:
        window.show(blank(50, 20, BLUE))
        assert content(window) == ((50, 20), BLUE)
        window.close()
    assert pygame.display.get_surface() is display
    assert display.get_size() == (70, 60)


def test_window_whose_place_was_taken_is_given_up_and_not_destroyed(monkeypatch):
    lost = []
    monkeypatch.setattr(window_module, "_lost", lost)
    window = MazeWindow("maze")
    window.show(blank(40, 30))
    window._window.title = "a window that something else opened in the same place"
    window.show(blank(50, 20, BLUE))
    assert content(window) == ((50, 20), BLUE)
    window.close()
    ((_, taken),) = lost
    assert (tuple(taken.size), taken.title) == ((40, 30), "a window that something else opened in the same place")


def test_window_that_pygame_does_not_know_any_more_is_given_up(monkeypatch):
    class Gone:
        @property
        def id(self):
            raise pygame.error("Invalid window")

    lost = []
    monkeypatch.setattr(window_module, "_lost", lost)
    window = MazeWindow("maze")
    window.show(blank(40, 30))
    gone = window._window = Gone()
    window.show(blank(50, 20, BLUE))
    assert content(window) == ((50, 20), BLUE)
    assert lost[0][1] is gone


def test_window_closes_after_something_else_shut_pygame_down():
    window = MazeWindow("maze")
    window.show(blank(40, 30))
    pygame.display.quit()
    window.close()
    assert not window.is_open


def test_time_is_kept_only_when_asked_for():
    class Clock:
        ticks = ()

        def tick(self, frames_per_second):
            self.ticks += (frames_per_second,)

    window = MazeWindow("maze")
    window.show(blank(40, 30))
    window._clock = Clock()
    window.show(blank(40, 30), 20)
    window.show(blank(40, 30))
    window.show(blank(40, 30), frames_per_second=0.5)
    assert window._clock.ticks == (20, 0.5)


def test_no_display_is_an_error_that_names_the_remedy(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "no-such-driver")
    window = MazeWindow("maze")
    with pytest.raises(RuntimeError, match=r'no-such-driver.* render_mode="rgb_array"'):
        window.show(blank(40, 30))
    assert not window.is_open
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    window.show(blank(40, 30))
    assert window.is_open


@pytest.mark.parametrize("was_on", [False, True])
def test_a_display_that_nobody_sees_is_no_display(monkeypatch, was_on):
    # What SDL does where there is neither X11 nor Wayland: it takes its driver "offscreen".
    quits = []
    monkeypatch.delenv("SDL_VIDEODRIVER")
    monkeypatch.setattr(pygame.display, "init", lambda: None)
    monkeypatch.setattr(pygame.display, "get_init", lambda: was_on)
    monkeypatch.setattr(pygame.display, "get_driver", lambda: "offscreen")
    monkeypatch.setattr(pygame.display, "quit", lambda: quits.append(True))
    with pytest.raises(RuntimeError, match=r'no display was found. Use render_mode="rgb_array"'):
        MazeWindow("maze").show(blank(40, 30))
    assert quits == ([] if was_on else [True])


def test_offscreen_driver_may_be_asked_for(monkeypatch):
    monkeypatch.setattr(pygame.display, "get_driver", lambda: "offscreen")
    window = MazeWindow("maze")
    window.show(blank(40, 30))
    assert window.is_open


def test_failure_of_the_window_itself_is_an_error_too(monkeypatch):
    from pygame._sdl2 import video

    def fail(*_, **__):
        raise pygame.error("out of windows")

    monkeypatch.setattr(video, "Renderer", fail)
    window = MazeWindow("maze")
    with pytest.raises(RuntimeError, match="cannot be opened: out of windows"):
        window.show(blank(40, 30))
    assert not window.is_open


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("maze",), TypeError, r"surface must be a pygame.Surface, got str"),
        ((blank(4, 3), 0), ValueError, "frames_per_second=0 is out of range"),
        ((blank(4, 3), -5), ValueError, "frames_per_second=-5"),
        ((blank(4, 3), "10"), TypeError, "frames_per_second='10' is a str; allowed is a number over 0, or None"),
        ((blank(4, 3), True), TypeError, "frames_per_second=True is a bool"),
    ],
)
def test_show_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        MazeWindow("maze").show(*arguments)


def test_title_must_be_text():
    with pytest.raises(TypeError, match="title=5 must be a str"):
        MazeWindow(5)
