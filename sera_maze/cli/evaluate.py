"""The command ``sera-maze eval``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markdown import Markdown

from sera_maze.cli.choices import choose_mazes, unless_given
from sera_maze.envs.ground.atomic_files import check_folder


@dataclass(frozen=True)
class Eval:
    """Evaluate a trained agent: pass@k with intervals over mazes, success by path length, pictures."""

    folder: Annotated[tyro.conf.Positional[Path | None], unless_given("the agent that comes with the package")] = None
    """Folder of the run."""
    load: Annotated[Path | None, unless_given("the run's held-out mazes")] = None
    """Mazes to evaluate on: a file of 'sera-maze mazes --out', or a folder of drawings."""
    size: Annotated[str | None, unless_given("that of the held-out mazes; without a run 17x17")] = None
    """Instead: mazes of this size, HEIGHTxWIDTH or one number, that the run has never seen."""
    count: Annotated[int | None, unless_given("256, without a run 64")] = None
    """Number of mazes, with --size."""
    iterations: Annotated[int | None, unless_given("by the size of the mazes")] = None
    """Iterations of the policy."""
    num_samples: Annotated[int | None, unless_given("as in training")] = None
    """Rollouts for each maze."""
    out: Annotated[
        Path | None, unless_given("eval, eval-33x33 or eval-NAME in the run's folder; without a run none")
    ] = None
    """Folder for table and pictures."""
    device: str = "auto"
    """cpu, cuda or auto."""

    def run(self, console: Console) -> int:
        """Evaluate, and return the exit status."""
        from sera_maze.policies.maze import as_maze_policy
        from sera_maze.runs import folder as run_folder  # torch and Stable-Baselines3 load only here
        from sera_maze.runs import maze_task, shipped

        device = run_folder.checked_device(self.device)
        if self.folder is None:
            policy, config = shipped.shipped_agent(device)
        else:
            model, config = run_folder.open_run(self.folder, device)
            policy = as_maze_policy(model.policy)
        pool, name = choose_mazes(config, self.load, self.size, self.count, is_shipped=self.folder is None)
        if self.num_samples is not None:
            config = config.changed({"num_samples": self.num_samples})
        folder = self.out if self.folder is None else self.out or self.folder / name
        if folder is not None:
            check_folder("--out", folder)
        evaluation = maze_task.evaluate_policy(policy, pool, config, folder, self.iterations)
        console.print(Markdown(evaluation.markdown()))
        if folder is not None:
            console.print(f"table and pictures: {folder}")
        return 0
