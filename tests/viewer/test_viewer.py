"""The viewer, driven by posted key events, without a window; and once with one, on pygame's dummy driver."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from sera_maze.algorithm.maxrl import SERA
from sera_maze.coverage.tables import readable_percent, readable_probability
from sera_maze.envs import MazeEnv, MazeLayout, MazePool
from sera_maze.envs.pictures.canvas import PALETTE, pygame
from sera_maze.envs.pictures.drawing import draw_heatmap, draw_layout
from sera_maze.envs.pictures.sheets import to_array
from sera_maze.envs.play.rules import MazeRules
from sera_maze.viewer.arrows import draw_arrows
from sera_maze.viewer.drawing import draw_played, draw_scene
from sera_maze.viewer.path_sheet import render_paths
from sera_maze.viewer.playing import Player
from sera_maze.viewer.scenes import Agent
from sera_maze.viewer.watching import HELP, SPEEDS, Viewer
from sera_maze.viewer.window import WINDOW_SIZE, run_window
from sera_maze.viewer.words import table

POOL = MazePool.generate(6, 7, "prim", seed=1, braid=0.5)
KEYS = {
    "space": pygame.K_SPACE, "right": pygame.K_RIGHT, "left": pygame.K_LEFT, "up": pygame.K_UP, "down": pygame.K_DOWN,
    "home": pygame.K_HOME, "end": pygame.K_END, "esc": pygame.K_ESCAPE,
}  # fmt: skip


@pytest.fixture(scope="module")
def policy():
    model = SERA("MazePolicy", MazeEnv(POOL), prompts_per_batch=6, rollouts_per_prompt=4, seed=0)
    model.warm_start(25)
    return model.policy


def agent(policy, name="one", pool=POOL, **options):
    rules = MazeRules(pool.size, on_wall=options.pop("on_wall", "fail"))
    return Agent(name, policy, pool, rules=rules, **{"num_samples": 64, **options})


def press(app, *keys):
    for key in keys:
        code = KEYS.get(key) or getattr(pygame, f"K_{key}", 0)
        app.handle(pygame.event.Event(pygame.KEYDOWN, key=code, unicode=key if len(key) == 1 else ""))


def pixels(app, size=(800, 600)):
    return to_array(app.draw(size))


def has(picture, colour):
    return bool((picture == np.array(colour, np.uint8)).all(axis=2).any())


def test_a_rollout_is_played_step_by_step(policy):
    viewer = Viewer([agent(policy)])
    scene = viewer.scenes[0]
    assert (viewer.step, viewer.rollout, viewer.prompt) == (0, 0, 0)
    viewer.advance(0.3)  # 8 steps a second
    assert viewer.step == min(2, viewer.last_step)
    viewer.advance(1000)
    assert viewer.step == viewer.last_step == scene.steps[0]
    viewer.advance(0.5)
    assert viewer.rollout == 0  # the end is held for a moment
    viewer.advance(0.5)
    assert (viewer.rollout, viewer.step) == (1, 0)


def test_keys_of_time(policy):
    viewer = Viewer([agent(policy)])
    press(viewer, "space")
    viewer.advance(10)
    assert (viewer.paused, viewer.step) == (True, 0)
    press(viewer, "right", "right", "left")
    assert viewer.step == 1
    press(viewer, "end")
    assert viewer.step == viewer.last_step
    press(viewer, "right")
    assert viewer.step == viewer.last_step
    press(viewer, "space")  # at its end a rollout begins again
    assert (viewer.paused, viewer.step) == (False, 0)
    press(viewer, "home", "left")
    assert (viewer.paused, viewer.step) == (True, 0)
    press(viewer, "down", "down", "up")
    assert viewer.rollout == 1
    press(viewer, "up", "up")
    assert viewer.rollout == 63
    press(viewer, "+", "=")
    assert viewer.speed == 32
    press(viewer, *"-" * 20)
    assert viewer.speed == SPEEDS[0]
    press(viewer, *"+" * 20)
    assert viewer.speed == SPEEDS[-1]


def test_keys_of_place(policy):
    one = agent(policy)
    viewer = Viewer([one], 4)
    press(viewer, "n", "n")
    assert viewer.prompt == 0
    press(viewer, "p")
    assert viewer.prompt == 5
    order = np.argsort(one.chances, kind="stable").tolist()
    press(viewer, "h")
    assert viewer.prompt == order[0]
    press(viewer, "h")
    assert viewer.prompt == order[1]
    press(viewer, "n", "h")
    assert viewer.prompt == order[0]
    press(viewer, "f")
    scene = viewer.scenes[0]
    assert not scene.success[viewer.rollout]
    assert scene.success[: viewer.rollout].all()


def test_without_failures_f_says_so():
    pool = MazePool.from_layouts([POOL[0]])

    class Sure:
        """An agent that always succeeds."""

        def __init__(self):
            path = np.array(POOL[0].shortest_path())
            self.name, self.pool, self.num_samples, self.chances = "sure", pool, 1, np.ones(1)
            self._scene = SimpleNamespace(
                layout=POOL[0], prompt=0, paths=[path], success=np.array([True]), steps=np.array([len(path) - 1]),
                probability=1.0, pass_at_k={1: 1.0}, solutions=[(1, len(path) - 1)],
            )  # fmt: skip

        def scene(self, prompt):
            return self._scene

    viewer = Viewer([Sure()])
    press(viewer, "f")
    assert viewer.message == "no sampled rollout fails in any maze"
    press(viewer, "n")
    assert viewer.message == ""


def test_what_is_drawn(policy):
    viewer = Viewer([agent(policy)])
    plain = pixels(viewer)
    assert plain.shape == (600, 800, 3)
    for colour in (PALETTE.wall, PALETTE.floor, PALETTE.goal, PALETTE.agent):
        assert has(plain, colour)
    pictures = [plain]
    for keys in ("o", "v", "v", "a", "a", "d"):  # paths, visits, plain again, arrows, none, list
        press(viewer, keys)
        pictures.append(pixels(viewer))
    assert np.array_equal(pictures[0], pictures[3])
    assert np.array_equal(pictures[3], pictures[5])
    for i, j in ((0, 1), (1, 2), (0, 4), (0, 6)):
        assert not np.array_equal(pictures[i], pictures[j])
    press(viewer, "end")
    assert not np.array_equal(pixels(viewer), pictures[6])


def test_the_agent_stands_where_the_rollout_is(policy):
    viewer = Viewer([agent(policy)])
    for step in range(viewer.last_step):
        viewer.step = step
        row, column = viewer.scenes[0].paths[0][step]
        picture = pixels(viewer, (1000, 600))  # a panel of 16 * 15, so a room of 712 x 568 and 81 pixels a square
        left, top = 16 + (712 - 7 * 81) // 2, (600 - 7 * 81) // 2
        assert tuple(picture[top + 81 * row + 40, left + 81 * column + 40]) == PALETTE.agent


def test_a_failed_rollout_ends_in_a_cross(policy):
    viewer = Viewer([agent(policy)])
    press(viewer, "f", "end")
    picture = pixels(viewer)
    assert has(picture, PALETTE.failure)
    press(viewer, "left")
    assert not has(pixels(viewer), PALETTE.failure)


def test_a_cross_on_the_start_leaves_its_ring_in_sight():
    layout = POOL[0]
    for cell_size in (5, 7, 20, 60):
        ring, failed = draw_layout(layout, cell_size=cell_size), draw_layout(layout, cell_size=cell_size)
        draw_played(failed, layout, np.array([layout.start] * 2), cell_size, failed=True)
        row, column = (side * cell_size for side in layout.start)
        before, after = (
            to_array(picture)[row : row + cell_size, column : column + cell_size] for picture in (ring, failed)
        )
        green = (before == PALETTE.start).all(axis=-1)
        assert ((after == PALETTE.start).all(axis=-1) & green).sum() >= 0.9 * green.sum() > 0
        # It moves towards the cross's colour where the floor was.
        assert (after[~green][:, 2].astype(int) < 120).any()


def test_a_trail_has_one_width_at_its_corners_and_hides_neither_start_nor_goal():
    layout, size = POOL[0], 30
    path = np.array(layout.shortest_path())
    picture = draw_layout(layout, cell_size=size)
    draw_played(picture, layout, path, size, failed=False, background="paths")
    ink = (to_array(picture) == PALETTE.text).all(axis=-1)
    width, begin = round(size / 7), (size - round(size / 7)) // 2
    for row, column in path[1:-1].tolist():
        square = ink[row * size : (row + 1) * size, column * size : (column + 1) * size]
        middle = np.zeros((size, size), bool)
        middle[begin : begin + width] = middle[:, begin : begin + width] = True
        assert not square[~middle].any()
    for colour in (PALETTE.start, PALETTE.goal):
        assert has(to_array(picture), colour)


def test_the_help_covers_no_figures(policy):
    for agents, figures in (([agent(policy)], np.s_[:, -240:]), ([agent(policy), agent(policy, "two")], np.s_[-200:])):
        viewer = Viewer(agents)
        before = pixels(viewer, (1120, 800))[figures]
        press(viewer, "?")
        assert np.array_equal(pixels(viewer, (1120, 800))[figures], before)


def test_arrows_are_of_the_likely_actions_and_opposite_ones_do_not_meet():
    layout = MazeLayout.from_text("#######\n#S...G#\n#######")
    chances = np.zeros((3, 7, 4))
    chances[..., 3] = 1
    chances[1, 2] = 0, 0.05, 0, 0.95  # no arrow down
    chances[1, 3] = 0, 0, 0.45, 0.55
    size = 40
    opacity = pygame.surfarray.array_alpha(draw_arrows(layout, chances, size)).T[size : 2 * size]
    one, also, two, goal = (opacity[:, i * size : (i + 1) * size] for i in (1, 2, 3, 5))
    assert np.array_equal(one, also)
    assert one[size // 2, size // 2] == 255
    assert two[:, size // 2 - 1 : size // 2 + 1].max() == 0  # a gap between left and right
    assert two[:, : size // 2].max() == two[:, size // 2 :].max() == 255
    assert goal.max() == 0
    # Each can be read: its head is at least a fifth of a square wide.
    assert min((half > 128).any(axis=1).sum() for half in (two[:, : size // 2], two[:, size // 2 :])) >= size // 5


def test_a_table_is_aligned_and_turned_where_it_is_too_wide():
    rows = [["k", "1", "256"], ["pass@k, %", "< 0.1", "0.3"]]
    wide, tall = table(rows, 16, 400, "> 99.9"), table(rows, 16, 150, "> 99.9")
    assert wide.get_width() <= 400
    assert tall.get_width() <= 150
    assert tall.get_height() > wide.get_height()
    ink = (to_array(tall) < 128).all(axis=-1)
    # Below the rule both numbers end in the same column of pixels, to within the shape of their last digits.
    first, second = (np.flatnonzero(ink[i * 22 + 2 : (i + 1) * 22].any(axis=0)).max() for i in (1, 2))
    assert abs(first - second) <= 2


def test_a_high_window_has_its_figures_below_the_maze(policy):
    viewer = Viewer([agent(policy)])
    walls = (pixels(viewer, (500, 900)) == PALETTE.wall).all(axis=-1)
    assert walls.any(axis=0).sum() >= 460  # the maze takes the width, 7 squares in 468 pixels
    walls = (pixels(viewer, (900, 500)) == PALETTE.wall).all(axis=-1)
    assert walls.any(axis=1).sum() >= 460


def test_visits_of_two_agents_have_one_scale(policy):
    viewer = Viewer([agent(policy), agent(policy, "two", iterations=2)], background="visits")
    most = max(np.nanmax(scene.visits) for scene in viewer.scenes)
    assert viewer._most_visits == most
    other = draw_heatmap(POOL[0], viewer.scenes[1].visits, cell_size=20, legend=False, limits=(0.0, most))
    shown = draw_scene(viewer.scenes[1], 20, "visits", limits=(0.0, most))
    assert np.array_equal(to_array(shown), to_array(other))


def test_help_lists_every_key_and_closes_first(policy):
    viewer = Viewer([agent(policy)])
    before = pixels(viewer)
    press(viewer, "?")
    assert viewer.shows_help
    assert not np.array_equal(pixels(viewer), before)
    viewer.advance(5)
    assert viewer.step == 0
    press(viewer, "esc")
    assert not viewer.shows_help
    assert not viewer.is_over
    press(viewer, "esc")
    assert viewer.is_over
    listed = " ".join(key for key, _ in HELP)
    for key in "n p h f o v c a d s q ? + - space right left up down home end esc".split():
        assert key in listed.replace(",", "").split()


def test_pictures_are_saved(policy, tmp_path):
    viewer = Viewer([agent(policy)], 2, folder=tmp_path)
    press(viewer, "right", "s")
    assert (tmp_path / "maze2-rollout0-step1.png").exists()
    assert "maze2-rollout0-step1.png" in viewer.message


def test_a_picture_that_cannot_be_saved_is_told(policy, tmp_path):
    (tmp_path / "file").write_text("")
    viewer = Viewer([agent(policy)], folder=tmp_path / "file")
    press(viewer, "s")
    assert viewer.message.startswith("cannot save")
    assert not viewer.is_over


def test_keys_do_nothing_behind_the_help(policy):
    viewer = Viewer([agent(policy)])
    press(viewer, "?", "n", "o", "space")
    assert (viewer.prompt, viewer.background, viewer.paused) == (0, "plain", False)
    press(viewer, "?", "n")
    assert viewer.prompt == 1


def test_percentages_are_not_rounded_to_certainty():
    assert [readable_percent(value) for value in (0, 1e-9, 0.5, 0.99999999, 1)] == [
        "0.00 %", "< 0.01 %", "50.00 %", "> 99.99 %", "100.00 %",
    ]  # fmt: skip
    assert readable_percent(0.9998, 1) == "> 99.9 %"
    assert [readable_probability(value) for value in (0, 1e-9, 0.5)] == ["p = 0.00 %", "p < 0.01 %", "p = 50.00 %"]


def test_closing_the_window_ends_it(policy):
    viewer = Viewer([agent(policy)])
    viewer.handle(pygame.event.Event(pygame.QUIT))
    assert viewer.is_over


@pytest.mark.parametrize("size", [(1, 1), (420, 320), (1600, 300), (300, 1600), (2560, 1440)])
@pytest.mark.parametrize("both", [False, True])
def test_windows_of_any_size(policy, size, both):
    agents = [agent(policy), agent(policy, "two", iterations=3)] if both else [agent(policy)]
    viewer = Viewer(agents, background="paths", arrows=True)
    picture = pixels(viewer, size)
    assert picture.shape == (max(size[1], 320), max(size[0], 420), 3)
    press(viewer, "?")
    assert not np.array_equal(pixels(viewer, size), picture)


@pytest.mark.parametrize("side", [5, 65])
def test_small_and_large_mazes(policy, side):
    pool = MazePool.generate(2, side, "wilson")
    viewer = Viewer([agent(policy, pool=pool, num_samples=4)], arrows=True, background="visits")
    picture = pixels(viewer, WINDOW_SIZE)
    assert has(picture, PALETTE.wall)
    assert viewer.agents[0].policy.iterations == round(0.6 * 2 * side) if side > 5 else 8


def test_two_agents_play_the_same_maze(policy):
    one, two = agent(policy), agent(policy, "two", iterations=2)
    viewer = Viewer([one, two])
    assert viewer.last_step == max(one.scene(0).steps[0], two.scene(0).steps[0])
    press(viewer, "end")
    assert viewer.step == viewer.last_step
    assert has(pixels(viewer), PALETTE.wall)
    with pytest.raises(ValueError, match="other mazes"):
        Viewer([one, agent(policy, pool=POOL[:3])])
    with pytest.raises(ValueError, match="got 3 agents"):
        Viewer([one, one, one])
    with pytest.raises(ValueError, match="maze 6 is not there"):
        Viewer([one], 6)


def test_the_window_loop(policy, monkeypatch):
    """Keys that wait in pygame's queue are taken, and the window closes."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    viewer = Viewer([agent(policy)])
    pygame.display.init()
    for key in (pygame.K_n, pygame.K_o, pygame.K_q):
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key, unicode=""))
    run_window(viewer, "test")
    assert viewer.is_over
    assert viewer.prompt == 1
    assert viewer.background == "paths"
    assert not pygame.display.get_init()


def test_ctrl_c_ends_the_window(policy, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")

    class Interrupted(Viewer):
        def advance(self, seconds):
            raise KeyboardInterrupt

    run_window(Interrupted([agent(policy)]), "test")
    assert not pygame.display.get_init()


def test_a_person_plays(policy):
    layout = POOL[0]
    player = Player(POOL, agent=agent(policy), rules=MazeRules(POOL.size))
    moves = {(-1, 0): "up", (1, 0): "down", (0, -1): "left", (0, 1): "right"}
    path = [tuple(cell) for cell in np.array(layout.shortest_path()).tolist()]
    keys = [moves[b[0] - a[0], b[1] - a[1]] for a, b in itertools.pairwise(path)]
    before = pixels(player)
    press(player, *keys[:-1])
    assert player.path == path[:-1]
    assert player.ended == ""
    press(player, keys[-1])
    assert player.ended == f"solved in {len(keys)} moves"
    assert player.solved == {0: len(keys)}
    assert not np.array_equal(pixels(player), before)
    press(player, "up")
    assert player.info["steps"] == len(keys)  # it is over
    press(player, "space")
    assert player.prompt == 1
    assert player.ended == ""
    press(player, "p", "r")
    assert player.prompt == 0
    press(player, "?")
    assert player.shows_help
    press(player, "q")
    assert not player.is_over
    press(player, "q")
    assert player.is_over


def test_a_person_runs_into_a_wall():
    player = Player(POOL, rules=MazeRules(POOL.size))
    press(player, "up")  # the start lies in the upper left corner
    assert player.ended == "ran into a wall"
    assert has(pixels(player), PALETTE.failure)
    stays = Player(POOL, rules=MazeRules(POOL.size, on_wall="stay", max_steps=3))
    press(stays, "up", "up")
    assert (stays.ended, stays.path) == ("", [POOL[0].start])
    press(stays, "up")
    assert stays.ended == "no moves left"
    with pytest.raises(ValueError, match="maze 9 is not there"):
        Player(POOL, prompt=9)


def test_render_paths(policy):
    sheet = render_paths(policy, POOL, prompts=[0, 3], num_samples=20, columns=2, cell_size=20)
    assert sheet.dtype == np.uint8
    assert sheet.shape[1] == 2 * 7 * 20 + 3 * 16
    assert has(sheet, PALETTE.wall)
    model = SimpleNamespace(policy=policy)
    assert np.array_equal(render_paths(model, POOL, prompts=[0, 3], num_samples=20, columns=2, cell_size=20), sheet)
    for prompts, error, words in (
        ([8], ValueError, r"prompts\[0\]=8 is out of range"), ([0, 1.5], TypeError, r"prompts\[1\]=1.5"),
        ([True], ValueError, "prompts"), ([], ValueError, "prompts is empty"),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            render_paths(policy, POOL, prompts=prompts)
    with pytest.raises(TypeError, match="policy must be a MazePolicy"):
        render_paths(object(), POOL)
    with pytest.raises(ValueError, match="num_samples=0"):
        render_paths(policy, POOL, num_samples=0)


def test_scenes_agree_with_the_evaluation(policy):
    from sera_maze.coverage.evaluation import evaluate
    from sera_maze.coverage.solutions import distinct_solutions

    one = agent(policy)
    found = evaluate(policy, POOL, num_samples=64, ks=(1,), rules=one.rules)
    np.testing.assert_allclose(one.chances, found.probability)
    for prompt in range(6):
        scene = one.scene(prompt)
        assert scene.success.sum() == found.successes[prompt]
        assert scene.probability == pytest.approx(found.probability[prompt])
        assert len(scene.solutions) == found.distinct_solutions[prompt]
        assert len(scene.solutions) == distinct_solutions(scene.paths, scene.success)
        assert sum(times for times, _ in scene.solutions) == scene.success.sum()
        assert scene.action_probabilities.sum(axis=2) == pytest.approx(1)
        assert np.nansum(scene.visits) * 64 == pytest.approx(sum(map(len, scene.paths)))
    assert one.scene(0) is one.scene(0)
