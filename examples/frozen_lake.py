"""FrozenLake with maps as prompts: the agent is trained on 64 lakes and judged on 32 that it has never seen.

FrozenLake takes its map when it is made and reads no reset options. A small wrapper builds the lake of the options
instead, and shows the agent the map, without which it could not tell one lake from another.

    python examples/frozen_lake.py --updates 60
"""

import argparse
import functools
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.toy_text.frozen_lake import generate_random_map
from stable_baselines3.common.vec_env import DummyVecEnv

from sera_maze import SERA, CoverageCallback, PromptQueue, evaluate


def lake(desc: tuple[str, ...]) -> gym.Env:
    """A lake of a map, in which nobody slips."""
    return gym.make("FrozenLake-v1", desc=list(desc), is_slippery=False, max_episode_steps=20)


class Lakes(gym.Wrapper):
    """FrozenLake on the map of ``options["desc"]``; the observation has planes of holes, goal and agent."""

    def __init__(self) -> None:
        super().__init__(lake(("SFFF", "FFFF", "FFFF", "FFFG")))
        self.observation_space = gym.spaces.Box(0, 1, (3, 4, 4), np.float32)
        self.lake = functools.cache(lake)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Go to the lake of the options."""
        self.env = self.lake(tuple((options or {})["desc"]))
        state, info = self.env.reset(seed=seed)
        return self.seen(state), info

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        """See `gymnasium.Env.step`."""
        state, reward, terminated, truncated, info = self.env.step(int(action))
        return self.seen(state), float(reward), terminated, truncated, info

    def seen(self, state: int) -> np.ndarray:
        """The planes (3, 4, 4) float32."""
        desc = self.env.unwrapped.desc
        agent = np.arange(16).reshape(4, 4) == state
        return np.stack([desc == b"H", desc == b"G", agent]).astype(np.float32)


def environments(seeds: range) -> DummyVecEnv:
    """Eight promptable environments; prompt i is the random map of the i-th seed."""
    prompts = [{"desc": generate_random_map(size=4, p=0.7, seed=seed)} for seed in seeds]

    def make() -> gym.Env:
        return PromptQueue(Lakes(), prompts, success=lambda episode: episode.total_reward > 0)

    return DummyVecEnv([make] * 8)


def main() -> None:
    """Train, and print what the agent can do on other lakes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=60)
    updates = parser.parse_args().updates
    held_out = environments(range(1000, 1032))
    model = SERA("MlpPolicy", environments(range(64)), prompts_per_batch=16, rollouts_per_prompt=16, seed=0)
    coverage = CoverageCallback(held_out, eval_freq_updates=20, num_samples=32)
    model.learn(10**9, coverage, total_updates=updates)
    for entry in coverage.history:
        print(f"update {entry['update']}: pass@1 {entry['coverage/pass@1']:.3f}, pass@8 {entry['coverage/pass@8']:.3f}")
    print(evaluate(model, held_out, num_samples=32))


if __name__ == "__main__":
    main()
