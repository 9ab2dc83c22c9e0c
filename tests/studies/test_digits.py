"""The digits study: its environments, exact quantities, the expectation of its gradients, and the signs it finds."""

import json
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from PIL import Image
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3
from stable_baselines3.common.vec_env import DummyVecEnv

from sera_maze.algorithm.maxrl import MaxRL
from sera_maze.cli.app import main
from sera_maze.sampling.steps import StepSampler
from sera_maze.studies.digits.env import DigitsEnv, DigitsVecEnv, Images, all_digits
from sera_maze.studies.digits.report import along, at_the_end, markdown, of_seeds, quantities, write_report
from sera_maze.studies.digits.sampler import log_chances
from sera_maze.studies.digits.study import (
    CROSS_ENTROPY,
    EXACT,
    METHODS,
    QUICK,
    UNIFORM,
    Measures,
    Setting,
    digits_study,
    images_of,
    new_model,
    split,
)
from sera_maze.studies.extras import paired_t_test

TINY = Setting(
    budgets=(2, 4), seeds=2, prompts=8, updates=2, measure_every=1, most=5, least=1, test_images=2, hidden=4, ks=(1, 8)
)


@pytest.fixture(scope="module")
def images():
    return all_digits()


def few(images, count):
    return Images(images.pixels[:count], images.labels[:count])


def test_the_images(images):
    assert len(images) == 1797
    assert images.pixels.max() == 1.0
    assert images.labels[:10].tolist() == list(range(10))  # as scikit-learn has them
    assert np.bincount(images.labels).min() == 174


# One environment


def test_checkers(images):
    env = DigitsEnv(images)
    check_env(env, skip_render_check=True)
    check_env_for_sb3(env)


def test_an_episode(images):
    env = DigitsEnv(images)
    observation, info = env.reset(options={"prompt": 7})
    assert info == {"prompt": 7}
    assert np.array_equal(observation, images.pixels[7])
    _, reward, terminated, truncated, info = env.step(np.int64(7))
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info == {"prompt": 7, "is_success": True}
    with pytest.raises(ResetNeeded):
        env.step(7)
    env.assign([3, 4])
    assert [env.reset()[1]["prompt"] for _ in range(2)] == [3, 4]
    assert env.step(0)[1:3] == (0.0, True)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda env: env.reset(options={"prompt": 1797}), "prompt=1797"),
        (lambda env: env.reset(options={"image": 1}), "allowed is 'prompt'"),
        (lambda env: env.assign([0, -1]), r"prompts\[1\]=-1"),
        (lambda env: (env.reset(), env.step(10)), "action=10"),
    ],
)
def test_wrong_use_of_an_environment(images, call, words):
    with pytest.raises(ValueError, match=words):
        call(DigitsEnv(images))


@pytest.mark.parametrize(
    ("pixels", "labels", "words"),
    [
        (np.zeros((2, 63)), [0, 1], "shape"),
        (np.zeros((2, 64)), [0], "shape"),
        (np.zeros((0, 64)), [], "no image"),
        (np.full((1, 64), 1.5), [0], "outside 0 to 1"),
        (np.zeros((1, 64)), [10], "outside 0 to 9"),
    ],
)
def test_wrong_images(pixels, labels, words):
    with pytest.raises(ValueError, match=words):
        Images(pixels.astype(np.float32), np.array(labels, np.int64))


# Many environments


def test_many_are_as_many_single_ones(images):
    chosen, n, rng = few(images, 50), 5, np.random.default_rng(0)
    single, many = DummyVecEnv([lambda: DigitsEnv(chosen)] * n), DigitsVecEnv(n, chosen)
    for env in (single, many):
        env.seed(11)
    assert np.array_equal(single.reset(), many.reset())
    for step in range(12):
        if step == 3:
            for env in (single, many):
                env.env_method("assign", [1, 2, 3], indices=0)
                env.env_method("assign", [4], indices=3)
        if step == 5:  # while environment 0 has a prompt left, which stays
            for env in (single, many):
                env.env_method("assign", [9, 8], indices=3)
        actions = rng.integers(10, size=n)
        (one, *ends), (other, *others) = single.step(actions), many.step(actions)
        assert np.array_equal(one, other)
        for a, b in zip(ends[:2], others[:2], strict=True):
            assert np.array_equal(a, b)
            assert a.dtype == b.dtype
        for a, b in zip(ends[2], others[2], strict=True):
            assert a.keys() == b.keys()
            assert all(np.array_equal(a[key], b[key]) for key in a)
    assert single.reset_infos == many.reset_infos


def test_sampling_is_the_same_in_both(images):
    chosen = few(images, 50)
    single, many = DummyVecEnv([lambda: DigitsEnv(chosen)] * 5), DigitsVecEnv(7, chosen)
    policy = MaxRL("MlpPolicy", many, seed=0).policy
    prompts, counts = torch.tensor([3, 14, 15, 49]), torch.tensor([5, 0, 9, 2])
    one, other = (StepSampler(env, seed=2).sample(policy, prompts, counts, update=4) for env in (single, many))
    for name in ("owner", "success", "lengths", "actions", "states", "returns"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    assert torch.equal(one.success, one.actions == torch.from_numpy(chosen.labels)[prompts][one.owner])


def test_wrong_use_of_many(images):
    env = DigitsVecEnv(2, few(images, 50))
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(2, np.int64))
    env.reset()
    for actions in ([0, 10], [0]):
        with pytest.raises(ValueError, match="allowed are 2 labels"):
            env.step(np.array(actions))
    with pytest.raises(ValueError, match=r"prompts\[0\]=50"):
        env.env_method("assign", [50], indices=0)
    with pytest.raises(AttributeError, match="no method 'render'"):
        env.env_method("render")
    with pytest.raises(NotImplementedError, match="share"):
        env.set_attr("images", None)


# The setting


def test_the_split(images):
    setting = Setting()
    assert setting.class_sizes("long-tailed") == [140, 97, 67, 46, 32, 22, 15, 10, 7, 5]  # 140 (1/28)^(rank/9)
    assert setting.class_sizes("balanced") == [44] * 10
    train_images, test, classes = split(setting, "long-tailed", 3)
    assert [int((train_images.labels == label).sum()) for label in classes] == setting.class_sizes("long-tailed")
    assert (np.bincount(test.labels) == 34).all()
    even, same_test, same_classes = split(setting, "balanced", 3)
    assert same_test.digest == test.digest
    assert np.array_equal(classes, same_classes)
    # scikit-learn's images are all different.
    for part in (train_images, even):
        assert not {x.tobytes() for x in part.pixels} & {x.tobytes() for x in test.pixels}
    assert split(setting, "long-tailed", 4)[1].digest != test.digest


@pytest.mark.parametrize(
    "change",
    [
        {"variants": ("other",)}, {"budgets": (1,)}, {"seeds": 0}, {"measure_every": 151}, {"most": 141},
        {"least": 141}, {"test_images": 174}, {"rare": 11}, {"learning_rate": 0.0}, {"ks": (0,)}, {"prompts": 0},
    ],
)  # fmt: skip
def test_settings_are_checked(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        Setting(**change)


# Gradients


@pytest.fixture(scope="module")
def learner(images):
    """A model of some training: probabilities from near 0 to near 1."""
    setting = replace(TINY, hidden=8, prompts=12)
    model = new_model(setting, UNIFORM, 6, few(images, 12), seed=0)
    model.learn(2**62, total_updates=40)
    return model


@pytest.mark.parametrize(
    ("method", "factor"), [(UNIFORM, lambda p, n: 1 - (1 - p) ** (n - 1)), ("REINFORCE", lambda p, n: p)]
)
def test_the_mean_of_many_batches_is_the_attenuated_gradient(learner, method, factor):
    """E[g] = (1/B) sum_q kappa_q grad log p_q, with the kappa of each image."""
    prompts, rollouts, draws = torch.arange(12), 6, 600
    logs = log_chances(learner.policy, images_of(learner))
    assert logs.min() < np.log(0.2)
    assert logs.max() > np.log(0.5)
    parameters = [x for x in learner.policy.mlp_extractor.parameters()] + list(learner.policy.action_net.parameters())
    kappa = factor(logs.detach().exp(), rollouts)
    aim = torch.cat([x.flatten() for x in torch.autograd.grad((kappa * logs).mean(), parameters)]).double()
    model = new_model(
        replace(TINY, hidden=8, prompts=12, learning_rate=1e-30), method, rollouts, images_of(learner), seed=1
    )
    model.policy.load_state_dict(learner.policy.state_dict())
    model.learn(2**62, total_updates=1)
    found = []
    own = list(model.policy.mlp_extractor.parameters()) + list(model.policy.action_net.parameters())
    for _ in range(draws):
        model.update(model.sample(prompts, torch.full((12,), rollouts)))
        found.append(-torch.cat([x.grad.flatten() for x in own]).double())
    # Along the gradient that is expected, and along each of some random directions.
    gaps = torch.stack(found) - aim
    directions = torch.randn(len(aim), 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    directions = torch.cat([aim[:, None], directions], dim=1)
    along_each = gaps @ (directions / directions.norm(dim=0))
    error = along_each.std(dim=0) / draws**0.5
    assert error[0] < 0.1 * aim.norm()
    assert (along_each.mean(dim=0).abs() < 4 * error).all()


def test_cross_entropy_is_the_exact_gradient(images):
    model = new_model(TINY, CROSS_ENTROPY, 0, few(images, 8), seed=0)
    policy = model.policy
    logits = policy.action_net(policy.mlp_extractor.forward_actor(torch.from_numpy(few(images, 8).pixels)))
    labels = torch.from_numpy(few(images, 8).labels)
    parameters = list(policy.action_net.parameters())
    expected = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, labels), parameters)
    measures = Measures(replace(TINY, measure_every=2), few(images, 20), np.arange(10))
    model.learn(2**62, measures, total_updates=1)
    for parameter, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
    cosine, ratio, active, failed = measures.points[-1][4:]
    assert (cosine, ratio) == (pytest.approx(1), pytest.approx(1))
    assert (active, failed) == (1, 0)


def test_exact_probabilities_are_those_of_sampling(learner):
    chances = log_chances(learner.policy, images_of(learner), torch.arange(12)).exp().detach()
    counts = torch.full((12,), 4000)
    rate = learner.sample(torch.arange(12), counts).successes / counts
    error = (chances * (1 - chances) / 4000).sqrt()
    assert ((rate - chances).abs() < 4 * error + 1e-9).all()


def test_sera_shares_out_by_exact_probabilities(images):
    model = new_model(TINY, EXACT, 4, few(images, 8), seed=0)
    prompts = torch.arange(8)
    estimate = model.estimate(prompts)
    with torch.no_grad():
        assert torch.equal(estimate.probability, log_chances(model.policy, few(images, 8), prompts).exp())
    assert model.allocate(prompts, estimate).counts.sum() == 32


def test_all_methods_begin_alike(images):
    begun = [new_model(TINY, method, 4, few(images, 20), seed=5) for method in (*METHODS, CROSS_ENTROPY)]
    for model in begun[1:]:
        assert model.policy.state_dict().keys() == begun[0].policy.state_dict().keys()
        for name, value in begun[0].policy.state_dict().items():
            assert torch.equal(value, model.policy.state_dict()[name])
    orders = [model.prompt_order.next_batch() for model in begun]
    assert all(torch.equal(order, orders[0]) for order in orders)


def test_an_unknown_method(images):
    with pytest.raises(ValueError, match="method"):
        new_model(TINY, "PPO", 4, few(images, 8), seed=0)


# The study


SMALL = replace(QUICK, budgets=(4, 48), updates=30, measure_every=15)  # shorter still


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return digits_study(SMALL, tmp_path_factory.mktemp("runs"), processes=1)


def test_the_signs_of_the_quick_study(runs):
    def cosine(variant, method, budget):
        return along(of_seeds(runs, variant, method, budget), "cosine").mean()

    assert len(runs) == 2 * 2 * (2 * len(METHODS) + 1)
    for variant in SMALL.variants:
        for method in (UNIFORM, EXACT):  # more rollouts, less noise and less attenuation
            assert cosine(variant, method, 48) > cosine(variant, method, 4)
        # What REINFORCE and GRPO estimate is another direction.
        assert cosine(variant, UNIFORM, 48) > cosine(variant, "GRPO", 48)
        assert cosine(variant, UNIFORM, 48) > cosine(variant, "REINFORCE", 48)
    assert cosine("long-tailed", EXACT, 4) > cosine("long-tailed", UNIFORM, 4)
    final = quantities(SMALL)["mean log p"]

    def log_p(method):
        return at_the_end(of_seeds(runs, "long-tailed", method, 48), final).mean()

    assert log_p(CROSS_ENTROPY) == pytest.approx(log_p(UNIFORM), abs=0.4)
    assert log_p("REINFORCE") < log_p(UNIFORM) - 1


def test_a_run_by_hand(runs):
    run = of_seeds(runs, "balanced", CROSS_ENTROPY, 48)[0]
    assert [point.update for point in run.points] == [0, 15, 30]
    assert run.points[0].cosine is None
    assert run.points[0].log_p == pytest.approx([np.log(0.1)] * 10, abs=0.1)
    first, last = run.points[0], run.points[-1]
    assert np.mean(last.log_p) > np.mean(first.log_p) + 1
    assert last.pass_at_k[0] < last.pass_at_k[1] < last.pass_at_k[2]
    assert last.cosine == pytest.approx(1)


def test_processes_change_nothing(tmp_path):
    setting = replace(TINY, seeds=1, variants=("balanced",), budgets=(2,))
    told = []
    apart = digits_study(setting, tmp_path / "apart", processes=2, tell=told.append)
    assert apart == digits_study(setting, tmp_path / "here", processes=1)
    assert told[0] == "5 trainings, 2 at a time"
    assert told[-1].startswith("5 of 5: balanced, ")


def test_the_report(runs, tmp_path):
    json_file, table, figure = write_report(runs, SMALL, tmp_path / "report")
    assert len(json.loads(json_file.read_text())["runs"]) == len(runs)
    text = table.read_text()
    assert text == markdown(runs, SMALL) + "\n"
    values = at_the_end(of_seeds(runs, "balanced", "GRPO", 4), quantities(SMALL)["mean log p"])
    assert f"| GRPO | {values.mean():.3f} ({values.std(ddof=1):.3f}) |" in text
    assert f"{EXACT} less {UNIFORM}" in text
    with Image.open(figure) as image:
        assert image.size[0] > 1000


def test_differences_are_paired():
    mean, low, high, p_value = paired_t_test(np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.6, 2.4]))
    assert mean == pytest.approx(0.5)
    assert high - mean == pytest.approx(4.3027 * 0.1 / 3**0.5, rel=1e-4)  # the t quantile for 2 degrees of freedom
    assert low == pytest.approx(2 * mean - high)
    assert p_value == pytest.approx(0.013, abs=0.001)
    assert np.isnan(paired_t_test(np.array([1.0]), np.array([2.0]))[1:]).all()


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sera_maze.studies.digits.study.QUICK", TINY)
    out = tmp_path / "out"
    assert main(["digits", "--quick", "--seeds", "1", "--processes", "1", "--out", str(out)]) == 0
    assert {path.name for path in out.iterdir()} == {"digits.json", "digits.md", "digits.png", "runs"}
    assert "18 trainings" in capsys.readouterr().out
    (tmp_path / "file").write_text("")
    for arguments, words in ((["--seeds", "0"], "seeds=0"), (["--out", str(tmp_path / "file")], "is a file")):
        assert main(["digits", "--quick", *arguments]) == 2
        assert words in " ".join(capsys.readouterr().err.split())


def test_without_scikit_learn(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert main(["digits", "--quick", "--out", str(tmp_path)]) == 2
    assert 'pip install -c constraints.txt -e ".[studies]"' in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_interrupted(tmp_path):
    """Ctrl-C in the middle ends the trainings that have begun, soon and with one line."""
    command = [sys.executable, "-m", "sera_maze", "digits", "--quick", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert any(line.startswith("1 of 36") for line in process.stdout)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error.strip() == "sera-maze: interrupted"
