"""Speed of training on this machine, beside Stable-Baselines3's PPO and A2C in the same run: ``sera-maze bench``."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import CallbackList
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv

from sera_maze.algorithm.maxrl import SERA
from sera_maze.allocation.allocation import allocate
from sera_maze.envs.play.maze import MazeEnv
from sera_maze.envs.pools.pool import MazePool
from sera_maze.policies.maze import MazePolicy
from sera_maze.policies.small_grid import SmallGridCNN
from sera_maze.sampling.maps import MapSampler
from sera_maze.sampling.plain_mazes import PlainMazes
from sera_maze.sampling.randomness import rollout_keys
from sera_maze.sampling.rollouts import owners
from sera_maze.sampling.walking import walk

ROUNDS = 5
_PEER_ENVS = 16


class Figure(NamedTuple):
    """One line of a benchmark.

    Attributes:
        name: what was measured.
        value: the median of the rounds.
        unit: of the value.
        ratio: ours over this one, the median of the rounds; None if the line is no peer.
    """

    name: str
    value: float
    unit: str
    ratio: float | None = None


def median_time(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Median seconds of a call, after one that is not counted."""
    work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def warm_model(device: str, **options: Any) -> SERA:
    """A warm-started model for 17x17 mazes with a silent logger, so that rollouts have the lengths of real ones."""
    model = SERA("MazePolicy", MazeEnv(MazePool.generate(4096)), seed=0, device=device, **options)
    model.warm_start(200)
    model.set_logger(Logger(None, []))
    return model


def one_update(model: SERA) -> Callable[[], None]:
    """A call that trains on one more batch and waits for the device."""
    model.learn(1, total_updates=0)  # sets up, and takes no batch
    model.total_updates = None
    callback = CallbackList([])
    callback.init_callback(model)
    model._total_timesteps = 2**62

    def update() -> None:
        model.step_batch(callback)
        if model.device.type == "cuda":
            torch.cuda.synchronize(model.device)

    return update


def _steps_per_second(model: OnPolicyAlgorithm, steps: int, **options: Any) -> float:
    start, before = time.perf_counter(), model.num_timesteps
    model.learn(steps, reset_num_timesteps=False, **options)
    return (model.num_timesteps - before) / (time.perf_counter() - start)


def _peers(pool: MazePool, device: str) -> Iterator[tuple[str, OnPolicyAlgorithm, int]]:
    """Name, algorithm and steps a round of what we compare with."""
    cnn: dict[str, Any] = {
        "features_extractor_class": SmallGridCNN, "features_extractor_kwargs": {"features_dim": 64, "channels": 16},
    }  # fmt: skip
    rows: tuple[tuple[type[PPO] | type[A2C], Any, dict[str, Any], dict[str, Any], int], ...] = (
        (PPO, "CnnPolicy", cnn, {"n_steps": 128}, 2048),
        (A2C, "CnnPolicy", cnn, {}, 2048),
        (PPO, MazePolicy, {}, {"n_steps": 16, "batch_size": 64}, 512),
        (A2C, MazePolicy, {}, {}, 512),
    )
    for kind, policy, policy_kwargs, options, steps in rows:
        env = DummyVecEnv([lambda: MazeEnv(pool)] * _PEER_ENVS)
        peer: OnPolicyAlgorithm = kind(policy, env, policy_kwargs=policy_kwargs, seed=0, device=device, **options)
        peer.set_logger(Logger(None, []))
        name = policy if isinstance(policy, str) else policy.__name__
        yield f"SB3 {kind.__name__}, {name}, {_PEER_ENVS} envs", peer, steps


def bench_learn(device: str) -> Iterator[Figure]:
    """Environment steps per second inside learn(), 17x17 Prim mazes."""
    model = warm_model(device)
    peers = list(_peers(MazePool.generate(1024), device))
    model.learn(2**62, total_updates=5)
    for _, peer, _ in peers:
        peer.learn(_PEER_ENVS)
    ours: list[float] = []
    theirs: list[list[float]] = []
    for round_number in range(1, ROUNDS + 1):
        ours.append(_steps_per_second(model, 2**62, total_updates=5 + 20 * round_number))
        theirs.append([_steps_per_second(peer, steps) for _, peer, steps in peers])
    yield Figure("SERA, MazePolicy, 64 mazes x 32 rollouts", statistics.median(ours), "steps/s")
    for (name, _, _), rates in zip(peers, zip(*theirs, strict=True), strict=True):
        ratio = statistics.median(one / other for one, other in zip(ours, rates, strict=True))
        yield Figure(name, statistics.median(rates), "steps/s", ratio)


def bench_walk(device: str) -> Iterator[Figure]:
    """Steps per second of walks through tables of probabilities (uniform policy, on_wall=stay, 256 mazes x 64)."""
    pool = MazePool.generate(256)
    sampler = MapSampler(PlainMazes(pool, MazeEnv(pool, on_wall="stay").rules), seed=0)
    prompts = torch.arange(256, device=device)
    owner, number = owners(torch.full((256,), 64, device=device))
    keys, mazes = rollout_keys(0, 0, prompts[owner], number), sampler.flat(sampler.look_up(prompts))
    log_probs = torch.full((256, 17, 17, 4), 0.25, device=device).log()
    steps = len(walk(log_probs, mazes, owner, keys).actions)
    usual = torch.get_num_threads()
    try:
        for threads in sorted({1, usual}):
            torch.set_num_threads(threads)
            seconds = median_time(lambda: len(walk(log_probs, mazes, owner, keys).actions))
            yield Figure(f"{threads} threads", steps / seconds, "steps/s")
    finally:
        torch.set_num_threads(usual)


def bench_allocate(device: str) -> Iterator[Figure]:
    """Milliseconds of one allocation with the active set, N0 = 128, n_max = 512, chances drawn from Beta(0.3, 0.7)."""
    for prompts, rounds in ((256, 101), (1_000_000, 3)):
        drawn = np.random.default_rng(0).beta(0.3, 0.7, prompts).clip(1e-12, 1 - 1e-12)
        work = partial(_allocated, torch.from_numpy(drawn).to(device))
        yield Figure(f"{prompts:,} prompts", 1000 * median_time(work, rounds), "ms")


def _allocated(chances: torch.Tensor) -> float:
    """Allocate and wait for the device."""
    return allocate(chances, 128 * len(chances), n_max=512).counts.sum().item()


def bench_paper(device: str) -> Iterator[Figure]:
    """One full update of the papers' batch: 256 mazes x 128 rollouts, n_max 512."""
    model = warm_model(device, prompts_per_batch=256, rollouts_per_prompt=128, n_max=512)
    update = one_update(model)
    for _ in range(16):  # an epoch, so that the waterline is in use
        update()
    yield Figure("seconds an update", median_time(update), "s")
    # Linux counts in kibibytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    yield Figure("peak memory of the process so far", peak / 2**30, "GiB")


def bench_growth(device: str) -> Iterator[Figure]:
    """Milliseconds an update for more mazes, and for more rollouts a maze (even shares, almost no learning)."""
    options: dict[str, Any] = {"allocator": "uniform", "learning_rate": 1e-9}
    shapes = ((32, 32), (64, 32), (128, 32), (256, 32), (64, 64), (64, 128), (64, 256))
    updates = [
        one_update(warm_model(device, prompts_per_batch=prompts, rollouts_per_prompt=rollouts, **options))
        for prompts, rollouts in shapes
    ]
    times: list[list[float]] = [[] for _ in shapes]
    for update in updates:
        update()
    for _ in range(15):  # in turn, so that a machine whose speed drifts does so for all
        for update, taken in zip(updates, times, strict=True):
            start = time.perf_counter()
            update()
            taken.append(time.perf_counter() - start)
    for (prompts, rollouts), taken in zip(shapes, times, strict=True):
        yield Figure(f"{prompts} mazes x {rollouts} rollouts", 1000 * statistics.median(taken), "ms")


BENCHES: dict[str, Callable[[str], Iterator[Figure]]] = {
    "learn": bench_learn, "walk": bench_walk, "allocate": bench_allocate, "paper": bench_paper, "growth": bench_growth,
}  # fmt: skip
