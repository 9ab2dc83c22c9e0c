"""The alignment study: its exact quantities, its estimates, and the signs that it finds."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from sera_maze.cli import main
from sera_maze.envs import FreshMazes, MazeEnv
from sera_maze.exact import log_likelihood_gradient, success_probability
from sera_maze.maxrl import MaxRL
from sera_maze.studies.alignment import ESTIMATORS, QUICK, Bench, Setting, _summary, alignment_study
from sera_maze.studies.alignment_report import cosines, difference, markdown, write_report

MAZES = FreshMazes((7, 7), seed=3, endpoints="distance", distance=4)


@pytest.fixture(scope="module")
def bench():
    model = MaxRL("MazePolicy", MazeEnv(MAZES), policy_kwargs={"channels": 8, "iterations": 8}, seed=0)
    model.warm_start(30)
    return Bench(model.policy, MAZES, torch.arange(100, 108), seed=1)


def test_the_exact_gradient_is_that_of_the_package(bench):
    expected = log_likelihood_gradient(bench.policy, MAZES, prompts=bench.prompts)
    names = [f"net.{name}" for name, _ in bench.policy.net.named_parameters()]
    found = torch.cat([expected[name].flatten() for name in names]).double()
    torch.testing.assert_close(bench.exact, found, atol=1e-5, rtol=1e-3)
    chances = success_probability(bench.policy, MAZES, prompts=bench.prompts).detach()
    torch.testing.assert_close(bench.probability, chances, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("allocation", ["uniform", "exact", "history", "critic"])
def test_every_allocation_spends_the_budget(bench, allocation):
    counts = bench.counts(allocation, 8, 0)
    assert counts.sum() == 8 * 8
    assert counts.max() <= 32


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("MaxRL, uniform", lambda p, n: 1 - (1 - p) ** (n - 1)),
        ("SERA, exact p", lambda p, n: 1 - (1 - p) ** (n - 1)),
        ("success average", lambda p, n: 1 - (1 - p) ** n),
        ("RLOO", lambda p, n: p),
        ("REINFORCE", lambda p, n: p),
    ],
)
def test_the_mean_of_many_draws_is_the_formula(bench, name, factor):
    """E[g] = (1/B) sum_q kappa_q grad log p_q, for each estimator's kappa, in the space of the table."""
    estimator, draws = ESTIMATORS[name], 1500
    counts = bench.counts(estimator.allocation, 8, 0)
    probabilities = bench.log_probs.detach().double().exp()
    table = bench.log_probs.detach().requires_grad_()
    chosen = MAZES.arrays(bench.prompts.numpy())
    chances = success_probability(table, chosen.walls, chosen.start, chosen.goal, horizon=30)
    kappa = factor(chances.detach(), counts.double())
    (slope,) = torch.autograd.grad((kappa * chances.log()).mean(), table)
    # A gradient of log-probabilities becomes one of logits when what all actions of a square share is taken out.
    slope = slope.double() - slope.double().sum(-1, keepdim=True) * probabilities
    along = []
    for draw in range(draws):
        weights = bench._weights(estimator, counts, bench.sample(counts, draw)).double()
        score = weights - weights.sum(-1, keepdim=True) * probabilities
        along.append(float((score * slope).sum() / slope.square().sum()))
    error = np.std(along) / draws**0.5
    assert error < 0.1
    assert abs(np.mean(along) - 1) < 4 * error


def test_summary_by_hand():
    exact = torch.tensor([0.0, 1.0], dtype=torch.float64)
    draws = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    cosine, spread, mean_cosine, variance, ratio = _summary(draws, exact)
    assert cosine == pytest.approx(1 / 3)
    assert spread == pytest.approx(np.std([0, 0, 1], ddof=1))
    # The mean is (4/3, 1/3); squared distances sum to 30/9, so the variance is 5/3 and the squared norm 17/9 - 5/9.
    assert variance == pytest.approx((5 / 3) / (4 / 3))
    assert ratio == pytest.approx((4 / 3) ** 0.5)
    assert mean_cosine == pytest.approx((1 / 3) / (4 / 3) ** 0.5)
    few = _summary(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]], dtype=torch.float64), exact)
    assert few[0] == 0
    assert np.isnan(few[2:]).all()  # nothing but noise


def test_noise_does_not_look_like_bias():
    """An unbiased estimate with relative variance 10: over many sets of 200 draws the figures are right."""
    generator = torch.Generator().manual_seed(0)
    exact = torch.zeros(50, dtype=torch.float64)
    exact[0] = 1.0
    found = []
    for _ in range(400):
        noise = torch.randn(200, 50, generator=generator, dtype=torch.float64) * (10 / 50) ** 0.5
        found.append(_summary(exact + noise, exact)[2:])
    mean_cosine, variance, ratio = np.mean(found, axis=0)
    assert mean_cosine == pytest.approx(1, abs=0.05)
    assert variance == pytest.approx(10, rel=0.05)
    assert ratio == pytest.approx(1, abs=0.02)


@pytest.fixture(scope="module")
def rows():
    return alignment_study(QUICK)


def test_the_signs_of_the_quick_study(rows):
    """On a weak policy with few rollouts, SERA's waterline helps the direction of the mean estimate."""
    weak = [row for row in rows if row.level == 0.02 and row.budget == 8]
    means = {name: np.mean([row.mean_cosine for row in weak if row.estimator == name]) for name in ESTIMATORS}
    assert means["SERA, exact p"] > means["MaxRL, uniform"]
    norms = {name: np.mean([row.norm_ratio for row in weak if row.estimator == name]) for name in ESTIMATORS}
    assert norms["RLOO"] < norms["GRPO"] < norms["MaxRL, uniform"] < 1
    assert len(rows) == 2 * 2 * 2 * len(ESTIMATORS)
    # More rollouts, less noise.
    for level in QUICK.levels:
        few, many = (
            np.mean([row.variance for row in rows if (row.level, row.budget) == (level, budget)]) for budget in (8, 32)
        )
        assert many < few


def test_the_report(rows, tmp_path):
    json_file, table, figure = write_report(rows, QUICK, tmp_path / "report")
    assert len(json.loads(json_file.read_text())["rows"]) == len(rows)
    text = table.read_text()
    assert text == markdown(rows, QUICK) + "\n"
    mean = cosines(rows, 9, 0.02, 8, "RLOO").mean()
    assert f"| RLOO | {mean:+.3f} (" in text
    assert "SERA, exact p less MaxRL, uniform" in text
    with Image.open(figure) as image:
        assert image.size[0] > 600


def test_differences_are_paired():
    gap, p_value = difference(np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.6, 2.4]))
    assert gap == pytest.approx(0.5)
    assert p_value == pytest.approx(0.013, abs=0.001)  # t = 0.5 / (0.1 / sqrt 3), 2 degrees of freedom
    assert np.isnan(difference(np.array([1.0]), np.array([2.0]))[1])


def test_settings_are_checked():
    for change in ({"budgets": (1,)}, {"draws": 0}, {"prompts": 0}):
        with pytest.raises(ValueError, match=next(iter(change))):
            Setting(**change)


def test_the_command(tmp_path, monkeypatch, capsys):
    tiny = Setting(sides=(5,), budgets=(4,), levels=(0.01,), batches=2, prompts=4, draws=2, channels=4)
    monkeypatch.setattr("sera_maze.studies.alignment.QUICK", tiny)
    assert main(["align", "--quick", "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "alignment.md").exists()
    (tmp_path / "file").write_text("")
    assert main(["align", "--quick", "--out", str(tmp_path / "file")]) == 2
    assert "is a file" in capsys.readouterr().err
