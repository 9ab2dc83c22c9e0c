"""`PromptQueue`: a wrapper that makes any Gymnasium env promptable, and the queue of assigned prompts behind it."""

from __future__ import annotations

import copy
import hashlib
import json
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, SupportsFloat, SupportsIndex, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.core import ActType, ObsType
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs

from sera_maze.envs.ground.checks import as_integer, as_options, shown
from sera_maze.envs.ground.random_bits import nth_prompt, prompt_key
from sera_maze.envs.play.noted_options import NotedOptions

Prompt: TypeAlias = int | Mapping[str, Any] | Sequence[Any]

# Sets the stream of drawn prompts apart from the env's own, which may start from the same seed.
_PROMPT_STREAM = 0x50524F4D


def check_prompt(prompt: SupportsIndex, num_prompts: int, name: str = "prompt") -> int:
    """Return ``prompt`` as a Python int.

    Args:
        prompt: an integer of any kind, 0 <= prompt < num_prompts.
        num_prompts: how many prompts there are.
        name: how the error calls the value.

    Raises:
        TypeError: if it is not an integer; booleans and floats are none.
        ValueError: if it lies outside.
    """
    number = as_integer(prompt)
    allowed = f"allowed are the integers 0 to {num_prompts - 1}, as there are {num_prompts} prompts"
    if number is None:
        raise TypeError(f"{name}={prompt!r} is a {type(prompt).__name__}; {allowed}")
    if not 0 <= number < num_prompts:
        raise ValueError(f"{name}={number} is out of range; {allowed}")
    return number


class PromptAssignments:
    """The prompts that an env still has to play, in their order.

    Args:
        num_prompts: how many prompts there are, at least 1.

    Raises:
        TypeError: if ``num_prompts`` is not an integer.
        ValueError: if it is below 1.
    """

    def __init__(self, num_prompts: int):
        number = as_integer(num_prompts)
        if number is None:
            raise TypeError(f"num_prompts={num_prompts!r} is a {type(num_prompts).__name__}; allowed is an integer")
        if number < 1:
            raise ValueError(f"num_prompts={number}; allowed is at least 1")
        self.num_prompts = number
        self._left: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._left)

    def assign(self, prompts: Iterable[int]) -> None:
        """Replace what is left of an earlier assignment. If an error is raised, nothing changes.

        Args:
            prompts: integers 0 to num_prompts - 1, in the order in which they are to be played; an empty one clears.

        Raises:
            TypeError: if ``prompts`` is no list, array or other iterable of integers.
            ValueError: for a prompt out of range, naming its position.
        """
        items = prompts.tolist() if isinstance(prompts, np.ndarray) else prompts
        if isinstance(items, str | bytes) or not isinstance(items, Iterable):
            raise TypeError(
                f"prompts={prompts!r} is a {type(prompts).__name__}; allowed is an iterable of integers, as [3, 3, 5]"
            )
        self._left = deque(check_prompt(prompt, self.num_prompts, f"prompts[{i}]") for i, prompt in enumerate(items))

    def take(self) -> int | None:
        """Remove the next prompt and return it; None if none is left."""
        return self._left.popleft() if self._left else None


class PromptSource(PromptAssignments):
    """The prompts that an env plays: those that were assigned, and where none is left, drawn ones.

    The n-th drawn prompt since a seed depends on the seed and n alone.

    Args:
        num_prompts: as in `PromptAssignments`.
    """

    def __init__(self, num_prompts: int):
        super().__init__(num_prompts)
        self._key: int | None = None
        self._drawn = 0

    def seed(self, seed: int) -> None:
        """Begin the drawn prompts of a seed, at least 0."""
        self._key, self._drawn = prompt_key(seed), 0

    def next(self, generator: Callable[[], np.random.Generator]) -> int:
        """The prompt of the next episode; without a seed so far, one is taken from ``generator()``."""
        assigned = self.take()
        if assigned is not None:
            return assigned
        if self._key is None:
            self._key = int(generator().integers(2**63))
        prompt = nth_prompt(self._key, self._drawn, self.num_prompts)
        self._drawn += 1
        return prompt


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished episode, as a success rule sees it.

    Attributes:
        prompt: its prompt.
        steps: number of steps.
        total_reward: sum of the rewards, not discounted.
        terminated: whether the env ended it.
        truncated: whether a limit cut it off.
        info: the last info.
    """

    prompt: int
    steps: int
    total_reward: float
    terminated: bool
    truncated: bool
    info: Mapping[str, Any]


@dataclass(frozen=True)
class QueuedPrompts:
    """The prompts of a `PromptQueue`: reset seeds, reset options, or both.

    Attributes:
        entries: one for each prompt.
    """

    entries: range | list[tuple[int | None, dict[str, Any]]]

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def digest(self) -> str | None:
        """The same for the same prompts; None if one is not what JSON can hold."""
        seeds = _as_range(self.entries)
        try:
            listed = json.dumps(self.entries) if seeds is None else repr(seeds)
        except (TypeError, ValueError):
            return None
        return hashlib.sha256(listed.encode()).hexdigest()

    def describe(self, index: int) -> str:
        """The prompt's number, seed and options."""
        entry = self.entries[index]
        seed, options = (entry, {}) if isinstance(entry, int) else entry
        parts = [f"prompt {index}", *([] if seed is None else [f"seed {seed}"]), *([shown(options)] if options else [])]
        return ", ".join(parts)


class PromptQueue(gym.Wrapper[ObsType, ActType, ObsType, ActType], RecordConstructorArgs):
    """Make any Gymnasium env promptable: prompt i is a reset seed, reset options, or both.

    Every reset plays one prompt: the one in ``options={"prompt": i}``, else the next assigned one, else one drawn
    uniformly by the wrapper's own generator, which ``reset(seed=...)`` seeds. After each reset and step, ``info`` names
    the ``prompt``; the last one of an episode also says ``is_success``. Assignments survive the resets by which vector
    envs start the next episode, so that each env plays exactly the episodes that it was given.

    Wrappers that end episodes (TimeLimit) belong inside, as ``gymnasium.make`` puts them: this one must see each end.

    A seed fixes all that the env draws, its random transitions too, which repeat in every episode of that prompt.
    Options alone leave the env's generator running: such a prompt fixes only what the env reads from the options. Where
    an env does not read an option of its prompts, as most read none, a warning says so: let a wrapper take it.

    Args:
        env: the env to wrap.
        prompts: one entry a prompt: a seed (int, at least 0), reset options (dict), or a pair (seed, options). A range
            of seeds may be as long as range(2**40), for prompts that never come twice.
        success: says from a finished `Episode` whether it was a success. None: the env's last ``info`` has
            ``is_success`` already.

    Attributes:
        num_prompts: how many prompts there are.

    Raises:
        TypeError: if ``env`` is not a gymnasium.Env, or an argument is of another type.
        ValueError: without prompts, or for a seed below 0.

    Example:
        >>> env = PromptQueue(gym.make("CartPole-v1"), prompts=range(100), success=lambda episode: episode.steps >= 200)
        >>> env.assign([7, 7, 3])
        >>> observation, info = env.reset(seed=0)
        >>> info["prompt"]
        7
    """

    def __init__(
        self,
        env: gym.Env[ObsType, ActType],
        prompts: Sequence[Prompt],
        success: Callable[[Episode], bool] | None = None,
    ):
        if not isinstance(env, gym.Env):
            raise TypeError(
                f"env is a {type(env).__name__}; allowed is a gymnasium.Env (wrap each env of a vector env by itself)"
            )
        if success is not None and not callable(success):
            raise TypeError(f"success={success!r} is a {type(success).__name__}; allowed are None or a function")
        if isinstance(prompts, str | bytes) or not isinstance(prompts, Sequence | np.ndarray):
            raise TypeError(
                f"prompts is a {type(prompts).__name__}; allowed is a sequence of seeds, options or (seed, options), "
                "as range(100)"
            )
        if not len(prompts):
            raise ValueError("prompts is empty; allowed is at least one seed, dict of options or pair (seed, options)")
        self._prompts = _as_prompts(prompts)
        plain: Any = (
            self._prompts
            if isinstance(self._prompts, range)
            else [
                copy.deepcopy(options) if seed is None else [seed, copy.deepcopy(options)] if options else seed
                for seed, options in self._prompts
            ]
        )
        RecordConstructorArgs.__init__(self, _disable_deepcopy=True, prompts=plain, success=success)
        gym.Wrapper.__init__(self, env)
        self._success = success
        self._assignments = PromptAssignments(len(self._prompts))
        self._generator = _prompt_generator(None)
        self._prompt = 0
        self._is_running = False
        self._steps = 0
        self._total_reward = 0.0
        self._unread: set[str] = set()  # options of the present episode that the env has not read
        self._has_warned = False  # of options that the env does not read

    @property
    def num_prompts(self) -> int:
        """How many prompts there are."""
        return self._assignments.num_prompts

    @property
    def prompts(self) -> QueuedPrompts:
        """What the prompts are; see `Prompts`."""
        return QueuedPrompts(self._prompts)

    @property
    def prompts_digest(self) -> str | None:
        """Names all prompts in their order: the same for the same prompts; None if one is not what JSON can hold.

        The wrapped environment is left out of it, so compare only environments of one kind.
        """
        return self.prompts.digest

    def assign(self, prompts: Iterable[int]) -> None:
        """Set the prompts of the next episodes, in this order, in place of what is left of an earlier assignment.

        The episode that is running goes on. If an error is raised, nothing changes.

        Args:
            prompts: integers 0 to num_prompts - 1; an empty one clears.

        Raises:
            TypeError: if they are not integers.
            ValueError: for a prompt out of range, naming its position.
        """
        self._assignments.assign(prompts)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Start an episode of the prompt in the options, of the next assigned one, or of a drawn one.

        Args:
            seed: seeds the generator that draws prompts, and the env too where the prompt has no seed of its own.
            options: ``{"prompt": i}`` to choose, and other keys for the env. An assignment is left as it is then.

        Returns:
            The first observation, and the env's info with ``prompt`` (int).

        Raises:
            TypeError: if the chosen prompt is not an integer.
            ValueError: if it is out of range, or if an option is also set by the prompt.
        """
        seed = None if seed is None else _as_seed("seed", seed)
        extra = as_options(options)
        if seed is not None:
            self._generator = _prompt_generator(seed)
        self._is_running = False
        self._warn_of_unread()
        if "prompt" in extra:
            self._prompt = check_prompt(extra.pop("prompt"), self.num_prompts, 'options["prompt"]')
        else:
            assigned = self._assignments.take()
            self._prompt = int(self._generator.integers(self.num_prompts)) if assigned is None else assigned
        entry = self._prompts[self._prompt]
        own_seed, own_options = (entry, {}) if isinstance(entry, int) else entry
        if shared := extra.keys() & own_options.keys():
            raise ValueError(
                f"options sets {sorted(shared, key=str)}, which prompt {self._prompt} sets already; leave them out"
            )
        merged = {**extra, **copy.deepcopy(own_options)}
        if own_options and not self._has_warned:
            merged = NotedOptions(merged)
            self._unread = merged.unread
        observation, info = self.env.reset(seed=seed if own_seed is None else own_seed, options=merged or None)
        self._is_running, self._steps, self._total_reward = True, 0, 0.0
        return observation, {**info, "prompt": self._prompt}

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step the env; the info has ``prompt`` (int) and, at the end of the episode, ``is_success`` (bool).

        Raises:
            ResetNeeded: before the first reset, or after the end of an episode.
            ValueError: at the end, if neither ``success`` nor the env says whether the episode was a success.
        """
        if not self._is_running:
            raise ResetNeeded("step() was called with no episode running; call reset() first")
        observation, reward, terminated, truncated, info = self.env.step(action)
        info = {**info, "prompt": self._prompt}
        self._steps += 1
        self._total_reward += float(reward)
        if terminated or truncated:
            self._is_running = False
            info["is_success"] = self._judge(bool(terminated), bool(truncated), info)
            self._warn_of_unread()
        return observation, reward, terminated, truncated, info

    def _warn_of_unread(self) -> None:
        """Say so once if the env has not read options of the prompt by now: after steps, as some read them late."""
        unread, self._unread = self._unread, set()
        entry = self._prompts[self._prompt]
        own = [] if isinstance(entry, int) else [name for name in entry[1] if name in unread]
        if not own or not self._steps:
            return
        self._has_warned = True
        warnings.warn(
            f"{type(self.env.unwrapped).__name__} did not read {own} of the options of prompt {self._prompt}: prompts "
            "that differ only there are the same to it. Let a gymnasium.Wrapper around it read them in reset, and "
            "build or change the env by them, inside PromptQueue (as examples/frozen_lake.py does); or leave them out",
            stacklevel=3,
        )

    def _judge(self, terminated: bool, truncated: bool, info: dict[str, Any]) -> bool:
        if self._success is not None:
            episode = Episode(self._prompt, self._steps, self._total_reward, terminated, truncated, dict(info))
            return _as_bool("success(episode)", self._success(episode))
        if "is_success" not in info:
            raise ValueError(
                f"the last info of an episode of prompt {self._prompt} has no 'is_success', only "
                f"{sorted(info, key=str)}; pass PromptQueue(..., success=...), as in "
                "success=lambda episode: episode.total_reward > 0"
            )
        return _as_bool("info['is_success']", info["is_success"])


def _as_range(entries: range | list[tuple[int | None, dict[str, Any]]]) -> range | None:
    """Evenly rising seeds without options as the one range that stands for them; None for other prompts."""
    if isinstance(entries, list):
        seeds = [seed for seed, options in entries if seed is not None and not options]
        step = seeds[1] - seeds[0] if len(seeds) > 1 else 1
        if len(seeds) < len(entries) or step < 1 or any(later - one != step for one, later in pairwise(seeds)):
            return None
        entries = range(seeds[0], seeds[-1] + 1, step)
    if entries.step < 1:
        return entries
    step = entries.step if len(entries) > 1 else 1
    return range(entries[0], entries[-1] + step, step)


def _prompt_generator(seed: int | None) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PROMPT_STREAM,)))


def _as_seed(name: str, value: object) -> int:
    seed = as_integer(value)
    if seed is None:
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}; allowed is an integer of at least 0")
    if seed < 0:
        raise ValueError(f"{name}={seed}; allowed is an integer of at least 0")
    return seed


def _as_prompts(prompts: Sequence[Prompt]) -> range | list[tuple[int | None, dict[str, Any]]]:
    """Read ``prompts`` as pairs. A range of seeds stays one, however long: its ends say whether all are right."""
    if isinstance(prompts, range):
        for i in (0, len(prompts) - 1):
            _as_seed(f"prompts[{i}]", prompts[i])
        return prompts
    return [_as_pair(f"prompts[{i}]", prompt) for i, prompt in enumerate(prompts)]


def _as_pair(name: str, prompt: Prompt) -> tuple[int | None, dict[str, Any]]:
    """Read one entry of ``prompts`` as (seed or None, options). A list is a pair too, as JSON has no tuples."""
    if isinstance(prompt, Mapping):
        return None, copy.deepcopy(dict(prompt))
    if not isinstance(prompt, tuple | list):
        if as_integer(prompt) is None:
            raise TypeError(
                f"{name}={prompt!r} is a {type(prompt).__name__}; allowed are a seed (int), options (dict) or a pair "
                "(seed, options)"
            )
        return _as_seed(name, prompt), {}
    if len(prompt) != 2:
        raise ValueError(f"{name}={prompt!r} has {len(prompt)} parts; allowed is a pair (seed, options)")
    seed, options = prompt
    if not isinstance(options, Mapping):
        raise TypeError(f"{name}[1]={options!r} is a {type(options).__name__}; allowed are options (dict)")
    return _as_seed(f"{name}[0]", seed), copy.deepcopy(dict(options))


def _as_bool(name: str, value: object) -> bool:
    if isinstance(value, bool | np.bool_ | int | float | np.integer | np.floating) and value in (0, 1):
        return bool(value)
    raise ValueError(f"{name} is {value!r}; allowed are True and False (or 1 and 0)")
