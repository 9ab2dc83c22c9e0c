"""The command ``sera-maze watch``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console

from sera_maze.cli.choices import choose_mazes, unless_given
from sera_maze.envs.ground.atomic_files import check_folder
from sera_maze.envs.ground.checks import check_int

if TYPE_CHECKING:
    from sera_maze.viewer.scenes import Agent
    from sera_maze.viewer.watching import Viewer

_SUFFIXES = (".png", ".gif", ".mp4")


@dataclass(frozen=True)
class Watch:
    """Watch trained agents walk through mazes, in a window or as a picture or film; two runs side by side."""

    runs: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Folder of one run, or of two; none: the agent that comes with the package, in mazes of all families."""
    load: Annotated[Path | None, unless_given("the held-out mazes of the first run")] = None
    """Mazes to watch on: a file of 'sera-maze mazes --out', or a folder of drawings."""
    size: Annotated[str | None, unless_given("that of the held-out mazes; without a run 17x17")] = None
    """Instead: mazes of this size, HEIGHTxWIDTH or one number, that the first run has never seen."""
    count: Annotated[int | None, unless_given("256, without a run 64")] = None
    """Number of mazes, with --size."""
    maze: Annotated[int | None, unless_given("the hardest with --out, else maze 0")] = None
    """The first maze to show, by its number."""
    show: Annotated[
        Literal["plain", "paths", "visits", "crowd"] | None, unless_given("paths in a .png, else plain")
    ] = None
    """What lies under the rollout: nothing, all sampled paths, or the heat map of visits; crowd: many rollouts walk at
    once."""
    arrows: bool = False
    """Show the policy's arrows."""
    num_samples: int = 256
    """Rollouts sampled in each maze."""
    iterations: Annotated[int | None, unless_given("by the size of the mazes")] = None
    """Iterations of the policies."""
    out: Annotated[Path | None, unless_given("a window")] = None
    """Instead of a window: a .png, .gif or .mp4 file."""
    rollouts: Annotated[int | None, unless_given("64 in a crowd, else 3")] = None
    """Rollouts in a film, successes and failures in their proportion; or those that walk at once."""
    speed: Literal[1, 2, 4, 8, 16, 32, 64, 128] = 8
    """Steps a second."""
    window: tuple[int, int] = (1120, 800)
    """Width and height of the window or picture, in pixels."""
    device: str = "auto"
    """cpu, cuda or auto."""

    def run(self, console: Console) -> int:
        """Watch, and return the exit status."""
        from sera_maze.envs.pictures.window import NoDisplayError
        from sera_maze.viewer.crowd import CROWD
        from sera_maze.viewer.window import run_window  # torch, Stable-Baselines3 and pygame load only here

        if len(self.runs) > 2:
            raise ValueError(f"got {len(self.runs)} run folders; give one, or two to see them side by side")
        if self.out is not None and self.out.suffix.lower() not in _SUFFIXES:
            raise ValueError(f"{self.out} does not end in .png, .gif or .mp4; name a file of one of these kinds")
        if self.out is not None:
            check_folder("--out", self.out.parent)
        usual = CROWD if self.show == "crowd" else 3
        rollouts = check_int("rollouts", usual if self.rollouts is None else self.rollouts, 1, 4096)
        window = tuple(check_int("window", side, 64, 8192) for side in self.window)
        shown = self._viewer()
        shown.crowd = rollouts if self.show == "crowd" else CROWD
        if self.out is None:
            try:
                run_window(shown, f"sera-maze: {', '.join(agent.name for agent in shown.agents)}", size=window)  # type: ignore[arg-type]
            except NoDisplayError:
                raise ValueError(
                    "there is no display for a window; --out FILE.png, .gif or .mp4 writes a picture or film instead"
                ) from None
            return 0
        from sera_maze.viewer.films import write_film, write_picture

        if self.out.suffix.lower() == ".png":
            written = write_picture(shown, self.out, window)  # type: ignore[arg-type]
        else:
            written = write_film(shown, self.out, window, rollouts)  # type: ignore[arg-type]
        console.print(f"wrote {written}")
        return 0

    def _viewer(self) -> Viewer:
        from sera_maze.runs import folder as run_folder
        from sera_maze.viewer.watching import Viewer

        agents = list(self._agents(run_folder.checked_device(self.device)))
        prompt = self.maze
        if prompt is None:
            prompt = 0 if self.out is None else int(agents[0].chances.argmin())
        is_picture = self.out is not None and self.out.suffix.lower() == ".png"
        background = self.show or ("paths" if is_picture else "plain")
        shown = Viewer(agents, prompt, background=background, arrows=self.arrows)
        shown.speed = self.speed
        return shown

    def _agents(self, device: str) -> Iterator[Agent]:
        """The runs' agents, or that of the package, on the mazes that the options ask for."""
        from sera_maze.envs.play.rules import MazeRules
        from sera_maze.policies.maze import as_maze_policy
        from sera_maze.runs import folder as run_folder
        from sera_maze.runs.maze_task import trained_on
        from sera_maze.runs.shipped import NAME, shipped_agent
        from sera_maze.viewer.scenes import Agent

        opened = [run_folder.open_run(folder, device) for folder in self.runs]
        found = [(as_maze_policy(model.policy), config) for model, config in opened] or [shipped_agent(device)]
        pool, _ = choose_mazes(found[0][1], self.load, self.size, self.count, is_shipped=not opened)
        for n, (name, (policy, config)) in enumerate(zip(_names(self.runs) or [NAME], found, strict=True)):
            if opened and (seen := trained_on(opened[n][0], pool)):
                name = f"{name} (trained on {seen} of these mazes)"
            if config.mazes.on_wall != found[0][1].mazes.on_wall:
                name = f"{name}, on_wall={config.mazes.on_wall}"
            yield Agent(
                name, policy, pool, rules=MazeRules(pool.size, on_wall=config.mazes.on_wall),
                iterations=self.iterations, num_samples=self.num_samples, seed=config.seed,
            )  # fmt: skip


def _names(folders: tuple[Path, ...]) -> list[str]:
    """The folders' own names; with their parents' where these are the same."""
    own = [folder.resolve().name for folder in folders]
    return [name if own.count(name) == 1 else str(folder) for folder, name in zip(folders, own, strict=True)]
