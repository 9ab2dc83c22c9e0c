"""Jobs of a study in processes of one thread each, which end when the study is stopped."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, TypeVar

Result = TypeVar("Result")


def in_workers(
    function: Callable[..., Result], jobs: Sequence[tuple[Any, ...]], processes: int
) -> Iterator[tuple[int, Result]]:
    """Call ``function(*job)`` for every job, in processes; the jobs begin in their order.

    When this process is stopped by Ctrl-C or SIGTERM, or a job fails, jobs that have begun get a KeyboardInterrupt, and
    those that have not are dropped.

    Args:
        function: at the top of a module.
        jobs: arguments, which can be pickled.
        processes: jobs at a time.

    Yields:
        The number of a job and its result, as they are finished.
    """
    if not jobs:
        return
    # Fresh interpreters: torch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(min(processes, len(jobs)), context, initializer=_begin_worker)
    try:
        with _stopped_by_sigterm():
            numbers = {executor.submit(_in_worker, function, *job): number for number, job in enumerate(jobs)}
            for done in as_completed(numbers):
                yield numbers[done], done.result()
    except BaseException:
        for child in multiprocessing.active_children():
            if child.pid is not None:
                os.kill(child.pid, signal.SIGINT)
        raise
    finally:
        executor.shutdown(cancel_futures=True)


_stopped: list[bool] = []  # in a worker: not empty when it takes no more jobs


def _in_worker(function: Callable[..., Result], *job: Any) -> Result:
    if _stopped:  # a job that waited for a worker already cannot be dropped any more
        raise KeyboardInterrupt
    try:
        return function(*job)
    except KeyboardInterrupt:
        _stopped.append(True)
        raise


def _begin_worker() -> None:
    import torch

    if hasattr(os, "setpgrp"):
        os.setpgrp()  # the terminal's Ctrl-C is for the parent, which passes it on
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the parent's shell has it ignored
    torch.set_num_threads(1)


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # others cannot set handlers
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
