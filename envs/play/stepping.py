"""The rules of `MazeEnv` as numba kernels over N environments at once.

The environments are a `State` of arrays, which the kernels change in place. Squares are flat, row * W + column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sera_maze.envs.ground.kernels import kernel
from sera_maze.envs.ground.random_bits import GOLDEN, U32, mix
from sera_maze.envs.layouts.distances import flat_step

# What one call did to an environment.
IDLE, BEGAN, MOVED = range(3)
NO_FAULT = -1


class Mazes(NamedTuple):
    """What the kernels read of a pool of M mazes."""

    walls: NDArray[np.uint8]  # (M, H * W), 1 where there is a wall, else 0
    planes: NDArray[np.uint8]  # (M, H * W), 255 where there is a wall, else 0
    start: NDArray[np.int32]  # (M,) squares
    goal: NDArray[np.int32]  # (M,) squares
    length: NDArray[np.int32]  # (M,) moves on a shortest path


class State(NamedTuple):
    """Where N environments are."""

    prompt: NDArray[np.int64]  # (N,)
    square: NDArray[np.int32]  # (N,) of the agent
    steps: NDArray[np.int32]  # (N,) moves so far
    over: NDArray[np.bool_]  # (N,) whether the episode has ended
    key: NDArray[np.uint64]  # (N,) key of the order of drawn prompts
    drawn: NDArray[np.uint64]  # (N,) prompts drawn so far
    next_assigned: NDArray[np.int64]  # (N,) index of the next assigned prompt
    end_assigned: NDArray[np.int64]  # (N,) index after the last one
    event: NDArray[np.uint8]  # (N,) IDLE, BEGAN or MOVED in the last call
    path: NDArray[np.int32]  # (N, max_steps + 1) squares entered since the start; (N, 0) if paths are not recorded
    path_length: NDArray[np.int32]  # (N,)


def empty_state(num_envs: int, path_squares: int) -> State:
    """The state before the first reset; ``path_squares`` is 0 or max_steps + 1."""
    integers, small = np.zeros((4, num_envs), np.int64), np.zeros((3, num_envs), np.int32)
    return State(
        prompt=integers[0],
        square=small[0],
        steps=small[1],
        over=np.ones(num_envs, bool),
        key=np.zeros(num_envs, np.uint64),
        drawn=np.zeros(num_envs, np.uint64),
        next_assigned=integers[1],
        end_assigned=integers[2],
        event=np.zeros(num_envs, np.uint8),
        path=np.zeros((num_envs, path_squares), np.int32),
        path_length=small[2],
    )


@kernel
def begin(state, mazes, assigned, chosen, mask):  # type: ignore[no-untyped-def]
    """Start an episode in the environments of ``mask`` (N,) bool; the others become IDLE.

    The prompt is ``chosen[n]`` (N,) int64 if not negative, else the next of ``assigned`` (flat int64), else drawn.
    """
    # Arrays are taken out of their tuples once: numba would count references to them in every turn of the loop.
    state_prompt, square, steps, over, event = state.prompt, state.square, state.steps, state.over, state.event
    key, drawn, next_assigned, end_assigned = state.key, state.drawn, state.next_assigned, state.end_assigned
    path, path_length, start, num_mazes = state.path, state.path_length, mazes.start, np.uint64(mazes.start.size)
    for n in range(mask.size):
        event[n] = IDLE
        if not mask[n]:
            continue
        prompt = chosen[n]
        if prompt < 0 and next_assigned[n] < end_assigned[n]:
            prompt = assigned[next_assigned[n]]
            next_assigned[n] += 1
        elif prompt < 0:
            prompt = np.int64(((mix(key[n] + drawn[n] * GOLDEN) >> U32) * num_mazes) >> U32)
            drawn[n] += np.uint64(1)
        state_prompt[n] = prompt
        square[n] = start[prompt]
        steps[n] = 0
        over[n] = False
        event[n] = BEGAN
        if path.shape[1]:
            path[n, 0] = square[n]
            path_length[n] = 1


@kernel
def first_bad_action(actions):  # type: ignore[no-untyped-def]
    """Index of the first of ``actions`` (N,) int64 outside 0..3, or -1."""
    bad = 0
    for action in actions:
        bad |= action & ~3
    if bad:
        for n in range(actions.size):
            if actions[n] & ~3:
                return n
    return NO_FAULT


@kernel
def first_over(over):  # type: ignore[no-untyped-def]
    """Index of the first environment whose episode has ended, or -1."""
    for n in range(over.size):
        if over[n]:
            return n
    return NO_FAULT


@kernel
def advance(state, mazes, actions, fail_on_wall, max_steps, width, rewards, terminated, truncated):  # type: ignore
    """Move the agents of the IDLE environments, which become MOVED; return how many episodes ended.

    Args:
        state: changed in place.
        mazes: the pool.
        actions: (N,) int64, 0 to 3.
        fail_on_wall: 1 if a move into a wall ends the episode, 0 if it leaves the agent where it is.
        max_steps: the horizon.
        width: W.
        rewards: (N,) float64, written.
        terminated: (N,) bool, written.
        truncated: (N,) bool, written.
    """
    ended = 0
    prompt, square, steps, over, event = state.prompt, state.square, state.steps, state.over, state.event
    path, path_length, walls, goal = state.path, state.path_length, mazes.walls, mazes.goal
    for n in range(actions.size):
        rewards[n], terminated[n], truncated[n] = 0.0, False, False
        if event[n] != IDLE:
            continue
        event[n] = MOVED
        steps[n] += 1
        step = flat_step(actions[n], width)
        hit = np.int64(walls[prompt[n], square[n] + step] != 0)
        square[n] += step * (1 - hit)
        if path.shape[1]:
            path[n, path_length[n]] = square[n]
            path_length[n] += 1 - hit
        success = np.int64(square[n] == goal[prompt[n]])
        failed = hit & fail_on_wall
        late = np.int64(steps[n] >= max_steps) & (1 - (success | failed))
        rewards[n] = success
        terminated[n] = success | failed
        truncated[n] = late
        over[n] = success | failed | late
        ended += success | failed | late
    return ended


@kernel
def fill_info(state, mazes, width, prompt, position, length, steps):  # type: ignore[no-untyped-def]
    """Copy the state into info arrays: prompt (N,), position (N, 2), shortest length (N,), steps (N,), all int64."""
    prompts, squares, moves, lengths = state.prompt, state.square, state.steps, mazes.length
    for n in range(prompt.size):
        prompt[n] = prompts[n]
        square = np.uint32(squares[n])
        row = square // np.uint32(width)
        position[n, 0], position[n, 1] = row, square - row * np.uint32(width)
        length[n] = lengths[prompts[n]]
        steps[n] = moves[n]
