"""Mazes and answers as tokens, in the vocabulary of the papers, and the verifier of answers.

A prompt is ``<bos> GRID_START``, the squares of each row (``WALL``, ``PATH``, ``START``, ``GOAL``) with ``NEWLINE``
behind every row, then ``GRID_END PATH_START``. An answer is the moves, then ``DONE <eos>``. As text, tokens are
separated by single spaces. Token positions count from 0.

References:
    arXiv 2602.02710 (MaxRL): maze navigation as a token task, its vocabulary and its success rule.
    arXiv 2609.36552 (SERA): the same task.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.layouts.moves import ACTION_NAMES, ACTION_STEPS
from sera_maze.envs.layouts.token_grid import (
    TOKENS,
    VOCABULARY,
    Tokens,
    encode_prompts,
    ids_to_text,
    integers,
    prompt_length,
    text_to_ids,
    words_of,
)

__all__ = [
    "TOKENS",
    "VOCABULARY",
    "answer_text",
    "decode_answer",
    "decode_prompt",
    "encode_answer",
    "encode_prompt",
    "encode_prompts",
    "ids_to_text",
    "path_to_actions",
    "prompt_length",
    "prompt_text",
    "text_to_ids",
    "verify",
]


def encode_prompt(layout: MazeLayout) -> NDArray[np.int64]:
    """Write the prompt of one maze as (H * (W + 1) + 4,) int64 token ids; see `MazeLayout.to_tokens`."""
    return layout.to_tokens()


def decode_prompt(prompt: Tokens) -> MazeLayout:
    """Read the maze of a prompt, text or token ids; see `MazeLayout.from_tokens`."""
    return MazeLayout.from_tokens(prompt)


def prompt_text(layout: MazeLayout) -> str:
    """Write the prompt of one maze as text: ``<bos> GRID_START WALL ... NEWLINE ... GRID_END PATH_START``."""
    return ids_to_text(encode_prompt(layout))


def encode_answer(actions: Iterable[int], *, eos: bool = True) -> NDArray[np.int64]:
    """Write actions as an answer: one token a move, then ``DONE`` and, with ``eos``, ``<eos>``.

    Args:
        actions: integers, 0 UP, 1 DOWN, 2 LEFT, 3 RIGHT.
        eos: whether ``<eos>`` follows ``DONE``.

    Returns:
        (L + 1,) or (L + 2,) int64 token ids, where L is the number of actions.

    Raises:
        TypeError: for actions that are not integers.
        ValueError: for another number, naming its position.
    """
    moves = integers("actions", actions)
    for position, action in enumerate(moves):
        if not 0 <= action < len(ACTION_NAMES):
            raise ValueError(f"actions[{position}]={action}; allowed are 0 UP, 1 DOWN, 2 LEFT, 3 RIGHT")
    ends = (VOCABULARY["DONE"], VOCABULARY["<eos>"])[: 2 if eos else 1]
    return np.array([*(VOCABULARY["UP"] + action for action in moves), *ends], np.int64)


def answer_text(actions: Iterable[int], *, eos: bool = True) -> str:
    """Write actions as the text of an answer, ``RIGHT DOWN DONE <eos>``; see `encode_answer`."""
    return ids_to_text(encode_answer(actions, eos=eos))


def decode_answer(answer: Tokens) -> tuple[int, ...]:
    """Read the actions of an answer: the moves before the first ``DONE``; what follows it is ignored.

    Args:
        answer: text, or token ids (any iterable of integers), without its prompt.

    Returns:
        The actions, 0 UP, 1 DOWN, 2 LEFT, 3 RIGHT.

    Raises:
        ValueError: without ``DONE``, or for another token than a move before it.
        TypeError: if ``answer`` is neither text nor integers.
    """
    words = words_of("answer", answer)
    if "DONE" not in words:
        raise ValueError(f"answer has no DONE in its {len(words)} tokens; allowed are moves, then DONE")
    moves = words[: words.index("DONE")]
    for position, word in enumerate(moves):
        if word not in ACTION_NAMES:
            raise ValueError(
                f"answer token {position} (counted from 0) is {word!r}; "
                f"allowed before DONE are {', '.join(ACTION_NAMES)}"
            )
    return tuple(ACTION_NAMES.index(word) for word in moves)


def verify(layout: MazeLayout, answer: Tokens) -> bool:
    """Whether an answer solves a maze, by the papers' rule.

    It does if ``DONE`` occurs, all tokens before the first ``DONE`` are moves, and walking them from the start reaches
    the goal without touching a wall before that. Moves after the goal and whatever follows ``DONE`` are ignored.

    Args:
        layout: the maze.
        answer: text, or token ids (any iterable of integers), without its prompt. A malformed answer is wrong, not an
            error.

    Raises:
        TypeError: if ``layout`` is not a MazeLayout, or ``answer`` is neither text nor integers.

    References:
        arXiv 2602.02710 (MaxRL): the success rule of the maze task.
    """
    if not isinstance(layout, MazeLayout):
        raise TypeError(f"layout is a {type(layout).__name__}; allowed is a MazeLayout, as decode_prompt gives")
    try:
        actions = decode_answer(answer)
    except ValueError:
        return False
    row, column = layout.start
    for action in actions:
        down, right = ACTION_STEPS[action]
        row, column = row + down, column + right
        if (row, column) == layout.goal:
            return True
        if layout.walls[row, column]:
            return False
    return False


def path_to_actions(path: ArrayLike) -> NDArray[np.int64]:
    """Read the actions off a path.

    Args:
        path: (L + 1, 2) integer cells (row, column), each one move from the one before it.

    Returns:
        (L,) int64 actions, 0 UP, 1 DOWN, 2 LEFT, 3 RIGHT.

    Raises:
        TypeError: if the cells are not integers.
        ValueError: for another shape, or a step that is not a single move, naming the step.
    """
    cells = np.asarray(path)
    if cells.ndim != 2 or cells.shape[1] != 2 or not len(cells):
        raise ValueError(f"path has shape {cells.shape}; allowed is (cells, 2) with at least one cell (row, column)")
    if not np.issubdtype(cells.dtype, np.integer):
        raise TypeError(f"path has dtype {cells.dtype}; allowed are integer cells (row, column)")
    steps = np.diff(cells.astype(np.int64), axis=0)
    is_action = (steps[:, None] == np.array(ACTION_STEPS)).all(axis=2)  # (L, 4)
    jumps = np.flatnonzero(~is_action.any(axis=1))
    if len(jumps):
        step = int(jumps[0])
        before, after = cells[step].tolist(), cells[step + 1].tolist()
        raise ValueError(
            f"path step {step} (counted from 0) goes from cell {before} to {after}; "
            "allowed is one square up, down, left or right"
        )
    return is_action.argmax(axis=1).astype(np.int64)
