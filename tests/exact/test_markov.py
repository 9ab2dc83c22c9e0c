"""The two ways to compute the chains give the same numbers, however the work is cut."""

import numpy as np
import pytest
import torch

from sera_maze.envs.generating.generate import generate_layouts
from sera_maze.envs.layouts.moves import action_masks
from sera_maze.exact import in_torch as markov_torch
from sera_maze.exact import kernels as markov_kernels
from sera_maze.exact.chains import checked_chains

RULES = ("fail", "stay")


def random_policy(mazes, seed=0, sharpness=2.0, dtype=torch.float64):
    """Log-probabilities for mazes (walls, start, goal), without global randomness."""
    logits = np.random.default_rng(seed).normal(scale=sharpness, size=(*mazes.walls.shape, 4))
    logits -= 5 * ~action_masks(mazes.walls)  # else hardly anybody survives to the horizon
    return torch.log_softmax(torch.tensor(logits, dtype=dtype), -1)


def both(mazes, log_probs, horizon, on_wall, scale=None):
    """Occupancies and gradients of the kernels and of torch."""
    results = []
    for backend in ("kernel", "torch"):
        logs, chains = checked_chains(log_probs, *mazes, horizon, on_wall, backend=backend)
        weights = torch.ones(len(logs)) if scale is None else scale
        results.append((*chains.occupancy(logs), chains.gradient(logs, weights)))
    return results


@pytest.mark.parametrize("on_wall", RULES)
@pytest.mark.parametrize(("size", "algorithm", "horizon"), [((17, 17), "prim", 180), ((5, 11), "rooms", 7)])
def test_kernel_equals_torch(on_wall, size, algorithm, horizon):
    mazes = generate_layouts(16, size, algorithm, 3, braid=0.3, endpoints="random")
    scale = torch.linspace(-1, 2, 16, dtype=torch.float64)
    kernel, plain = both(mazes, random_policy(mazes, sharpness=0.5), horizon, on_wall, scale)
    for one, other in zip(kernel, plain, strict=True):
        assert one.dtype == other.dtype == torch.float64
        assert one.abs().max() > 1e-6
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("on_wall", RULES)
def test_kernel_equals_torch_where_p_is_tiny(on_wall):
    """A scale of 1 / p, as the gradient of log p has it: relative agreement where p is 1e-30 and below."""
    mazes = generate_layouts(30, (9, 9), "dfs", 1, endpoints="farthest")
    log_probs = random_policy(mazes, sharpness=12.0)
    logs, chains = checked_chains(log_probs, *mazes, 60, on_wall)
    p = chains.success_probability(logs)
    assert p.min() < 1e-30
    kernel, plain = both(mazes, log_probs, 60, on_wall, 1 / p)
    torch.testing.assert_close(kernel[2], plain[2], rtol=1e-12, atol=1e-12)
    assert kernel[2].amax((1, 2, 3)).min() > 0.99  # every successful path takes its first action once


@pytest.mark.parametrize("on_wall", RULES)
@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 5, 8, 9, 10, 50])
def test_segments_do_not_change_the_gradient(on_wall, horizon, monkeypatch):
    """Where the occupancies of all steps do not fit, they are computed twice, in segments."""
    mazes = generate_layouts(20, (5, 7), "prim", 2)
    logs, chains = checked_chains(random_policy(mazes), *mazes, horizon, on_wall)
    whole = chains.gradient(logs, torch.ones(20))
    monkeypatch.setattr(markov_kernels, "_MAX_HISTORY_BYTES", 0)
    assert torch.equal(chains.gradient(logs, torch.ones(20)), whole)


def test_chunks_of_the_torch_path_do_not_change_results(monkeypatch):
    mazes = generate_layouts(7, (5, 7), "prim", 2)
    logs, chains = checked_chains(random_policy(mazes), *mazes, 30, "stay", backend="torch")
    whole = (*chains.occupancy(logs), chains.gradient(logs, torch.ones(7)))
    monkeypatch.setattr(markov_torch, "_CHUNK_BYTES", 0)
    assert len(list(markov_torch._chunks(chains.walls, 1))) == 7
    for one, other in zip(whole, (*chains.occupancy(logs), chains.gradient(logs, torch.ones(7))), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-14, atol=1e-15)


def test_threads_and_neighbours_change_no_digit():
    mazes = generate_layouts(50, (9, 9), "wilson", 4)
    log_probs, scale = random_policy(mazes).numpy(), np.ones(50)
    alone = [markov_kernels.gradient(log_probs[i:i + 1], *(a[i:i + 1] for a in mazes), 60, False, scale[i:i + 1])
             for i in range(50)]  # fmt: skip
    for threads in (1, 3):
        together = markov_kernels.gradient(log_probs, *mazes, 60, False, scale, threads)
        np.testing.assert_array_equal(together, np.concatenate(alone))
        visits, unfinished = markov_kernels.occupancy(log_probs, *mazes, 60, False, threads)
        single, running = markov_kernels.occupancy(log_probs, *mazes, 60, False)
        np.testing.assert_array_equal(visits, single)
        np.testing.assert_array_equal(unfinished, running)


def test_no_graph_over_the_steps():
    mazes = generate_layouts(3, (5, 7), "prim", 2)
    for backend in ("kernel", "torch"):
        log_probs = random_policy(mazes).requires_grad_()
        logs, chains = checked_chains(log_probs, *mazes, 100, "fail", backend=backend)
        ((source, _), *rest) = chains.success_probability(logs).grad_fn.next_functions
        assert source.variable is log_probs
        assert all(node is None for node, _ in rest)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("on_wall", RULES)
def test_gpu_equals_cpu(on_wall):
    mazes = generate_layouts(300, (17, 17), "prim", 3)
    log_probs = random_policy(mazes)
    results = []
    for device in ("cpu", "cuda"):
        logs, chains = checked_chains(log_probs.to(device), *mazes, 180, on_wall)
        results.append((*chains.occupancy(logs), chains.gradient(logs, torch.ones(300, device=device))))
    for one, other in zip(*results, strict=True):
        assert other.device.type == "cuda"
        torch.testing.assert_close(one, other.cpu(), rtol=1e-12, atol=1e-12)
