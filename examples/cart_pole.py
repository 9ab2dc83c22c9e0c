"""CartPole with seeds as prompts: a rollout succeeds if the pole stands for 60 steps.

Each seed fixes the start; SERA gives more rollouts to the starts from which the pole falls more often.

    python examples/cart_pole.py --updates 40
"""

import argparse
from collections.abc import Sequence

import gymnasium as gym
from stable_baselines3.common.vec_env import DummyVecEnv

from sera_maze import SERA, PromptQueue, evaluate

STEPS = 60


def environments(seeds: Sequence[int]) -> DummyVecEnv:
    """Sixteen promptable environments over the same prompts."""

    def make() -> gym.Env:
        return PromptQueue(
            gym.make("CartPole-v1", max_episode_steps=STEPS), seeds, success=lambda episode: not episode.terminated
        )

    return DummyVecEnv([make] * 16)


def main() -> None:
    """Train, and evaluate on starts that were never trained on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=40)
    updates = parser.parse_args().updates
    held_out = environments(range(1000, 1016))
    model = SERA(
        "MlpPolicy", environments(range(64)), learning_rate=3e-3, prompts_per_batch=8, rollouts_per_prompt=8, seed=0
    )
    print("before:", evaluate(model, held_out, num_samples=16).summary())
    model.learn(10**9, total_updates=updates)
    print(evaluate(model, held_out, num_samples=16))


if __name__ == "__main__":
    main()
