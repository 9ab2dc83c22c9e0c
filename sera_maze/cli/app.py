"""The command line, ``sera-maze``: one frozen dataclass of options for each command."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Any

import tyro
from rich.console import Console

from sera_maze.cli.align import Align
from sera_maze.cli.bench import Bench
from sera_maze.cli.compare import Compare
from sera_maze.cli.digits import Digits
from sera_maze.cli.doctor import Doctor
from sera_maze.cli.evaluate import Eval
from sera_maze.cli.mazes import Mazes
from sera_maze.cli.play import Play
from sera_maze.cli.train import Train
from sera_maze.cli.values import VALUES
from sera_maze.cli.watch import Watch
from sera_maze.envs.ground.checks import check_choice
from sera_maze.envs.pools.files import package_version

_USER_ERRORS = (ValueError, TypeError)
_PIPE_CLOSED = 141  # the exit status of a program that SIGPIPE ended
_DISK_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
COMMANDS: dict[str, Any] = {
    "train": Train, "eval": Eval, "compare": Compare, "mazes": Mazes, "bench": Bench, "watch": Watch, "play": Play,
    "align": Align, "digits": Digits, "doctor": Doctor,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status.

    Returns:
        0; 2 for wrong input, which is told without a traceback; 130 if the user interrupted it; 141 if nobody reads
        what it prints.
    """
    for stream in (sys.stdout, sys.stderr):
        _print_anyway(stream)
    try:
        try:
            return _run(sys.argv[1:] if arguments is None else list(arguments))
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _complain("interrupted", status=130)
    except BrokenPipeError:  # whoever reads, as head does, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
        return _PIPE_CLOSED
    except MemoryError as error:
        return _complain(f"error: not enough memory; ask for fewer or smaller mazes ({error})")
    except OSError as error:
        return _complain(f"error: {_in_words(error)}")
    except _USER_ERRORS as error:
        return _complain(f"error: {error}")
    except RuntimeError as error:  # as which torch reports that memory runs out
        if "memory" not in str(error):
            raise
        return _complain(f"error: not enough memory; ask for fewer rollouts or smaller mazes ({error})")


def _print_anyway(stream: Any) -> None:
    """Let a stream print "?" for a character that its encoding lacks, where it would raise an error."""
    if getattr(stream, "errors", None) in ("strict", "surrogateescape") and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")


def _run(arguments: Sequence[str]) -> int:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if arguments == ["--version"]:
        console.print(f"sera-maze {package_version()}")
        return 0
    if arguments and not arguments[0].startswith("-"):
        check_choice("command", arguments[0], tuple(COMMANDS))
    with VALUES:
        command = tyro.extras.subcommand_cli_from_dict(
            {**COMMANDS, "train": Train.prepared(arguments[1:])},
            prog="sera-maze",
            description="Maze agents for likelihood-style reinforcement learning.",
            args=arguments,
        )
    return command.run(console) or 0


def _in_words(error: OSError) -> str:
    """An error of the operating system, or our own, without a number."""
    if error.errno is None or error.strerror is None:
        return str(error)
    file = "" if error.filename is None else f"{error.filename}: "
    if error.errno in _DISK_FULL:
        return f"{file}the disk is full; free some space, or name a folder on another one"
    return f"{file}{error.strerror[:1].lower()}{error.strerror[1:]}"


def _complain(what: str, status: int = 2) -> int:
    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(f"sera-maze: {what}")
    return status


if __name__ == "__main__":
    sys.exit(main())
