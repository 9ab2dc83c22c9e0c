"""Which sampler a policy and its environments get."""

from __future__ import annotations

from collections.abc import Callable

from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv

from sera_maze.sampling.maps import fit_map
from sera_maze.sampling.plain_mazes import PlainMazes
from sera_maze.sampling.protocol import Sampler
from sera_maze.sampling.steps import fit_step

# Makes a sampler for a policy, environments or plain mazes, and a seed; or says why it does not fit. The reason is
# empty where nobody would expect it to fit, and is not told then.
Fit = Callable[[BasePolicy, VecEnv | PlainMazes, int], Sampler | str]
# The first that fits is used.
SAMPLERS: dict[str, Fit] = {"map": fit_map, "step": fit_step}


def register_sampler(name: str, fit: Fit) -> None:
    """Let ``sampler="auto"`` try one more kind of sampler, before those that fit more.

    Raises:
        ValueError, TypeError: for a name or a function that cannot be used.
    """
    if name == "auto" or not isinstance(name, str) or not name:
        raise ValueError(f"name={name!r} cannot be that of a sampler; give a word of its own, not 'auto'")
    if not callable(fit):
        raise TypeError(f"fit must be a function such as fit_step, got {type(fit).__name__}")
    rest = {known: other for known, other in SAMPLERS.items() if known != name}
    SAMPLERS.clear()
    SAMPLERS.update({name: fit, **rest})


def choose_sampler(policy: BasePolicy, source: VecEnv | PlainMazes, seed: int, wanted: str = "auto") -> Sampler:
    """The sampler for a policy and its environments.

    Args:
        policy: that samples.
        source: environments, or plain mazes without any.
        seed: of the rollouts.
        wanted: a name of `SAMPLERS`, or "auto" for the first that fits.

    Raises:
        ValueError: if the one that is wanted does not fit, or none does; if the environments are not promptable, or
            have different prompts.
    """
    if wanted != "auto":
        found = _fitted(wanted, policy, source, seed)
        if isinstance(found, str):
            raise ValueError(f"sampler={wanted!r} cannot be used: {found}; use sampler='auto'")
        found.reason = f"sampler={wanted!r} was asked for"
        return found
    reasons: list[str] = []
    for name in SAMPLERS:
        found = _fitted(name, policy, source, seed)
        if not isinstance(found, str):
            found.reason = "; ".join(reasons)
            return found
        if found:
            reasons.append(found)
    raise ValueError(f"the policy cannot be sampled: {'; '.join(reasons) or 'nothing fits its environments'}")


def _fitted(name: str, policy: BasePolicy, source: VecEnv | PlainMazes, seed: int) -> Sampler | str:
    found = SAMPLERS[name](policy, source, seed)
    if not isinstance(found, Sampler | str):
        raise TypeError(
            f"the function of the sampler {name!r} returned a {type(found).__name__}; it must return a Sampler, or a "
            "str that says why it does not fit"
        )
    return found
