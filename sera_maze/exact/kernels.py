"""The Markov chain of a memoryless policy in a maze, on the CPU: numba kernels over the open squares.

Squares are flat, row * W + column; inside a kernel the n open squares of a maze are numbered 0 to n - 1. The occupancy
d_0 lies on the start, and each step pushes d_t through the policy; what reaches the goal is counted and moves no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.ground.kernels import kernel, kernel_part
from sera_maze.envs.layouts.moves import flat_steps

# Mazes in one kernel call: enough to make the call's cost vanish, few enough for threads to share the work evenly.
_CHUNK = 32
# Above this many bytes of occupancies a thread keeps only every sqrt(horizon)-th and computes the others twice.
_MAX_HISTORY_BYTES = 2**25


def occupancy(
    log_probs: NDArray[np.floating],
    walls: NDArray[np.bool_],
    start: NDArray[np.int64],
    goal: NDArray[np.int64],
    horizon: int,
    stay: bool,
    num_threads: int = 1,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Push the occupancy of M mazes through the policy, ``horizon`` times.

    Args:
        log_probs: (M, H, W, 4) log-probabilities of UP, DOWN, LEFT, RIGHT; ignored in walls and on the goal.
        walls: (M, H, W) bool; the border must be wall.
        start: (M, 2), (row, column).
        goal: (M, 2), (row, column).
        horizon: number of moves T, at least 1.
        stay: whether a move into a wall leaves the agent where it is; else it ends the episode.
        num_threads: threads that share the mazes; no maze's result depends on it.

    Returns:
        visits (M, H, W) float64, sum over t = 0 to T of d_t, so that the success probability stands at the goal; and
        unfinished (M,) float64, the probability that the episode still runs after T moves.
    """
    count, height, width = walls.shape
    squares, starts, goals, steps = _flat(walls, start, goal)
    visits = np.zeros((count, height * width))
    unfinished = np.empty(count)

    def fill(part: slice) -> None:
        table = np.array(log_probs[part].reshape(-1, height * width, 4), np.float64, order="C")
        _fill_visits(
            table, squares[part], starts[part], goals[part], steps, horizon, stay, visits[part], unfinished[part]
        )

    _in_threads(fill, count, num_threads)
    return visits.reshape(walls.shape), unfinished


def gradient(
    log_probs: NDArray[np.floating],
    walls: NDArray[np.bool_],
    start: NDArray[np.int64],
    goal: NDArray[np.int64],
    horizon: int,
    stay: bool,
    scale: NDArray[np.float64],
    num_threads: int = 1,
) -> NDArray[np.float64]:
    """Gradient of sum over m of scale[m] * p[m] with respect to ``log_probs``, with p the success probabilities.

    Formula: dp / dlog pi(a|s) = pi(a|s) * sum over t of d_t(s) * V_{T-t-1}(s'), where s' is the square that a leads to
    from s and V_k(s) is the success probability from s within k moves.

    Args:
        log_probs: as in `occupancy`.
        walls: as in `occupancy`.
        start: as in `occupancy`.
        goal: as in `occupancy`.
        horizon: as in `occupancy`.
        stay: as in `occupancy`.
        scale: (M,) float64. It multiplies V before d does, so that 1 / p as scale keeps tiny p from underflowing.
        num_threads: as in `occupancy`.

    Returns:
        (M, H, W, 4) float64; 0 in walls and on the goal.
    """
    count, height, width = walls.shape
    squares, starts, goals, steps = _flat(walls, start, goal)
    scales = np.array(scale, np.float64, order="C")
    result = np.zeros((count, height * width, 4))
    most_open = height * width - int(squares.sum(1).min(initial=height * width))
    whole = horizon * most_open * np.dtype(np.float64).itemsize <= _MAX_HISTORY_BYTES
    segment = horizon if whole else math.isqrt(horizon - 1) + 1

    def fill(part: slice) -> None:
        table = np.array(log_probs[part].reshape(-1, height * width, 4), np.float64, order="C")
        _fill_gradient(
            table, squares[part], starts[part], goals[part], steps, horizon, stay, scales[part], segment, most_open,
            result[part],
        )  # fmt: skip

    _in_threads(fill, count, num_threads)
    return result.reshape(count, height, width, 4)


def _flat(walls: NDArray[np.bool_], start: NDArray[np.int64], goal: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    """Walls (M, H * W) uint8, flat starts and goals (M,) int64, and the flat step of each action (4,) int64."""
    count, height, width = walls.shape
    squares = np.array(walls, bool, order="C").view(np.uint8).reshape(count, height * width)
    return squares, start @ (width, 1), goal @ (width, 1), np.array(flat_steps(width))


def _in_threads(fill: Callable[[slice], None], count: int, num_threads: int) -> None:
    parts = [slice(low, low + _CHUNK) for low in range(0, count, _CHUNK)]
    if num_threads < 2 or len(parts) < 2:
        for part in parts:
            fill(part)
    else:
        with ThreadPoolExecutor(min(num_threads, len(parts))) as pool:
            list(pool.map(fill, parts))


@kernel
def _fill_visits(log_probs, walls, starts, goals, steps, horizon, stay, visits, unfinished):  # type: ignore[no-untyped-def]
    size = walls.shape[1]
    number, square = np.empty(size, np.int32), np.empty(size, np.int32)
    target, source = np.empty((size, 4), np.int32), np.empty((size, 4), np.int32)
    outflow, inflow = np.empty((size, 4)), np.empty((size, 4))
    occupied, total = np.empty((2, size)), np.empty(size)
    for m in range(walls.shape[0]):
        n = _link(log_probs[m], walls[m], goals[m], steps, stay, number, square, target, outflow, source, inflow)
        occupied[0, :n] = 0.0
        occupied[0, number[starts[m]]] = 1.0
        total[:n] = occupied[0, :n]
        for t in range(horizon):
            now = occupied[(t + 1) % 2]
            _push(occupied[t % 2], now, n, source, inflow)
            for s in range(n):
                total[s] += now[s]
        occupied[horizon % 2, number[goals[m]]] = 0.0
        unfinished[m] = occupied[horizon % 2, :n].sum()
        for s in range(n):
            visits[m, square[s]] = total[s]


@kernel
def _fill_gradient(log_probs, walls, starts, goals, steps, horizon, stay, scale, segment, most_open, result):  # type: ignore[no-untyped-def]
    """Occupancies forward in time, kept at the start of each segment; then segment by segment back, with the values."""
    size, num_segments = walls.shape[1], (horizon + segment - 1) // segment
    number, square = np.empty(size, np.int32), np.empty(size, np.int32)
    target, source = np.empty((size, 4), np.int32), np.empty((size, 4), np.int32)
    outflow, inflow = np.empty((size, 4)), np.empty((size, 4))
    first, occupied = np.empty((num_segments, most_open)), np.empty((segment, most_open))
    value, total = np.empty((2, most_open)), np.empty((most_open, 4))
    for m in range(walls.shape[0]):
        n = _link(log_probs[m], walls[m], goals[m], steps, stay, number, square, target, outflow, source, inflow)
        goal = number[goals[m]]
        first[0, :n] = 0.0
        first[0, number[starts[m]]] = 1.0
        for k in range(1, num_segments):
            occupied[0, :n] = first[k - 1, :n]
            for t in range(1, segment):
                _push(occupied[t - 1], occupied[t], n, source, inflow)
            _push(occupied[segment - 1], first[k], n, source, inflow)
        total[:n] = 0.0
        value[:, :n] = 0.0
        value[:, goal] = scale[m]
        moves_left = 0
        for k in range(num_segments - 1, -1, -1):
            length = min(segment, horizon - k * segment)
            occupied[0, :n] = first[k, :n]
            for t in range(1, length):
                _push(occupied[t - 1], occupied[t], n, source, inflow)
            for t in range(length - 1, -1, -1):
                now = value[(moves_left + 1) % 2]
                _pull(value[moves_left % 2], now, occupied[t], total, n, target, outflow)
                now[goal] = scale[m]
                moves_left += 1
        for s in range(n):
            for a in range(4):
                result[m, square[s], a] = total[s, a]


@kernel_part
def _link(log_probs, walls, goal, steps, stay, number, square, target, outflow, source, inflow):  # type: ignore[no-untyped-def]
    """Number the open squares of a maze and list their moves; return how many there are.

    Args:
        log_probs: (H * W, 4).
        walls: (H * W,) uint8.
        goal: flat square.
        steps: (4,) flat step of each action.
        stay: whether a move into a wall leaves the agent where it is.
        number: (H * W,) int32, written: number of each open square, -1 in walls.
        square: (H * W,) int32, written: flat square of each number.
        target: (n, 4) int32, written: where each action leads.
        outflow: (n, 4), written: its probability; 0 on the goal and, unless ``stay``, into walls.
        source: (n, 4) int32, written: from where moves come in.
        inflow: (n, 4), written: their probability.
    """
    n = 0
    for i in range(walls.size):
        number[i] = -1
        if walls[i] == 0:
            number[i], square[n] = n, i
            n += 1
    for s in range(n):
        for a in range(4):
            to = number[square[s] + steps[a]]
            target[s, a] = s if to < 0 else to
            moves = square[s] != goal and (to >= 0 or stay)
            outflow[s, a] = math.exp(log_probs[square[s], a]) if moves else 0.0
    for s in range(n):
        for a in range(4):
            # Action a comes in from the square behind. If that is a wall, nothing does, and the place is free for the
            # move into this wall, which stays here: by the opposite action, since actions 0, 1 and 2, 3 are opposites.
            origin = number[square[s] - steps[a]]
            source[s, a] = s if origin < 0 else origin
            inflow[s, a] = outflow[s, a ^ 1] if origin < 0 else outflow[origin, a]
    return n


@kernel_part
def _push(old, new, n, source, inflow):  # type: ignore[no-untyped-def]
    """One step of the occupancy, from old (n,) to new (n,)."""
    for s in range(n):
        vertical = inflow[s, 0] * old[source[s, 0]] + inflow[s, 1] * old[source[s, 1]]
        horizontal = inflow[s, 2] * old[source[s, 2]] + inflow[s, 3] * old[source[s, 3]]
        new[s] = vertical + horizontal


@kernel_part
def _pull(old, new, occupied, total, n, target, outflow):  # type: ignore[no-untyped-def]
    """One step of the values, from old (n,) to new (n,), with its share of the gradient added to total (n, 4)."""
    for s in range(n):
        up, down = outflow[s, 0] * old[target[s, 0]], outflow[s, 1] * old[target[s, 1]]
        left, right = outflow[s, 2] * old[target[s, 2]], outflow[s, 3] * old[target[s, 3]]
        total[s, 0] += occupied[s] * up
        total[s, 1] += occupied[s] * down
        total[s, 2] += occupied[s] * left
        total[s, 3] += occupied[s] * right
        new[s] = (up + down) + (left + right)
