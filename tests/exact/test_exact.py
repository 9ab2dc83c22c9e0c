"""Exact success probabilities and gradients against hand values, enumeration of all rollouts and finite differences."""

import math
import re

import numpy as np
import pytest
import torch
from torch import nn

from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.layouts.moves import ACTION_STEPS
from sera_maze.envs.pools.pool import MazePool
from sera_maze.exact.probability import (
    exact_pass_at_k,
    expected_steps,
    log_likelihood_gradient,
    success_probability,
    visits,
)

RULES = ("fail", "stay")
BACKENDS = ("kernel", "torch")
TINY = {
    "corridor": "#####\n#S G#\n#####",
    "room": "#####\n#S  #\n#  G#\n#   #\n#####",
    "bend": "#####\n# # #\n#S#G#\n#   #\n#####",
}


def arrays(*drawings):
    """Walls, starts and goals of drawings of one size."""
    layouts = [MazeLayout.from_text(drawing) for drawing in drawings]
    return tuple(np.array([getattr(layout, name) for layout in layouts]) for name in ("walls", "start", "goal"))


def random_log_probs(walls, seed=0, sharpness=1.0):
    logits = np.random.default_rng(seed).normal(scale=sharpness, size=(*walls.shape, 4))
    return torch.log_softmax(torch.from_numpy(logits), -1)


def rollouts(probs, layout, cell, moves, on_wall, path=()):
    """Every rollout from ``cell`` within ``moves`` moves: probability, ((cell, action), ...), last cell or None."""
    if cell in (None, layout.goal) or moves == 0:
        yield 1.0, path, cell
        return
    for action, (down, right) in enumerate(ACTION_STEPS):
        following = (cell[0] + down, cell[1] + right)
        if layout.walls[following]:
            following = cell if on_wall == "stay" else None
        rest = rollouts(probs, layout, following, moves - 1, on_wall, (*path, (cell, action)))
        for probability, whole, end in rest:
            yield probs[cell][action] * probability, whole, end


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("on_wall", RULES)
@pytest.mark.parametrize(("name", "horizon"), [("corridor", 6), ("corridor", 2), ("room", 6), ("bend", 6), ("bend", 5)])
def test_all_rollouts_enumerated(name, horizon, on_wall, backend):
    """The success probability, its gradient, visits and steps are those of the sum over all action sequences."""
    mazes = arrays(TINY[name])
    layout = MazeLayout.from_text(TINY[name])
    log_probs = random_log_probs(mazes[0], seed=horizon).requires_grad_()
    probs = log_probs.detach().exp().numpy()[0]
    p = steps = 0.0
    counts, stood = np.zeros(probs.shape), np.zeros(layout.size)
    for probability, path, end in rollouts(probs, layout, layout.start, horizon, on_wall):
        steps += probability * len(path)
        for cell, action in path:
            stood[cell] += probability
            if end == layout.goal:
                counts[(*cell, action)] += probability
        if end is not None:
            stood[end] += probability
        p += probability * (end == layout.goal)
    assert 1e-4 < p < 1 or (name, horizon, p) == ("bend", 5, 0)
    options = {"on_wall": on_wall, "backend": backend}
    exact = success_probability(log_probs, *mazes, horizon, **options)
    assert exact.dtype == torch.float64
    assert exact.tolist() == pytest.approx([p], rel=1e-13)
    # d/dlog pi(a|s) of a product of probabilities is that product times the number of times (s, a) occurs in it.
    (gradient,) = torch.autograd.grad(exact.sum(), log_probs)
    np.testing.assert_allclose(gradient[0], counts, rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(visits(log_probs, *mazes, horizon, **options)[0], stood, rtol=1e-13, atol=1e-16)
    assert expected_steps(log_probs, *mazes, horizon, **options).tolist() == pytest.approx([steps], rel=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("on_wall", RULES)
@pytest.mark.parametrize("horizon", [1, 2, 7])
def test_gradcheck(backend, on_wall, horizon):
    mazes = arrays("#####\n#S G#\n#####", "#####\n#GS #\n#####")
    log_probs = random_log_probs(mazes[0]).requires_grad_()

    def function(logs):
        return success_probability(logs, *mazes, horizon, on_wall, backend=backend)

    assert torch.autograd.gradcheck(function, (log_probs,), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("on_wall", RULES)
def test_finite_difference_of_log_p_through_softmax(on_wall):
    pool = MazePool.generate(6, 9, "prim", seed=3, braid=0.5)
    rng = np.random.default_rng(0)
    logits, direction = (torch.from_numpy(rng.normal(size=(*pool.walls.shape, 4))) for _ in range(2))

    def mean_log_p(values):
        p = success_probability(torch.log_softmax(values, -1), pool.walls, pool.start, pool.goal, 50, on_wall)
        return p.log().mean()

    logits.requires_grad_()
    (gradient,) = torch.autograd.grad(mean_log_p(logits), logits)
    with torch.no_grad():
        slope = (mean_log_p(logits + 1e-5 * direction) - mean_log_p(logits - 1e-5 * direction)) / 2e-5
    assert float((gradient * direction).sum()) == pytest.approx(float(slope), rel=1e-7)


@pytest.mark.parametrize("backend", BACKENDS)
def test_hand_values(backend):
    """A corridor of two squares with the uniform policy: RIGHT reaches the goal, every other move hits a wall."""
    mazes = arrays("####\n#SG#\n####")
    uniform = torch.full((1, 3, 4, 4), 0.25).log()
    for horizon, failing, staying in ((1, 1 / 4, 1 / 4), (2, 1 / 4, 7 / 16), (3, 1 / 4, 37 / 64)):
        for on_wall, p in (("fail", failing), ("stay", staying)):
            found = success_probability(uniform, *mazes, horizon, on_wall, backend=backend)
            assert found.tolist() == pytest.approx([p], rel=1e-7)  # log 1/4 in float32
    assert expected_steps(uniform, *mazes, 3, "fail", backend=backend).tolist() == pytest.approx([1], rel=1e-6)
    steps = expected_steps(uniform, *mazes, 3, "stay", backend=backend).tolist()
    assert steps == pytest.approx([1 + 3 / 4 + 9 / 16], rel=1e-6)
    stood = visits(uniform, *mazes, 3, "stay", backend=backend)[0, 1].tolist()
    assert stood == pytest.approx([0, 1 + 3 / 4 + 9 / 16 + 27 / 64, 37 / 64, 0], rel=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_goal_on_the_last_step_counts(backend):
    mazes = arrays("######\n#S  G#\n######")
    right = torch.full((1, 3, 6, 4), -math.inf)
    right[..., 3] = 0
    assert success_probability(right, *mazes, 3, backend=backend).tolist() == [1]
    assert success_probability(right, *mazes, 2, backend=backend).tolist() == [0]
    assert expected_steps(right, *mazes, 2, backend=backend).tolist() == [2]
    assert expected_steps(right, *mazes, 180, backend=backend).tolist() == [3]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("on_wall", RULES)
@pytest.mark.parametrize("moves", [10, 15])
def test_gradient_of_log_p_at_tiny_p(backend, on_wall, moves):
    """A corridor that needs the rare action at every one of its squares: p = q**moves, so dlog p / dlog q = moves."""
    mazes = arrays("\n".join(("#" * (moves + 3), "#S" + " " * (moves - 1) + "G#", "#" * (moves + 3))))
    q = 1e-20
    log_probs = torch.full((1, 3, moves + 3, 4), (1 - q) / 3, dtype=torch.float64)
    log_probs[..., 3] = q
    log_probs = log_probs.log().requires_grad_()
    p = success_probability(log_probs, *mazes, moves, on_wall, backend=backend)
    assert p.tolist() == pytest.approx([10.0 ** (-20 * moves)], rel=1e-12)
    (gradient,) = torch.autograd.grad(p.log().sum(), log_probs)
    expected = torch.zeros_like(gradient)
    expected[0, 1, 1 : moves + 1, 3] = 1
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_walls_may_hold_anything_and_minus_infinity_forbids(backend):
    mazes = arrays(TINY["room"])
    logits = random_log_probs(mazes[0], seed=5)
    logits[0, 1, 1, 0] = -math.inf
    log_probs = torch.log_softmax(logits, -1)
    clean = success_probability(log_probs, *mazes, 6, backend=backend)
    log_probs[torch.from_numpy(mazes[0])] = math.nan
    log_probs.requires_grad_()
    p = success_probability(log_probs, *mazes, 6, backend=backend)
    assert torch.equal(p, clean)
    (gradient,) = torch.autograd.grad(p.sum(), log_probs)
    assert gradient.isfinite().all()
    assert not gradient[torch.from_numpy(mazes[0])].any()
    assert gradient[0, 1, 1, 0] == 0
    assert gradient[0, 1, 1, 3] > 0


def test_input_types_and_layouts():
    """float32, float16, numpy arrays, strided tensors; the gradient has the type of the input."""
    mazes = arrays(TINY["room"], TINY["bend"])
    double = random_log_probs(mazes[0])
    p = success_probability(double, *mazes, 6)
    for other, tolerance in ((double.float(), 1e-6), (double.half(), 1e-2), (double.numpy(), 0)):
        torch.testing.assert_close(success_probability(other, *mazes, 6), p, rtol=tolerance, atol=0)
    single = double.float().requires_grad_()
    (gradient,) = torch.autograd.grad(success_probability(single, *mazes, 6).sum(), single)
    assert gradient.dtype == torch.float32
    strided = double.permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0)
    tensors = [torch.from_numpy(array) for array in mazes]
    assert torch.equal(success_probability(strided, *tensors, 6), p)
    assert success_probability(double[:0], *(array[:0] for array in mazes), 6).shape == (0,)


def test_never_above_one():
    """Float32 probabilities that sum to a little more than 1 do not give more than 1."""
    mazes = arrays("######\n#S  G#\n######")
    right = torch.full((1, 3, 6, 4), -math.inf)
    right[..., 3] = 1e-4
    assert success_probability(right, *mazes, 3).tolist() == [1]


def test_second_derivatives_are_refused():
    mazes = arrays(TINY["corridor"])
    log_probs = random_log_probs(mazes[0]).requires_grad_()
    p = success_probability(log_probs, *mazes, 4)
    for value in (p.sum(), p.log().sum()):
        with pytest.raises(RuntimeError, match="differentiable once only; leave out create_graph=True"):
            torch.autograd.grad(value, log_probs, create_graph=True)


MAZES = arrays(TINY["corridor"], "#####\n#G S#\n#####")
GOOD = {
    "log_probs": torch.full((2, 3, 5, 4), 0.25).log(),
    **dict(zip(("walls", "start", "goal"), MAZES, strict=True)),
    "horizon": 5,
}


def changed(array, place, value):
    copy = array.clone() if isinstance(array, torch.Tensor) else array.copy()
    copy[place] = value
    return copy


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"log_probs": GOOD["log_probs"][..., :3]}, ValueError, "log_probs must be (M, H, W, 4)"),
        ({"log_probs": GOOD["log_probs"].long()}, TypeError, "log_probs must be floats, got torch.int64"),
        ({"log_probs": GOOD["log_probs"] + 0.01}, ValueError, "of maze 0 at row 1, column 1 are [-1.37"),
        ({"log_probs": changed(GOOD["log_probs"], (1, 1, 2, 0), math.nan)}, ValueError, "sum to nan; allowed is 1"),
        ({"log_probs": changed(GOOD["log_probs"], (1, 1, 2), -math.inf)}, ValueError, "of maze 1 at row 1, column 2"),
        ({"walls": MAZES[0].astype(int)}, TypeError, "walls must be bool"),
        ({"walls": MAZES[0][:1]}, ValueError, "walls must have the shape (M, H, W) = (2, 3, 5) of log_probs"),
        ({"walls": changed(MAZES[0], (1, 2, 3), False)}, ValueError, "border of maze 1 is open at row 2, column 3"),
        ({"start": MAZES[1][:1]}, ValueError, "start must be (2, 2)"),
        ({"start": MAZES[1].astype(float)}, TypeError, "start must be integers"),
        ({"start": changed(MAZES[1], 0, 0)}, ValueError, "the start of maze 0 is at row 0, column 0, which is no open"),
        ({"goal": changed(MAZES[2], (1, 1), -3)}, ValueError, "the goal of maze 1 is at row 1, column -3"),
        ({"goal": changed(MAZES[2], (1, 1), 3)}, ValueError, "start and goal of maze 1 are one square, (1, 3)"),
        ({"horizon": 0}, ValueError, "horizon=0 is out of range"),
        ({"horizon": 2.5}, TypeError, "horizon=2.5 is not an integer"),
        ({"on_wall": "stey"}, ValueError, "did you mean 'stay'?"),
        ({"backend": "numba"}, ValueError, "backend='numba' is not known"),
    ],
)
def test_errors(change, error, message):
    for function in (success_probability, visits, expected_steps):
        arguments = {**GOOD, **change}
        with pytest.raises(error, match=re.escape(message)):
            function(arguments.pop("log_probs"), **arguments)


class ConvPolicy(nn.Module):
    """One convolution over walls and goal; a head takes no part, as a success head does not."""

    def __init__(self, seed=0):
        super().__init__()
        self.conv, self.head = nn.Conv2d(2, 4, 3, padding=1), nn.Linear(2, 1)
        rng = np.random.default_rng(seed)
        for value in self.parameters():
            value.data = torch.from_numpy(rng.normal(size=value.shape))
        self.calls = []

    @property
    def device(self):
        return self.conv.weight.device

    def log_prob_map(self, walls, goal):
        assert walls.dtype == torch.bool
        assert goal.dtype == torch.int64
        self.calls.append(len(walls))
        at = torch.zeros(walls.shape, dtype=torch.float64)
        at[torch.arange(len(goal)), goal[:, 0], goal[:, 1]] = 1
        return torch.log_softmax(self.conv(torch.stack([walls.double(), at], 1)).movedim(1, -1), -1)


POOL = MazePool.generate(7, 9, "prim", seed=3, braid=1.0)


def test_policy_and_pool():
    policy = ConvPolicy()
    logs = policy.log_prob_map(torch.tensor(POOL.walls), torch.tensor(POOL.goal))
    mazes = POOL.walls, POOL.start, POOL.goal
    horizon = 50  # 180 * 9 * 9 / 17 / 17
    for function in (success_probability, visits, expected_steps):
        policy.calls.clear()
        raw = function(logs, *mazes, horizon, "stay")
        torch.testing.assert_close(function(policy, POOL, on_wall="stay", batch_size=3), raw, rtol=1e-12, atol=0)
        assert policy.calls == [3, 3, 1]
        torch.testing.assert_close(
            function(policy, POOL, 50, "stay", prompts=[5, 0, 5]), raw[[5, 0, 5]], rtol=1e-12, atol=0
        )
    p = success_probability(policy, POOL, prompts=torch.tensor([1]), batch_size=2)
    assert p.tolist() == pytest.approx(success_probability(logs, *mazes, horizon)[1:2].tolist(), rel=1e-12)
    assert p.requires_grad
    assert not visits(policy, POOL).requires_grad


@pytest.mark.parametrize("on_wall", RULES)
@pytest.mark.parametrize("batch_size", [1, 3, 7])
def test_log_likelihood_gradient(on_wall, batch_size):
    policy = ConvPolicy(1)
    p = success_probability(policy, POOL, 40, on_wall)
    p.log().mean().backward()
    expected = {name: value.grad for name, value in policy.named_parameters()}
    policy.zero_grad()
    with torch.no_grad():
        found = log_likelihood_gradient(policy, POOL, 40, on_wall, batch_size=batch_size)
    assert all(value.grad is None for value in policy.parameters())
    assert found.keys() == expected.keys()
    for name in ("conv.weight", "conv.bias"):
        assert expected[name].norm() > 1e-3
        torch.testing.assert_close(found[name], expected[name], rtol=1e-10, atol=1e-12)
    assert not found["head.weight"].any()
    assert not found["head.bias"].any()


def test_log_likelihood_gradient_of_prompts_is_a_mean():
    policy = ConvPolicy(2)
    one, other = (log_likelihood_gradient(policy, POOL, prompts=[i])["conv.weight"] for i in (2, 6))
    policy.conv.bias.requires_grad_(False)
    mixed = log_likelihood_gradient(policy, POOL, prompts=[2, 6, 2])
    assert mixed.keys() == {"conv.weight", "head.weight", "head.bias"}
    torch.testing.assert_close(mixed["conv.weight"], (2 * one + other) / 3, rtol=1e-10, atol=1e-12)


def test_prompts_with_p_zero():
    """A horizon shorter than the shortest path of some mazes."""
    policy = ConvPolicy()
    lengths = POOL.shortest_lengths
    horizon = int(np.median(lengths))
    solvable = np.flatnonzero(lengths <= horizon)
    assert 0 < len(solvable) < len(POOL)
    hopeless = int(np.flatnonzero(lengths > horizon)[0])
    message = f"prompt {hopeless} has success probability 0 .* {lengths[hopeless]} moves, the horizon is {horizon}"
    for batch_size in (1, 7):
        with pytest.raises(ValueError, match=message):
            log_likelihood_gradient(policy, POOL, horizon, batch_size=batch_size)
        with pytest.warns(RuntimeWarning, match=f"{7 - len(solvable)} of 7 prompts have success probability 0"):
            found = log_likelihood_gradient(policy, POOL, horizon, batch_size=batch_size, zero="skip")
        rest = log_likelihood_gradient(policy, POOL, horizon, prompts=solvable)
        torch.testing.assert_close(found["conv.weight"], rest["conv.weight"] * len(solvable) / 7, rtol=1e-10, atol=0)


def test_policy_errors():
    policy = ConvPolicy()
    with pytest.raises(TypeError, match=r"got a int; allowed are log-probabilities \(M, H, W, 4\) and policies"):
        success_probability(3, POOL)
    with pytest.raises(TypeError, match="pool must be a MazePool, got ndarray"):
        success_probability(policy, POOL.walls)
    with pytest.raises(ValueError, match=r"prompts\[1\]=7 is out of range; the pool has mazes 0 to 6"):
        success_probability(policy, POOL, prompts=[0, 7])
    with pytest.raises(TypeError, match="prompts must be a list of one or more integers"):
        success_probability(policy, POOL, prompts=[])
    with pytest.raises(ValueError, match="batch_size=0"):
        success_probability(policy, POOL, batch_size=0)
    with pytest.raises(ValueError, match="max_steps=0"):
        success_probability(policy, POOL, 0)
    with pytest.raises(ValueError, match="did you mean 'skip'"):
        log_likelihood_gradient(policy, POOL, zero="skipp")
    policy.conv.requires_grad_(False)
    with pytest.raises(ValueError, match="gives no gradient"):
        log_likelihood_gradient(policy, POOL)


def test_exact_pass_at_k():
    assert exact_pass_at_k(0.5, 3) == 0.875
    p = [0.0, 1e-300, 1e-12, 0.5, 1 - 1e-16, 1.0]
    expected = [0, 1e-297, 1e-9 * (1 - 999 * 1e-12 / 2), 1, 1, 1]
    np.testing.assert_allclose(exact_pass_at_k(p, 1000), expected, rtol=1e-13)
    assert exact_pass_at_k(p, 1).tolist() == p
    np.testing.assert_allclose(exact_pass_at_k([[0.25], [0.5]], [1, 2]), [[0.25, 0.4375], [0.5, 0.75]], rtol=1e-15)
    tensor = exact_pass_at_k(torch.tensor(p, dtype=torch.float64), 1000)
    assert tensor.dtype == torch.float64
    np.testing.assert_allclose(tensor, expected, rtol=1e-13)


@pytest.mark.parametrize(("k", "expected"), [(1, [1, 1, 1]), (2, [0, 1, 2]), (3, [0, 0.75, 3])])
def test_gradient_of_exact_pass_at_k(k, expected):
    """k (1 - p)^(k - 1) at p = 1, 0.5 and 0."""
    p = torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64, requires_grad=True)
    exact_pass_at_k(p, k).sum().backward()
    torch.testing.assert_close(p.grad, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("p", [0.5, torch.tensor([0.5])])
def test_exact_pass_at_k_errors(p):
    with pytest.raises(ValueError, match="k=0 is out of range"):
        exact_pass_at_k(p, 0)
    for k in (1.0, True):
        with pytest.raises(TypeError, match="k must be integers"):
            exact_pass_at_k(p, k)
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="is out of range; give probabilities from 0 to 1"):
            exact_pass_at_k(p * 0 + bad, 2)
