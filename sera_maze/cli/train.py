"""The command ``sera-maze train``."""

from __future__ import annotations

import datetime
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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

_RUNS = Path("runs")
SOLVED, FAILED = "solved.png", "failed.png"
_WITH_RESUME = ("--resume", "--device", "--threads", "--updates")
_STOPPED = 130  # the exit status of a program that Ctrl-C ended


@dataclass(frozen=True)
class Train:
    """Train a maze agent with SERA: warm start, then reinforcement learning, then the coverage table.

    Options that are not given are those of the preset, which --preset NAME --help shows; config.json in the run's
    folder has them all.
    """

    preset: Literal["default", "quick", "hour", "paper", "general"] = "default"
    """default: 17x17, minutes; quick: 9x9, about a minute; hour: 17x17, many mazes; paper: the papers' setting;
    general: all families, 9x9 to 33x33, hours."""
    out: Annotated[Path | None, unless_given("runs/DATE-PRESET")] = None
    """Folder of the run."""
    resume: Annotated[Path | None, unless_given("a new run")] = None
    """Go on with the run in this folder, perhaps to a higher number of updates; the rest is its own config."""
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
        named = self.resume or self.out
        if named is None:
            check_folder("--out", _RUNS)
        folder = _new_folder(self.preset) if named is None else named
        try:
            return self._train(console, folder)
        finally:
            if named is None:
                with suppress(OSError):
                    folder.rmdir()  # where the run was refused: only empty folders go
                    folder.parent.rmdir()

    def _train(self, console: Console, folder: Path) -> int:
        from sera_maze.runs import folder as run_folder  # torch and Stable-Baselines3 load only here
        from sera_maze.runs import maze_task
        from sera_maze.runs.example import example

        run_folder.set_threads(self.threads)
        device = run_folder.checked_device(self.device)
        if folder == Path() and self.resume is None:
            raise ValueError("--out is empty or the present folder; name a folder for the run")
        check_folder("--out" if self.resume is None else "--resume", folder)
        quoted = run_folder.as_argument(folder)
        if self.resume is not None:
            config = self._resumed(RunConfig.load(run_folder.require_run(folder)), console)
        else:
            if (folder / run_folder.CONFIG).exists():
                raise ValueError(f"{folder} already holds a run; go on with --resume {quoted}, or choose another --out")
            config = RunConfig.of(**options_of(self.options))
        console.print(f"run folder: {folder}")
        try:
            with _signals_as_stops(), _one_report_of_errors():
                evaluation = maze_task.train(config, folder, console, resume=self.resume is not None, device=device)
        except KeyboardInterrupt:
            is_begun = (folder / run_folder.CONFIG).exists()
            console.print(f"stopped; go on with: sera-maze train --resume {quoted}" if is_begun else "stopped")
            return _STOPPED
        except OSError:
            if (folder / run_folder.CONFIG).exists():
                console.print(f"stopped; when that is mended, go on with: sera-maze train --resume {quoted}")
            raise
        console.print(Markdown(evaluation.markdown()))
        if console.is_terminal and (drawn := example(folder, console)) is not None:
            console.print(drawn)
        larger = "x".join(str(2 * side - 1) for side in config.mazes.size)
        pictures = [path for path in (folder / SOLVED, folder / FAILED) if path.exists()]
        for what, where in (
            ("pictures", ", ".join(map(str, pictures))),
            ("curves", f"tensorboard --logdir {quoted}"),
            ("watch it", f"sera-maze watch {quoted}"),
            ("larger mazes", f"sera-maze eval {quoted} --size {larger}"),
        ):
            console.print(f"{what + ':':13} {where}", soft_wrap=True)
        return 0

    def _resumed(self, config: RunConfig, console: Console) -> RunConfig:
        """The config of a run that goes on, with more updates where they are asked for."""
        changed = [name for name in self.given if name not in _WITH_RESUME]
        if changed:
            raise ValueError(
                "--resume goes on with the run's own config, of which only --updates may change; leave out "
                f"{changed[0]}"
            )
        if "--updates" not in self.given:
            return config
        longer = config.changed({"updates": options_of(self.options)["updates"]})
        if longer.updates < config.updates:
            raise ValueError(
                f"--updates {longer.updates} is less than the run's own {config.updates}; a run can be made longer, "
                "not shorter"
            )
        if longer.updates > config.updates:
            console.print(
                f"{longer.updates} updates instead of {config.updates}: the learning rate, which falls linearly to "
                f"zero over all updates, goes on from {1 - config.updates / longer.updates:.0%} of the first one where "
                f"it would have been at zero"
            )
        return longer


@contextmanager
def _signals_as_stops() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP where a closed terminal sends it, stop a training as Ctrl-C does."""
    from sera_maze.algorithm.resumable import STOPS

    # Not what is ignored, as nohup has it, or was set by other means than Python's.
    numbers = [number for number in STOPS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []  # Python cannot set handlers here
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _one_report_of_errors() -> Iterator[None]:
    """Let threads not print errors of the system: TensorBoard's thread hands its own to whoever writes next."""
    before = threading.excepthook

    def report(what: threading.ExceptHookArgs) -> None:
        if not issubclass(what.exc_type, OSError):
            before(what)

    threading.excepthook = report
    try:
        yield
    finally:
        threading.excepthook = before


def _new_folder(preset: str) -> Path:
    """A folder of the present second, made here, so that no other run takes it."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    folder, number = _RUNS / f"{stamp}-{preset}", 1
    while True:
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            number += 1
            folder = _RUNS / f"{stamp}-{preset}-{number}"
