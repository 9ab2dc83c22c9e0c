"""What a training says when it stands still."""

import warnings

import pytest

from sera_maze import SERA, MazePool
from sera_maze.algorithm.warning_signs import WarningSigns
from sera_maze.envs import MazeEnv


def figures(failing, mixed, entropy):
    return {"groups/all_fail_fraction": failing, "groups/mixed_fraction": mixed, "train/entropy": entropy}


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (figures(1.0, 0.0, 1.2), "for 20 updates no rollout has succeeded"),
        (figures(0.25, 0.0, 1.2), r"in every group all rollouts succeed or all fail \(25 % of the prompts\)"),
        (figures(0.25, 0.5, 0.001), r"deterministic \(entropy 0.001 nats a step\) while 25 % of the prompts fail"),
    ],
)
def test_each_sign_is_told_once_when_it_has_lasted(batch, words):
    signs = WarningSigns()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(19):
            signs.look(batch)
        signs.look(figures(0.0, 1.0, 1.0))  # a single good batch, and it counts anew
        for _ in range(19):
            signs.look(batch)
    with pytest.warns(RuntimeWarning, match=words):
        signs.look(batch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(50):
            signs.look(batch)


@pytest.mark.parametrize(
    ("batch", "is_discrete"),
    [
        (figures(0.0, 0.0, 0.0001), True),  # all is solved
        (figures(0.01, 0.2, 0.0001), True),
        (figures(0.5, 0.5, 0.5), True),
        (figures(0.5, 0.5, -3.0), False),  # the entropy of continuous actions
    ],
)
def test_what_is_no_sign_is_not_told(batch, is_discrete):
    signs = WarningSigns()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(30):
            signs.look(batch, is_discrete=is_discrete)


def test_a_training_that_never_succeeds_says_so():
    env = MazeEnv(MazePool.generate(8, 9, "dfs", seed=0), max_steps=2)
    model = SERA("MazePolicy", env, prompts_per_batch=8, rollouts_per_prompt=2, seed=0, policy_kwargs={"channels": 4})
    with pytest.warns(RuntimeWarning, match="no rollout has succeeded"):
        model.learn(10**9, total_updates=20)
