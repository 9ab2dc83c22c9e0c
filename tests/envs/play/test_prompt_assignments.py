"""One prompt, and the queue of assigned ones."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sera_maze.envs.play.prompt_queue import PromptAssignments, check_prompt


class TestCheckPrompt:
    @pytest.mark.parametrize("prompt", [2, np.int64(2), np.uint8(2), np.array(2)])
    def test_integers(self, prompt: Any):
        result = check_prompt(prompt, 3)
        assert result == 2
        assert type(result) is int

    @pytest.mark.parametrize("prompt", [3, -1, 10**30])
    def test_out_of_range(self, prompt: int):
        with pytest.raises(ValueError, match=rf"prompt={prompt} is out of range; allowed are the integers 0 to 2"):
            check_prompt(prompt, 3)

    @pytest.mark.parametrize("prompt", [True, np.True_, 1.0, np.float32(1), "1", None, [1], np.array([1, 2])])
    def test_wrong_type(self, prompt: Any):
        with pytest.raises(TypeError, match=r"prompt=.* is a .*; allowed are the integers 0 to 2"):
            check_prompt(prompt, 3)


class TestPromptAssignments:
    @pytest.mark.parametrize("kind", [list, tuple, iter, np.array, lambda prompts: (p for p in prompts)])
    def test_taken_in_order(self, kind: Callable[[list[int]], Any]):
        assignments = PromptAssignments(5)
        assignments.assign(kind([4, 4, 0]))
        assert len(assignments) == 3
        taken = [assignments.take() for _ in range(4)]
        assert taken == [4, 4, 0, None]
        assert all(type(prompt) is int for prompt in taken[:3])
        assert len(assignments) == 0

    def test_replaces_what_is_left(self):
        assignments = PromptAssignments(5)
        assignments.assign([1, 2, 3])
        assert assignments.take() == 1
        assignments.assign([4])
        assert [assignments.take(), assignments.take()] == [4, None]

    def test_empty_clears(self):
        assignments = PromptAssignments(5)
        assignments.assign([1, 2])
        assignments.assign([])
        assert (len(assignments), assignments.take()) == (0, None)

    @pytest.mark.parametrize(
        ("prompts", "error", "message"),
        [
            ([0, 1, 5], ValueError, r"prompts\[2\]=5 is out of range; allowed are the integers 0 to 4"),
            ([0, -1], ValueError, r"prompts\[1\]=-1 is out of range"),
            ([0, 1.0], TypeError, r"prompts\[1\]=1.0 is a float"),
            ([True], TypeError, r"prompts\[0\]=True is a bool"),
            (np.array([1.0]), TypeError, r"prompts\[0\]=1.0 is a float"),
            (np.array([True]), TypeError, r"prompts\[0\]=True is a bool"),
            (np.array([[1, 2]]), TypeError, r"prompts\[0\]=\[1, 2\] is a list"),
            ([None], TypeError, r"prompts\[0\]=None"),
            (3, TypeError, "prompts=3 is a int; allowed is an iterable of integers"),
            (np.array(3), TypeError, "prompts=.* allowed is an iterable of integers"),
            (None, TypeError, "prompts=None is a NoneType"),
            ("12", TypeError, "prompts='12' is a str"),
        ],
    )
    def test_a_fault_changes_nothing(self, prompts: Any, error: type[Exception], message: str):
        assignments = PromptAssignments(5)
        assignments.assign([3, 2])
        with pytest.raises(error, match=message):
            assignments.assign(prompts)
        assert [assignments.take(), assignments.take(), assignments.take()] == [3, 2, None]

    @pytest.mark.parametrize(
        ("num_prompts", "error"), [(0, ValueError), (-2, ValueError), (2.0, TypeError), (True, TypeError)]
    )
    def test_num_prompts(self, num_prompts: Any, error: type[Exception]):
        with pytest.raises(error, match=f"num_prompts={num_prompts}"):
            PromptAssignments(num_prompts)

    def test_pickles(self):
        assignments = PromptAssignments(5)
        assignments.assign([3, 2])
        again = pickle.loads(pickle.dumps(assignments))
        assert (again.num_prompts, again.take(), again.take(), again.take()) == (5, 3, 2, None)
