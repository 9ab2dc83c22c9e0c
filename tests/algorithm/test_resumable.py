"""The methods save, load, set_env and learn of MaxRL as an SB3 user calls them, and the log of a run that goes on."""

import io
import os
import signal
import threading
import time

import gymnasium as gym
import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from stable_baselines3.common.vec_env import DummyVecEnv
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sera_maze.algorithm.maxrl import SERA, MaxRL
from sera_maze.algorithm.resumable import uninterrupted
from sera_maze.envs import MazeEnv, MazePool, PromptQueue


@pytest.fixture(scope="module")
def pool():
    return MazePool.generate(6, 5, endpoints="random", braid=1.0)


def environment(pool):
    return MazeEnv(pool, on_wall="stay", max_steps=20)


def small(pool, **options):
    options = {"prompts_per_batch": 4, "rollouts_per_prompt": 4, "seed": 1, "policy_kwargs": {"channels": 4}, **options}
    return SERA("MazePolicy", environment(pool), **options)


def assert_same(one, other):
    for name, tensor in one.policy.state_dict().items():
        assert torch.equal(tensor, other.policy.state_dict()[name])
    for name, tensor in one.success_estimator.state_dict().items():
        assert torch.equal(tensor, other.success_estimator.state_dict()[name])
    assert one.prompt_order.state_dict() == other.prompt_order.state_dict()
    assert (one.num_timesteps, one._n_updates, one.total_rollouts) == (
        other.num_timesteps, other._n_updates, other.total_rollouts
    )  # fmt: skip


@pytest.fixture
def trained(pool):
    model = small(pool)
    model.learn(800)
    assert model.success_estimator.known
    assert model.prompt_order.epoch > 0
    return model


def go_on(*models):
    for model in models:
        model.learn(400, reset_num_timesteps=False)


def test_a_folder_and_a_zip_file_go_on_alike(tmp_path, pool, trained):
    trained.save(tmp_path / "agent")
    trained.save(tmp_path / "agent.zip")
    assert (tmp_path / "agent").is_dir()
    assert (tmp_path / "agent.zip").is_file()
    folder = SERA.load(str(tmp_path / "agent"))
    zipped = SERA.load(tmp_path / "agent.zip", environment(pool))
    for loaded in (folder, zipped):
        assert type(loaded) is SERA
        assert_same(loaded, trained)
    go_on(trained, folder, zipped)
    assert_same(folder, trained)
    assert_same(zipped, trained)


def test_maxrl_loads_a_sera(tmp_path, pool, trained):
    trained.save(tmp_path / "agent")
    assert type(MaxRL.load(tmp_path / "agent")) is SERA


def test_a_zip_file_without_environments_waits_for_them(tmp_path, pool, trained):
    buffer = io.BytesIO()
    trained.save(buffer)
    buffer.seek(0)
    loaded = SERA.load(buffer)
    assert loaded.get_env() is None
    observation = environment(pool).reset(seed=0)[0]
    assert loaded.predict(observation, deterministic=True)[0] == trained.predict(observation, deterministic=True)[0]
    loaded.save(tmp_path / "again.zip")
    for waiting in (loaded, SERA.load(tmp_path / "again")):
        waiting.set_env(DummyVecEnv([lambda: environment(pool)] * 2))
        assert_same(waiting, trained)
    go_on(loaded, trained)
    assert_same(loaded, trained)


def test_a_zip_file_with_other_mazes_warns(tmp_path, pool, trained):
    trained.save(tmp_path / "agent.zip")
    with pytest.warns(UserWarning, match="the zip file was saved with 6 prompts, and the environments have 3"):
        SERA.load(tmp_path / "agent.zip", environment(pool[:3]))


def test_a_zip_file_of_step_sampled_environments(tmp_path):
    def env():
        return PromptQueue(gym.make("CartPole-v1"), range(5), lambda episode: episode.steps > 15)

    model = MaxRL("MlpPolicy", env(), prompts_per_batch=3, rollouts_per_prompt=4, seed=0)
    model.learn(300)
    model.save(tmp_path / "agent.zip")
    loaded = MaxRL.load(tmp_path / "agent.zip", env())
    go_on(loaded, model)
    assert_same(loaded, model)


def test_saving_keeps_nothing_back(tmp_path, pool, trained):
    trained.save(tmp_path / "agent.zip")
    assert trained._kept_prompts is None
    with pytest.raises(ValueError, match=r"exclude and include are for SB3's format: .* save to .*agent\.zip"):
        trained.save(tmp_path / "agent", exclude=["seed"])
    trained.save(tmp_path / "agent.zip", exclude=["total_rollouts"])
    assert SERA.load(tmp_path / "agent.zip").total_rollouts == 0


def test_custom_objects_and_keywords_replace(tmp_path, pool, trained, capsys):
    trained.save(tmp_path / "agent")
    loaded = SERA.load(tmp_path / "agent", custom_objects={"ent_coef": 0.5}, print_system_info=True, n_epochs=2)
    assert (loaded.ent_coef, loaded.n_epochs) == (0.5, 2)
    assert "PyTorch" in capsys.readouterr().out


def test_what_is_missing_is_named(tmp_path):
    for name in ("agent", "agent.zip"):
        with pytest.raises(FileNotFoundError, match=f"{name} does not exist, neither as a folder nor as a .zip file"):
            SERA.load(tmp_path / name)


def test_sb3s_callbacks_save_what_can_be_loaded(tmp_path, pool, trained):
    model = small(pool)
    callbacks = [
        CheckpointCallback(7, str(tmp_path / "zips")),
        EvalCallback(environment(pool), best_model_save_path=str(tmp_path), eval_freq=30, verbose=0, warn=False),
    ]
    model.learn(800, callbacks)
    assert_same(model, trained)  # saving changes nothing
    zips = sorted((tmp_path / "zips").iterdir(), key=lambda file: int(file.name.split("_")[2]))
    assert len(zips) > 3
    # Saved in the middle of a batch, it goes on from before that batch.
    loaded = SERA.load(zips[2], environment(pool))
    assert 0 < loaded._n_updates < model._n_updates
    loaded.learn(800 - loaded.num_timesteps, reset_num_timesteps=False)
    assert_same(loaded, model)
    for name in ("best_model", "best_model.zip"):
        assert SERA.load(tmp_path / name).num_prompts == 6


def test_set_env_keeps_the_history_of_the_same_mazes_only(pool, trained):
    before = trained.success_estimator.state_dict()
    trained.set_env(DummyVecEnv([lambda: environment(pool)] * 3))
    assert trained.n_envs == 3
    assert torch.equal(trained.success_estimator.state_dict()["evidence"], before["evidence"])
    trained.set_env(environment(pool[::-1]))
    assert not trained.success_estimator.known
    assert trained.prompt_order.state_dict() == {"epoch": 0, "position": 0}
    with pytest.raises(
        ValueError, match=r"the environments have the observation space Box.*, but the model was made for"
    ):
        trained.set_env(MazeEnv(size=9, num_mazes=3))
    assert trained.n_envs == 1
    go_on(trained)


def test_a_schedule_that_no_folder_can_hold_is_saved_with_pickle(tmp_path, pool):
    """EvalCallback saves to a name without a suffix in the middle of the training, which must not stop there."""
    models = [small(pool, learning_rate=lambda left: 1e-3 * left) for _ in range(2)]
    best = EvalCallback(environment(pool), best_model_save_path=str(tmp_path), eval_freq=30, verbose=0, warn=False)
    with pytest.warns(UserWarning, match=r"learning_rate=<function .*; so it is saved to .*best_model\.zip") as caught:
        models[0].learn(800, best)
    assert {warning.category for warning in caught} == {UserWarning}
    models[1].learn(800)
    assert_same(*models)
    assert [file.name for file in tmp_path.iterdir()] == ["best_model.zip"]
    loaded = SERA.load(tmp_path / "best_model", environment(pool))
    assert loaded._n_updates < models[0]._n_updates
    assert loaded.lr_schedule(0.5) == 5e-4
    loaded.learn(800 - loaded.num_timesteps, reset_num_timesteps=False)


def not_promptable(pool):
    return Nameless(environment(pool))


class Nameless(gym.Env):
    """A maze without its prompts."""

    def __init__(self, maze):
        self.maze, self.observation_space, self.action_space = maze, maze.observation_space, maze.action_space

    def reset(self, *, seed=None, options=None):
        return self.maze.reset(seed=seed, options=options)

    def step(self, action):
        return self.maze.step(action)


@pytest.mark.parametrize("updates", [4, 5])
@pytest.mark.parametrize(
    ("options", "other", "words"),
    [
        ({}, not_promptable, "wrap each in sera_maze.envs.PromptQueue"),
        ({"sampler": "step"}, not_promptable, "wrap each in sera_maze.envs.PromptQueue"),
        (
            {"sampler": "map"},
            lambda pool: gym.wrappers.TransformReward(environment(pool), lambda reward: reward),
            "sampler='map' cannot be used: TransformReward",
        ),
        (
            {"success": "exact"},
            lambda pool: gym.wrappers.TransformReward(environment(pool), lambda reward: reward),
            "success='exact' needs a MazePolicy on plain mazes",
        ),
        ({}, lambda pool: DummyVecEnv([lambda: environment(pool), lambda: environment(pool[:3])]), "another num_pro"),
        ({}, lambda pool: MazeEnv(size=9, num_mazes=3), "the model was made for"),
    ],
)
def test_environments_that_cannot_be_set_leave_the_model_as_it_was(pool, options, other, words, updates):
    """Prompts come in batches of 4 and 2: an epoch is over, or half of one is left."""
    models = [small(pool, **options) for _ in range(2)]
    for model in models:
        model.learn(10**9, total_updates=updates)
    before = dict(vars(models[0]))
    env = other(pool)
    with pytest.raises(ValueError, match=words):
        models[0].set_env(env if isinstance(env, DummyVecEnv) else DummyVecEnv([lambda: other(pool)] * 3))
    assert vars(models[0]) == before
    assert models[0].n_envs == models[0].get_env().num_envs == 1
    for model in models:
        model.learn(10**9, total_updates=9, reset_num_timesteps=False)
    assert_same(*models)


def board(folder, tag="train/loss"):
    return [event.step for event in EventAccumulator(str(folder)).Reload().Scalars(tag)]


@pytest.mark.parametrize("name", ["agent", "agent.zip"])
def test_a_run_that_goes_on_logs_to_its_folder_each_step_once(tmp_path, pool, name):
    logs = tmp_path / "runs"
    model = small(pool, tensorboard_log=str(logs))
    model.learn(400, tb_log_name="SERA")
    model.save(tmp_path / name)
    saved_at = model.num_timesteps
    model.learn(200, tb_log_name="SERA", reset_num_timesteps=False)
    lost = board(logs / "SERA_1")
    assert max(lost) > saved_at
    small(pool, tensorboard_log=str(logs), seed=2).learn(50, tb_log_name="SERA")  # another run, SERA_2
    loaded = SERA.load(tmp_path / name, environment(pool))
    loaded.learn(300, tb_log_name="SERA", reset_num_timesteps=False)
    assert sorted(folder.name for folder in logs.iterdir()) == ["SERA_1", "SERA_2"]
    steps = board(logs / "SERA_1")
    assert steps == sorted(set(steps))
    assert steps[-1] == loaded.num_timesteps
    assert [step for step in steps if step <= saved_at] == [step for step in lost if step <= saved_at]
    # Another name is another run, and so is one that starts anew.
    loaded.learn(50, tb_log_name="Other", reset_num_timesteps=True)
    loaded.learn(50, tb_log_name="SERA", reset_num_timesteps=True)
    assert sorted(folder.name for folder in logs.iterdir()) == ["Other_1", "SERA_1", "SERA_2", "SERA_3"]


def press_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)


def test_ctrl_c_waits_for_the_end_of_an_uninterrupted_block():
    done = []

    def work():
        with uninterrupted():
            press_ctrl_c()
            done.append(1)
        done.append(2)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1]
    with pytest.raises(KeyboardInterrupt):  # and afterwards it does not wait
        press_ctrl_c()


def test_sigterm_waits_too_where_it_has_a_handler():
    before, done = signal.signal(signal.SIGTERM, signal.default_int_handler), []

    def work():
        with uninterrupted():
            signal.raise_signal(signal.SIGTERM)
            done.append(1)

    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert done == [1]
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_uninterrupted_blocks_work_in_other_threads():
    done = []

    def work():
        with uninterrupted():
            done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [1]


def test_what_a_folder_cannot_hold_replaces_the_folder_that_was_there(tmp_path, pool):
    small(pool).save(tmp_path / "best")
    model = small(pool, learning_rate=lambda left: 1e-3 * left)
    model.learn(10**9, total_updates=3)
    with pytest.warns(UserWarning, match=r"saved to .*best\.zip"):
        model.save(tmp_path / "best")
    assert not (tmp_path / "best").exists()
    assert SERA.load(tmp_path / "best", environment(pool))._n_updates == 3


def test_a_dropped_batch_leaves_nothing(tmp_path, pool):
    """Iterations chosen after a callback stopped a batch are saved, and the batch is not counted."""
    model = small(pool)
    model.learn(10**9, total_updates=2)
    before = model.num_timesteps

    class Stop(BaseCallback):
        def _on_step(self):
            return self.n_calls < 2

    model.learn(10**9, Stop(), reset_num_timesteps=False)
    assert model.num_timesteps == before
    model.policy = model.policy.at(iterations=20)
    model.save(tmp_path / "agent")
    assert SERA.load(tmp_path / "agent").policy.iterations == 20


def test_a_zip_file_holds_the_variant_of_the_policy(pool, tmp_path):
    model = SERA("MazePolicy", environment(pool), seed=0, policy_kwargs={"channels": 4})
    model.policy = model.policy.at(iterations=7)
    model.save(tmp_path / "folder")
    model.save(tmp_path / "file.zip")
    made = SERA("MazePolicy", environment(pool), lambda _: 1e-3, seed=0, policy_kwargs={"channels": 4})
    made.policy = made.policy.at(iterations=7)
    with pytest.warns(UserWarning, match="saved to"):
        made.save(tmp_path / "function")
    for name in ("folder", "file.zip", "function"):
        loaded = SERA.load(tmp_path / name, env=environment(pool))
        assert loaded.policy.iterations == 7
        loaded.learn(1)
    other = SERA.load(tmp_path / "file.zip", custom_objects={"policy_kwargs": {"channels": 4, "iterations": 5}})
    assert other.policy.iterations == 5


def test_without_environments_there_is_no_number_of_prompts(pool, tmp_path):
    SERA("MlpPolicy", environment(pool), seed=0).save(tmp_path / "file.zip")
    with pytest.raises(ValueError, match="no environment to learn from"):
        _ = SERA.load(tmp_path / "file.zip").num_prompts
