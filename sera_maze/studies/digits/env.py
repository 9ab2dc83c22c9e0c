"""Handwritten digits as one-step environments: a label is sampled, and success is the right one.

`DigitsEnv` shows one image at a time, `DigitsVecEnv` thousands of them to Stable-Baselines3. Image i is prompt i.

References:
    MaxRL (arXiv 2602.02710) and SERA (arXiv 2609.36552): image classification as the controlled setting, in which the
    success probability is the softmax of the right class and the likelihood gradient that of the cross-entropy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray
from torch import Tensor

from sera_maze.envs.ground.checks import as_integer, as_options, check_int
from sera_maze.envs.ground.random_bits import nth_prompt, prompt_key
from sera_maze.envs.play.prompt_queue import PromptSource, check_prompt
from sera_maze.envs.play.rules import MAX_RESET_SEED
from sera_maze.sampling.vec_env import SharedVecEnv
from sera_maze.studies.extras import missing

CLASSES, PIXELS = 10, 64
_BRIGHTEST = 16.0  # of scikit-learn's digits
_Step = tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Images:
    """Images with their labels; image i is prompt i.

    Attributes:
        pixels: (M, 64) float32 in [0, 1], 8 rows of 8.
        labels: (M,) int64, 0 to 9.

    Raises:
        ValueError: for other shapes or values, or no image.
    """

    pixels: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.pixels.ndim != 2 or self.pixels.shape[1] != PIXELS or self.labels.shape != self.pixels.shape[:1]:
            raise ValueError(
                f"pixels have shape {self.pixels.shape} and labels {self.labels.shape}; allowed are (M, {PIXELS}), (M,)"
            )
        if not len(self.labels):
            raise ValueError("there is no image; give at least one")
        if not ((self.pixels >= 0) & (self.pixels <= 1)).all():
            raise ValueError("pixels lie outside 0 to 1; divide them by the brightest value")
        if not np.issubdtype(self.labels.dtype, np.integer):
            raise TypeError(f"labels have dtype {self.labels.dtype}; allowed are integers")
        if not ((self.labels >= 0) & (self.labels < CLASSES)).all():
            raise ValueError(f"labels lie outside 0 to {CLASSES - 1}; each names one of the {CLASSES} actions")

    def __len__(self) -> int:
        return len(self.labels)

    def describe(self, index: int) -> str:
        """The image's number and label."""
        return f"image {index}, a {self.labels[index]}"

    def tensors(self, prompts: Tensor | None, device: torch.device) -> tuple[Tensor, Tensor]:
        """Pixels (B, 64) and labels (B,) of prompts (B,), or of all, on a device."""
        chosen = slice(None) if prompts is None else prompts.cpu().numpy()
        return torch.from_numpy(self.pixels[chosen]).to(device), torch.from_numpy(self.labels[chosen]).to(device)

    @cached_property
    def digest(self) -> str:
        """Names the images and their order."""
        return hashlib.sha256(self.pixels.tobytes() + self.labels.tobytes()).hexdigest()


def all_digits() -> Images:
    """The 1,797 images that scikit-learn ships.

    Raises:
        ValueError: if scikit-learn is missing.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise missing("scikit-learn") from None
    return _read(load_digits)


@cache
def _read(load_digits: Callable[[], Any]) -> Images:
    """Once for each process: it takes longer than a small training."""
    found = load_digits()
    return Images((found.data / _BRIGHTEST).astype(np.float32), found.target.astype(np.int64))


class _OfImages:
    """The part of an environment that names its prompts."""

    images: Images

    @property
    def prompts(self) -> Images:
        """The images, as any prompts."""
        return self.images

    @property
    def num_prompts(self) -> int:
        """Number of images."""
        return len(self.images)

    @property
    def prompts_digest(self) -> str:
        """Names the images and their order."""
        return self.images.digest


class DigitsEnv(_OfImages, gym.Env[NDArray[np.float32], np.int64]):
    """Name the digit of an image, in one step.

    ## Description
    Every episode shows one image, the *prompt*, and ends with the first action.

    ## Action Space
    `Discrete(10)`: the label.

    ## Observation Space
    `Box(0, 1, (64,), float32)`: the pixels, 8 rows of 8.

    ## Rewards
    1 for the right label, else 0.

    ## Starting State
    The prompt is, in this order: `reset(options={"prompt": i})`; the next of `assign(prompts)`; drawn uniformly by the
    seed and the number of prompts drawn since.

    ## Episode End
    Terminated by the first action; the observation is still the image.

    ## Information
    Always: `prompt` (int). At the end of an episode also `is_success` (bool).

    ## Arguments
    Args:
        images: the prompts.

    ## Version History
    - v0: first version.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}  # type: ignore[misc]

    def __init__(self, images: Images):
        self.images = images
        self.observation_space = spaces.Box(0.0, 1.0, (PIXELS,), np.float32)
        self.action_space = spaces.Discrete(CLASSES)
        self._prompts = PromptSource(len(images))
        self._prompt: int | None = None

    def assign(self, prompts: Iterable[int]) -> None:
        """Let the next resets take these prompts, instead of what is left of an earlier assignment.

        Raises:
            ValueError, TypeError: if one is not an integer from 0 to num_prompts - 1; nothing changes then.
        """
        self._prompts.assign(prompts)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Show an image.

        Raises:
            ValueError, TypeError: for a seed or prompt out of range, or options other than "prompt".
        """
        seed = None if seed is None else check_int("seed", seed, 0, MAX_RESET_SEED)
        chosen = as_options(options)
        prompt = _chosen_prompt(chosen, len(self.images)) if chosen else None
        super().reset(seed=seed)
        if seed is not None:
            self._prompts.seed(seed)
        self._prompt = self._prompts.next(lambda: self.np_random) if prompt is None else prompt
        return self.images.pixels[self._prompt].copy(), {"prompt": self._prompt}

    def step(self, action: Any) -> _Step:
        """Name the digit.

        Raises:
            ResetNeeded: if no episode is running.
            ValueError: if the action is not an integer from 0 to 9.
        """
        if self._prompt is None:
            raise ResetNeeded("step() was called with no episode running; call reset() first")
        label, prompt = as_integer(action), self._prompt
        if label is None or not 0 <= label < CLASSES:
            raise ValueError(f"action={action!r} is not a label; allowed are the integers 0 to {CLASSES - 1}")
        self._prompt = None
        success = label == int(self.images.labels[prompt])
        info = {"prompt": prompt, "is_success": success}
        return self.images.pixels[prompt].copy(), float(success), True, False, info


def _chosen_prompt(options: dict[str, Any], count: int) -> int:
    """The prompt that the options of a reset name."""
    if set(options) != {"prompt"}:
        raise ValueError(f"options have the keys {sorted(options)}; allowed is 'prompt'")
    return check_prompt(options["prompt"], count)


class DigitsVecEnv(_OfImages, SharedVecEnv):
    """The same episodes as N `DigitsEnv` in SB3's DummyVecEnv, given the same seeds or assignments; much faster.

    Args:
        num_envs: number of environments N.
        images: the prompts.

    Raises:
        ValueError, TypeError: if ``num_envs`` is not an integer of at least 1.
    """

    def __init__(self, num_envs: int, images: Images):
        self.images = images
        number = check_int("num_envs", num_envs, 1, 2**24)
        self.render_mode = None
        super().__init__(number, spaces.Box(0.0, 1.0, (PIXELS,), np.float32), spaces.Discrete(CLASSES))
        self._assigned: list[list[int]] = [[] for _ in range(number)]
        self._queue = np.zeros((number, 0), np.int64)  # (N, L): what each was assigned, first to last
        self._taken = np.zeros(number, np.int64)
        self._lengths = np.zeros(number, np.int64)
        self._is_new = False  # whether anything was assigned since the queue was made
        self._keys: list[int] = [int(key) for key in np.random.default_rng().integers(2**63, size=number)]
        self._drawn = [0] * number
        self._prompts: NDArray[np.int64] | None = None
        self._actions = np.zeros(number, np.int64)

    def assign(self, index: int, prompts: Iterable[int]) -> None:
        """Fix what the next resets of environment ``index`` show, instead of what is left of an earlier assignment.

        Raises:
            ValueError, TypeError: see `DigitsEnv.assign`.
        """
        if not self._is_new:
            self._assigned = [row[taken:].tolist() for row, taken in zip(self._rows(), self._taken, strict=True)]
            self._is_new = True
        listed, count = list(prompts), len(self.images)
        # Plain ints, of which there are very many, are checked in the shortest way.
        if not all(prompt.__class__ is int and 0 <= prompt < count for prompt in listed):
            listed = [check_prompt(prompt, count, f"prompts[{i}]") for i, prompt in enumerate(listed)]
        self._assigned[index] = listed

    def reset(self) -> NDArray[np.float32]:
        """Show an image in every environment; (N, 64) pixels.

        Raises:
            ValueError, TypeError: for options of `set_options` other than "prompt", or a prompt out of range.
        """
        for n, seed in enumerate(self._seeds):
            if seed is not None:
                self._keys[n], self._drawn[n] = prompt_key(int(seed)), 0
        chosen = {n: _chosen_prompt(options, len(self.images)) for n, options in enumerate(self._options) if options}
        self._prompts = self._next_prompts(chosen)
        self.reset_infos = [{"prompt": prompt} for prompt in self._prompts.tolist()]
        self._reset_seeds()
        self._reset_options()
        return self.images.pixels[self._prompts]

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Keep the labels (N,) for `step_wait`.

        Raises:
            ValueError: if one is not an integer from 0 to 9.
        """
        labels = np.asarray(actions)
        if not np.issubdtype(labels.dtype, np.integer):
            raise ValueError(f"actions have dtype {labels.dtype}; allowed are integers")
        if labels.shape != (self.num_envs,) or not ((labels >= 0) & (labels < CLASSES)).all():
            raise ValueError(f"actions={actions!r}; allowed are {self.num_envs} labels from 0 to {CLASSES - 1}")
        self._actions = labels

    def step_wait(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """The next images (N, 64), rewards (N,), dones (N,), all True, and N infos.

        Raises:
            ResetNeeded: before the first reset.
        """
        if self._prompts is None:
            raise ResetNeeded("step() was called with no episode running; call reset() first")
        played, shown = self._prompts, self.images.pixels[self._prompts]
        success = self._actions == self.images.labels[played]
        infos = [
            {"prompt": prompt, "is_success": done, "TimeLimit.truncated": False, "terminal_observation": image}
            for prompt, done, image in zip(played.tolist(), success.tolist(), shown, strict=True)
        ]
        self._prompts = self._next_prompts({})
        self.reset_infos = [{"prompt": prompt} for prompt in self._prompts.tolist()]
        rewards = success.astype(np.float32)
        return self.images.pixels[self._prompts], rewards, np.ones(self.num_envs, bool), infos

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _rows(self) -> list[NDArray[np.int64]]:
        return [row[:length] for row, length in zip(self._queue, self._lengths, strict=True)]

    def _next_prompts(self, chosen: dict[int, int]) -> NDArray[np.int64]:
        """(N,) the chosen prompt of each environment, the next that was assigned, or one that its seed draws."""
        if self._is_new:
            self._lengths = np.array([len(row) for row in self._assigned], np.int64)
            self._queue = np.zeros((self.num_envs, max(1, int(self._lengths.max()))), np.int64)
            self._queue[np.arange(self._queue.shape[1]) < self._lengths[:, None]] = np.concatenate(self._assigned)
            self._taken[:] = 0
            self._is_new = False
        prompts = np.zeros(self.num_envs, np.int64)
        is_chosen = np.zeros(self.num_envs, bool)
        for n, prompt in chosen.items():
            prompts[n], is_chosen[n] = prompt, True
        has_more = (self._taken < self._lengths) & ~is_chosen
        rows = np.flatnonzero(has_more)
        prompts[rows] = self._queue[rows, self._taken[rows]]
        self._taken[rows] += 1
        for n in np.flatnonzero(~has_more & ~is_chosen).tolist():
            prompts[n] = nth_prompt(self._keys[n], self._drawn[n], len(self.images))
            self._drawn[n] += 1
        return prompts


class LabelledDigitsVecEnv(DigitsVecEnv):
    """A `DigitsVecEnv` whose labels are told, so that `MaxRL` trains by cross-entropy; see `LabelSampler`."""
