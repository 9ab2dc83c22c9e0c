"""Speed of `sera_maze.allocation.allocation` beside a straightforward NumPy version of the same rule, on two cores.

    python benchmarks/allocation.py [small] [large] [small-cuda] [large-cuda]

Medians of the rounds, ours and the peer's taken in turn; "ratio" is the peer's time over ours, also a median.
Both must give the same counts.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from sera_maze.allocation.allocation import allocate

Counts = NDArray[np.int64]
NUM_THREADS = 2


def mixed(prob: NDArray[np.float64], counts: NDArray[np.float64] | int) -> NDArray[np.float64]:
    """Probability that a group holds a success and a failure."""
    return -np.expm1(counts * np.log1p(-prob)) - np.exp(counts * np.log(prob))


def plain_waterline(decay: NDArray[np.float64], budget: int, n_min: int, n_max: int) -> NDArray[np.float64]:
    """Whole rollouts of active prompts: bisection over the sorted breakpoints, then the rounding by fidelity."""
    breakpoints = np.sort(np.concatenate([(n_min - 1) * decay, (n_max - 1) * decay]))

    def total(tau: float) -> float:
        return float(np.clip(1 + tau / decay, n_min, n_max).sum())

    low, high = 0, len(breakpoints) - 1
    while low < high:
        middle = (low + high) // 2
        if total(breakpoints[middle]) >= budget * (1 - 1e-12):
            high = middle
        else:
            low = middle + 1
    left, right = breakpoints[max(low - 1, 0)], breakpoints[low]
    is_low, is_high = (n_min - 1) * decay >= right, (n_max - 1) * decay <= left
    between = ~is_low & ~is_high
    tau = right
    if between.any():
        room = budget - n_min * is_low.sum() - n_max * is_high.sum() - between.sum()
        tau = min(max(room / (1 / decay[between]).sum(), left), right)
    counts = np.floor(np.where((n_max - 1) * decay <= tau, n_max, np.clip(1 + tau / decay, n_min, n_max)))
    level, now, then = -np.expm1(-tau), -np.expm1(-(counts - 1) * decay), -np.expm1(-counts * decay)
    change = np.where(counts < n_max, (then - now) * (then + now - 2 * level), np.inf)
    counts[np.argsort(change, kind="stable")[: int(budget - counts.sum())]] += 1
    return counts


def plain_allocate(prob: NDArray[np.float64], budget: int, n_min: int, n_max: int, threshold: float | None) -> Counts:
    """The rule with the active set."""
    decay = -np.log1p(-prob)
    result = np.zeros(len(prob), np.int64)
    if threshold is None:
        result[:] = plain_waterline(decay, budget, n_min, n_max)
        return result
    score = np.round(mixed(prob, n_max) * 2.0**44)
    order = np.argsort(-score, kind="stable")

    def solve(size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        chosen = np.sort(order[:size])
        return chosen, plain_waterline(decay[chosen], budget, n_min, n_max)

    low = best = -(-budget // n_max)
    high = int((score >= threshold * 2.0**44).sum())
    while low <= high:
        middle = (low + high) // 2
        chosen, counts = solve(middle)
        if (mixed(prob[chosen], counts) >= threshold - 1e-12).all():
            low, best = middle + 1, middle
        else:
            high = middle - 1
    chosen, counts = solve(best)
    result[chosen] = counts
    return result


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - start)


def compare(name: str, rounds: int, ours: Callable[[], object], peer: Callable[[], object] | None) -> None:
    """Print the medians of both, and of the ratio round by round."""
    ours()
    pairs = [(timed(ours), timed(peer) if peer else float("nan")) for _ in range(rounds)]
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    against = f"   plain NumPy {other:>12,.2f} ms   ratio {ratio:,.1f}" if peer else ""
    print(f"{name:<66}{mine:>12,.2f} ms{against}")


def probabilities(num_prompts: int) -> NDArray[np.float64]:
    """A pool as it is in training: many hard prompts, some solved, most between."""
    rng = np.random.default_rng(0)
    return np.clip(rng.beta(0.3, 0.7, num_prompts), 1e-12, 1 - 1e-12)


def bench(num_prompts: int, rounds: int, device: str) -> None:
    """Milliseconds per allocation, N0 = 128, n_min = 2, n_max = 512."""
    prob = probabilities(num_prompts)
    tensor, budget = torch.from_numpy(prob).to(device), 128 * num_prompts
    for threshold in (0.05, None):

        def peer(threshold: float | None = threshold) -> Counts:
            return plain_allocate(prob, budget, 2, 512, threshold)

        for rounding in ("fidelity", "maxmin"):

            def ours(threshold: float | None = threshold, rounding: str = rounding) -> Counts:
                result = allocate(tensor, budget, n_max=512, activation_threshold=threshold, rounding=rounding)
                return result.counts.cpu().numpy()

            same_rule = rounding == "fidelity"
            if same_rule and not np.array_equal(ours(), peer()):
                sys.exit(f"the counts differ for {num_prompts} prompts, threshold {threshold}")
            name = f"{num_prompts:,} prompts, {rounding}, {'active set' if threshold else 'all active'}, {device}"
            compare(name, rounds, ours, peer if same_rule else None)


# prompts, rounds, device
BENCHES = {
    "small": (256, 101, "cpu"),
    "large": (1_000_000, 3, "cpu"),
    "small-cuda": (256, 101, "cuda"),
    "large-cuda": (1_000_000, 3, "cuda"),
}

if __name__ == "__main__":
    wanted = sys.argv[1:] or ["small", "large"]
    unknown = [name for name in wanted if name not in BENCHES]
    if unknown:
        sys.exit(f"not known: {', '.join(unknown)}; allowed are {', '.join(BENCHES)}")
    torch.set_num_threads(NUM_THREADS)
    print(f"{torch.get_num_threads()} threads; {bench.__doc__}")
    for name in wanted:
        bench(*BENCHES[name])
