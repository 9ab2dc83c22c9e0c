"""Every name that is not known is refused with the nearest one that is, in every room."""

import json

import gymnasium as gym
import pytest
import torch

import sera_maze
from sera_maze.algorithm.maxrl import SERA, MaxRL
from sera_maze.allocation import allocate, group_advantages
from sera_maze.coverage.callback import CoverageCallback
from sera_maze.coverage.evaluation import evaluate
from sera_maze.envs.ground.checks import did_you_mean, known_arguments
from sera_maze.envs.play.maze import MazeEnv
from sera_maze.envs.play.vector import MazeVectorEnv
from sera_maze.envs.pools.pool import MazePool
from sera_maze.exact import success_probability
from sera_maze.runs.config import RunConfig
from sera_maze.runs.folder import checked_device
from sera_maze.sampling.vec_env import MazeVecEnv
from sera_maze.storage.run_log import resumed_logger


def model(policy="MazePolicy", **options):
    return SERA(policy, MazeVecEnv(2, MazePool.generate(2, 7)), **options)


def set_options():
    env = MazeVecEnv(2, MazePool.generate(2, 7))
    env.set_options({"promt": 1})
    env.reset()


@pytest.mark.parametrize(
    ("ask", "near"),
    [
        (lambda: MazePool.generate(2, 7, "prin"), "prim"),
        (lambda: MazePool.generate(2, 7, endpoints="randm"), "random"),
        (lambda: MazePool.generate(2, 7, algoritm="dfs"), "algorithm"),
        (lambda: MazePool.papers("heldout"), "held_out"),
        (lambda: MazePool.generate(2, 7)[0].to_text("block"), "blocks"),
        (lambda: MazeEnv(size=9, observation="girds"), "grid"),
        (lambda: MazeEnv(size=9, on_wal="fail"), "on_wall"),
        (lambda: gym.make("sera_maze:SeraMaze/Prim-9x9-v0", observaton="tokens"), "observation"),
        (lambda: MazeEnv(size=9).reset(options={"layuot": ""}), "layout"),
        (lambda: MazeVectorEnv(2, size=7, autoreset_mode="same-step"), "SameStep"),
        (lambda: MazeVectorEnv(2, size=9).reset(options={"promt": 1}), "prompt"),
        (lambda: MazeVecEnv(2, sise=7), "size"),
        (set_options, "prompt"),
        (lambda: model("MazePolcy"), "MazePolicy"),
        (lambda: model(allocator="sear"), "sera"),
        (lambda: model(success="histroy"), "history"),
        (lambda: model(advantage="max-rl"), "maxrl"),
        (lambda: model(rounding="fidelty"), "fidelity"),
        (lambda: model(sampler="steps"), "step"),
        (lambda: model(alocator="sera"), "allocator"),
        (lambda: MaxRL("MazePolicy", prompts_per_bach=3), "prompts_per_batch"),
        (lambda: model(policy_kwargs={"chanels": 8}), "channels"),
        (lambda: allocate(torch.full((2,), 0.5, dtype=torch.float64), 8, rounding="fidel"), "fidelity"),
        (lambda: group_advantages(torch.ones(2), torch.zeros(2, dtype=torch.int64), "maxlr"), "maxrl"),
        (lambda: CoverageCallback(MazePool.generate(2, 7), num_sample=8), "num_samples"),
        (lambda: evaluate(model().policy, MazePool.generate(2, 7), exact="atuo"), "auto"),
        (lambda: evaluate(model().policy, MazePool.generate(2, 7), num_sample=8), "num_samples"),
        (lambda: success_probability(model().policy, MazePool.generate(2, 7), on_wall="stya"), "stay"),
        (lambda: RunConfig.of(warmstart=3), "warm_start"),
        (lambda: RunConfig.from_dict(json.loads('{"updaets": 3}')), "updates"),
        (lambda: checked_device("cdua"), "cuda"),
        (lambda: resumed_logger("nowhere", 0, ["tensorbord"]), "tensorboard"),
        (lambda: sera_maze.MazePoll, "MazePool"),
    ],
)  # fmt: skip
def test_the_nearest_name_is_named(ask, near):
    with pytest.raises((ValueError, TypeError, AttributeError), match=f"; did you mean '{near}'\\?"):
        ask()


def test_nothing_is_suggested_where_nothing_is_near():
    assert did_you_mean("xyz", ("sera", "uniform")) == ""
    assert did_you_mean(3.5, ("sera",)) == ""
    assert did_you_mean("SERA-posterior", ("sera", "sera_posterior")) == "; did you mean 'sera_posterior'?"


def test_functions_with_known_arguments_are_called_as_before():
    @known_arguments
    def add(one, *, other=2):
        """Their sum."""
        return one + other

    assert (add(1), add(1, other=3), add(one=5), add.__doc__) == (3, 4, 7, "Their sum.")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'one'"):
        add()
