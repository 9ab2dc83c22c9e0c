"""The command ``sera-maze play``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from sera_maze.cli.choices import choose_mazes, load_pool, parse_size, unless_given
from sera_maze.envs.generating.spec import Algorithm
from sera_maze.envs.layouts.moves import OnWall

if TYPE_CHECKING:
    from sera_maze.envs.pools.pool import MazePool
    from sera_maze.viewer.scenes import Agent


@dataclass(frozen=True)
class Play:
    """Walk through mazes yourself, with the arrow keys, against the shortest path and a trained agent."""

    folder: Annotated[tyro.conf.Positional[Path | None], unless_given("the agent that comes with the package")] = None
    """Folder of a run whose agent walks too; on its held-out mazes, unless others are given."""
    load: Annotated[Path | None, unless_given("mazes are generated, or the run's held-out ones")] = None
    """Mazes to play: a file of 'sera-maze mazes --out', or a folder of drawings."""
    size: Annotated[str | None, unless_given("17x17")] = None
    """Without a run and --load: mazes of this size, HEIGHTxWIDTH or one number."""
    algorithm: Annotated[Algorithm | None, unless_given("prim")] = None
    """How these are carved."""
    seed: Annotated[int | None, unless_given("0")] = None
    """Which mazes."""
    on_wall: Annotated[OnWall | None, unless_given("stay; with a run as in its training")] = None
    """What a move into a wall does."""
    maze: int = 0
    """The first maze, by its number."""

    def run(self, console: Console) -> int:
        """Play, and return the exit status."""
        from sera_maze.envs.pictures.window import NoDisplayError
        from sera_maze.viewer.playing import Player  # torch, Stable-Baselines3 and pygame load only here
        from sera_maze.viewer.window import run_window

        self._check_nothing_is_ignored()
        if self.folder is not None:
            agent, pool = self._agent(self.folder)
        else:
            pool = self._pool()
            agent = self._shipped(pool)
        player = Player(pool, rules=agent.rules, agent=agent, prompt=self.maze)
        try:
            run_window(player, "sera-maze play")
        except NoDisplayError:
            raise ValueError("there is no display for a window, and playing needs a display") from None
        if player.solved:
            console.print(f"solved {len(player.solved)} mazes")
        return 0

    def _check_nothing_is_ignored(self) -> None:
        """Refuse options that a run or --load makes idle."""
        idle = ["size", "algorithm", "seed"] if self.folder or self.load else []
        for name in [*idle, *(["on_wall"] if self.folder else [])]:
            if getattr(self, name) is not None:
                given = "a run" if self.folder else "--load"
                raise ValueError(
                    f"--{name.replace('_', '-')} does not go with {given}, which says it already; leave it out"
                )

    def _pool(self) -> MazePool:
        from sera_maze.envs.pools.pool import MazePool

        if self.load is not None:
            return load_pool(self.load)
        size = parse_size(self.size or "17x17")
        for count in (256, 64, 16, 4, 1):  # of small sizes there are fewer
            try:
                return MazePool.generate(count, size, self.algorithm or "prim", self.seed or 0)
            except ValueError:
                if count == 1:
                    raise
        raise AssertionError

    def _shipped(self, pool: MazePool) -> Agent:
        from sera_maze.envs.play.rules import MazeRules
        from sera_maze.runs.shipped import NAME, shipped_agent
        from sera_maze.viewer.scenes import Agent

        policy, config = shipped_agent()
        rules = MazeRules(pool.size, on_wall=self.on_wall or "stay")
        return Agent(NAME, policy, pool, rules=rules, seed=config.seed)

    def _agent(self, folder: Path) -> tuple[Agent, MazePool]:
        from sera_maze.envs.play.rules import MazeRules
        from sera_maze.policies.maze import as_maze_policy
        from sera_maze.runs import folder as run_folder
        from sera_maze.viewer.scenes import Agent

        model, config = run_folder.open_run(folder)
        pool, _ = choose_mazes(config, self.load, None, None)
        rules = MazeRules(pool.size, on_wall=config.mazes.on_wall)
        return Agent(folder.resolve().name, as_maze_policy(model.policy), pool, rules=rules, seed=config.seed), pool
