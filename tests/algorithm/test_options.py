"""Options of MaxRL: each bad one is refused where the model is made, and the seed fixes what it should."""

import ast
import inspect
import math
import random
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from helpers import parameters, small_model
from sera_maze.algorithm.maxrl import SERA, MaxRL
from sera_maze.algorithm.options import MaxRLOptions
from sera_maze.envs import MazePool
from sera_maze.envs.ground.options import descriptions
from sera_maze.sampling.vec_env import MazeVecEnv

POOL = MazePool.generate(6, 5, "prim", seed=1, endpoints="random")


def make(algorithm=MaxRL, policy="MazePolicy", observation="grid", **options):
    env = MazeVecEnv(4, POOL, on_wall="stay", max_steps=12, observation=observation)
    return small_model(algorithm, env, policy, **options)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"ent_coef": math.nan}, ValueError, "ent_coef=nan is out of range; allowed is a finite number of at least 0"),
        ({"ent_coef": -1}, ValueError, "ent_coef=-1 "),
        ({"ent_coef": math.inf}, ValueError, "ent_coef=inf"),
        ({"critic_coef": math.nan}, ValueError, "critic_coef=nan"),
        ({"critic_coef": -1}, ValueError, "critic_coef=-1 "),
        ({"max_grad_norm": math.nan}, ValueError, "max_grad_norm=nan is out of range; allowed is a number above 0"),
        ({"max_grad_norm": -1}, ValueError, "max_grad_norm=-1 "),
        ({"max_grad_norm": 0}, ValueError, "max_grad_norm=0 "),
        ({"clip_range": math.nan}, ValueError, "clip_range=nan"),
        ({"clip_range": -1}, ValueError, "clip_range=-1 "),
        ({"clip_range": 0}, ValueError, "clip_range=0 "),
        ({"clip_range": None}, TypeError, "clip_range=None is a NoneType; .* schedules are not"),
        ({"clip_range": lambda left: 0.2}, TypeError, "clip_range=<function .* schedules are not"),
        ({"token_mean": "no"}, TypeError, "token_mean='no' is a str; allowed are True and False"),
        ({"multiplicity_correction": 1}, TypeError, "multiplicity_correction=1 is a int"),
        ({"policy_kwargs": {"vary_iterations": "x"}}, TypeError, "vary_iterations='x' is a str"),
        ({"activation_threshold": 2.0}, ValueError, "activation_threshold=2.0"),
        ({"activation_threshold": math.nan}, ValueError, "activation_threshold=nan"),
        ({"activation_threshold": -0.1}, ValueError, "activation_threshold=-0.1"),
        ({"activation_threshold": "x"}, TypeError, "activation_threshold='x'"),
        ({"activation_threshold": True}, TypeError, "activation_threshold=True"),
        (
            {"allocator": "sera_posterior", "success": "exact"}, ValueError,
            "needs the posteriors of success='history', got success='exact'; use allocator='sera'",
        ),
        ({"allocator": "vip", "rollouts_per_prompt": 1}, ValueError, "allocator='vip' needs at least 2"),
        ({"allocator": "knapsack", "n_min": 5}, ValueError, "n_min=5 is out of range"),
        ({"seed": -1}, ValueError, "seed=-1 is out of range; give an integer from 0 to 4294967295"),
        ({"seed": 2**32}, ValueError, "seed=4294967296 "),
        ({"seed": True}, ValueError, "seed=True"),
        ({"seed": 1.5}, TypeError, "seed=1.5 "),
        ({"seed": "x"}, TypeError, "seed='x'"),
        ({"learning_rate": math.nan}, ValueError, "learning_rate is nan at the start"),
        ({"learning_rate": -1.0}, ValueError, "learning_rate is -1.0 at the start"),
        ({"learning_rate": lambda left: -left}, ValueError, "learning_rate is -1.0 at the start"),
    ],
)  # fmt: skip
def test_bad_options_are_refused_at_construction(options, error, words):
    with pytest.raises(error, match=words):
        make(**options)


def test_what_lies_at_the_ends_is_taken():
    make(ent_coef=0, critic_coef=0, max_grad_norm=math.inf, activation_threshold=0, seed=2**32 - 1, learning_rate=0.0)


def test_bad_options_are_refused_from_a_file_too(tmp_path):
    make().save(tmp_path / "agent")
    make().save(tmp_path / "agent.zip")
    for name in ("agent", "agent.zip"):
        with pytest.raises(ValueError, match="max_grad_norm=-1"):
            MaxRL.load(tmp_path / name, make().get_env(), max_grad_norm=-1)


def test_numpy_integers_are_integers():
    plain = make(seed=3)
    other = make(
        seed=np.int64(3), prompts_per_batch=np.int32(3), rollouts_per_prompt=np.int64(4), n_epochs=np.uint8(1),
        n_min=np.int64(2), n_max=np.int64(16), warmup_updates=np.int16(20),
    )  # fmt: skip
    for name in (
        "seed", "prompts_per_batch", "rollouts_per_prompt", "n_epochs", "n_min", "n_max", "warmup_updates",
    ):  # fmt: skip
        assert type(getattr(other, name)) is int
    for model in (plain, other):
        model.learn(10**9, total_updates=2)
    assert torch.equal(parameters(plain), parameters(other))


def test_a_schedule_that_turns_nan_stops_the_learning_before_the_parameters_change():
    model = make(learning_rate=lambda left: 1e-3 if left > 0.6 else math.nan)
    kept = []
    original = model.update

    def update(*arguments):
        kept.append(parameters(model))
        original(*arguments)

    model.update = update
    with pytest.raises(ValueError, match="learning_rate is nan in update 2; allowed is a finite number"):
        model.learn(10**9, total_updates=5)
    assert len(kept) == 3
    assert torch.equal(parameters(model), kept[-1])
    assert torch.isfinite(parameters(model)).all()
    assert model.updates == 2


def test_without_a_seed_one_is_drawn_and_nothing_global_is_touched():
    torch.manual_seed(5)
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    models = [make(seed=None) for _ in range(4)]
    models[0].learn(10**9, total_updates=2)
    assert torch.equal(torch.get_rng_state(), states[0])
    np.testing.assert_equal(np.random.get_state(), states[1])  # noqa: NPY002
    assert random.getstate() == states[2]
    assert len({model.seed for model in models}) == 4
    assert len({tuple(parameters(model).tolist()) for model in models[1:]}) == 3
    again = make(seed=models[1].seed)
    assert torch.equal(parameters(again), parameters(models[1]))


def test_one_rollout_a_prompt():
    """The default n_min=2 is of no concern to the uniform allocation; REINFORCE needs no group."""
    model = make(rollouts_per_prompt=1, advantage="reinforce")
    assert model.n_min == 2
    before = parameters(model)
    model.learn(10**9, total_updates=5)
    assert model.total_rollouts == 5 * 3
    assert (parameters(model) != before).any()
    with pytest.raises(ValueError, match="rollouts_per_prompt=1 leaves nothing to share out: allocator='sera' needs"):
        make(SERA, rollouts_per_prompt=1)


def test_a_model_needs_environments_or_a_file():
    with pytest.raises(ValueError, match=r"env is None; give environments, or load a model with MaxRL\.load"):
        MaxRL("MazePolicy", None)


def test_convolutions_of_tokens_are_refused():
    with pytest.raises(ValueError, match=r"SmallGridCNN needs observations \(C, H, W\)"):
        make(policy="CnnPolicy", observation="tokens")


def test_the_constructor_has_the_options_with_their_defaults():
    options = {field.name: field.default for field in fields(MaxRLOptions)}
    parameters = {name: item.default for name, item in inspect.signature(MaxRL).parameters.items()}
    first = list(parameters).index("prompts_per_batch")
    assert list(parameters.items())[first : first + len(options)] == list(options.items())
    assert descriptions(MaxRLOptions).keys() == options.keys()


def test_the_constructor_is_described_with_all_its_arguments():
    texts = descriptions(MaxRL)
    assert descriptions(MaxRLOptions).items() <= texts.items()
    assert {name for names in texts for name in names.split(", ")} == set(inspect.signature(MaxRL).parameters)
    assert "    n_min: least rollouts of an active prompt.\n" in MaxRL.__doc__
    assert "References:" in MaxRL.__doc__
    assert all(len(line) <= 120 for line in MaxRL.__doc__.splitlines())


def test_options_are_those_of_the_attributes(tmp_path):
    model = make(n_max=16, token_mean=True)
    assert model.options == MaxRLOptions(prompts_per_batch=3, rollouts_per_prompt=4, n_max=16, token_mean=True)
    model.save(tmp_path / "agent.zip")
    loaded = MaxRL.load(tmp_path / "agent.zip", make().get_env(), n_epochs=2)
    assert loaded.options == replace(model.options, n_epochs=2)


def test_options_load_no_torch():
    code = "import sys, sera_maze.algorithm.options, sera_maze.runs.config; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "stable_baselines3", "numba"} & set(ast.literal_eval(done.stdout))


def test_help_of_sera_shows_its_arguments():
    of_maxrl, of_sera = (inspect.signature(kind).parameters for kind in (MaxRL, SERA))
    assert list(of_sera) == list(of_maxrl)
    changed = {name for name in of_sera if of_sera[name].default != of_maxrl[name].default}
    assert changed == {"allocator"}
    assert of_sera["allocator"].default == "sera"
    for name in of_sera:
        assert f"{name}: " in SERA.__doc__ or f"{name}," in SERA.__doc__
    assert SERA.__doc__.startswith("`MaxRL` with SERA's allocation")
    # As they are called: by place before allocator, by name from there on.
    model = SERA("MazePolicy", MazeVecEnv(1, POOL), 1e-4, 2, 4, advantage="rloo", seed=0)
    assert (model.learning_rate, model.prompts_per_batch, model.allocator, model.advantage) == (1e-4, 2, "sera", "rloo")
    with pytest.raises(TypeError):
        SERA("MazePolicy", MazeVecEnv(1, POOL), 1e-4, 2, 4, "uniform")
