"""The command ``sera-maze train``."""

from __future__ import annotations

import datetime
import shlex
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.markdown import Markdown

from sera_maze.cli.choices import unless_given
from sera_maze.cli.option_tree import flags, options_of
from sera_maze.envs.ground.atomic_files import check_folder
from sera_maze.runs.config import PRESETS, RunConfig

SOLVED, FAILED = "solved.png", "failed.png"
_WITH_RESUME = ("--resume", "--device", "--threads")
_STOPPED = 130  # the exit status of a program that Ctrl-C ended


@dataclass(frozen=True)
class Train:
    """Train a maze agent with SERA: warm start, then reinforcement learning, then the coverage table.

    Options that are not given are those of the preset, which --preset NAME --help shows; config.json in the run's
    folder has them all.
    """

    preset: Literal["default", "quick", "hour", "paper"] = "default"
    """default: 17x17, minutes; quick: 9x9, about a minute; hour: 17x17, many mazes; paper: the papers' setting."""
    out: Annotated[Path | None, unless_given("runs/DATE-PRESET")] = None
    """Folder of the run."""
    resume: Annotated[Path | None, unless_given("a new run")] = None
    """Go on with the run in this folder; its own config is used."""
    device: str = "auto"
    """cpu, cuda or auto."""
    threads: Annotated[int | None, unless_given("as many as cores")] = None
    """CPU threads of torch."""
    options: Annotated[Any, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name="")] = flags(PRESETS["default"])  # noqa: RUF009
    given: tyro.conf.Suppress[tuple[str, ...]] = ()
    """Names of the options on the command line."""

    @classmethod
    def prepared(cls, words: Sequence[str]) -> Callable[..., Train]:
        """This command with the defaults of the preset that the words of a command line name.

        Fresh mazes come with the success critic, unless another is given.
        """
        given = tuple(word.partition("=")[0].replace("_", "-") for word in words if word.startswith("--"))
        preset = "default"
        for word, following in zip(words, [*words[1:], ""], strict=False):
            name, equals, value = word.partition("=")
            if name == "--preset":
                preset = value if equals else following
        config = PRESETS.get(preset, PRESETS["default"])  # tyro refuses other names
        if "--fresh-mazes" in given and "--success" not in given:
            config = config.changed({"success": "critic"})
        return partial(cls, options=flags(config), given=given)

    def run(self, console: Console) -> int:
        """Train, and return the exit status."""
        from sera_maze.runs import folder as run_folder  # torch and Stable-Baselines3 load only here
        from sera_maze.runs import maze_task

        run_folder.set_threads(self.threads)
        device = run_folder.checked_device(self.device)
        folder = self.resume or self.out or _new_folder(self.preset)
        if folder == Path() and self.resume is None:
            raise ValueError("--out is empty or the present folder; name a folder for the run")
        check_folder("--out" if self.resume is None else "--resume", folder)
        quoted = shlex.quote(str(folder))
        if self.resume is not None:
            self._refuse_changes()
            config = RunConfig.load(run_folder.require_run(folder))
        else:
            if (folder / run_folder.CONFIG).exists():
                raise ValueError(f"{folder} already holds a run; go on with --resume {quoted}, or choose another --out")
            config = RunConfig.of(**options_of(self.options))
        console.print(f"run folder: {folder}")
        terminated = signal.signal(signal.SIGTERM, signal.default_int_handler)  # it is a stop, like Ctrl-C
        try:
            evaluation = maze_task.train(config, folder, console, resume=self.resume is not None, device=device)
        except KeyboardInterrupt:
            is_begun = (folder / run_folder.CONFIG).exists()
            console.print(f"stopped; go on with: sera-maze train --resume {quoted}" if is_begun else "stopped")
            return _STOPPED
        finally:
            signal.signal(signal.SIGTERM, terminated)
        console.print(Markdown(evaluation.markdown()))
        pictures = [path for path in (folder / SOLVED, folder / FAILED) if path.exists()]
        console.print(f"pictures: {', '.join(map(str, pictures))}")
        console.print(f"curves: tensorboard --logdir {quoted}")
        return 0

    def _refuse_changes(self) -> None:
        changed = [name for name in self.given if name not in _WITH_RESUME]
        if changed:
            raise ValueError(f"--resume goes on with the run's own config; leave out {changed[0]}")


def _new_folder(preset: str) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{stamp}-{preset}"
