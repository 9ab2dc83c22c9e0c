"""Exact quantities of a memoryless maze policy: success probability, its gradient, visits, steps, and alignment.

A policy pi(action | maze, cell) makes a rollout a finite Markov chain: the start's occupancy is pushed through the
policy, the walls and the absorbing goal, and the success probability p is what has reached the goal within the horizon.
So p, log p and their gradients, the yardsticks of maximum-likelihood training (MaxRL, arXiv 2602.02710; SERA, arXiv
2609.36552), are known without sampling. All is computed in float64.

`success_probability`, `expected_steps` and `visits` take either raw log-probabilities with walls, start and goal, or a
policy with a pool. `attenuation` of these probabilities and the counts of an allocation is what each prompt's gradient
was really attenuated to; `alignment` holds an estimate of the gradient against the exact one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Protocol, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sera_maze.allocation.advantages import attenuation as attenuation
from sera_maze.envs.generating.generate import check_choice, check_int
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.fresh import FreshMazes, Mazes
from sera_maze.envs.pools.pool import MazePool
from sera_maze.exact.aligning import Alignment as Alignment
from sera_maze.exact.aligning import alignment as alignment
from sera_maze.exact.chains import Array, MarkovChains, checked_chains

# Below the smallest normal float64 digits get lost, and the gradient of log p with them.
_SMALLEST = float(np.finfo(np.float64).tiny)


class MapPolicy(Protocol):
    """A policy that gives the log-probabilities of all cells of a maze at once."""

    @property
    def device(self) -> torch.device:
        """Where its parameters are."""

    def log_prob_map(self, walls: Tensor, goal: Tensor) -> Tensor:
        """(M, H, W, 4) log-probabilities, from walls (M, H, W) bool and goal (M, 2) int64, on its device."""


class TrainableMapPolicy(MapPolicy, Protocol):
    """A `MapPolicy` with parameters, such as any that is a ``torch.nn.Module``."""

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Names and parameters."""


@overload
def success_probability(
    log_probs: Array, /, walls: Array, start: ArrayLike | Tensor, goal: ArrayLike | Tensor, horizon: int,
    on_wall: str = "fail", *, backend: str = "auto",
) -> Tensor: ...  # fmt: skip
@overload
def success_probability(
    policy: MapPolicy, /, pool: Mazes, horizon: int | None = None, on_wall: str = "fail", *,
    prompts: ArrayLike | Tensor | None = None, batch_size: int = 256, backend: str = "auto",
) -> Tensor: ...  # fmt: skip
def success_probability(source: Any, /, *arguments: Any, **options: Any) -> Tensor:
    """Probability that a rollout reaches the goal within the horizon, exactly; differentiable once.

    Either of raw log-probabilities or of a policy:

        success_probability(log_probs, walls, start, goal, horizon, on_wall="fail")
        success_probability(policy, pool, horizon=None, on_wall="fail", prompts=None, batch_size=256)

    The goal on the last allowed move counts. The backward pass is the value recursion dp / dlog pi(a|s) =
    pi(a|s) * sum over t of d_t(s) * V_{T-t-1}(s'), with d_t the occupancy after t moves, V_k the success probability
    within k moves and s' where a leads; no graph over the steps is kept. Second derivatives are an error.

    Args:
        source: log_probs or policy.
        *arguments: what follows it, by place or by name.
        **options: as in the two forms above.
        log_probs: (M, H, W, 4) float, log-probabilities of UP, DOWN, LEFT, RIGHT; normalised within 1e-3 on open
            squares, anything in walls. -inf is a forbidden action.
        walls: (M, H, W) bool, True where there is a wall; the border must be wall.
        start: (M, 2) integers, (row, column).
        goal: (M, 2) integers, (row, column).
        policy: instead of log_probs: an object with ``log_prob_map(walls, goal)``, see `MapPolicy`. It is used in the
            mode, training or evaluation, that it is in.
        pool: instead of walls, start and goal.
        horizon: moves after which an episode ends, at least 1; with a pool None is the default of the environments, 180
            for 17x17 mazes.
        on_wall: "fail" (a move into a wall ends the episode in failure) or "stay" (it leaves the agent where it is).
        prompts: (B,) integers, mazes of the pool in any order, repeated or not; default: all, once.
        batch_size: mazes in one call of the policy. If gradients are on, the graphs of all calls are kept.
        backend: "auto" (numba kernels on the CPU, torch operations elsewhere), "kernel" or "torch"; the same numbers to
            rounding. The kernels use ``torch.get_num_threads()`` threads, which changes no digit.

    Returns:
        (M,) or (B,) float64, at most 1, on the device of log_probs or the policy (mps has no float64: on the CPU).

    Raises:
        ValueError, TypeError: for wrong shapes or types, log-probabilities that are NaN or not normalised, cells that
            are not open, horizon below 1, unknown on_wall or backend, prompts outside the pool.

    Example:
        >>> log_probs = torch.full((1, 3, 4, 4), 0.25).log()
        >>> walls = torch.tensor([[[1, 1, 1, 1], [1, 0, 0, 1], [1, 1, 1, 1]]], dtype=torch.bool)
        >>> success_probability(log_probs, walls, [[1, 1]], [[1, 2]], horizon=2, on_wall="stay")
        tensor([0.4375], dtype=torch.float64)
    """
    return torch.cat([chains.success_probability(logs) for logs, chains in _chains(source, *arguments, **options)])


@overload
def visits(
    log_probs: Array, /, walls: Array, start: ArrayLike | Tensor, goal: ArrayLike | Tensor, horizon: int,
    on_wall: str = "fail", *, backend: str = "auto",
) -> Tensor: ...  # fmt: skip
@overload
def visits(
    policy: MapPolicy, /, pool: Mazes, horizon: int | None = None, on_wall: str = "fail", *,
    prompts: ArrayLike | Tensor | None = None, batch_size: int = 256, backend: str = "auto",
) -> Tensor: ...  # fmt: skip
@torch.no_grad()
def visits(source: Any, /, *arguments: Any, **options: Any) -> Tensor:
    """Expected number of times that a rollout stands on each square: sum over t = 0 to horizon of the occupancy d_t.

    The start at t = 0 counts, and so does a step spent at a wall under on_wall="stay". At the goal, where a rollout
    ends, it is the success probability. No gradient.

    Args:
        source: log_probs or policy; everything as in `success_probability`.
        *arguments: as there.
        **options: as there.

    Returns:
        (M, H, W) or (B, H, W) float64; 0 in walls.

    Raises:
        ValueError, TypeError: as there.
    """
    return torch.cat([chains.occupancy(logs)[0] for logs, chains in _chains(source, *arguments, **options)])


@overload
def expected_steps(
    log_probs: Array, /, walls: Array, start: ArrayLike | Tensor, goal: ArrayLike | Tensor, horizon: int,
    on_wall: str = "fail", *, backend: str = "auto",
) -> Tensor: ...  # fmt: skip
@overload
def expected_steps(
    policy: MapPolicy, /, pool: Mazes, horizon: int | None = None, on_wall: str = "fail", *,
    prompts: ArrayLike | Tensor | None = None, batch_size: int = 256, backend: str = "auto",
) -> Tensor: ...  # fmt: skip
@torch.no_grad()
def expected_steps(source: Any, /, *arguments: Any, **options: Any) -> Tensor:
    """Expected number of moves of a rollout until it ends, at the goal, at a wall or at the horizon. No gradient.

    Moves into walls count, as in the environments' ``steps``.

    Args:
        source: log_probs or policy; everything as in `success_probability`.
        *arguments: as there.
        **options: as there.

    Returns:
        (M,) or (B,) float64, 1 to horizon.

    Raises:
        ValueError, TypeError: as there.
    """
    steps = []
    for logs, chains in _chains(source, *arguments, **options):
        stood, unfinished = chains.occupancy(logs)
        each = torch.arange(len(stood), device=stood.device)
        # A rollout moves once for each time that it stands somewhere, but at the goal and after the last move.
        steps.append(stood.sum((1, 2)) - stood[each, chains.goal[:, 0], chains.goal[:, 1]] - unfinished)
    return torch.cat(steps)


def log_likelihood_gradient(
    policy: TrainableMapPolicy,
    pool: Mazes,
    horizon: int | None = None,
    on_wall: str = "fail",
    *,
    prompts: ArrayLike | Tensor | None = None,
    batch_size: int = 64,
    zero: str = "error",
    backend: str = "auto",
) -> dict[str, Tensor]:
    """Exact gradient of the mean log-likelihood, (1/B) * sum over the B prompts of log p, for the policy's parameters.

    It is what maximum-likelihood training follows on average; ``.grad`` of the parameters is neither read nor written.

    Args:
        policy: a `MapPolicy` with ``named_parameters``, such as a ``torch.nn.Module``.
        pool: the mazes.
        horizon: as in `success_probability`.
        on_wall: as in `success_probability`.
        prompts: as in `success_probability`.
        batch_size: mazes in one forward and backward pass of the policy; changes memory and rounding alone.
        zero: what to do with a prompt whose p is 0 in float64 (below 2e-308), so that log p has no gradient: "error",
            or "skip", which leaves its term out (it still counts in B) and warns with the number of such prompts.
        backend: as in `success_probability`.

    Returns:
        name -> gradient, of the shape, type and device of each parameter that requires one; zeros for those that take
        no part.

    Raises:
        ValueError: if p is 0 for a prompt and ``zero`` is "error", naming the first; if nothing requires a gradient.
        ValueError, TypeError: as `success_probability`.

    Warns:
        RuntimeWarning: if prompts were skipped.
    """
    check_choice("zero", zero, ("error", "skip"))
    indices = _checked_prompts(prompts, pool)
    parameters = {name: value for name, value in policy.named_parameters() if value.requires_grad}
    result = {name: torch.zeros_like(value) for name, value in parameters.items()}
    skipped = done = 0
    with torch.enable_grad():
        for logs, chains in _policy_chains(
            policy, pool, horizon, on_wall, prompts=indices, batch_size=batch_size, backend=backend
        ):
            if not logs.requires_grad:
                raise ValueError(
                    "log_prob_map of the policy gives no gradient; need a parameter that requires one in it"
                )
            probability = chains.success_probability(logs)
            is_zero = probability.detach() < _SMALLEST
            if zero == "error" and is_zero.any():
                _raise_zero(pool, int(indices[done + int(is_zero.nonzero()[0])]), chains.horizon)
            skipped += int(is_zero.sum())
            done += len(logs)
            total = probability[~is_zero].log().sum() / len(indices)
            gradients = torch.autograd.grad(total, list(parameters.values()), allow_unused=True)
            for name, value in zip(parameters, gradients, strict=True):
                if value is not None:
                    result[name] += value
    if skipped:
        warnings.warn(
            f"{skipped} of {len(indices)} prompts have success probability 0 and were left out of the gradient",
            RuntimeWarning, stacklevel=2,
        )  # fmt: skip
    return result


@overload
def exact_pass_at_k(p: Tensor, k: int | Tensor) -> Tensor: ...
@overload
def exact_pass_at_k(p: ArrayLike, k: ArrayLike) -> NDArray[np.float64]: ...
def exact_pass_at_k(p: Any, k: Any) -> Any:
    """Probability that at least one of k rollouts succeeds, 1 - (1 - p)**k, to full precision for p near 0 and 1.

    Args:
        p: success probabilities from 0 to 1, as a tensor or anything that numpy reads.
        k: integers, at least 1; broadcast with p.

    Returns:
        float64 tensor if p is one, else numpy float64.

    Raises:
        ValueError: for p outside 0 to 1 or NaN, or k below 1.
        TypeError: if k is not of integers.
    """
    is_tensor = isinstance(p, Tensor)
    chances: Any = p.to(torch.float64) if is_tensor else np.asarray(p, np.float64)
    draws: Any = torch.as_tensor(k, device=p.device) if is_tensor else np.asarray(k)
    is_integer = not (draws.is_floating_point() or draws.dtype == torch.bool) if is_tensor else draws.dtype.kind in "iu"
    if not is_integer:
        raise TypeError(f"k must be integers, got {k!r}")
    if not bool((draws >= 1).all()):
        raise ValueError(f"k={k!r} is out of range; give integers of at least 1")
    if not bool(((chances >= 0) & (chances <= 1)).all()):
        raise ValueError(f"p={p!r} is out of range; give probabilities from 0 to 1")
    if is_tensor:
        sure = chances == 1  # there the logarithm is infinite, and its gradient with it
        certain = torch.where(draws == 1, chances, 1.0)  # with the gradient k (1 - p)**(k - 1) at p = 1
        return torch.where(sure, certain, -torch.expm1(draws * torch.log1p(-torch.where(sure, 0.5, chances))))
    with np.errstate(divide="ignore"):  # p = 1: log 0
        return -np.expm1(draws * np.log1p(-chances))


def _chains(source: Any, /, *arguments: Any, **options: Any) -> Iterator[tuple[Tensor, MarkovChains]]:
    """The chains of raw log-probabilities at once, or those of a policy batch by batch."""
    if isinstance(source, (Tensor, np.ndarray)):
        return iter((checked_chains(source, *arguments, **options),))
    return _policy_chains(source, *arguments, **options)


def _policy_chains(
    policy: MapPolicy, pool: Mazes, horizon: int | None = None, on_wall: str = "fail", *,
    prompts: ArrayLike | Tensor | None = None, batch_size: int = 256, backend: str = "auto",
) -> Iterator[tuple[Tensor, MarkovChains]]:  # fmt: skip
    if not callable(getattr(policy, "log_prob_map", None)):
        raise TypeError(
            f"got a {type(policy).__name__}; allowed are log-probabilities (M, H, W, 4) and policies with a method "
            "log_prob_map(walls, goal), such as MazePolicy"
        )
    indices = _checked_prompts(prompts, pool)
    rules = MazeRules(pool.size, on_wall=on_wall, max_steps=horizon)
    batch_size = check_int("batch_size", batch_size, 1, 2**40)
    for low in range(0, len(indices), batch_size):
        part = indices[low : low + batch_size]
        mazes = pool.arrays(part)
        walls, goal = (torch.from_numpy(array).to(policy.device) for array in (mazes.walls, mazes.goal))
        log_probs = policy.log_prob_map(walls, goal)
        yield checked_chains(log_probs, walls, mazes.start, goal, rules.horizon, on_wall, backend=backend)


def _checked_prompts(prompts: ArrayLike | Tensor | None, pool: Mazes) -> NDArray[np.int64]:
    if not isinstance(pool, MazePool | FreshMazes):
        raise TypeError(
            f"pool must be a MazePool, got {type(pool).__name__}; make one with MazePool.from_layouts([...])"
        )
    if prompts is None and isinstance(pool, FreshMazes):
        raise ValueError(f"{pool!r} has too many mazes to go through; say which, as in prompts=range(256)")
    if prompts is None:
        return np.arange(len(pool))
    indices = prompts.cpu().numpy() if isinstance(prompts, Tensor) else np.asarray(prompts)
    if indices.dtype.kind not in "iu" or indices.ndim != 1 or not len(indices):
        raise TypeError(f"prompts must be a list of one or more integers, got {prompts!r}")
    for place in np.flatnonzero((indices < 0) | (indices >= len(pool)))[:1]:
        raise ValueError(f"prompts[{place}]={indices[place]} is out of range; the pool has mazes 0 to {len(pool) - 1}")
    return indices.astype(np.int64)


def _raise_zero(pool: Mazes, prompt: int, horizon: int) -> None:
    raise ValueError(
        f"prompt {prompt} has success probability 0 in float64, so log p has no gradient (its shortest path has "
        f"{pool[prompt].shortest_path_length} moves, the horizon is {horizon}); give a policy that can solve it, "
        "leave it out of prompts, or pass zero='skip'"
    )
