"""What Gymnasium and Stable-Baselines3 ask of an environment, on every id and observation."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from sb3_contrib import MaskablePPO
from stable_baselines3 import A2C
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

import sera_maze.envs  # noqa: F401  (registers the ids)
from sera_maze.envs.play.maze import MazeEnv

UP = 0
OBSERVATIONS = ("grid", "local", "tokens", "dict")
IDS = [name for name in gym.registry if name.startswith("SeraMaze/")]


def test_all_ids_are_registered():
    families = ("Prim", "Dfs", "Kruskal", "Wilson", "Division", "Rooms", "Braid")
    assert sorted(IDS) == sorted(f"SeraMaze/{f}-{n}x{n}-v0" for f in families for n in (9, 17, 33))


@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize("name", IDS)
def test_checkers_find_nothing(name, observation, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # Gymnasium's checker tries every render mode
    env = gym.make(name, num_mazes=3, observation=observation, render_mode="rgb_array", cell_size=2)
    check_env(env.unwrapped)
    with warnings.catch_warnings():
        # Grids are smaller than NatureCNN's 36x36; the small-grid extractor is the remedy that the warning asks for.
        warnings.filterwarnings("ignore", "The minimal resolution for an image is 36x36")
        # The planes of a dict hold 0 and 1, so that MultiInputPolicy flattens them instead of taking them for an image.
        warnings.filterwarnings("ignore", "It seems that your observation space layout is an image but the upper")
        check_env_for_sb3(env, skip_render_check=False)
    env.close()


@pytest.mark.parametrize("side", [5, 37])
@pytest.mark.parametrize(
    ("observation", "policy"),
    [("grid", "MlpPolicy"), ("local", "MlpPolicy"), ("tokens", "MlpPolicy"), ("dict", "MultiInputPolicy")],
)
def test_stock_policies_take_every_size(observation, policy, side):
    env = MazeEnv(size=side, num_mazes=2, observation=observation, max_steps=8)
    model = A2C(policy, env, n_steps=8, seed=0, device="cpu", policy_kwargs={"net_arch": [8]})
    model.learn(16)
    action, _ = model.predict(env.reset(seed=0)[0])
    assert 0 <= int(action) < 4


def test_maskable_ppo_never_hits_a_wall():
    env = DummyVecEnv([lambda: MazeEnv(size=5, num_mazes=4, observation="tokens", max_steps=8)])
    model = MaskablePPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=1, seed=0)
    model.learn(64)
    observation, lengths, steps = env.reset(), [], 0
    while len(lengths) < 20:
        action, _ = model.predict(observation, action_masks=np.stack(env.env_method("action_masks")))
        observation, rewards, dones, infos = env.step(action)
        steps += 1
        if dones[0]:
            lengths.append(infos[0]["steps"] if rewards[0] == 0 else 8)
    assert set(lengths) == {8}  # an episode fails by the time limit alone


@pytest.mark.parametrize("kind", [DummyVecEnv, SubprocVecEnv])
def test_assignments_through_sb3s_auto_reset(kind):
    """Every assigned episode is played, in order, by the env that it was assigned to.

    The id names the module to import, since the worker processes have imported nothing.
    """
    envs = kind([lambda: gym.make("sera_maze:SeraMaze/Prim-9x9-v0", num_mazes=10) for _ in range(2)])
    assigned = [[1, 2, 3], [7, 7, 8]]
    for n, prompts in enumerate(assigned):
        envs.env_method("assign", prompts, indices=n)
    envs.reset()
    seen = [[], []]
    for _ in range(40):
        _, rewards, dones, infos = envs.step(np.array([UP, UP]))
        for n in np.flatnonzero(dones):
            seen[n].append(infos[n]["prompt"])
            assert infos[n]["is_success"] is False
            assert rewards[n] == 0
    envs.close()
    assert [prompts[:3] for prompts in seen] == assigned
