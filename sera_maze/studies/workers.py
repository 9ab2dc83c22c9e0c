"""Jobs of a study in processes of one thread each, which end when the study is stopped, or its process dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

Submit = Callable[..., Future[Any]]
Result = TypeVar("Result")
_SECONDS_TO_SAVE = 30.0


def in_workers(
    function: Callable[..., Result], jobs: Sequence[tuple[Any, ...]], processes: int
) -> Iterator[tuple[int, Result]]:
    """Call ``function(*job)`` for every job; the jobs begin in their order.

    Args:
        function: at the top of a module.
        jobs: arguments, which can be pickled.
        processes: see `workers`.

    Yields:
        The number of a job and its result, as they are finished.
    """
    if not jobs:
        return
    with workers(min(processes, len(jobs))) as submit:
        if processes == 1 or len(jobs) == 1:
            for number, job in enumerate(jobs):
                yield number, submit(function, *job).result()
            return
        numbers = {submit(function, *job): number for number, job in enumerate(jobs)}
        for done in as_completed(numbers):
            yield numbers[done], done.result()


@contextmanager
def workers(processes: int) -> Iterator[Submit]:
    """Start processes; what is given is called with a function and its arguments, and returns a `Future`.

    When the block is left by an exception, such as Ctrl-C or SIGTERM, jobs that have begun get a KeyboardInterrupt, and
    those that have not are dropped.

    Raises:
        ValueError: if a process was ended from outside.

    Args:
        processes: jobs at a time; for 1 there are no processes, and the functions run here, at once.
    """
    if processes == 1:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with _sigterm_is_an_interrupt():
                yield _called_here
        finally:
            torch.set_num_threads(threads)
        return
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    stop = context.Event()
    executor = ProcessPoolExecutor(processes, context, initializer=_begin_worker, initargs=(stop,))

    def submit(function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        with _interrupts_blocked():
            return executor.submit(_in_worker, function, *arguments)

    try:
        with _sigterm_is_an_interrupt():
            # The pool looks after processes that there are when a job ends: so it knows all of them from here on.
            wait([submit(_do_nothing) for _ in range(processes)])
            yield submit
    except BrokenProcessPool:
        raise ValueError(
            "a worker process was ended from outside, perhaps for want of memory; run it again, with fewer processes: "
            "what is finished is kept"
        ) from None
    except BaseException:
        stop.set()
        for child in set(multiprocessing.active_children()) - others:
            assert child.pid is not None
            os.kill(child.pid, signal.SIGINT)
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def _called_here(function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(function(*arguments))
    return future


def _do_nothing() -> None:
    pass


_stop: list[Any] = []  # in a worker: the event that tells it to take no more jobs
_at_work = threading.Event()  # in a worker: whether a job is being done


def _in_worker(function: Callable[..., Result], /, *arguments: Any) -> Result:
    # Between jobs Ctrl-C is ignored, so that a worker that waits for one ends in order.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _at_work.set()
    try:
        if _stop[0].is_set():  # a job that waited at this worker could not be dropped any more
            raise KeyboardInterrupt
        return function(*arguments)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _at_work.clear()


def _begin_worker(stop: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # the terminal's Ctrl-C is for the parent, which passes it on
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _stop.append(stop)
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    _stop[0].set()
    if _at_work.is_set():
        os.kill(os.getpid(), signal.SIGINT)  # so that a training saves
    deadline = time.monotonic() + _SECONDS_TO_SAVE
    while _at_work.is_set() and time.monotonic() < deadline:
        time.sleep(0.05)
    os._exit(1)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Hold Ctrl-C back, here and in processes that are started meanwhile: it reaches them too, while they import."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _sigterm_is_an_interrupt() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # others cannot set handlers
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
