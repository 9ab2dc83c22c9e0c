"""The window's loop on a real display, where there is a server for one."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from sera_maze.envs.pictures.canvas import PALETTE

ON_A_DISPLAY = """
import sys
from sera_maze.viewer.window import run_window
from sera_maze.envs import MazePool
from sera_maze.envs.pictures.canvas import pygame
from sera_maze.envs.pictures.sheets import save_png
from sera_maze.viewer.playing import Player

class Watched(Player):
    frames = 0

    def draw(self, size):
        self.frames += 1
        if self.frames == 3:  # what was shown in the two frames before
            print(pygame.display.get_driver(), *pygame.display.get_surface().get_size())
            save_png(pygame.display.get_surface(), sys.argv[1])
            pygame.event.post(pygame.event.Event(pygame.QUIT))
        return super().draw(size)

run_window(Watched(MazePool.generate(2, 9)), "test")
"""


@pytest.mark.skipif(shutil.which("Xvfb") is None, reason="needs Xvfb")
def test_a_window_on_a_real_display(tmp_path):
    read, write = os.pipe()
    server = subprocess.Popen(["Xvfb", "-displayfd", str(write), "-screen", "0", "1280x1024x24"], pass_fds=[write])
    try:
        os.close(write)
        with os.fdopen(read) as pipe:
            display = pipe.readline().strip()
        environment = {name: value for name, value in os.environ.items() if name != "SDL_VIDEODRIVER"}
        done = subprocess.run(
            [sys.executable, "-c", ON_A_DISPLAY, str(tmp_path / "shot.png")], capture_output=True, text=True,
            env={**environment, "DISPLAY": f":{display}"}, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.split()[-3:] == ["x11", "1120", "800"]
        with Image.open(tmp_path / "shot.png") as image:
            shot = np.asarray(image.convert("RGB"))
        colours = set(map(tuple, np.unique(shot.reshape(-1, 3), axis=0).tolist()))
        assert {PALETTE.wall, PALETTE.floor, PALETTE.goal, PALETTE.agent} <= colours
    finally:
        server.terminate()
        server.wait(timeout=20)
