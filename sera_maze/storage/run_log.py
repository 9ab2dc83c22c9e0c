"""The log of a training that goes on: the same files, without what was logged beyond the point it goes on from."""

from __future__ import annotations

import csv
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from stable_baselines3.common.logger import (
    DISABLED,
    CSVOutputFormat,
    HumanOutputFormat,
    JSONOutputFormat,
    KVWriter,
    Logger,
    TensorBoardOutputFormat,
)
from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[import-untyped]
from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]
from tensorboard.summary.writer import event_file_writer  # type: ignore[import-untyped]
from torch.utils.tensorboard import SummaryWriter

from sera_maze.envs.ground.atomic_files import write_text
from sera_maze.envs.ground.checks import did_you_mean

_STEP = "time/total_timesteps"  # the key under which SB3 algorithms log the step
_EVENT_FILES = "events.out.tfevents.*"
_FLUSH_SECONDS = 1.0  # from one wait for the thread that writes TensorBoard's files to the next
_naming = threading.Lock()  # of event files, by a clock of our own for a moment
_LONGEST_SESSION = 64  # bytes of the record with which a session begins


def resumed_logger(folder: str | Path, step: int, formats: Sequence[str]) -> Logger:
    """SB3's logger on a folder that may hold the log of the same run already.

    What was logged after ``step``, when training went on and was then lost, is dropped: TensorBoard is told to hide it,
    and lines of CSV and JSON files are taken out, as is a last line that was cut short. A folder without a log is fine.

    Args:
        folder: of the log, made if it is missing.
        step: ``num_timesteps`` of the model that goes on, 0 or more.
        formats: of "stdout", "log", "json", "csv" and "tensorboard"; the files have SB3's names.

    Raises:
        ValueError: for an unknown format or a negative step.

    Example:
        >>> model = SERA.load("agent")
        >>> model.set_logger(resumed_logger("runs/SERA_1", model.num_timesteps, ["tensorboard", "csv"]))
        >>> model.learn(1_000_000, reset_num_timesteps=False)
    """
    if step < 0:
        raise ValueError(f"step={step}; allowed is 0 or more")
    for name in formats:
        if name not in _FORMATS:
            near = did_you_mean(name, _FORMATS)
            raise ValueError(f"formats has {name!r}; allowed are {', '.join(map(repr, _FORMATS))}{near}")
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    return Logger(str(path), [_FORMATS[name](path, step) for name in formats])


def tensorboards(logger: Logger) -> list[TensorBoardOutputFormat]:
    """The outputs of a logger that write for TensorBoard now."""
    outputs = [output for output in logger.output_formats if isinstance(output, TensorBoardOutputFormat)]
    return [] if logger.level == DISABLED else outputs


def flush_boards(logger: Logger) -> None:
    """Wait until all that was logged is in TensorBoard's files."""
    for output in tensorboards(logger):
        output.writer.flush()


def is_on_board(folder: str | Path, tag: str, step: int | None = None) -> bool:
    """Whether the TensorBoard files of a folder hold an event of a tag, at this step if one is given.

    What a later session hides does not count, as TensorBoard does not show it; nor does what is still waiting to be
    written: flush the writer before.
    """
    name = tag.encode()
    found: set[int] = set()
    for path in sorted(Path(folder).glob(_EVENT_FILES)):
        for record in _records(path):
            if name not in record and len(record) > _LONGEST_SESSION:
                continue
            event = Event.FromString(record)
            if event.HasField("session_log") and event.session_log.status == SessionLog.START:
                found = {known for known in found if known < event.step}
            elif any(value.tag == tag for value in event.summary.value):
                found.add(event.step)
    return bool(found) if step is None else step in found


def _records(path: Path) -> Iterator[bytes]:
    """The records of an event file, as long as they are whole: 8 bytes length, 4 checksum, the record, 4 checksum."""
    with path.open("rb") as file:
        while len(head := file.read(12)) == 12:
            length = int.from_bytes(head[:8], "little")
            record = file.read(length + 4)
            if len(record) < length + 4:
                return
            yield record[:length]


class _ResumedTensorBoard(TensorBoardOutputFormat):
    def __init__(self, folder: Path, step: int):
        with _a_later_name(folder):
            # TensorBoard hides what was logged at purge_step and later.
            self.writer = SummaryWriter(log_dir=str(folder), purge_step=step + 1)
        self._is_closed = False
        self._flushed = 0.0

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """SB3's, but with one event for all numbers of a step and fewer flushes: much less time, and smaller files."""
        others, summary = {}, Summary()
        for key, value in key_values.items():
            if not isinstance(value, np.ScalarType) or isinstance(value, str):
                others[key] = value
            elif "tensorboard" not in (key_excluded[key] or ()):
                summary.value.add(tag=key, simple_value=float(value))  # type: ignore[arg-type]
        if summary.value:
            self.writer._get_file_writer().add_summary(summary, step)
        if others or time.monotonic() - self._flushed >= _FLUSH_SECONDS:
            super().write(others, {key: key_excluded[key] for key in others}, step)  # which also flushes
            self._flushed = time.monotonic()


class _ResumedCSV(CSVOutputFormat):
    def __init__(self, folder: Path, step: int):
        path = folder / "progress.csv"
        lines = _whole_lines(path)
        self.keys = _fields(lines[0]) if lines else []
        place = self.keys.index(_STEP) if _STEP in self.keys else None
        kept = lines[:1] + [line for line in lines[1:] if place is None or not _is_later(_fields(line)[place], step)]
        self.file = _rewritten(path, kept)
        self.separator, self.quotechar = ",", '"'


class _ResumedJSON(JSONOutputFormat):
    def __init__(self, folder: Path, step: int):
        path = folder / "progress.json"
        kept = [line for line in _whole_lines(path) if not _is_later(json.loads(line).get(_STEP, ""), step)]
        self.file = _rewritten(path, kept)


class _ResumedText(HumanOutputFormat):
    """Tables for people, which are only added to."""

    def __init__(self, folder: Path, step: int):
        super().__init__((folder / "log.txt").open("a", encoding="utf-8"))
        self.own_file = True


_FORMATS: dict[str, Callable[[Path, int], KVWriter]] = {
    "stdout": lambda folder, step: HumanOutputFormat(sys.stdout),
    "log": _ResumedText,
    "json": _ResumedJSON,
    "csv": _ResumedCSV,
    "tensorboard": _ResumedTensorBoard,
}


@contextmanager
def _a_later_name(folder: Path) -> Iterator[None]:
    """Let a new event file be named later than those that are there, whatever the clock says.

    TensorBoard reads event files in the order of their names, which begin with the second of their making: one of the
    same second, or of a clock that was set back, might come before the file whose end it is to hide.
    """
    least = max((_second(file.name) for file in folder.glob(_EVENT_FILES)), default=0) + 1
    with _naming:
        clock = event_file_writer.time
        event_file_writer.time = SimpleNamespace(time=lambda: max(clock.time(), least))
        try:
            yield
        finally:
            event_file_writer.time = clock


def _second(name: str) -> int:
    part = name.split(".")[3]
    return int(part) if part.isdecimal() else 0


def _whole_lines(path: Path) -> list[str]:
    """The lines of a file that end; none if there is no file."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


def _fields(line: str) -> list[str]:
    return next(csv.reader([line]), [])


def _is_later(value: Any, step: int) -> bool:
    return value != "" and float(value) > step


def _rewritten(path: Path, lines: list[str]) -> Any:
    """Put lines into a file, whole or not at all, and open it at its end."""
    write_text(path, "".join(line + "\n" for line in lines))
    file = path.open("r+", encoding="utf-8")
    file.seek(0, os.SEEK_END)
    return file
