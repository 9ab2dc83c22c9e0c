"""The counter-based random numbers of mazes and of the order of prompts, for numba kernels and plain Python.

A stream is one 64-bit state that advances by a constant and is mixed on the way out (SplitMix64: Steele, Lea and
Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). A stream's key is mixed from a seed and a
counter, so maze ``i`` of a seed never depends on which other mazes are made, on threads or on processes.
"""

from __future__ import annotations

import numpy as np

from sera_maze.envs.ground.kernels import kernel_part

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB

GOLDEN = np.uint64(_GOLDEN)
_U_MIX_1, _U_MIX_2 = np.uint64(_MIX_1), np.uint64(_MIX_2)
_U27, _U30, _U31, U32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
LOW_32 = np.uint64(0xFFFFFFFF)


@kernel_part
def mix(value):  # type: ignore[no-untyped-def]
    """SplitMix64's output function, uint64 to uint64."""
    value = (value ^ (value >> _U30)) * _U_MIX_1
    value = (value ^ (value >> _U27)) * _U_MIX_2
    return value ^ (value >> _U31)


@kernel_part
def stream(seed, counter):  # type: ignore[no-untyped-def]
    """Start of the stream of (seed, counter), both uint64."""
    return mix(mix(seed + GOLDEN) ^ mix(counter * GOLDEN + _U_MIX_1))


@kernel_part
def bounded(state, bits, bound):  # type: ignore[no-untyped-def]
    """An exactly uniform integer below ``bound`` (under 2**32) from 32 random ``bits``, and the state after it.

    Multiply and shift, with rejection of the few values that would favour some results (Lemire, "Fast random integer
    generation in an interval", ACM TOMACS 2019). ``state`` only advances when a value is rejected.
    """
    bound = np.uint64(bound)
    product = (bits & LOW_32) * bound
    if (product & LOW_32) < bound:
        threshold = (LOW_32 + np.uint64(1) - bound) % bound
        while (product & LOW_32) < threshold:
            state += GOLDEN
            product = (mix(state) & LOW_32) * bound
    return np.intp(product >> U32), state


@kernel_part
def draw(state, bound):  # type: ignore[no-untyped-def]
    """The stream's next integer below ``bound``, and the state after it."""
    state += GOLDEN
    return bounded(state, mix(state), bound)


def prompt_key(seed: int) -> int:
    """Key of the order in which an environment seeded with ``seed`` visits its prompts; any non-negative int."""
    key, high = _mix((seed & _MASK) ^ _MIX_2), seed >> 64
    while high:
        key, high = _mix(key ^ _mix((high + _GOLDEN) & _MASK)), high >> 64
    return key


def nth_prompt(key: int, episode: int, num_prompts: int) -> int:
    """The prompt of an unassigned episode: uniform over the prompts up to 2**-32, by key and episode number alone."""
    return ((_mix((key + episode * _GOLDEN) & _MASK) >> 32) * num_prompts) >> 32


def _mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * _MIX_1) & _MASK
    value = ((value ^ (value >> 27)) * _MIX_2) & _MASK
    return value ^ (value >> 31)
