"""Speed of the viewer: pictures a second of its window, and of one maze with many paths.

    python benchmarks/viewer.py

The window's loop runs without its limit of 60 frames a second, on the display there is, or on SDL_VIDEODRIVER=dummy.
An untrained policy walks, whose rollouts are as long as any (on_wall="stay"). Medians of the rounds.
"""

from __future__ import annotations

import os
import statistics
import time

os.environ.setdefault("SDL_VIDEODRIVER", "" if os.environ.get("DISPLAY") else "dummy")

from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.envs import MazeEnv, MazePool
from sera_maze.envs.pictures.canvas import pygame
from sera_maze.envs.play.rules import MazeRules
from sera_maze.viewer.drawing import draw_scene
from sera_maze.viewer.scenes import Agent
from sera_maze.viewer.watching import Viewer
from sera_maze.viewer.window import WINDOW_SIZE

ROUNDS, FRAMES, PATHS = 5, 200, 1000


def watched(side: int, samples: int) -> Agent:
    """An untrained agent in four mazes of one size."""
    pool = MazePool.generate(4, side)
    policy = MaxRL("MazePolicy", MazeEnv(pool), seed=0).policy
    return Agent("untrained", policy, pool, rules=MazeRules(pool.size, on_wall="stay"), num_samples=samples)


def window_rate(agents: list[Agent]) -> float:
    """Frames a second, each one step further than the one before."""
    viewer = Viewer(agents, background="paths", arrows=True)
    viewer.draw(WINDOW_SIZE)  # samples the rollouts and draws what stands still
    screen = pygame.display.set_mode(WINDOW_SIZE, pygame.RESIZABLE)
    start = time.perf_counter()
    for frame in range(FRAMES):
        pygame.event.get()
        viewer.step = frame * viewer.last_step // FRAMES
        screen.blit(viewer.draw(screen.get_size()), (0, 0))
        pygame.display.flip()
    return FRAMES / (time.perf_counter() - start)


if __name__ == "__main__":
    pygame.display.init()
    print(f"window of {WINDOW_SIZE[0]}x{WINDOW_SIZE[1]} pixels, driver {pygame.display.get_driver()}")
    for side in (17, 65):
        for count in (1, 2):
            agents = [watched(side, 64) for _ in range(count)]
            rate = statistics.median(window_rate(agents) for _ in range(ROUNDS))
            print(f"{f'{side}x{side}, agents side by side: {count}':<44}{rate:>10,.0f} frames/s")
    scene = watched(17, PATHS).scene(0)
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        draw_scene(scene, 30, "paths")
        times.append(time.perf_counter() - start)
    print(f"{f'17x17 with {PATHS:,} paths over one another':<44}{1000 * statistics.median(times):>10.1f} ms")
