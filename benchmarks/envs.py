"""Speed of the ground floor: maze generators, environments and start-up, each beside a peer in the same run.

    python benchmarks/envs.py [generate] [single] [vector] [startup] [draw]

One core unless a row says otherwise. Every figure is the median of the rounds, ours and the peer's taken in turn, so
that a machine whose speed drifts does so for both; "ratio" is ours over the peer's.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import gymnasium as gym
import numpy as np

from sera_maze.envs import MazeEnv, MazePool, MazeVectorEnv, generate_layouts
from sera_maze.envs.generating.spec import ALGORITHMS

ROUNDS = 7
Work = Callable[[], int]  # does some work and returns how many units it was


def rate(work: Work) -> float:
    """Units per second of one call."""
    start = time.perf_counter()
    units = work()
    return units / (time.perf_counter() - start)


def compare(name: str, ours: Work, peer_name: str, peer: Work) -> None:
    """Print the medians of both, and of the ratio round by round."""
    ours(), peer()
    pairs = [(rate(ours), rate(peer)) for _ in range(ROUNDS)]
    ratio = statistics.median(a / b for a, b in pairs)
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{name:<58}{mine:>14,.0f}/s   {peer_name:<36}{other:>12,.0f}/s   ratio {ratio:,.1f}")


def plain_prim(side: int, rng: random.Random) -> list[list[int]]:
    """Randomized Prim as one writes it in plain Python: a random frontier cell joins a random carved neighbour."""
    grid = [[1] * side for _ in range(side)]
    row, column = 2 * rng.randrange(side // 2) + 1, 2 * rng.randrange(side // 2) + 1
    grid[row][column] = 0
    frontier: list[tuple[int, int]] = []
    known = {(row, column)}

    def extend(row: int, column: int) -> None:
        for r, c in ((row - 2, column), (row + 2, column), (row, column - 2), (row, column + 2)):
            if 0 < r < side and 0 < c < side and (r, c) not in known:
                known.add((r, c))
                frontier.append((r, c))

    extend(row, column)
    while frontier:
        pick = int(rng.random() * len(frontier))
        row, column = frontier[pick]
        frontier[pick] = frontier[-1]
        frontier.pop()
        carved = [
            (r, c)
            for r, c in ((row - 2, column), (row + 2, column), (row, column - 2), (row, column + 2))
            if 0 < r < side and 0 < c < side and not grid[r][c]
        ]
        r, c = carved[int(rng.random() * len(carved))]
        grid[row][column] = grid[(row + r) // 2][(column + c) // 2] = 0
        extend(row, column)
    return grid


def bench_generate() -> None:
    """Mazes per second."""
    rng = random.Random(0)

    def plain(side: int, count: int) -> int:
        for _ in range(count):
            plain_prim(side, rng)
        return count

    def ours(algorithm: str, side: int, count: int, threads: int = 1) -> int:
        return len(generate_layouts(count, side, algorithm, num_threads=threads).walls)

    for side, count, plain_count in ((17, 100_000, 2_000), (33, 30_000, 500)):
        for algorithm in ALGORITHMS:
            compare(
                f"{side}x{side} {algorithm} mazes", lambda a=algorithm, s=side, n=count: ours(a, s, n),
                "plain-Python Prim", lambda s=side, n=plain_count: plain(s, n),
            )  # fmt: skip
    cores = sorted(os.sched_getaffinity(0))
    if len(ALL_CORES) > 1:
        os.sched_setaffinity(0, ALL_CORES)
        compare(
            f"17x17 prim mazes, {len(ALL_CORES)} threads", lambda: ours("prim", 17, 400_000, len(ALL_CORES)),
            "one thread", lambda: ours("prim", 17, 400_000),
        )  # fmt: skip
        os.sched_setaffinity(0, cores)


def stepper(env: gym.Env, actions: list[int]) -> Work:
    """Step a single environment through ``actions``, resets included."""
    env.reset(seed=0)

    def work() -> int:
        step, reset = env.step, env.reset
        for action in actions:
            _, _, terminated, truncated, _ = step(action)
            if terminated or truncated:
                reset()
        return len(actions)

    return work


def bench_single() -> None:
    """Steps per second of one environment, random actions, resets in the time."""
    actions = np.random.default_rng(0).integers(0, 4, 50_000).tolist()
    pool = MazePool.generate(1024)
    lake = gym.make("FrozenLake-v1", is_slippery=False).unwrapped
    peer = "Gymnasium's FrozenLake (bare)"
    for observation in ("grid", "local", "tokens", "dict"):
        for on_wall in ("fail", "stay"):
            env = MazeEnv(pool, observation=observation, on_wall=on_wall)
            name = f"MazeEnv 17x17 {observation}, on_wall={on_wall}, full info"
            compare(name, stepper(env, actions), peer, stepper(lake, actions))
    try:
        import minigrid  # noqa: F401
    except ImportError:
        print("(pip install minigrid for a comparison with MiniGrid)")
    else:
        room = gym.make("MiniGrid-Empty-16x16-v0").unwrapped
        compare(
            "MazeEnv 17x17 grid, on_wall=fail, full info", stepper(MazeEnv(pool), actions),
            "MiniGrid-Empty-16x16-v0 (bare)", stepper(room, actions[:5_000]),
        )  # fmt: skip


def vector_stepper(env: gym.vector.VectorEnv, actions: np.ndarray) -> Work:
    """Step a vector environment through rows of ``actions``, resets included."""
    env.reset(seed=0)

    def work() -> int:
        for row in actions:
            env.step(row)
        return actions.size

    return work


def bench_vector() -> None:
    """Environment steps per second of 1,024 environments, random actions, resets in the time."""
    actions = np.random.default_rng(0).integers(0, 4, (400, 1024))
    pool = MazePool.generate(1024)
    sync = gym.vector.SyncVectorEnv([lambda: MazeEnv(pool, on_wall="stay")] * 1024, copy=False)
    poles = gym.make_vec("CartPole-v1", 1024, vectorization_mode="vector_entry_point")
    poles_work = vector_stepper(poles, actions % 2)
    compare(
        "MazeVectorEnv 1024 x 17x17 grid, on_wall=stay, copy=False",
        vector_stepper(MazeVectorEnv(1024, pool, on_wall="stay", copy=False), actions),
        "SyncVectorEnv of MazeEnv", vector_stepper(sync, actions[:20]),
    )  # fmt: skip
    for observation in ("grid", "local", "tokens", "dict"):
        for on_wall in ("stay", "fail"):
            for copy in (False, True):
                env = MazeVectorEnv(1024, pool, observation=observation, on_wall=on_wall, copy=copy)
                name = f"MazeVectorEnv 1024 x 17x17 {observation}, on_wall={on_wall}, copy={copy}"
                compare(name, vector_stepper(env, actions), "Gymnasium's CartPoleVectorEnv", poles_work)
    env = MazeVectorEnv(1024, pool, copy=False, autoreset_mode="SameStep")
    name = "MazeVectorEnv 1024 x 17x17 grid, fail, SameStep"
    compare(name, vector_stepper(env, actions), "Gymnasium's CartPoleVectorEnv", poles_work)


FIRST_USE = """
import numpy as np
from sera_maze.envs import MazeEnv, MazePool, MazeVectorEnv
pool = MazePool.generate(10, braid=0.5, openings=1, endpoints="distance", distance=20)
for kind in ("grid", "local", "tokens", "dict"):
    MazeEnv(pool, observation=kind).reset(seed=0)
    env = MazeVectorEnv(4, pool, observation=kind)
    env.reset(seed=0)
    env.step(np.zeros(4, int))
"""


def seconds(code: str, **variables: str) -> float:
    """Wall time of a fresh interpreter that runs ``code``."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **variables})
    return time.perf_counter() - start


def bench_startup() -> None:
    """Seconds to import, and to compile every kernel at first use."""
    base = "import gymnasium, numba"
    names = "LayoutError, MazeEnv, MazeLayout, MazePool, MazeVectorEnv, PromptQueue, generate_layouts"
    codes = {
        base: base,
        "... and import sera_maze.envs": f"{base}; import sera_maze.envs",
        "... and every public name of it": f"{base}; from sera_maze.envs import {names}",
        "first use with compiled kernels on disk": FIRST_USE,
    }
    for code in codes.values():
        seconds(code)
    times = {name: [] for name in codes}
    for _ in range(ROUNDS):
        for name, code in codes.items():
            times[name].append(seconds(code))
    for name, values in times.items():
        print(f"{name:<58}{statistics.median(values):>10.3f} s")
    compiled = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            compiled.append(seconds(FIRST_USE, NUMBA_CACHE_DIR=folder))
    print(f"{'first use ever, every kernel compiled':<58}{statistics.median(compiled):>10.3f} s")


def bench_draw() -> None:
    """Pictures per second."""
    from sera_maze.envs.pictures.drawing import draw_layout, draw_paths

    env = MazeEnv(MazePool.generate(1), on_wall="stay")
    rng = np.random.default_rng(0)
    paths, successes = [], []
    for _ in range(1000):
        env.reset()
        over = False
        while not over:
            _, _, terminated, truncated, info = env.step(int(rng.integers(4)))
            over = terminated or truncated
        paths.append(info["path"])
        successes.append(info["is_success"])
    layout = env.layout

    def several(draw: Callable[[], object]) -> Work:
        return lambda: len([draw() for _ in range(10)])

    compare(
        "17x17 with 1,000 paths", several(lambda: draw_paths(layout, paths, successes)),
        "17x17 without", several(lambda: draw_layout(layout)),
    )  # fmt: skip


ALL_CORES = sorted(os.sched_getaffinity(0))
BENCHES = {
    "generate": bench_generate,
    "single": bench_single,
    "vector": bench_vector,
    "startup": bench_startup,
    "draw": bench_draw,
}

if __name__ == "__main__":
    wanted = sys.argv[1:] or list(BENCHES)
    unknown = [name for name in wanted if name not in BENCHES]
    if unknown:
        sys.exit(f"not known: {', '.join(unknown)}; allowed are {', '.join(BENCHES)}")
    os.sched_setaffinity(0, ALL_CORES[:1])
    for name in wanted:
        print(f"\n{BENCHES[name].__doc__}")
        BENCHES[name]()
