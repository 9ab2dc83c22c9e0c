"""MaxRL and SERA as algorithms of Stable-Baselines3."""

import math
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CheckpointCallback,
    EvalCallback,
    ProgressBarCallback,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnRewardThreshold,
)
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor, VecNormalize

from helpers import Watch, parameters, small_model
from sera_maze.algorithm.maxrl import SERA, MaxRL
from sera_maze.algorithm.options import ADVANTAGES
from sera_maze.allocation.success import CriticSuccess, ExactSuccess, SuccessHistory
from sera_maze.envs import MazeEnv, MazePool, MazeVectorEnv, PromptQueue
from sera_maze.exact.probability import success_probability
from sera_maze.sampling.maps import MapSampler
from sera_maze.sampling.plain_mazes import plain_mazes
from sera_maze.sampling.vec_env import MazeVecEnv

POOL = MazePool.generate(30, 7, "prim", seed=1, endpoints="distance", distance=2)  # near enough to be found
SMALL = {"channels": 8, "iterations": 6}


def maze_env(pool=POOL, **options):
    return MazeEnv(pool, **{"on_wall": "stay", "max_steps": 20, **options})


def make(algorithm=SERA, env=None, policy="MazePolicy", **options):
    if policy == "MazePolicy":
        options = {"policy_kwargs": SMALL, **options}
    return small_model(algorithm, maze_env() if env is None else env, policy, **{"prompts_per_batch": 10, **options})


ENVS = {
    "one": lambda **options: maze_env(**options),
    "monitor": lambda **options: Monitor(maze_env(**options)),
    "id": lambda **options: gym.make("SeraMaze/Prim-9x9-v0", num_mazes=30, on_wall="stay", **options),
    "dummy": lambda **options: DummyVecEnv([lambda: maze_env(**options)] * 3),
    # The worker processes cannot import this file, so they get nothing that is defined in it.
    "subproc": lambda **options: SubprocVecEnv([partial(MazeEnv, POOL, on_wall="stay", max_steps=20, **options)] * 2),
    "vec_monitor": lambda **options: VecMonitor(DummyVecEnv([lambda: maze_env(**options)] * 2)),
    "vector": lambda **options: MazeVecEnv(16, POOL, on_wall="stay", max_steps=20, **options),
}
FAST = {"one", "monitor", "id", "dummy", "vec_monitor", "vector"}


@pytest.mark.parametrize("algorithm", [MaxRL, SERA])
@pytest.mark.parametrize("kind", ENVS)
def test_every_environment(algorithm, kind):
    model = make(algorithm, ENVS[kind]())
    before = parameters(model)
    model.learn(1, total_updates=5)
    assert model.updates == 1  # one batch has more than one step
    model.learn(10**9, total_updates=5, reset_num_timesteps=False)
    assert model.updates == 5
    assert model.total_rollouts == 5 * 40
    assert model.num_timesteps >= 5 * 40
    assert (parameters(model) != before).any()
    assert isinstance(model.rollout_sampler, MapSampler) is (kind in FAST)
    model.get_env().close()


@pytest.mark.parametrize(
    ("policy", "observation"),
    [
        ("MlpPolicy", "grid"), ("CnnPolicy", "grid"), ("MlpPolicy", "local"), ("MlpPolicy", "tokens"),
        ("MultiInputPolicy", "dict"), ("MazePolicy", "dict"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("algorithm", [MaxRL, SERA])
def test_every_policy(algorithm, policy, observation):
    env = MazeVecEnv(20, POOL, on_wall="stay", max_steps=10, observation=observation)
    model = make(algorithm, env, policy)
    before = parameters(model)
    model.learn(10**9, total_updates=4)
    assert model.updates == 4
    if policy != "MazePolicy":
        assert "not a MazePolicy" in model.rollout_sampler.reason
    assert torch.isfinite(parameters(model)).all()
    assert model.predict(env.reset())[0].shape == (20,)
    assert before.shape == parameters(model).shape


def test_the_sampler_does_not_change_the_training():
    """Mapped, stepped in one, three or sixteen environments: the same parameters to rounding."""
    kinds = [("map", maze_env()), ("step", maze_env()), ("step", ENVS["dummy"]()), ("step", ENVS["vector"]())]
    models = [make(SERA, env, sampler=sampler) for sampler, env in kinds]
    for model in models:
        model.learn(10**9, total_updates=5)
    for other in models[1:]:
        assert other.num_timesteps == models[0].num_timesteps
        torch.testing.assert_close(parameters(other), parameters(models[0]), atol=1e-4, rtol=1e-3)


def test_a_seed_fixes_everything_and_touches_nothing_global():
    one, other, third = make(seed=3), make(seed=3), make(seed=4)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    for model in (one, other, third):
        model.learn(10**9, total_updates=3)
    assert torch.equal(parameters(one), parameters(other))
    assert not torch.equal(parameters(one), parameters(third))
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_interrupted_learning_goes_on_as_if_never_stopped():
    whole, parts = make(), make()
    whole.learn(10**9, total_updates=9)
    for updates in (2, 3, 9):  # batches of 10 from a pool of 30: an epoch ends after 3
        parts.learn(10**9, total_updates=updates, reset_num_timesteps=False)
    assert parts.num_timesteps == whole.num_timesteps
    assert parts.prompt_order.state_dict() == whole.prompt_order.state_dict() == {"epoch": 3, "position": 0}


def test_every_epoch_takes_each_prompt_once_and_the_first_is_uniform():
    model, watch = make(SERA, prompts_per_batch=8, rollouts_per_prompt=6), Watch()
    model.learn(10**9, watch, total_updates=8)
    seen = list(zip([rollouts.prompts.tolist() for rollouts in watch.rollouts], watch.allocations, strict=True))
    sizes = [len(prompts) for prompts, _ in seen]
    assert sizes == [8, 8, 8, 6] * 2  # 30 prompts
    for epoch in (seen[:4], seen[4:]):
        assert sorted(prompt for prompts, _ in epoch for prompt in prompts) == list(range(30))
    for number, (prompts, allocation) in enumerate(seen):
        assert allocation.counts.sum() == 6 * len(prompts)
        if number < 4:
            assert set(allocation.counts.tolist()) == {6}
    assert any(len(set(allocation.counts.tolist())) > 1 for _, allocation in seen[4:])


def test_history_is_fed_with_the_outcomes():
    model = make(MaxRL)
    model.learn(10**9, total_updates=3)
    assert isinstance(model.success_estimator, SuccessHistory)
    assert model.success_estimator.known
    probability = model.success_estimator.probability(torch.arange(30)).numpy()
    rates = (probability * 5 - 0.5) / 4  # prior (0.5, 0.5), four rollouts each
    np.testing.assert_allclose(rates * 4, np.round(rates * 4), atol=1e-9)
    assert 0 <= rates.min()
    assert rates.max() <= 1


@pytest.mark.parametrize(("success", "kind"), [("critic", CriticSuccess), ("exact", ExactSuccess)])
def test_other_success_estimates(success, kind):
    model = make(SERA, success=success)
    assert isinstance(model.success_estimator, kind)
    prompts = torch.arange(30)
    probability = model.estimate(prompts).probability
    if success == "exact":
        expected = success_probability(model.policy, POOL, 20, "stay").detach()
        torch.testing.assert_close(probability, expected)
    model.learn(10**9, total_updates=4)
    assert (model.estimate(prompts).probability != probability).any()


def test_an_estimate_is_that_of_the_policy_that_is_asked_about():
    """Of a variant, or else of the model's own policy."""
    model = make(SERA, success="exact")
    prompts, variant = torch.tensor([5, 0, 3]), model.policy.at(iterations=11)
    for policy, estimate in ((model.policy, model.estimate(prompts)), (variant, model.estimate(prompts, variant))):
        expected = success_probability(policy, POOL, 20, "stay", prompts=prompts).detach()
        torch.testing.assert_close(estimate.probability, expected, rtol=1e-12, atol=0)
        assert estimate.posterior is None


@pytest.mark.parametrize("advantage", ADVANTAGES)
def test_every_advantage(advantage):
    model = make(MaxRL, advantage=advantage)
    before = parameters(model)
    model.learn(10**9, total_updates=2)
    assert (parameters(model) != before).any()


@pytest.mark.parametrize(
    "options",
    [
        {"n_epochs": 3}, {"ent_coef": 0.01}, {"token_mean": True}, {"multiplicity_correction": False},
        {"rounding": "maxmin"}, {"n_max": 6},
        {"learning_rate": lambda left: 1e-3 * left},
    ],
)  # fmt: skip
def test_every_option_trains(options):
    model = make(SERA, **options)
    plain = make(SERA)
    for each in (model, plain):
        each.learn(10**9, total_updates=6)
    assert torch.isfinite(parameters(model)).all()
    assert not torch.equal(parameters(model), parameters(plain))


def test_logger_keys(tmp_path):
    model = make(SERA)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(10**9, total_updates=7)
    model.logger.close()
    header = (tmp_path / "progress.csv").read_text().split("\n")
    keys = set(header[0].split(","))
    assert keys == {
        "rollout/ep_rew_mean", "rollout/ep_len_mean", "rollout/success_rate", "train/loss", "train/grad_norm",
        "train/entropy", "train/learning_rate", "train/n_updates", "allocation/count_min", "allocation/count_max",
        "allocation/count_std", "allocation/active_fraction", "groups/mixed_fraction", "groups/all_fail_fraction",
        "groups/all_success_fraction", "time/iterations", "time/fps", "time/time_elapsed", "time/total_timesteps",
        "time/total_rollouts", "allocation/waterline", "allocation/attenuation_min", "allocation/attenuation_mean",
        "allocation/uniform_attenuation_min", "allocation/uniform_attenuation_mean", "allocation/tau",
    }  # fmt: skip
    rows = [dict(zip(header[0].split(","), line.split(","), strict=True)) for line in header[1:] if line]
    found = [row for row in rows if row["allocation/waterline"]]
    assert found
    for row in found:  # what a chart can show where the waterline is 1e-17
        assert float(row["allocation/tau"]) == pytest.approx(-math.log(float(row["allocation/waterline"])), rel=1e-5)
    assert len([line for line in header if line]) == 1 + 7  # a line for every update, the last one too
    assert all(len(key) <= 36 for key in keys)


class Recorder(BaseCallback):
    def __init__(self, stop_at=None):
        super().__init__()
        self.calls, self.steps, self.dones, self.stop_at = [], [], 0, stop_at

    def _on_training_start(self):
        self.calls.append("training_start")

    def _on_rollout_start(self):
        self.calls.append("rollout_start")

    def _on_step(self):
        self.steps.append(self.model.num_timesteps)
        self.dones += int(np.sum(self.locals["dones"]))
        assert len(self.locals["infos"]) == len(self.locals["dones"]) == len(self.locals["rewards"])
        return self.stop_at is None or len(self.steps) < self.stop_at

    def _on_rollout_end(self):
        self.calls.append("rollout_end")

    def _on_training_end(self):
        self.calls.append("training_end")


@pytest.mark.parametrize("sampler", ["map", "step"])
def test_callbacks_are_called_as_sb3_calls_them(sampler):
    recorder = Recorder()
    model = make(MaxRL, sampler=sampler)
    model.learn(10**9, recorder, total_updates=2)
    assert recorder.calls == ["training_start", *["rollout_start", "rollout_end"] * 2, "training_end"]
    assert recorder.steps[-1] == model.num_timesteps
    assert recorder.steps == sorted(recorder.steps)
    if sampler == "map":
        assert recorder.dones == 80
        assert len(recorder.steps) <= 2 * 20  # one call for each time step of a batch, not of a rollout


class Reader(BaseCallback):
    """Reads what users' callbacks for SB3 read, and keeps the last action of each rollout."""

    def __init__(self):
        super().__init__()
        self.last, self.expected, self.names = [], [], set()

    def _on_step(self):
        values = self.locals
        assert "prompt" in values["infos"][0]
        assert ("episode" in values["infos"][0]) == values["dones"][0] == ("is_success" in values["infos"][0])
        assert values["rewards"][0] in (0, 1)
        assert len(values["actions"]) == len(values["dones"]) >= 1
        self.last += values["actions"][values["dones"]].tolist()
        self.names = set(values)
        return True

    def _on_rollout_end(self):
        rollouts = self.locals["rollouts"]
        self.expected += rollouts.actions[rollouts.first_steps + rollouts.lengths - 1].tolist()


@pytest.mark.parametrize("sampler", ["map", "step"])
@pytest.mark.filterwarnings("ignore::tqdm.TqdmExperimentalWarning")
def test_callbacks_read_what_they_read_in_sb3(sampler):
    reader = Reader()
    model = make(MaxRL, sampler=sampler)
    model.learn(10**9, [reader, ProgressBarCallback()], total_updates=3)
    assert len(reader.last) == model.total_rollouts
    assert sorted(reader.last) == sorted(reader.expected)
    stepped = {"obs_tensor", "new_obs", "clipped_actions", "log_probs"}
    assert stepped & reader.names == (stepped if sampler == "step" else set())


@pytest.mark.parametrize("sampler", ["map", "step"])
def test_a_callback_can_stop_in_the_middle_of_a_batch(sampler):
    model = make(MaxRL, sampler=sampler)
    before = parameters(model)
    model.learn(10**9, Recorder(stop_at=3))
    assert torch.equal(parameters(model), before)
    assert model.updates == 0
    assert model.prompt_order.state_dict() == {"epoch": 0, "position": 0}


def test_sb3s_callbacks(tmp_path):
    model = make(MaxRL)
    evaluate = EvalCallback(
        maze_env(), StopTrainingOnRewardThreshold(2.0), n_eval_episodes=3, eval_freq=20, verbose=0, warn=False,
        log_path=str(tmp_path),
    )  # fmt: skip
    save = CheckpointCallback(20, str(tmp_path / "saved"))
    model.learn(10**9, [evaluate, save], total_updates=4)
    assert len(np.load(tmp_path / "evaluations.npz")["timesteps"]) >= 2
    assert list((tmp_path / "saved").iterdir())
    model = make(MaxRL)
    model.learn(10**9, StopTrainingOnMaxEpisodes(50, verbose=0))
    assert model.updates == 1  # 40 episodes a batch


@pytest.mark.filterwarnings("ignore::tqdm.TqdmExperimentalWarning")
def test_progress_bar():
    make(MaxRL).learn(200, progress_bar=True)


def test_single_maze_and_pool_smaller_than_a_batch():
    for count in (1, 3):
        model = make(SERA, maze_env(POOL[:count]))
        model.learn(10**9, total_updates=4)
        assert model.total_rollouts == 4 * count * 4


def test_prompt_queue_and_any_environment():
    def one():
        return PromptQueue(gym.make("CartPole-v1", max_episode_steps=60), list(range(6)), lambda e: e.steps >= 40)

    model = make(SERA, DummyVecEnv([one] * 4), "MlpPolicy", prompts_per_batch=3, learning_rate=3e-3)
    watch = Watch()
    model.learn(10**9, watch, total_updates=40)
    rates = [rollouts.success.float().mean().item() for rollouts in watch.rollouts]
    assert np.mean(rates[-8:]) > np.mean(rates[:8]) + 0.2


def test_learns_5x5_from_scratch():
    """No warm start: mazes of 2x2 cells, bumping into walls allowed."""
    pool = MazePool.generate(4, 5, "wilson")
    model = make(MaxRL, MazeEnv(pool, on_wall="stay", max_steps=12), rollouts_per_prompt=32, learning_rate=3e-3)
    before = success_probability(model.policy, pool, 12, "stay").mean().item()
    model.learn(10**9, total_updates=150)
    after = success_probability(model.policy, pool, 12, "stay").mean().item()
    assert before < 0.6
    assert after > 0.95
    mean, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=20, deterministic=False, warn=False)
    assert mean > 0.8


def test_warm_start_imitates_shortest_paths():
    model = make(SERA, maze_env(on_wall="fail"), policy_kwargs={"channels": 16})
    before = success_probability(model.policy, POOL, 20).mean().item()
    assert model.warm_start(120) is model
    assert success_probability(model.policy, POOL, 20).mean().item() > before + 0.3
    assert not model.policy.optimizer.state  # the optimizer of the training is not touched
    with pytest.raises(ValueError, match="warm_start needs a MazePolicy on plain mazes"):
        make(SERA, ENVS["vector"](), "MlpPolicy").warm_start(1)


def test_vector_environments_of_gymnasium_are_told_from_those_of_sb3():
    for env in (MazeVectorEnv(2, POOL), gym.make_vec("CartPole-v1", 2)):
        with pytest.raises(TypeError, match=r"Stable-Baselines3 has its own kind: pass MazeVecEnv\(num_envs, pool\)"):
            SERA("MlpPolicy", env)
    with pytest.raises(TypeError, match="has its own kind"):
        make(SERA).set_env(MazeVectorEnv(2, POOL))


def test_set_env():
    model = make(SERA)
    model.learn(10**9, total_updates=2)
    other = MazePool.generate(8, 7, seed=9)
    model.set_env(maze_env(other))
    model.learn(10**9, total_updates=4, reset_num_timesteps=False)
    assert model.num_prompts == 8
    with pytest.raises(ValueError, match="there is no environment"):
        SERA("MazePolicy", None, _init_setup_model=False).learn(1)


@pytest.mark.parametrize(
    ("wrap", "reason"),
    [
        (lambda: gym.wrappers.TransformReward(maze_env(), lambda r: r), "TransformReward stands between"),
        (lambda: gym.wrappers.TimeLimit(maze_env(), 5), "TimeLimit stands between"),
        (lambda: VecNormalize(DummyVecEnv([maze_env]), norm_obs=False), "VecNormalize stands between"),
        (lambda: DummyVecEnv([maze_env, lambda: maze_env(POOL[:5])]), "different mazes or rules"),
        (lambda: DummyVecEnv([maze_env, lambda: maze_env(max_steps=7)]), "different mazes or rules"),
    ],
)
def test_foreign_wrappers_take_the_slow_path(wrap, reason):
    env = wrap()
    env = env if hasattr(env, "num_envs") else DummyVecEnv([lambda: env])
    assert reason in plain_mazes(env)
    with pytest.raises(ValueError, match=f"sampler='map' cannot be used: .*{reason}"):
        make(MaxRL, env, sampler="map")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"allocator": "sear"}, ValueError, "did you mean 'sera'"),
        ({"advantage": "ppo"}, ValueError, "advantage='ppo'"),
        ({"success": "history "}, ValueError, "did you mean 'history'"),
        ({"sampler": "fast"}, ValueError, "sampler='fast'"),
        ({"rounding": "floor"}, ValueError, "rounding='floor'"),
        ({"prompts_per_batch": 0}, ValueError, "prompts_per_batch=0"),
        ({"rollouts_per_prompt": 2.5}, TypeError, "rollouts_per_prompt=2.5"),
        ({"n_min": 9}, ValueError, "n_min=9"),
        ({"n_max": 3}, ValueError, "n_max=3"),
        ({"n_epochs": 0}, ValueError, "n_epochs=0"),
    ],
)
def test_bad_arguments(options, error, words):
    with pytest.raises(error, match=words):
        make(SERA, **options)


def test_environments_that_are_not_promptable():
    with pytest.raises(ValueError, match="PromptQueue"):
        SERA("MlpPolicy", "CartPole-v1")
