"""`evaluate`: what a policy can do on held-out prompts, from a fixed number of rollouts each, and exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv

from sera_maze.algorithm.normalization import model_normalization
from sera_maze.coverage.evaluator import Evaluator, policy_of, training_rules
from sera_maze.coverage.solutions import count_distinct
from sera_maze.coverage.tables import Evaluation
from sera_maze.coverage.unbiased import KS, coverage
from sera_maze.envs.ground.checks import check_int, did_you_mean, known_arguments
from sera_maze.envs.play.rules import MazeRules
from sera_maze.envs.pools.prompts import Prompts


@known_arguments
def evaluate(
    policy: ActorCriticPolicy | BaseAlgorithm,
    prompts: Prompts | VecEnv | gym.Env[Any, Any],
    *,
    num_samples: int = 256,
    ks: Sequence[int] | None = None,
    rules: MazeRules | None = None,
    seed: int = 0,
    exact: bool | str = "auto",
    env: VecEnv | gym.Env[Any, Any] | None = None,
) -> Evaluation:
    """Sample a fixed number of rollouts on each held-out prompt and sum up.

    A `MazePolicy` is walked through its maps of the plain mazes; with ``env``, and for other policies, environments are
    stepped. Rollouts are sampled at temperature 1, with random numbers that no training draws and that are the same in
    every evaluation with this seed. The policy's mode, the global generators and gradients are left as they are.

    Args:
        policy: a model, or its policy. A `MazePolicy` runs with its own iterations: for mazes that are larger than
            those of the training take ``model.policy.at(iterations=...)``.
        prompts: M of them, such as a `MazePool`; or promptable environments, which are stepped.
        num_samples: rollouts n of each prompt, whatever their outcome.
        ks: values of k for pass@k, 1 to num_samples; None: those of 1, 8, 32, 128 and 256 that are.
        rules: of episodes in mazes; None: those of ``env``, else of a model's environments, if they have any, else a
            wall ends the rollout; the horizon of mazes of another size is the default.
        seed: of the rollouts, 0 or more; not tied to that of a training.
        exact: whether to compute success probabilities exactly, of a `MazePolicy` on plain mazes; "auto": where no
            environments are stepped.
        env: promptable environments over the same prompts (prompt i is prompt i), as the policy sees them, that are not
            those of a training in progress; they are reset. Where a model's environments are in a VecNormalize, these
            must be in one too, and are given its statistics.

    Returns:
        An `Evaluation`, which prints as its tables.

    Raises:
        ValueError, TypeError: for arguments outside these ranges, a policy that needs ``env``, or environments with
            other prompts.
    """
    if rules is None and isinstance(policy, BaseAlgorithm):
        rules = training_rules(prompts, env, policy.get_env())
    normalization = model_normalization(policy)
    evaluator = Evaluator(policy_of(policy), prompts, rules=rules, seed=seed, env=env, normalization=normalization)
    num_samples = check_int("num_samples", num_samples, 1, 2**31)
    ks = check_ks(ks, num_samples)
    if not isinstance(exact, bool) and exact != "auto":
        near = did_you_mean(exact, ["auto"])
        raise ValueError(f"exact={exact!r} is not known; allowed are True, False and 'auto'{near}")
    return evaluated(evaluator, num_samples, ks, evaluator.knows_exact if exact == "auto" else bool(exact))


def evaluated(evaluator: Evaluator, num_samples: int, ks: tuple[int, ...], exact: bool) -> Evaluation:
    """`evaluate` by an evaluator that is at hand, with checked arguments."""
    if exact and isinstance(evaluator.exact, str):
        raise ValueError(f"exact=True needs a MazePolicy on mazes, but {evaluator.exact}; use exact='auto'")
    prompts = evaluator.prompts
    successes, steps, distinct, chances = [], [], [], []
    for rollouts in evaluator.sample(np.arange(len(prompts)), num_samples):
        successes.append(rollouts.successes.cpu().numpy())
        steps.append(rollouts.lengths.cpu().numpy().reshape(-1, num_samples).mean(1))
        keys = evaluator.sampler.solutions(rollouts)
        owner, success = rollouts.owner.cpu().numpy(), rollouts.success.cpu().numpy()
        distinct.append(None if keys is None else count_distinct(keys, owner, success, len(rollouts.prompts)))
        chances.append(evaluator.probability(rollouts).cpu().numpy() if exact else None)
    counts = np.concatenate(successes)
    return Evaluation(
        counts, coverage(counts, ks, num_samples), np.concatenate(steps), difficulty_of(prompts), _joined(distinct),
        _joined(chances), None if evaluator.mazes is None else evaluator.mazes.rules, evaluator.seed, prompts.digest,
    )  # fmt: skip


def check_ks(ks: Sequence[int] | None, num_samples: int) -> tuple[int, ...]:
    """Check the values of k; None stands for those of `KS` up to num_samples.

    Raises:
        ValueError, TypeError: if there is none, or one is not an integer from 1 to num_samples.
    """
    if ks is None:
        return tuple(k for k in KS if k <= num_samples)
    checked = tuple(check_int(f"ks[{i}]", k, 1, num_samples) for i, k in enumerate(ks))
    if not checked:
        raise ValueError("ks is empty; give at least one k for pass@k, such as ks=(1, 8)")
    return checked


def difficulty_of(prompts: Prompts) -> NDArray[np.int64] | None:
    """(M,) int64: how hard prompts are, where they say; of mazes the moves on a shortest path."""
    found = getattr(prompts, "difficulty", None)
    return None if found is None else np.asarray(found).astype(np.int64)


def _joined(parts: list[Any]) -> Any:
    """One array; None if any part is not known."""
    return None if any(part is None for part in parts) else np.concatenate(parts)
