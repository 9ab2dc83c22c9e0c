"""The alignment study: its exact quantities, its estimates, and the signs that it finds."""

import copy
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from PIL import Image

from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.allocation.others import allocate_knapsack, allocate_posterior, allocate_vip
from sera_maze.cli.app import main
from sera_maze.envs import FreshMazes, MazeEnv
from sera_maze.exact.probability import log_likelihood_gradient, success_probability
from sera_maze.studies.alignment.measuring import summary
from sera_maze.studies.alignment.policies import critic_probability, fit_critic, rank_correlation
from sera_maze.studies.alignment.report import FIGURES, markdown, read_rows, write_report
from sera_maze.studies.alignment.study import ESTIMATORS, EXACT, QUICK, UNIFORM, Bench, Row, Setting, alignment_study
from sera_maze.studies.alignment.tables import (
    answer,
    cosine_table,
    difference,
    direction_table,
    estimators_table,
    values,
)

MAZES = FreshMazes((7, 7), seed=3, endpoints="distance", distance=4)
TINY = Setting(sides=(5,), budgets=(4,), levels=(0.01,), batches=3, prompts=4, draws=2, channels=4, critic_updates=2)


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


@pytest.mark.parametrize("allocation", sorted({estimator.allocation for estimator in ESTIMATORS.values()}))
def test_every_allocation_spends_the_budget(bench, allocation):
    counts, chances = bench.shares(allocation, 8, 0)
    assert counts.sum() == 8 * 8
    assert counts.max() <= 32
    if allocation == "uniform":
        assert chances is None
        assert counts.tolist() == [8] * 8
    elif allocation in ("exact", "vip", "knapsack"):
        torch.testing.assert_close(chances, bench.probability.clamp(1e-300, 1 - 2**-53))
    if allocation == "vip":
        assert torch.equal(counts, allocate_vip(chances, 64, n_max=32).counts)
    if allocation == "knapsack":
        assert torch.equal(counts, allocate_knapsack(chances, 64, n_max=32).counts)


def test_history_and_posterior_know_the_same_earlier_rollouts(bench):
    """Means of Beta posteriors: (successes + 1/2) / (8 + 1), and the posterior's shares are those of the evidence."""
    _, of_history = bench.shares("history", 8, 3)
    counts, of_posterior = bench.shares("posterior", 8, 3)
    assert torch.equal(of_history, of_posterior)
    successes = of_history * 9 - 0.5
    torch.testing.assert_close(successes, successes.round())
    assert torch.equal(counts, allocate_posterior(of_history * 9, 9 - of_history * 9, 64, n_max=32).counts)
    assert not torch.equal(of_history, bench.shares("history", 8, 4)[1])


def test_mazes_without_weight_are_left_out_of_the_passes(bench):
    """Sums over mazes: the gradient of some is that of all, where the others have no weight."""
    weights = torch.randn((2, *bench.log_probs.shape), generator=torch.Generator().manual_seed(0))
    weights[:, 3:] = 0
    logs = bench.policy.log_prob_map(bench.walls, bench.goal)
    parts = torch.autograd.grad(logs, list(bench.policy.net.parameters()), weights[1])
    expected = torch.cat([part.flatten() for part in parts]).double()
    torch.testing.assert_close(bench.gradients(weights)[1], expected, atol=1e-5, rtol=1e-4)
    assert not bench.gradients(0 * weights).any()


def test_attenuation_is_that_of_the_advantage_and_the_rank_correlation_that_of_the_shares(bench):
    rows = {row.estimator: row for row in bench.measure(8, 2, 7, 0.1, 0)}
    p = bench.probability
    assert rows["RLOO"].attenuation == pytest.approx(float(p.mean()))
    assert rows["success average"].attenuation == pytest.approx(float((1 - (1 - p) ** 8).mean()))
    assert rows[UNIFORM].attenuation == pytest.approx(float((1 - (1 - p) ** 7).mean()))
    counts = bench.shares("vip", 8, 0)[0]
    assert rows["VIP, exact p"].attenuation == pytest.approx(float((1 - (1 - p) ** (counts - 1)).mean()))
    assert rows[EXACT].rank_correlation == pytest.approx(1)
    assert rows["SERA, critic"].rank_correlation == pytest.approx(rank_correlation(bench.critic, p))
    assert np.isnan(rows["RLOO"].rank_correlation)


def test_rank_correlation_by_hand():
    one = torch.tensor([1.0, 5.0, 2.0, 9.0])
    assert rank_correlation(one, one**3) == pytest.approx(1)
    assert rank_correlation(one, -one) == pytest.approx(-1)
    # Ranks 1 3 2 4 and 1.5 1.5 3 4, less 2.5: products 1.5 - 0.5 - 0.25 + 2.25, squares 5 and 4.5.
    assert rank_correlation(one, torch.tensor([0.0, 0.0, 1.0, 2.0])) == pytest.approx(3 / (5 * 4.5) ** 0.5)
    assert np.isnan(rank_correlation(one, torch.zeros(4)))


def test_the_critic_learns_to_tell_mazes_apart_and_the_policy_stays():
    mazes = FreshMazes((7, 7), seed=3)
    model = MaxRL("MazePolicy", MazeEnv(mazes), policy_kwargs={"channels": 16, "iterations": 8}, seed=0)
    policy = model.warm_start(120).policy
    before = {name: value.clone() for name, value in policy.state_dict().items()}
    critic = copy.deepcopy(policy.net)
    fit_critic(critic, policy, mazes, 0, range(300))
    assert all(torch.equal(value, before[name]) for name, value in policy.state_dict().items())
    prompts = torch.arange(5000, 5128)
    exact = success_probability(policy, mazes, prompts=prompts).detach()
    guessed = critic_probability(critic, policy, mazes, prompts)
    loss = torch.nn.functional.binary_cross_entropy
    constant = loss(exact.mean().expand_as(exact), exact)
    assert loss(guessed, exact) < constant - 0.01
    assert rank_correlation(guessed, exact) > 0.4
    assert loss(critic_probability(policy.net, policy, mazes, prompts), exact) > constant


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("MaxRL, uniform", lambda p, n: 1 - (1 - p) ** (n - 1)),
        ("SERA, exact p", lambda p, n: 1 - (1 - p) ** (n - 1)),
        ("VIP, exact p", lambda p, n: 1 - (1 - p) ** (n - 1)),
        ("success average", lambda p, n: 1 - (1 - p) ** n),
        ("RLOO", lambda p, n: p),
        ("REINFORCE", lambda p, n: p),
    ],
)
def test_the_mean_of_many_draws_is_the_formula(bench, name, factor):
    """E[g] = (1/B) sum_q kappa_q grad log p_q, for each estimator's kappa, in the space of the table."""
    estimator, draws = ESTIMATORS[name], 1500
    counts, _ = bench.shares(estimator.allocation, 8, 0)
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
        weights = bench.weights(estimator, bench.sample(counts, draw)).double()
        score = weights - weights.sum(-1, keepdim=True) * probabilities
        along.append(float((score * slope).sum() / slope.square().sum()))
    error = np.std(along) / draws**0.5
    assert error < 0.1
    assert abs(np.mean(along) - 1) < 4 * error


def test_summary_by_hand():
    exact = torch.tensor([0.0, 1.0], dtype=torch.float64)
    draws = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    cosine, spread, mean_cosine, variance, ratio = summary(draws, exact)
    assert cosine == pytest.approx(1 / 3)
    assert spread == pytest.approx(np.std([0, 0, 1], ddof=1))
    # The mean is (4/3, 1/3); squared distances sum to 30/9, so the variance is 5/3 and the squared norm 17/9 - 5/9.
    assert variance == pytest.approx((5 / 3) / (4 / 3))
    assert ratio == pytest.approx((4 / 3) ** 0.5)
    assert mean_cosine == pytest.approx((1 / 3) / (4 / 3) ** 0.5)
    few = summary(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]], dtype=torch.float64), exact)
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
        found.append(summary(exact + noise, exact)[2:])
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
    assert means[EXACT] > means[UNIFORM]
    norms = {name: np.mean([row.norm_ratio for row in weak if row.estimator == name]) for name in ESTIMATORS}
    assert norms["RLOO"] < norms["GRPO"] < norms[UNIFORM] < 1
    assert len(rows) == 2 * 2 * 2 * len(ESTIMATORS)
    # More rollouts, less noise.
    for level in QUICK.levels:
        few, many = (
            np.mean([row.variance for row in rows if (row.level, row.budget) == (level, budget)]) for budget in (8, 32)
        )
        assert many < few


def test_the_report(rows, tmp_path):
    json_file, table, *figures = write_report(rows, QUICK, tmp_path / "report")
    assert "NaN" not in json_file.read_text()
    assert repr(read_rows(json_file)) == repr(rows)  # NaN is not equal to itself
    text = table.read_text()
    assert text == markdown(rows, QUICK) + "\n"
    mean = values(rows, 9, 0.02, 8, "RLOO").mean()
    assert f"| RLOO | {mean:+.3f} (" in text
    assert "SERA, posterior less MaxRL, uniform" in text
    for part in (cosine_table(rows), direction_table(rows), estimators_table(rows), answer(rows)):
        assert part in text
    assert [figure.stem for figure in figures] == list(FIGURES)
    for figure in figures:
        with Image.open(figure) as image:
            assert image.size[0] > 600
    assert set().union(*FIGURES.values()) == set(ESTIMATORS)


def made_up(side, level, median, budget, uniform, sera, **changes):
    """Rows of three batches with these cosines; all other estimators have 0.5."""
    found = []
    for batch in range(3):
        for name in ESTIMATORS:
            cosine = {UNIFORM: uniform, EXACT: sera}.get(name, (0.5,) * 3)[batch]
            row = Row(side, level, median, batch, budget, name, cosine, 0.1, 0.9, 2.0, 1.0, 0.5, 0.5)
            found.append(row._replace(**changes) if name == EXACT else row)
    return found


# SERA is clearly above in the first case, clearly below in the second; in the third the differences are .1, -.1, .3.
MADE_UP = (
    made_up(9, 0.02, 0.04, 8, (0.1, 0.2, 0.3), (0.301, 0.4, 0.499), mean_cosine=0.95, variance=float("nan"))
    + made_up(9, 0.02, 0.04, 128, (0.5, 0.6, 0.7), (0.401, 0.5, 0.599))
    + made_up(17, 0.7, 0.8, 8, (0.1, 0.2, 0.3), (0.2, 0.1, 0.6))
    + made_up(17, 0.7, 0.8, 128, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
)


def test_the_table_of_cosines_by_hand():
    assert cosine_table(MADE_UP).splitlines() == [
        "| mazes | median p | N0=8 | N0=128 |",
        "| --- | --: | --: | --: |",
        "| 9\u00d79 | 0.04 | 0.20 / 0.40 * | 0.60 / 0.50 * |",
        "| 17\u00d717 | 0.80 | 0.20 / 0.30 | 0.50 / 0.50 |",
    ]


def test_the_table_of_directions_by_hand():
    assert direction_table(MADE_UP).splitlines()[0::2] == [
        "| mazes | median p | cosine of the expected estimate, N0=8 | N0=128 | relative variance, N0=8 | N0=128 |",
        "| 9\u00d79 | 0.04 | 0.90 / 0.95 | 0.90 / 0.90 | 2.00 / - | 2.00 / 2.00 |",
    ]
    only = [row._replace(budget=16) for row in MADE_UP if row.budget == 8]
    assert "expected estimate, N0=16 |" in direction_table(only)


def test_the_table_of_estimators_by_hand():
    more = MADE_UP + made_up(9, 0.7, 0.6, 8, (1.0,) * 3, (0.8,) * 3) + made_up(9, 0.7, 0.6, 128, (1.0,) * 3, (0.8,) * 3)
    lines = estimators_table(more).splitlines()
    assert lines[0] == (
        "| estimator | median p 0.04, N0=8 | median p 0.04, N0=128 | median p 0.60 to 0.80, N0=8 "
        "| median p 0.60 to 0.80, N0=128 |"
    )
    assert lines[2] == "| MaxRL, uniform | 0.20 | 0.60 | 0.60 | 0.75 |"
    assert lines[3] == "| SERA, exact p | 0.40 | 0.50 | 0.55 | 0.65 |"
    assert lines[-1] == "| REINFORCE | 0.50 | 0.50 | 0.50 | 0.50 |"


def test_the_answer_by_hand():
    weak, elsewhere = answer(MADE_UP).splitlines()
    assert weak == (
        "With median p up to 0.05 and N0 up to 32, SERA with exact p is above uniform MaxRL with p < 0.01 in 1 of 1 "
        "cases (9\u00d79 with median p 0.04: N0=8), below it in 0 (none), and not told apart in 0 (none)."
    )
    assert elsewhere == (
        "Elsewhere, SERA with exact p is above uniform MaxRL with p < 0.01 in 0 of 3 cases (none), below it in 1 "
        "(9\u00d79 with median p 0.04: N0=128), and not told apart in 2 (17\u00d717 with median p 0.80: N0=8, 128)."
    )
    assert answer(MADE_UP, most_p=0.01).startswith("With median p up to 0.01 and N0 up to 32: nothing was measured.\n")


def test_differences_are_paired():
    gap, p_value = difference(np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.6, 2.4]))
    assert gap == pytest.approx(0.5)
    assert p_value == pytest.approx(0.013, abs=0.001)  # t = 0.5 / (0.1 / sqrt 3), 2 degrees of freedom
    assert np.isnan(difference(np.array([1.0]), np.array([2.0]))[1])


def test_settings_are_checked():
    for change in ({"budgets": (1,)}, {"draws": 0}, {"prompts": 0}, {"levels": ()}, {"sides": (9, 9)}):
        with pytest.raises(ValueError, match=next(iter(change))):
            Setting(**change)
    with pytest.raises(ValueError, match="processes"):
        alignment_study(TINY, processes=0)


def test_the_same_numbers_for_any_number_of_processes():
    threads = torch.get_num_threads()
    here, there = alignment_study(TINY), alignment_study(TINY, processes=2)
    assert torch.get_num_threads() == threads
    assert len(here) == 3 * len(ESTIMATORS)
    assert [row[:6] for row in here] == [row[:6] for row in there]
    np.testing.assert_allclose([row[6:] for row in there], [row[6:] for row in here], rtol=1e-6)


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sera_maze.studies.alignment.study.QUICK", TINY)
    assert main(["align", "--quick", "--processes", "1", "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "alignment.md").exists()
    (tmp_path / "file").write_text("")
    assert main(["align", "--quick", "--out", str(tmp_path / "file")]) == 2
    assert "is a file" in capsys.readouterr().err


def anything_left(group):
    """Whether there are processes of a group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(sys.platform == "win32", reason="has no process groups")
def test_ctrl_c_ends_the_workers(tmp_path):
    """Sent to the whole group, as a shell does."""
    script = tmp_path / "study.py"
    script.write_text(
        "import sys\n"
        "from sera_maze.cli.app import main\n"
        "if __name__ == '__main__':\n"
        "    import multiprocessing, threading, time\n"
        "    def watch():\n"
        "        while len(multiprocessing.active_children()) < 2:\n"
        "            time.sleep(0.05)\n"
        "        print('begun', flush=True)\n"
        "    threading.Thread(target=watch, daemon=True).start()\n"
        f"    sys.exit(main(['align', '--out', {str(tmp_path / 'out')!r}]))\n"
    )
    study = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert study.stdout is not None
    assert study.stdout.readline() == "begun\n"
    os.killpg(study.pid, signal.SIGINT)
    try:
        _, said = study.communicate(timeout=30)
    finally:
        study.kill()
    assert study.returncode == 130
    assert said == "sera-maze: interrupted\n"
    deadline = time.monotonic() + 20
    while anything_left(study.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not anything_left(study.pid)
