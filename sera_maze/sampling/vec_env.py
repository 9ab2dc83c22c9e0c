"""`MazeVecEnv`: thousands of mazes as one environment of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from sera_maze.envs.ground.checks import as_options, did_you_mean
from sera_maze.envs.play.maze import MazeEnv
from sera_maze.envs.play.prompt_queue import check_prompt
from sera_maze.envs.play.vector import MazeVectorEnv
from sera_maze.envs.pools.prompts import NumberedPrompts, Prompts

# What one environment calls otherwise than all of them together.
_OF_ONE = {"observation_space": "single_observation_space", "action_space": "single_action_space"}


class SharedVecEnv(VecEnv):
    """A promptable VecEnv whose environments share all of their attributes, and have `assign` for a method."""

    def assign(self, index: int, prompts: Iterable[int]) -> None:
        """Fix what the next resets of environment ``index`` play, instead of what is left of an earlier assignment."""
        raise NotImplementedError

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """An attribute, which all environments share, once for each of ``indices``."""
        return [getattr(self, attr_name)] * len(self._indices(indices))

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Refuse: the environments share everything."""
        raise NotImplementedError(
            f"the environments of a {type(self).__name__} share their attributes; build another one"
        )

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call ``assign`` for each of ``indices``."""
        if method_name != "assign":
            raise AttributeError(f"a {type(self).__name__} has no method {method_name!r}; there is 'assign'")
        wanted = self._indices(indices)
        for index in wanted:
            self.assign(index, *method_args, **method_kwargs)
        return [None] * len(wanted)

    def env_is_wrapped(self, wrapper_class: type, indices: VecEnvIndices = None) -> list[bool]:
        """No environment is wrapped."""
        return [False] * len(self._indices(indices))

    def _indices(self, indices: VecEnvIndices) -> list[int]:
        return [range(self.num_envs)[index] for index in self._get_indices(indices)]


class MazeVecEnv(SharedVecEnv):
    """SB3's view of a `MazeVectorEnv`: the same episodes as N `MazeEnv` in a DummyVecEnv, much faster.

    Each info holds ``prompt`` and at the end of an episode also ``is_success``, ``episode`` (return and length, as
    Monitor gives), ``terminal_observation`` and ``TimeLimit.truncated``.

    Args:
        num_envs: number of environments N.
        *args: the other arguments of `MazeVectorEnv`.
        **kwargs: likewise; not ``autoreset_mode`` and ``copy``, which SB3 fixes.

    Example:
        >>> env = MazeVecEnv(64, size=9, num_mazes=100)
    """

    def __init__(self, num_envs: int, *args: Any, **kwargs: Any):
        for name in ("autoreset_mode", "copy"):
            if name in kwargs:
                raise ValueError(f"{name} is fixed by Stable-Baselines3; leave it out")
        self.env = MazeVectorEnv(num_envs, *args, autoreset_mode=AutoresetMode.SAME_STEP, **kwargs)
        self._actions: np.ndarray = np.zeros(num_envs, np.int64)
        self._pending: dict[int, list[int]] = {}
        super().__init__(num_envs, self.env.single_observation_space, self.env.single_action_space)
        self.metadata = dict(MazeEnv.metadata)  # as a DummyVecEnv has it

    @property
    def pool(self) -> Any:
        """The `MazePool` of all environments."""
        return self.env.pool

    @property
    def rules(self) -> Any:
        """The `MazeRules` of all environments."""
        return self.env.rules

    @property
    def num_prompts(self) -> int:
        """Number of mazes in the pool."""
        return self.env.num_prompts

    def reset(self) -> Any:
        """Start an episode in every environment; return N observations.

        Raises:
            ValueError, TypeError: for options, set by `set_options`, other than {"prompt": i}; see `MazeEnv`.
        """
        if self._pending:
            self._hand_over()
        seeds = [None if seed is None else int(seed) for seed in self._seeds]
        observations, infos = self.env.reset(seed=seeds, options=self._reset_options_of_all())
        self.reset_infos = [{"prompt": int(prompt)} for prompt in infos["prompt"]]
        self._reset_seeds()
        self._reset_options()
        return observations

    def _reset_options_of_all(self) -> dict[str, Any] | None:
        """What `set_options` has set, as `MazeVectorEnv` takes it."""
        if len(self._options) != self.num_envs:
            raise ValueError(
                f"set_options was given {len(self._options)} dicts; give one, or one for each of {self.num_envs} "
                "environments"
            )
        prompts: list[int | None] = [None] * self.num_envs
        for n, options in enumerate(self._options):
            for name, value in as_options(options).items():
                if name != "prompt":
                    raise ValueError(
                        f"reset option {name!r} of environment {n} is not known; allowed in a MazeVecEnv is 'prompt'"
                        f"{did_you_mean(name, ['prompt'])}"
                    )
                prompts[n] = check_prompt(value, self.num_prompts, f"options['prompt'] of environment {n}")
        return None if prompts == [None] * self.num_envs else {"prompt": prompts}

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions (N,) for `step_wait`."""
        self._actions = np.asarray(actions)

    def step_wait(self) -> Any:
        """Observations, rewards (N,) float32, dones (N,) bool and a list of N infos."""
        if self._pending:
            self._hand_over()
        observations, rewards, terminated, truncated, infos = self.env.step(self._actions)
        dones = terminated | truncated
        listed: list[dict[str, Any]] = [{"prompt": prompt} for prompt in infos["prompt"].tolist()]
        if dones.any():
            last = infos["final_info"]
            for n in np.flatnonzero(dones):
                listed[n] = {
                    "prompt": int(last["prompt"][n]),
                    "is_success": bool(last["is_success"][n]),
                    "episode": {"r": float(rewards[n]), "l": int(last["steps"][n]), "t": 0.0},
                    "terminal_observation": infos["final_obs"][n],
                    "TimeLimit.truncated": bool(truncated[n]),
                }
        return observations, rewards.astype(np.float32), dones, listed

    def close(self) -> None:
        """Close the environments."""
        self.env.close()

    def assign(self, index: int, prompts: Iterable[int]) -> None:
        """Fix what the next resets of environment ``index`` play, instead of what is left of an earlier assignment."""
        self._pending[index] = list(prompts)
        if len(self._pending) == self.num_envs:
            self._hand_over()

    def _hand_over(self) -> None:
        """Hand gathered assignments over: one call for all environments, since each rebuilds the whole queue."""
        rows, self._pending = [self._pending.get(n) for n in range(self.num_envs)], {}
        self.env.assign(rows)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """An attribute of each environment in ``indices``, by the name that it has in `MazeEnv`; most are shared."""
        wanted = self._indices(indices)
        if attr_name == "layout":
            layouts = self.env.layouts
            return [layouts[index] for index in wanted]
        return [getattr(self.env, _OF_ONE.get(attr_name, attr_name))] * len(wanted)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call ``assign``, ``action_masks`` or ``render`` for each of ``indices``."""
        if method_name in ("action_masks", "render"):
            found = getattr(self.env, method_name)(*method_args, **method_kwargs)
            return [None if found is None else found[index] for index in self._indices(indices)]
        if method_name == "assign":
            return super().env_method(method_name, *method_args, indices=indices, **method_kwargs)
        raise AttributeError(
            f"a MazeVecEnv has no method {method_name!r}; there are 'assign', 'action_masks', 'render'"
        )

    def get_images(self) -> Sequence[np.ndarray | None]:
        """A picture of each environment, with render_mode="rgb_array"."""
        return self.env.render() or [None] * self.num_envs


def prompts_digest(env: VecEnv) -> str | None:
    """What names the prompts of promptable environments; None if the first of them does not know.

    Raises:
        ValueError: if they have different prompts, or mazes with different rules.
    """
    digests = _digests(env)
    for name in ("num_prompts", "prompts_digest", "rules"):
        values = digests if name == "prompts_digest" else env.get_attr(name) if env.has_attr(name) else []
        for n, value in enumerate(values):
            if value != values[0]:
                raise ValueError(
                    f"environment {n} has another {name} than environment 0 ({value!r}, not {values[0]!r}): a prompt "
                    "must mean the same in all of them; build all with the same prompts, such as one MazePool"
                )
    return digests[0] if digests else None


def _digests(env: VecEnv) -> list[str | None]:
    """What each environment calls ``prompts_digest``, else the digest of its ``prompts``; empty without either."""
    if env.has_attr("prompts_digest"):
        return env.get_attr("prompts_digest")
    prompts = env.get_attr("prompts") if env.has_attr("prompts") else []
    return [each.digest for each in prompts if isinstance(each, Prompts)]


def is_promptable(env: VecEnv) -> bool:
    """Whether environments have prompts: `MazeEnv` has them, `PromptQueue` gives them."""
    return env.has_attr("num_prompts") and env.has_attr("assign")


def prompts_of(env: VecEnv) -> Prompts:
    """The prompts of promptable environments: what they call ``prompts``, else the number alone."""
    if env.has_attr("prompts"):
        found = env.get_attr("prompts", 0)[0]
        if isinstance(found, Prompts):
            return found
    return NumberedPrompts(int(env.get_attr("num_prompts", 0)[0]), prompts_digest(env))
