"""Digests of what short trainings end with: run it in two checkouts and compare what it prints.

A change that moves code must leave every line as it was. The digests depend on the machine and on the versions of the
libraries, so they mean something only beside those that the same machine printed for the other checkout:

    python benchmarks/same_numbers.py > after.txt; (cd OTHER && python benchmarks/same_numbers.py) > before.txt
    diff before.txt after.txt

Each line: what was trained, seed, digest of the policy's parameters after 20 updates, digest of the final evaluation.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from sera_maze import MaxRL, MazePool
from sera_maze.cli import main
from sera_maze.envs import MazeEnv, PromptQueue

SEEDS, UPDATES = (0, 1, 2), 20
_COMMON = ("--warm-start", "20", "--updates", str(UPDATES), "--eval-every", "10", "--threads", "1", "--device", "cpu")
SHELL = {
    "quick": (),
    "uniform": ("--allocator", "uniform"),
    "critic": ("--success", "critic"),
    "fresh": ("--fresh-mazes",),
    "history": ("--num-mazes", "256"),  # short epochs, so that the waterline is in use
    "exact": ("--success", "exact"),
    "posterior": ("--num-mazes", "256", "--allocator", "sera_posterior"),
    "knapsack": ("--num-mazes", "256", "--allocator", "knapsack", "--advantage", "rloo"),
}


def digest(tensors: dict[str, Tensor]) -> str:
    """Digest of named tensors, bit by bit."""
    content = hashlib.sha256()
    for name in sorted(tensors):
        content.update(name.encode() + tensors[name].detach().cpu().contiguous().numpy().tobytes())
    return content.hexdigest()[:16]


def shell_run(name: str, seed: int, folder: Path) -> tuple[str, str]:
    """Train by the command line; digests of the parameters, and of the pass@k table and successes."""
    out = folder / f"{name}-{seed}"
    options = ["train", "--preset", "quick", "--seed", str(seed), "--out", str(out), *_COMMON, *SHELL[name]]
    stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        if main(options):
            raise SystemExit(f"{name} failed")
    finally:
        sys.stdout = stdout
    (tensors,) = out.glob("checkpoint/v*/tensors.safetensors")
    policy = {key: value for key, value in safetensors.torch.load_file(tensors).items() if key.startswith("policy/")}
    found = json.loads((out / "evaluation.json").read_text())
    figures = [found["pass_at_k"], found["mean_steps"], found["mean_distinct_solutions"]]
    return digest(policy), hashlib.sha256(json.dumps(figures).encode()).hexdigest()[:16]


def stepped(kind: str, seed: int) -> tuple[str, str]:
    """Train by stepping environments."""
    if kind == "step-maze":
        env: gym.Env = MazeEnv(MazePool.generate(64, size=(9, 9), seed=seed))
        model = MaxRL("MazePolicy", env, allocator="sera", sampler="step", prompts_per_batch=16, rollouts_per_prompt=8,
                      seed=seed, device="cpu")  # fmt: skip
    else:
        env = PromptQueue(gym.make("CartPole-v1"), prompts=list(range(32)), success=lambda episode: episode.steps >= 30)
        model = MaxRL("MlpPolicy", env, allocator="sera", success="critic" if kind == "step-critic" else "history",
                      prompts_per_batch=8, rollouts_per_prompt=8, seed=seed, device="cpu", n_epochs=2)  # fmt: skip
    model.learn(2**40, total_updates=UPDATES)
    return digest(model.policy.state_dict()), f"{model.num_timesteps}"


def rows() -> Iterator[tuple[str, int, str, str]]:
    """All trainings: name, seed, digest of the parameters, digest of the evaluation or number of steps."""
    with tempfile.TemporaryDirectory() as folder:
        for seed in SEEDS:
            for name in SHELL:
                yield name, seed, *shell_run(name, seed, Path(folder))
            for kind in ("step-maze", "step-queue", "step-critic"):
                yield kind, seed, *stepped(kind, seed)


if __name__ == "__main__":
    torch.set_num_threads(1)
    np.seterr(all="raise", under="ignore")
    for row in rows():
        print(*row, flush=True)
