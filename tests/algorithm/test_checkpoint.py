"""What a checkpoint holds, what can be replaced when it is loaded, and what is refused."""

import hashlib
import json
import pickle
import re
import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from sera_maze.algorithm import maxrl
from sera_maze.algorithm.checkpoint import read_checkpoint
from sera_maze.algorithm.maxrl import SERA, MaxRL
from sera_maze.envs import FreshMazes, MazeEnv, MazePool, PromptQueue
from sera_maze.envs.play.rules import MazeRules
from sera_maze.sampling.vec_env import MazeVecEnv
from sera_maze.storage.files import HEADER, POINTER


class OwnPolicy(ActorCriticPolicy):
    """A class without an alias."""


class OwnAlgorithm(SERA):
    """A user's subclass with an argument more."""

    def __init__(self, *args, strength=1.0, **kwargs):
        self.strength = strength
        super().__init__(*args, **kwargs)


@pytest.fixture(scope="module")
def pool():
    return MazePool.generate(6, 5, endpoints="random", braid=1.0)


def small(pool, kind=SERA, policy="MazePolicy", env=None, **options):
    env = MazeEnv(pool, on_wall="stay", max_steps=20) if env is None else env
    options = {"prompts_per_batch": 4, "rollouts_per_prompt": 4, "seed": 1, **options}
    if policy == "MazePolicy":
        options.setdefault("policy_kwargs", {"channels": 4})
    return kind(policy, env, **options)


def saved_to(model, folder):
    model.save_checkpoint(folder)
    return folder


def header(folder):
    return json.loads((folder / json.loads((folder / POINTER).read_text())["version"] / HEADER).read_text())


def rewrite(folder, change):
    """Change the header of a checkpoint, digests and all."""
    pointer = json.loads((folder / POINTER).read_text())
    path = folder / pointer["version"] / HEADER
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    pointer["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / POINTER).write_text(json.dumps(pointer))


def same_parameters(one, other):
    return all(torch.equal(*pair) for pair in zip(one.policy.parameters(), other.policy.parameters(), strict=True))


def test_arguments_and_class_come_back(tmp_path, pool):
    options = {
        "learning_rate": FloatSchedule(LinearSchedule(1e-2, 1e-3, 0.9)), "advantage": "rloo", "n_max": 9, "n_min": 1,
        "activation_threshold": None, "rounding": "maxmin", "multiplicity_correction": False, "token_mean": True,
        "n_epochs": 2, "clip_range": 0.3, "ent_coef": 0.01, "max_grad_norm": 2.0, "sampler": "step", "verbose": 0,
        "stats_window_size": 7, "tensorboard_log": str(tmp_path / "runs"), "seed": 2**32 - 1,
    }  # fmt: skip
    for kind in (MaxRL, SERA):
        saved = small(pool, kind, **options)
        loaded = MaxRL.load(saved_to(saved, tmp_path / kind.__name__))
        assert type(loaded) is kind
        assert loaded.allocator == ("sera" if kind is SERA else "uniform")
        for name, value in options.items():
            attribute = "_stats_window_size" if name == "stats_window_size" else name
            assert getattr(loaded, attribute) == value or name == "learning_rate", name
        assert repr(loaded.learning_rate) == repr(options["learning_rate"])
        assert loaded.policy_kwargs == {"channels": 4}


def test_a_seed_that_was_drawn_is_kept(tmp_path, pool):
    saved = small(pool, seed=None)
    assert MaxRL.load(saved_to(saved, tmp_path)).seed == saved.seed


def test_a_config_is_kept_beside_the_model(tmp_path, pool):
    config = {"mazes": {"size": (9, 9), "distances": None}, "seed": 3, "rate": float("inf")}
    small(pool).save_checkpoint(tmp_path / "with", config)
    assert read_checkpoint(tmp_path / "with").config == config
    small(pool).save_checkpoint(tmp_path / "without")
    assert read_checkpoint(tmp_path / "without").config is None
    rewrite(tmp_path / "without", lambda data: data.pop("config"))  # as earlier versions wrote it
    assert read_checkpoint(tmp_path / "without").config is None
    with pytest.raises(TypeError, match=r"config\['a'\]=<object"):
        small(pool).save_checkpoint(tmp_path / "bad", {"a": object()})
    assert not (tmp_path / "bad").exists()


def test_mazes_and_rules_are_built_again(tmp_path, pool):
    saved = small(pool)
    saved.learn(500)
    loaded = MaxRL.load(saved_to(saved, tmp_path))
    env = loaded.get_env().envs[0].unwrapped
    assert type(env) is MazeEnv
    assert env.rules == MazeRules((5, 5), on_wall="stay", max_steps=20)
    assert env.pool.digests.tolist() == pool.digests.tolist()
    assert env.pool.provenance["algorithm"] == "prim"
    assert loaded.rollout_sampler.reason == ""
    observation = env.reset(seed=0)[0]
    assert loaded.predict(observation, deterministic=True)[0] == saved.predict(observation, deterministic=True)[0]
    assert 0 <= evaluate_policy(loaded, loaded.get_env(), 3)[0] <= 1
    before = loaded.num_timesteps
    loaded.learn(100, reset_num_timesteps=False)
    assert before + 100 <= loaded.num_timesteps < before + 100 + 16 * 20


def test_vectors_of_mazes_are_built_again_in_their_number(tmp_path, pool):
    vector = VecMonitor(MazeVecEnv(3, pool, observation="dict"))
    loaded = MaxRL.load(saved_to(small(pool, env=vector), tmp_path / "vector"))
    assert type(loaded.env) is MazeVecEnv
    assert loaded.env.rules.observation == "dict"
    assert loaded.n_envs == loaded.env.num_envs == 3
    several = DummyVecEnv([lambda: MazeEnv(pool)] * 2)
    loaded = MaxRL.load(saved_to(small(pool, policy="CnnPolicy", env=several), tmp_path / "several"))
    assert [type(env.unwrapped) for env in loaded.env.envs] == [MazeEnv] * 2
    assert loaded.env.envs[0] is not loaded.env.envs[1]


def test_fresh_mazes_are_built_again_and_training_goes_on_bit_for_bit(tmp_path, pool):
    def fresh():
        mazes = FreshMazes(7, "wilson", 2, exclude=MazePool.generate(5, 7))
        return small(pool, env=MazeEnv(mazes, on_wall="stay", max_steps=20), success="critic")

    whole = fresh().learn(10**9, total_updates=6)
    half = fresh().learn(10**9, total_updates=3)
    half.save(tmp_path / "agent")
    loaded = SERA.load(tmp_path / "agent")
    assert loaded.rollout_sampler.prompts_digest == whole.rollout_sampler.prompts_digest
    assert loaded.prompt_order.position == 12
    loaded.learn(10**9, total_updates=6, reset_num_timesteps=False)
    assert same_parameters(loaded, whole)


def cart_pole(success=True):
    return PromptQueue(gym.make("CartPole-v1"), range(5), (lambda episode: episode.steps > 15) if success else None)


def test_other_environments_are_given_or_set_later(tmp_path, pool):
    saved = small(pool, policy="MlpPolicy", env=cart_pole())
    saved.learn(1000)
    folder = saved_to(saved, tmp_path / "agent")
    assert header(folder)["environments"] is None
    loaded = MaxRL.load(folder)
    observation = np.zeros(4, np.float32)
    assert loaded.predict(observation, deterministic=True)[0] == saved.predict(observation, deterministic=True)[0]
    with pytest.raises(ValueError, match="there is no environment to learn from"):
        loaded.learn(10)
    # Saving it again without environments loses nothing.
    loaded = MaxRL.load(saved_to(loaded, tmp_path / "again"))
    loaded.set_env(DummyVecEnv([cart_pole] * 2))
    assert loaded.n_envs == 2
    given = MaxRL.load(folder, cart_pole())
    for model in (loaded, given):
        assert model.prompt_order.state_dict() == saved.prompt_order.state_dict()
        assert model.success_estimator.known
        for name, value in saved.success_estimator.state_dict().items():
            assert torch.equal(model.success_estimator.state_dict()[name], value)
        model.learn(10, reset_num_timesteps=False)


def test_other_mazes_start_the_history_anew(tmp_path, pool):
    saved = small(pool)
    saved.learn(500)
    folder = saved_to(saved, tmp_path)
    others = MazePool.generate(6, 5, endpoints="random", seed=9)
    with pytest.warns(UserWarning, match=r"was saved with 6 prompts, and the environments have 6 others: success his"):
        loaded = MaxRL.load(folder, MazeEnv(others))
    assert not loaded.success_estimator.known
    assert loaded.prompt_order.state_dict() == {"epoch": 0, "position": 0}
    assert loaded.num_timesteps == saved.num_timesteps
    assert same_parameters(loaded, saved)
    with pytest.warns(UserWarning, match="was saved with 6 prompts, and the environments have 4: success history"):
        MaxRL.load(folder, MazeEnv(pool[:4]))
    # The same mazes under other rules are the same prompts.
    assert MaxRL.load(folder, MazeEnv(pool, max_steps=50)).success_estimator.known


def test_iterations_chosen_for_the_policy_are_kept(tmp_path, pool):
    saved = small(pool)
    saved.policy = saved.policy.at(iterations=17)
    folder = saved_to(saved, tmp_path)
    assert MaxRL.load(folder).policy.iterations == 17
    assert MaxRL.load(folder, policy_kwargs={"channels": 4, "iterations": 3}).policy.iterations == 3


def test_torchs_random_state_is_restored(tmp_path, pool):
    saved = small(pool)
    torch.rand(3)
    folder = saved_to(saved, tmp_path)
    expected = torch.rand(4)
    torch.rand(5)
    MaxRL.load(folder)
    assert torch.equal(torch.rand(4), expected)


def test_replacements(tmp_path, pool):
    folder = saved_to(small(pool), tmp_path)
    loaded = MaxRL.load(folder, learning_rate=ConstantSchedule(0.5), rollouts_per_prompt=8, seed=3)
    assert loaded.lr_schedule(1.0) == 0.5
    assert (loaded.rollouts_per_prompt, loaded.n_max, loaded.seed) == (8, None, 3)
    assert not MaxRL.load(folder, success="exact").success_estimator.state_dict()
    with pytest.raises(TypeError, match=r"'rollout_per_prompt' is no argument of SERA .*mean 'rollouts_per_prompt'\?"):
        MaxRL.load(folder, rollout_per_prompt=8)
    with pytest.raises(ValueError, match="advantage"):
        MaxRL.load(folder, advantage="ppo")


@pytest.mark.parametrize("name", ["agent", "agent.zip"])
def test_most_rollouts_without_a_number_follow_the_rollouts_per_prompt(tmp_path, pool, name, monkeypatch):
    """With success="exact" the first batch is allocated already; None means four times the rollouts of a prompt."""
    small(pool, success="exact").save(tmp_path / name)
    env = MazeEnv(pool, on_wall="stay", max_steps=20)
    most, share_out = [], maxrl.share_out

    def spy(name, estimate, num_prompts, budget, bounds, device):
        most.append(bounds.n_max)
        return share_out(name, estimate, num_prompts, budget, bounds, device)

    monkeypatch.setattr(maxrl, "share_out", spy)
    for options in ({}, {"rollouts_per_prompt": 8}, {"rollouts_per_prompt": 8, "n_max": 9}):
        loaded = SERA.load(tmp_path / name, env, **options)
        assert loaded.n_max == options.get("n_max")
        loaded.learn(10**9, total_updates=1)
    assert most == [16, 32, 9]


def test_policies_without_an_alias_are_passed_by_the_caller(tmp_path, pool):
    saved = small(pool, policy=OwnPolicy)
    folder = saved_to(saved, tmp_path)
    with pytest.raises(
        ValueError, match=r"policy '.*OwnPolicy', which is not one of .* pass the class, as policy=\.\."
    ):
        MaxRL.load(folder)
    assert same_parameters(MaxRL.load(folder, policy=OwnPolicy), saved)


def test_classes_by_name_and_their_optimizer_state(tmp_path, pool):
    kwargs = {"activation_fn": torch.nn.ReLU, "optimizer_class": torch.optim.SGD, "optimizer_kwargs": {"momentum": 0.9}}
    saved = small(pool, policy="MlpPolicy", policy_kwargs={**kwargs, "net_arch": {"pi": [8], "vf": []}})
    saved.learn(500)
    loaded = MaxRL.load(saved_to(saved, tmp_path))
    assert loaded.policy_kwargs == saved.policy_kwargs
    states = [model.policy.optimizer.state_dict() for model in (saved, loaded)]
    assert states[0]["param_groups"] == states[1]["param_groups"]
    momenta = [[entry["momentum_buffer"] for entry in state["state"].values()] for state in states]
    assert any(momentum is not None and momentum.abs().max() > 0 for momentum in momenta[0])
    for one, other in zip(*momenta, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


def test_what_json_cannot_hold_is_named_and_nothing_is_written(tmp_path, pool):
    for options, place in (
        ({"learning_rate": lambda progress: 1e-3 * progress}, r"learning_rate=<function"),
        ({"policy_kwargs": {"optimizer_kwargs": {"betas": {0.9}}}}, r"policy_kwargs\['optimizer_kwargs'\]\['betas'\]="),
    ):  # fmt: skip
        saved = small(pool)
        vars(saved).update(options)
        with pytest.raises(TypeError, match=place + r".*allowed are .*\.zip saves with pickle"):
            saved.save_checkpoint(tmp_path / "agent")
    assert not (tmp_path / "agent").exists()


def test_other_spaces_and_architectures_are_refused(tmp_path, pool):
    folder = saved_to(small(pool), tmp_path / "maze")
    with pytest.raises(
        ValueError, match=r"have the observation space Box\(0, 255, \(3, 9, 9\).*made for Box\(0, 255, \(3, 5"
    ):
        MaxRL.load(folder, MazeEnv(size=9, num_mazes=4))
    with pytest.raises(
        ValueError, match=r"saved parameters do not fit the policy \(.*size mismatch for net.read.weight"
    ):
        MaxRL.load(folder, policy_kwargs={"channels": 5})
    with pytest.raises(ValueError, match=r"saved parameters do not fit the policy \(.*Missing key"):
        MaxRL.load(folder, policy="CnnPolicy", policy_kwargs={})
    with pytest.raises(
        ValueError, match=r"state of a torch.optim.adam.Adam was saved, but policy.optimizer is a torch"
    ):
        MaxRL.load(folder, policy_kwargs={"channels": 4, "optimizer_class": torch.optim.SGD})


def test_the_remedy_for_mazes_of_another_size_works(tmp_path, pool):
    model = MaxRL.load(saved_to(small(pool), tmp_path))
    larger = MaxRL("MazePolicy", MazeEnv(size=9, num_mazes=4), policy_kwargs={"channels": 4})
    larger.policy.load_state_dict(model.policy.state_dict())
    assert same_parameters(larger, model)


def test_own_algorithms_are_loaded_by_their_class(tmp_path, pool):
    folder = saved_to(small(pool, OwnAlgorithm, strength=2.5), tmp_path / "own")
    loaded = OwnAlgorithm.load(folder)
    assert type(loaded) is OwnAlgorithm
    assert (loaded.strength, loaded.allocator) == (2.5, "sera")
    with pytest.raises(ValueError, match=r"holds a OwnAlgorithm; load it with the method load of that class"):
        MaxRL.load(folder)
    folder = saved_to(small(pool, MaxRL), tmp_path / "maxrl")
    with pytest.raises(ValueError, match=r"holds a MaxRL, not a OwnAlgorithm; load it with MaxRL.load"):
        OwnAlgorithm.load(folder)


@pytest.mark.parametrize("name", ["maxrl", "maxrl.zip"])
def test_sera_loads_a_maxrl_which_shares_out_as_before(tmp_path, pool, name):
    saved = small(pool, MaxRL)
    saved.learn(200)
    saved.save(tmp_path / name)
    loaded = SERA.load(tmp_path / name, env=saved.env)
    assert type(loaded) is SERA
    assert loaded.allocator == "uniform"
    assert SERA.load(tmp_path / name, allocator="sera").allocator == "sera"
    assert same_parameters(loaded, saved)
    loaded.learn(200, reset_num_timesteps=False)
    saved.learn(200, reset_num_timesteps=False)
    assert same_parameters(loaded, saved)


@pytest.mark.parametrize("kind", [MaxRL, SERA])
def test_the_folder_of_a_run_is_loaded_by_its_path(tmp_path, pool, kind):
    saved = small(pool, MaxRL, allocator="sera")
    saved_to(saved, tmp_path / "run" / "checkpoint")
    for path in (tmp_path / "run", str(tmp_path / "run" / "checkpoint")):
        loaded = kind.load(path)
        assert type(loaded) is kind
        assert loaded.allocator == "sera"
        assert same_parameters(loaded, saved)
    (tmp_path / "empty" / "checkpoint").mkdir(parents=True)
    with pytest.raises(ValueError, match="holds no complete checkpoint"):
        kind.load(tmp_path / "empty")


def test_loading_unpickles_nothing(tmp_path, pool, monkeypatch):
    saved = small(pool)
    saved.learn(200)
    folder = saved_to(saved, tmp_path)

    def refuse(*arguments, **options):
        raise AssertionError("something was unpickled")

    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")):
        monkeypatch.setattr(module, name, refuse)
    assert same_parameters(MaxRL.load(folder), saved)


def test_headers_of_other_programs_and_versions(tmp_path, pool):
    folder = saved_to(small(pool), tmp_path)
    rewrite(folder, lambda data: data["arguments"].update(horizon=5))
    with pytest.raises(ValueError, match=r"was saved by sera_maze .*, whose SERA had the arguments \['horizon'\]"):
        MaxRL.load(folder)
    for name in ("arguments", "optimizers", "counters", "algorithm", "environments"):
        small(pool).save_checkpoint(folder)
        rewrite(folder, lambda data, name=name: data.pop(name))
        with pytest.raises(
            ValueError, match=re.escape(f"lacks a part or has another (KeyError('{name}')); save it anew")
        ):
            MaxRL.load(folder)
    small(pool).save_checkpoint(folder)
    rewrite(folder, lambda data: data.update(spaces={"observation": None, "action": None}))
    with pytest.raises(ValueError, match="lacks a part or has another"):
        MaxRL.load(folder)


def as_version_1(folder):
    """Rewrite a checkpoint as the first version of the format had it."""

    def change(data):
        data["format_version"] = 1
        data["algorithm"] = f"sera_maze.algorithm.maxrl.{data['algorithm']}"
        data["iterations"] = data.pop("settings").get("iterations")
        del data["config"]
        if data["prompts"] is not None:
            data["prompts"]["mazes"] = data["prompts"].pop("digest")

    rewrite(folder, change)
    pointer = json.loads((folder / POINTER).read_text())
    (folder / POINTER).write_text(json.dumps({**pointer, "format_version": 1}))
    return folder


@pytest.mark.parametrize(("kind", "policy"), [(SERA, "MazePolicy"), (MaxRL, "MazePolicy"), (SERA, "MlpPolicy")])
def test_a_checkpoint_of_version_1_goes_on_bit_for_bit(tmp_path, pool, kind, policy):
    saved = small(pool, kind, policy)
    if policy == "MazePolicy":
        saved.policy = saved.policy.at(iterations=9)
    saved.learn(10**9, total_updates=3)
    folder = as_version_1(saved_to(saved, tmp_path / "agent"))
    assert header(folder)["format_version"] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = MaxRL.load(folder)
    assert type(loaded) is kind
    assert loaded.success_estimator.known
    assert loaded.prompt_order.state_dict() == saved.prompt_order.state_dict() == {"epoch": 1, "position": 4}
    if policy == "MazePolicy":
        assert loaded.policy.iterations == 9
    for model in (saved, loaded):
        model.learn(10**9, total_updates=6, reset_num_timesteps=False)
    assert same_parameters(loaded, saved)
    assert loaded.num_timesteps == saved.num_timesteps
    assert header(saved_to(loaded, folder))["format_version"] == 2  # from now on
    others = MazePool.generate(6, 5, endpoints="random", seed=9)
    with pytest.warns(UserWarning, match="was saved with 6 prompts, and the environments have 6 others"):
        MaxRL.load(as_version_1(folder), MazeEnv(others, on_wall="stay", max_steps=20))


def test_a_version_1_of_ones_own_algorithm(tmp_path, pool):
    folder = as_version_1(saved_to(small(pool, OwnAlgorithm, strength=2.5), tmp_path))
    assert OwnAlgorithm.load(folder).strength == 2.5
    with pytest.raises(ValueError, match="holds a OwnAlgorithm; load it with the method load of that class"):
        MaxRL.load(folder)


def test_what_the_owner_keeps_beside_it_comes_back(tmp_path, pool):
    model = small(pool)
    model.save_checkpoint(tmp_path, {"mazes": {"count": 6}, "tags": ["a", None]})
    saved = read_checkpoint(tmp_path)
    assert saved.config == {"mazes": {"count": 6}, "tags": ["a", None]}
    assert (saved.algorithm, saved.policy) == ("SERA", {"alias": "MazePolicy"})
    assert saved.settings == {"iterations": model.policy.iterations}
    assert saved.prompts.digest == pool.digest
    model.save_checkpoint(tmp_path)
    assert read_checkpoint(tmp_path).config is None


def test_saving_and_loading_gives_no_warning_and_leaves_the_model_alone(tmp_path, pool):
    saved = small(pool)
    saved.learn(200)
    before = {name: tensor.clone() for name, tensor in saved.policy.state_dict().items()}
    mode = saved.policy.training
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MaxRL.load(saved_to(saved, tmp_path))
    assert saved.policy.training is mode
    assert all(torch.equal(before[name], tensor) for name, tensor in saved.policy.state_dict().items())


@pytest.mark.gpu
def test_from_the_gpu_to_the_cpu_and_back(tmp_path, pool):
    saved = small(pool, device="cuda")
    saved.learn(300)
    folder = saved_to(saved, tmp_path)
    expected = torch.rand(3, device="cuda")
    onto_cpu, back = MaxRL.load(folder, device="cpu"), MaxRL.load(folder, device="cuda")
    assert torch.equal(torch.rand(3, device="cuda"), expected)
    for name, tensor in saved.policy.state_dict().items():
        assert torch.equal(onto_cpu.policy.state_dict()[name], tensor.cpu())
        assert torch.equal(back.policy.state_dict()[name], tensor)
    assert back.success_estimator.probability(torch.arange(6, device="cuda")).is_cuda
    onto_cpu.learn(100, reset_num_timesteps=False)
