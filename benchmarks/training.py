"""Speed of training, beside Stable-Baselines3's PPO and A2C on the same mazes in the same run.

    python benchmarks/training.py [learn] [walk] [paper] [growth]

All on the CPU threads that torch uses; medians of the rounds.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import CallbackList
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv

from sera_maze.envs import MazeEnv, MazePool
from sera_maze.maxrl import SERA
from sera_maze.policies import MazePolicy, SmallGridCNN
from sera_maze.randomness import rollout_keys
from sera_maze.rollouts import owners
from sera_maze.sampling import MapSampler
from sera_maze.walking import walk

ROUNDS = 5


def median_time(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Median seconds of a call, after one that is not counted."""
    work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def trained(warm_start: int = 200, **options: object) -> SERA:
    """A warm-started model with a silent logger, so that rollouts have the lengths of real ones."""
    model = SERA("MazePolicy", MazeEnv(MazePool.generate(4096)), seed=0, **options)
    model.warm_start(warm_start)
    model.set_logger(Logger(None, []))
    return model


def one_update(model: SERA) -> Callable[[], None]:
    """A call that trains on one more batch."""
    model.learn(1, total_updates=0)  # sets up, and takes no batch
    model.total_updates = None
    callback = CallbackList([])
    callback.init_callback(model)
    model._total_timesteps = 2**62
    return lambda: model.step_batch(callback)


def bench_learn() -> None:
    """Environment steps per second inside learn(), 17x17 Prim mazes."""
    pool = MazePool.generate(1024)
    model = trained()
    start, before = time.perf_counter(), model.num_timesteps
    model.learn(2**62, total_updates=60)
    ours = (model.num_timesteps - before) / (time.perf_counter() - start)
    print(f"{'SERA, MazePolicy, 64 mazes x 32 rollouts':<52}{ours:>14,.0f} steps/s")
    small = {
        "features_extractor_class": SmallGridCNN,
        "features_extractor_kwargs": {"features_dim": 64, "channels": 16},
    }
    for algorithm, policy, kwargs, steps in (
        (PPO, "CnnPolicy", small, 2048), (A2C, "CnnPolicy", small, 2048),
        (PPO, MazePolicy, {}, 512), (A2C, MazePolicy, {}, 512),
    ):  # fmt: skip
        env = DummyVecEnv([lambda: MazeEnv(pool)] * 16)
        options = {"n_steps": 128} if algorithm is PPO and policy == "CnnPolicy" else {}
        if algorithm is PPO and policy is MazePolicy:
            options = {"n_steps": 16, "batch_size": 64}
        peer = algorithm(policy, env, policy_kwargs=kwargs, seed=0, **options)
        peer.set_logger(Logger(None, []))
        peer.learn(16)
        rates = []
        for _ in range(3):
            start, before = time.perf_counter(), peer.num_timesteps
            peer.learn(steps, reset_num_timesteps=False)
            rates.append((peer.num_timesteps - before) / (time.perf_counter() - start))
        rate = statistics.median(rates)
        name = policy if isinstance(policy, str) else policy.__name__
        print(f"{f'SB3 {algorithm.__name__}, {name}, 16 envs':<52}{rate:>14,.0f} steps/s   ratio {ours / rate:,.0f}")


def bench_walk() -> None:
    """Steps per second of walks through tables of probabilities (uniform policy, on_wall=stay, 256 mazes x 64)."""
    pool = MazePool.generate(256)
    sampler = MapSampler(pool, MazeEnv(pool, on_wall="stay").rules, seed=0)
    prompts = torch.arange(256)
    owner, number = owners(torch.full((256,), 64))
    keys, board = rollout_keys(0, 0, prompts[owner], number), sampler.board(prompts)
    log_probs = torch.full((256, 17, 17, 4), 0.25).log()
    usual = torch.get_num_threads()
    steps = len(walk(log_probs, board, owner, keys).actions)
    for threads in sorted({1, usual}):
        torch.set_num_threads(threads)
        seconds = median_time(lambda: walk(log_probs, board, owner, keys))
        print(f"{f'{threads} threads':<52}{steps / seconds:>14,.0f} steps/s")
    torch.set_num_threads(usual)


def bench_paper() -> None:
    """One full update of the papers' batch: 256 mazes x 128 rollouts, n_max 512."""
    model = trained(prompts_per_batch=256, rollouts_per_prompt=128, n_max=512)
    update = one_update(model)
    for _ in range(16):  # an epoch, so that the waterline is in use
        update()
    seconds = median_time(update)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{'seconds an update':<52}{seconds:>14.3f} s   peak memory of the process {memory:.2f} GiB")


def bench_growth() -> None:
    """Seconds an update for more mazes, and for more rollouts a maze."""
    for prompts, rollouts in ((32, 32), (64, 32), (128, 32), (256, 32), (64, 64), (64, 128), (64, 256)):
        model = trained(
            prompts_per_batch=prompts, rollouts_per_prompt=rollouts, allocator="uniform", learning_rate=1e-9
        )
        seconds = median_time(one_update(model), 15)
        print(f"{f'{prompts} mazes x {rollouts} rollouts':<52}{1000 * seconds:>14.1f} ms")


BENCHES = {"learn": bench_learn, "walk": bench_walk, "paper": bench_paper, "growth": bench_growth}

if __name__ == "__main__":
    wanted = sys.argv[1:] or list(BENCHES)
    unknown = [name for name in wanted if name not in BENCHES]
    if unknown:
        sys.exit(f"not known: {', '.join(unknown)}; allowed are {', '.join(BENCHES)}")
    np.seterr(all="raise")
    for name in wanted:
        print(f"\n{BENCHES[name].__doc__}")
        BENCHES[name]()
