"""What SB3's VecNormalize knows: kept with a model, given to other environments, and left alone by evaluations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecNormalize, unwrap_vec_normalize

_SETTINGS = ("norm_obs", "norm_obs_keys", "clip_obs", "epsilon")  # that change what a policy sees
_FIELDS = ("mean", "var", "count")


@dataclass(frozen=True)
class Normalization:
    """How environments normalise what a policy sees; empty without a VecNormalize.

    Attributes:
        settings: of the VecNormalize, by name.
        statistics: float64, means, variances and counts of observations and returns, by name.
    """

    settings: dict[str, Any]
    statistics: dict[str, NDArray[np.float64]]

    @property
    def changes_observations(self) -> bool:
        """Whether the policy sees other observations than those of the environments."""
        return bool(self.settings.get("norm_obs", False))


def normalization_of(env: VecEnv) -> Normalization:
    """The present state of environments; a copy."""
    wrapper = unwrap_vec_normalize(env)
    if wrapper is None:
        return Normalization({}, {})
    statistics = {
        f"{name}/{field}": np.array(getattr(own, field), np.float64)
        for name, own in _statistics(wrapper).items()
        for field in _FIELDS
    }
    return Normalization({name: getattr(wrapper, name) for name in _SETTINGS}, statistics)


def model_normalization(model: Any) -> Normalization | None:
    """How a model's environments normalise, or did when it was saved; None if that is not known, as of a policy."""
    env = model.get_env() if hasattr(model, "get_env") else None
    return getattr(model, "_kept_normalization", None) if env is None else normalization_of(env)


def give_normalization(env: VecEnv, known: Normalization) -> None:
    """Let environments go on with the statistics of others, which fit by `check_normalization`."""
    wrapper = unwrap_vec_normalize(env)
    if wrapper is None:
        return
    for name, own in _statistics(wrapper).items():
        if f"{name}/mean" in known.statistics:
            mean, var, count = (known.statistics[f"{name}/{field}"].copy() for field in _FIELDS)
            own.mean, own.var, own.count = mean, var, float(count)


def check_normalization(env: VecEnv, known: Normalization) -> None:
    """Check that environments can give a policy the observations that it was trained on.

    Raises:
        ValueError: if they normalise observations and those of the training do not, or the other way round, or in
            another way.
    """
    own = normalization_of(env)
    if known.changes_observations and not own.changes_observations:
        raise ValueError(
            "the environments of the training normalise observations, and env does not, so the policy would see others "
            "than it was trained on: give VecNormalize(env, training=False), where env is a VecEnv such as "
            "DummyVecEnv([lambda: env]); it gets the statistics of the training"
        )
    if own.changes_observations and not known.changes_observations:
        raise ValueError(
            "env is in a VecNormalize that normalises observations, and the environments of the training are not, so "
            "the policy would see others than it was trained on: leave VecNormalize out, or give it norm_obs=False"
        )
    if not known.changes_observations:
        return
    for name, value in known.settings.items():
        if own.settings[name] != value:
            raise ValueError(f"VecNormalize has {name}={own.settings[name]!r}, in the training {value!r}: give that")
    for name, array in known.statistics.items():
        if own.statistics[name].shape != array.shape:
            raise ValueError(
                f"VecNormalize of the training knows observations of the shape {array.shape}, and those of env have "
                f"{own.statistics[name].shape}; give environments with the same observations"
            )


@contextmanager
def frozen(env: VecEnv | None) -> Iterator[None]:
    """Let environments see what they see meanwhile without a change of statistics."""
    wrapper = None if env is None else unwrap_vec_normalize(env)
    if wrapper is None:
        yield
        return
    training, wrapper.training = wrapper.training, False
    try:
        yield
    finally:
        wrapper.training = training


def _statistics(wrapper: VecNormalize) -> dict[str, RunningMeanStd]:
    returns = {"returns": wrapper.ret_rms}
    if not wrapper.norm_obs:
        return returns
    own: Any = wrapper.obs_rms
    if isinstance(own, dict):
        return returns | {f"observations/{key}": each for key, each in own.items()}
    return returns | {"observations": own}
