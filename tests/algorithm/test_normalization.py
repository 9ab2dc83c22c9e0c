"""VecNormalize: its statistics are saved, given to evaluations, left alone by them, and unlike wrappers are refused."""

import hashlib
import json
import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import A2C
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from helpers import Steps
from sera_maze.algorithm.maxrl import SERA, MaxRL
from sera_maze.algorithm.normalization import model_normalization, normalization_of
from sera_maze.coverage import CoverageCallback, evaluate
from sera_maze.envs import MazeEnv, MazePool, PromptQueue
from sera_maze.sampling.vec_env import MazeVecEnv
from sera_maze.storage.files import HEADER, POINTER
from sera_maze.viewer import render_paths

POOL = MazePool.generate(6, 5, endpoints="random", braid=1.0)
OPTIONS = {"num_samples": 8, "ks": (1,)}


def cart_poles(seeds=range(8), count=2):
    def make():
        return PromptQueue(gym.make("CartPole-v1"), seeds, success=lambda episode: episode.steps >= 30)

    return DummyVecEnv([make] * count)


def training(**options):
    return VecNormalize(cart_poles(), **options)


def held_out(**options):
    return VecNormalize(cart_poles(range(100, 105), 1), **options)


def model_of(env, kind=SERA, policy="MlpPolicy", **options):
    given = {"prompts_per_batch": 4, "rollouts_per_prompt": 4, "seed": 0, "device": "cpu", **options}
    return kind(policy, env, **given)


def state(env):
    return {name: array.tolist() for name, array in normalization_of(env).statistics.items()}


def same_parameters(one, other):
    return all(torch.equal(*pair) for pair in zip(one.policy.parameters(), other.policy.parameters(), strict=True))


@pytest.fixture(scope="module")
def trained():
    model = model_of(training(), learning_rate=0.02, warmup_updates=0)
    model.learn(1000)
    return model


def test_evaluations_see_what_the_training_sees_and_change_nothing(trained):
    before, env = state(trained.get_env()), held_out()
    found = evaluate(trained, env, **OPTIONS)
    assert state(trained.get_env()) == before
    assert state(env) == before
    assert env.training
    # By hand: the observations of plain environments, normalised by the formula.
    own, plain = trained.get_vec_normalize_env(), cart_poles(range(100, 105), 1)
    mean, deviation = own.obs_rms.mean, np.sqrt(own.obs_rms.var + own.epsilon)
    plain = VecNormalize(plain, training=False)
    plain.obs_rms.mean, plain.obs_rms.var = mean, deviation**2 - own.epsilon
    assert found.successes.tolist() == evaluate(trained.policy, plain, **OPTIONS).successes.tolist()
    fresh = evaluate(trained.policy, held_out(), **OPTIONS)
    assert fresh.steps.tolist() != found.steps.tolist()


@pytest.mark.parametrize("kind", [SERA, A2C])
def test_the_callback_gives_the_present_statistics_and_leaves_those_of_the_training(kind):
    def learned(callback):
        options = {} if kind is A2C else {"prompts_per_batch": 4, "rollouts_per_prompt": 4}
        model = kind("MlpPolicy", training(), seed=0, device="cpu", **options)
        return model.learn(600, callback)

    callback = CoverageCallback(held_out(), eval_freq_updates=20 if kind is A2C else 2, **OPTIONS)
    model, alone = learned(callback), learned(None)
    assert same_parameters(model, alone)
    assert state(model.get_env()) == state(alone.get_env())
    assert state(callback.env) == state(model.get_env())
    expected = evaluate(model, held_out(), **OPTIONS)
    assert callback.evaluation.steps.tolist() == expected.steps.tolist()


@pytest.mark.parametrize(
    ("env", "held", "message"),
    [
        (training, lambda: cart_poles(range(100, 105), 1), r"env does not.*give VecNormalize\(env, training=False\)"),
        (cart_poles, held_out, "leave VecNormalize out"),
        (training, lambda: held_out(norm_obs=False), "env does not"),
        (training, lambda: held_out(clip_obs=5.0), "clip_obs=5.0, in the training 10.0"),
    ],
)
def test_unlike_wrappers_are_refused_when_the_training_starts(env, held, message):
    model = model_of(env())
    with pytest.raises(ValueError, match=message):
        model.learn(100, CoverageCallback(held(), **OPTIONS))
    assert model.updates == 0
    with pytest.raises(ValueError, match=message):
        evaluate(model, held(), **OPTIONS)


def test_normalised_rewards_alone_are_no_matter():
    model = model_of(training(norm_obs=False))
    model.learn(100, CoverageCallback(cart_poles(range(100, 105), 1), **OPTIONS))
    evaluate(model, held_out(norm_obs=False), **OPTIONS)


def test_a_maze_policy_of_normalised_observations_is_stepped():
    model = model_of(VecNormalize(MazeVecEnv(2, POOL)), policy="MazePolicy", policy_kwargs={"channels": 4})
    model.learn(200)
    for ask in (lambda: evaluate(model, POOL, **OPTIONS), lambda: render_paths(model, POOL, num_samples=4)):
        with pytest.raises(ValueError, match="cannot walk through plain mazes: step environments"):
            ask()
    found = evaluate(model, POOL, env=VecNormalize(MazeVecEnv(3, POOL)), **OPTIONS)
    own = model.get_vec_normalize_env()
    again = VecNormalize(MazeVecEnv(3, POOL), training=False)
    again.obs_rms = own.obs_rms
    assert found.successes.tolist() == evaluate(model.policy, POOL, env=again, **OPTIONS).successes.tolist()
    with pytest.raises(ValueError, match=r"observations of the shape \(3, 5, 5\), and those of env have \(3, 7, 7\)"):
        evaluate(model, VecNormalize(MazeVecEnv(3, MazePool.generate(4, 7))), **OPTIONS)


@pytest.mark.parametrize("name", ["agent", "agent.zip"])
@pytest.mark.parametrize("later", [False, True])
def test_a_loaded_model_goes_on_bit_for_bit(tmp_path, name, later):
    model = model_of(training(), success="critic")
    model.learn(500)
    model.save(tmp_path / name)
    model.learn(500, reset_num_timesteps=False)
    if later:
        loaded = MaxRL.load(tmp_path / name)
        assert model_normalization(loaded).changes_observations
        loaded.set_env(training())
    else:
        loaded = MaxRL.load(tmp_path / name, env=training())
    loaded.learn(500, reset_num_timesteps=False)
    assert same_parameters(loaded, model)
    assert state(loaded.get_env()) == state(model.get_env())


def test_what_is_saved_within_a_batch_has_the_statistics_before_it(tmp_path):
    model, states = model_of(training()), []

    def save(callback):
        if callback.calls == 40:
            model.save(tmp_path / "agent")
            states.append(state(model.get_env()))

    model.learn(400, Steps(save))
    assert len(states) == 1
    loaded = MaxRL.load(tmp_path / "agent", env=training())
    assert state(loaded.get_env()) != states[0]
    loaded.learn(10**6, reset_num_timesteps=False, total_updates=model.updates)
    assert same_parameters(loaded, model)
    assert state(loaded.get_env()) == state(model.get_env())


def test_a_batch_that_is_dropped_leaves_the_statistics(trained):
    before = state(trained.get_env())
    trained.learn(10**6, Steps(lambda callback: callback.calls < 20), reset_num_timesteps=False)
    assert state(trained.get_env()) == before


def test_a_model_that_waits_for_environments_keeps_the_statistics(tmp_path, trained):
    trained.save(tmp_path / "agent")
    loaded = MaxRL.load(tmp_path / "agent")
    expected = evaluate(trained, held_out(), **OPTIONS)
    assert evaluate(loaded, held_out(), **OPTIONS).steps.tolist() == expected.steps.tolist()
    with pytest.raises(ValueError, match="env does not"):
        loaded.set_env(cart_poles())
    loaded.save(tmp_path / "again")
    again = MaxRL.load(tmp_path / "again", env=training())
    assert state(again.get_env()) == state(trained.get_env())


def test_dict_observations(tmp_path):
    def env():
        return VecNormalize(DummyVecEnv([lambda: MazeEnv(POOL, observation="dict")]), norm_obs_keys=["layout"])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_of(env(), policy="MultiInputPolicy")
        model.learn(200)
        model.save(tmp_path / "agent")
        loaded = MaxRL.load(tmp_path / "agent", env=env())
    assert state(loaded.get_env()) == state(model.get_env())
    assert "observations/layout/mean" in state(loaded.get_env())


def test_load_refuses_or_warns_where_the_wrappers_are_unlike(tmp_path, trained):
    trained.save(tmp_path / "normalised")
    with pytest.raises(ValueError, match="the environments of the training normalise observations, and env does not"):
        SERA.load(tmp_path / "normalised", env=cart_poles())
    plain = model_of(cart_poles())
    plain.save(tmp_path / "plain")
    with pytest.warns(UserWarning, match="but the model was trained without: it sees others now than before"):
        SERA.load(tmp_path / "plain", env=training())


def test_an_earlier_checkpoint_loads_as_it_did(tmp_path, trained):
    trained.save(tmp_path)
    pointer = json.loads((tmp_path / POINTER).read_text())
    path = tmp_path / pointer["version"] / HEADER
    header = json.loads(path.read_text())
    del header["normalization"]
    path.write_text(json.dumps(header))
    pointer["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (tmp_path / POINTER).write_text(json.dumps(pointer))
    for env in (cart_poles(), training()):
        loaded = SERA.load(tmp_path, env=env)
        assert same_parameters(loaded, trained)
    assert state(loaded.get_env())["observations/mean"] == [0.0] * 4
