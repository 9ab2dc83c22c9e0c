"""`MarkovChains`: a memoryless policy in M mazes as M finite Markov chains, with a differentiable success probability.

On the CPU numba kernels do the work, on other devices torch operations. Neither leaves an autograd graph over the
steps: the backward pass is the value recursion of the same chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sera_maze.envs.generating.generate import check_choice, check_int
from sera_maze.envs.layouts.moves import ACTION_STEPS
from sera_maze.envs.play.rules import ON_WALL
from sera_maze.exact import in_torch as markov_torch
from sera_maze.exact import kernels as markov_kernels

Array = Tensor | NDArray[Any]
BACKENDS = ("auto", "kernel", "torch")
# How far the probabilities of a square may sum from 1: float32 is off by 1e-7, a forgotten log_softmax by far more.
_TOLERANCE = 1e-3
_MIN_SIDE = 3


@dataclass(frozen=True)
class MarkovChains:
    """M mazes with the rules of an episode, checked; the policy comes in as log-probabilities (M, H, W, 4).

    Attributes:
        walls: (M, H, W) bool.
        start: (M, 2) int64, (row, column).
        goal: (M, 2) int64, (row, column).
        horizon: moves after which an episode ends, at least 1; the goal on the last of them is a success.
        stay: whether a move into a wall leaves the agent where it is; else it ends the episode in failure.
        kernel: whether the numba kernels are used; else torch operations.
    """

    walls: Tensor
    start: Tensor
    goal: Tensor
    horizon: int
    stay: bool
    kernel: bool

    def success_probability(self, log_probs: Tensor) -> Tensor:
        """(M,) float64, at most 1: probability to reach the goal within the horizon; differentiable once."""
        return _SuccessProbability.apply(log_probs, self)  # type: ignore[no-untyped-call]

    def occupancy(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """Visits (M, H, W) and probability to be under way after the last move (M,); float64, no gradient."""
        log_probs = log_probs.detach()
        if not self.kernel:
            with torch.no_grad():
                return markov_torch.occupancy(log_probs, self.walls, self.start, self.goal, self.horizon, self.stay)
        visits, unfinished = markov_kernels.occupancy(
            _as_numpy(log_probs), *self._arrays(), self.horizon, self.stay, torch.get_num_threads()
        )
        return torch.from_numpy(visits), torch.from_numpy(unfinished)

    def gradient(self, log_probs: Tensor, scale: Tensor) -> Tensor:
        """(M, H, W, 4) float64: gradient of sum over m of scale[m] * p[m] with respect to ``log_probs``."""
        log_probs, scale = log_probs.detach(), scale.detach().to(torch.float64)
        if not self.kernel:
            with torch.no_grad():
                return markov_torch.gradient(
                    log_probs, self.walls, self.start, self.goal, self.horizon, self.stay, scale
                )
        result = markov_kernels.gradient(
            _as_numpy(log_probs), *self._arrays(), self.horizon, self.stay, scale.numpy(), torch.get_num_threads()
        )
        return torch.from_numpy(result)

    def _arrays(self) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
        return self.walls.numpy(), self.start.numpy(), self.goal.numpy()


class _SuccessProbability(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_probs: Tensor, chains: MarkovChains) -> Tensor:
        ctx.save_for_backward(log_probs)
        ctx.chains = chains
        visits, _ = chains.occupancy(log_probs)
        each = torch.arange(len(visits), device=visits.device)
        # Log-probabilities in float32 sum to 1 within 1e-7, which adds up over the steps.
        return visits[each, chains.goal[:, 0], chains.goal[:, 1]].clamp(max=1.0)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        # torch's once_differentiable is silent where grad_output needs no gradient, as after sum(): second derivatives
        # would lack terms.
        if torch.is_grad_enabled():
            raise RuntimeError("the success probability is differentiable once only; leave out create_graph=True")
        (log_probs,) = ctx.saved_tensors
        return ctx.chains.gradient(log_probs, grad_output).to(log_probs.dtype), None


def checked_chains(
    log_probs: Array, walls: Array, start: ArrayLike | Tensor, goal: ArrayLike | Tensor, horizon: int,
    on_wall: str = "fail", *, backend: str = "auto",
) -> tuple[Tensor, MarkovChains]:  # fmt: skip
    """Check everything, and put it on the device of ``log_probs`` (mps has no float64: there, on the CPU).

    Args:
        log_probs: (M, H, W, 4) float, normalised on every open square.
        walls: (M, H, W) bool; the border must be wall.
        start: (M, 2) integers, (row, column) of an open square.
        goal: (M, 2) integers, of another one.
        horizon: at least 1.
        on_wall: "fail" or "stay".
        backend: "auto" (kernel on the CPU, torch elsewhere), "kernel" or "torch".

    Returns:
        log_probs as a tensor, and the chains.

    Raises:
        ValueError, TypeError: for anything else, naming the argument and, where it has one, the maze and the place.
    """
    check_choice("on_wall", on_wall, ON_WALL)
    check_choice("backend", backend, BACKENDS)
    horizon = check_int("horizon", horizon, 1, 2**31 - 1)
    logs = log_probs if isinstance(log_probs, Tensor) else torch.tensor(np.asarray(log_probs))
    if logs.device.type == "mps":
        logs = logs.cpu()
    if not logs.is_floating_point():
        raise TypeError(f"log_probs must be floats, got {logs.dtype}")
    if logs.ndim != 4 or logs.shape[3] != len(ACTION_STEPS) or min(logs.shape[1:3]) < _MIN_SIDE:
        raise ValueError(
            f"log_probs must be (M, H, W, {len(ACTION_STEPS)}) with H and W at least {_MIN_SIDE}, "
            f"got {tuple(logs.shape)}"
        )
    on_cpu = logs.device.type == "cpu"
    if backend == "kernel" and not on_cpu:
        raise ValueError(f"backend='kernel' needs log_probs on the CPU, got {logs.device}; use 'auto' or 'torch'")
    grid = _checked_walls(walls, logs)
    starts, goals = _checked_cells("start", start, grid), _checked_cells("goal", goal, grid)
    for m in (starts == goals).all(1).nonzero()[:1].flatten().tolist():
        raise ValueError(f"start and goal of maze {m} are one square, {tuple(goals[m].tolist())}; allowed: two")
    _check_normalised(logs.detach(), grid)
    return logs, MarkovChains(grid, starts, goals, horizon, on_wall == "stay", on_cpu and backend != "torch")


def _as_tensor(values: ArrayLike | Tensor, device: torch.device) -> Tensor:
    # Arrays are copied: a pool's are read-only, which torch does not share without a warning.
    return values.detach().to(device) if isinstance(values, Tensor) else torch.tensor(np.asarray(values), device=device)


def _as_numpy(tensor: Tensor) -> NDArray[Any]:
    return (tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()).numpy()


def _checked_walls(walls: Array, log_probs: Tensor) -> Tensor:
    grid = _as_tensor(walls, log_probs.device)
    if grid.dtype != torch.bool:
        raise TypeError(f"walls must be bool, True where there is a wall; got {grid.dtype}")
    if grid.shape != log_probs.shape[:3]:
        raise ValueError(
            f"walls must have the shape (M, H, W) = {tuple(log_probs.shape[:3])} of log_probs, got {tuple(grid.shape)}"
        )
    gaps = ~grid
    gaps[:, 1:-1, 1:-1] = False
    for m, row, column in gaps.nonzero()[:1].tolist():
        raise ValueError(f"the border of maze {m} is open at row {row}, column {column}; allowed: a wall")
    return grid.contiguous()


def _checked_cells(name: str, cells: ArrayLike | Tensor, walls: Tensor) -> Tensor:
    places = _as_tensor(cells, walls.device)
    if places.is_floating_point() or places.is_complex() or places.dtype == torch.bool:
        raise TypeError(f"{name} must be integers (row, column), got {places.dtype}")
    if places.shape != (len(walls), 2):
        raise ValueError(f"{name} must be ({len(walls)}, 2), (row, column) of each maze, got {tuple(places.shape)}")
    places = places.long()
    inside = (places >= 0).all(1) & (places < places.new_tensor(walls.shape[1:])).all(1)
    held = places * inside[:, None]  # a corner, which is wall, for those outside
    each = torch.arange(len(walls), device=walls.device)
    for m in walls[each, held[:, 0], held[:, 1]].nonzero()[:1].flatten().tolist():
        row, column = places[m].tolist()
        raise ValueError(
            f"the {name} of maze {m} is at row {row}, column {column}, which is no open square of its "
            f"{walls.shape[1]}x{walls.shape[2]} squares"
        )
    return places


def _check_normalised(log_probs: Tensor, walls: Tensor) -> None:
    exact = log_probs if log_probs.dtype in (torch.float32, torch.float64) else log_probs.float()
    sums = exact.exp().sum(-1)  # (M, H, W)
    # Written so that NaN is bad, too.
    bad = ~((sums - 1).abs() <= _TOLERANCE) & ~walls
    for m, row, column in bad.nonzero()[:1].tolist():
        raise ValueError(
            f"log_probs of maze {m} at row {row}, column {column} are {log_probs[m, row, column].tolist()}, whose "
            f"probabilities sum to {sums[m, row, column].item():.6g}; allowed is 1 within {_TOLERANCE}: use "
            "log_softmax(logits, dim=-1) in float32 or float64"
        )
