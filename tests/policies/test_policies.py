"""`MazePolicy`: one pass for a whole maze, and everything that SB3 asks of a policy."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

from helpers import maze_policy
from sera_maze.envs import MazeEnv, MazePool
from sera_maze.policies.maze import MazePolicy
from sera_maze.policies.network import default_iterations
from sera_maze.policies.small_grid import SmallGridCNN, SmallGridPolicy

POOL = MazePool.generate(12, 7, "prim", seed=1)


def make_policy(observation="grid", **options):
    return maze_policy(MazeEnv(POOL, observation=observation), **options)


def observations(observation, steps=3):
    """Observations of all mazes of the pool after some open moves, and where the agents stand."""
    rows, cells = [], []
    for prompt in range(len(POOL)):
        env = MazeEnv(POOL, observation=observation, on_wall="stay")
        obs, info = env.reset(options={"prompt": prompt})
        for _ in range(steps):
            obs, _, _, _, info = env.step(int(np.flatnonzero(env.action_masks())[-1]))
        rows.append(obs)
        cells.append(info["position"])
    if observation == "dict":
        return {k: torch.from_numpy(np.stack([row[k] for row in rows])) for k in rows[0]}, cells
    return torch.from_numpy(np.stack(rows)), cells


@pytest.mark.parametrize("observation", ["grid", "dict"])
def test_every_method_looks_the_map_up_where_the_agent_stands(observation):
    policy = make_policy(observation)
    obs, cells = observations(observation)
    walls, goal = torch.tensor(POOL.walls), torch.tensor(POOL.goal)
    log_probs, values = policy.maps(walls, goal)
    rows, columns = np.array(cells).T
    expected = log_probs[np.arange(12), rows, columns]
    chances = values[np.arange(12), rows, columns].sigmoid()
    torch.testing.assert_close(policy.get_distribution(obs).distribution.logits, expected)
    torch.testing.assert_close(policy.predict_values(obs)[:, 0], chances)
    actions, value, log_prob = policy(obs)
    torch.testing.assert_close(log_prob, expected[torch.arange(12), actions])
    torch.testing.assert_close(value[:, 0], chances)
    value, log_prob, entropy = policy.evaluate_actions(obs, torch.zeros(12, dtype=torch.int64))
    torch.testing.assert_close(log_prob, expected[:, 0])
    torch.testing.assert_close(entropy, -(expected.exp() * expected).sum(dim=1))
    deterministic, _, _ = policy(obs, deterministic=True)
    assert torch.equal(deterministic, expected.argmax(dim=1))


def test_maps_are_normalised_and_do_not_depend_on_neighbours():
    policy = make_policy()
    walls, goal = torch.tensor(POOL.walls), torch.tensor(POOL.goal)
    log_probs = policy.log_prob_map(walls, goal)
    assert log_probs.shape == (12, 7, 7, 4)
    torch.testing.assert_close(log_probs.exp().sum(dim=-1), torch.ones(12, 7, 7))
    torch.testing.assert_close(policy.log_prob_map(walls[3:4], goal[3:4]), log_probs[3:4], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("iterations", "reaches"), [(18, False), (19, True)])
def test_information_travels_two_squares_an_iteration(iterations, reaches):
    """A corridor of 43 squares has 22 blocks; reading carries one block, and so does each iteration: 0 to 20 in all."""
    policy = make_policy(iterations=iterations)
    for parameter in policy.parameters():
        parameter.data.abs_()  # so that nothing cancels
    seen = []

    def keep(module, inputs, output):
        output.retain_grad()
        seen.append(output)

    policy.net.read.register_forward_hook(keep)
    walls = torch.ones(1, 3, 43, dtype=torch.bool)
    walls[:, 1, 1:-1] = False
    logits, _ = policy.net(walls, torch.tensor([[1, 1]]), iterations)
    logits[0, 1, 41].sum().backward()
    # The goal's block is 0, and its reading reaches block 1.
    assert seen[0].grad[0, :, 0, 1].any().item() is reaches


@pytest.mark.parametrize(("size", "iterations"), [((9, 9), 11), ((17, 17), 20), ((33, 33), 40), ((3, 5), 8)])
def test_default_iterations(size, iterations):
    assert default_iterations(*size) == iterations
    env = MazeEnv(size=size, num_mazes=1)
    assert MazePolicy(env.observation_space, env.action_space, lambda _: 1e-3).iterations == iterations


def test_a_variant_shares_the_parameters_and_leaves_the_policy_alone():
    policy = make_policy(iterations=20)
    before = dict(vars(policy))
    variant = policy.at(iterations=7)
    assert type(variant) is MazePolicy
    assert (policy.iterations, variant.iterations) == (20, 7)
    assert vars(policy) == before
    for one, other in zip(policy.parameters(), variant.parameters(), strict=True):
        assert one is other
    assert variant.optimizer is policy.optimizer
    walls, goal = torch.tensor(POOL.walls), torch.tensor(POOL.goal)
    expected = make_policy(iterations=7).log_prob_map(walls, goal)
    assert torch.equal(variant.log_prob_map(walls, goal), expected)
    assert not torch.equal(policy.log_prob_map(walls, goal), expected)
    # A gradient through the variant is one of the policy, and a step of the policy is one of the variant.
    variant.log_prob_map(walls, goal)[..., 0].sum().backward()
    assert all(parameter.grad is not None for parameter in policy.net.write.parameters())
    policy.optimizer.step()
    assert not torch.equal(variant.log_prob_map(walls, goal), expected)
    for iterations in (0, 100_001):
        with pytest.raises(ValueError, match=f"iterations={iterations}"):
            policy.at(iterations=iterations)


def test_varied_iterations_are_drawn_for_variants():
    policy = make_policy(iterations=20)
    seen = set()
    for seed in range(400):
        seen.add(policy.varied(np.random.default_rng(seed)).iterations)
        assert policy.iterations == 20
    assert (min(seen), max(seen)) == (12, 40)
    fixed = make_policy(iterations=20, vary_iterations=False)
    assert fixed.varied(np.random.default_rng(0)) is fixed


def test_variants_for_mazes_of_a_size():
    policy = make_policy(iterations=13)
    assert policy.for_size((7, 7)).iterations == 13
    assert policy.for_size((15, 15)).iterations == default_iterations(15, 15)
    assert policy.for_size((15, 15), 50).iterations == 50
    assert policy.for_size((7, 7), 50).iterations == 50
    assert policy.iterations == 13


@pytest.mark.parametrize("algorithm", [PPO, A2C])
@pytest.mark.parametrize("observation", ["grid", "dict"])
def test_sb3s_algorithms_train_and_save_it(algorithm, observation, tmp_path):
    env = DummyVecEnv([lambda: MazeEnv(POOL, observation=observation)] * 2)
    options = {"batch_size": 8} if algorithm is PPO else {}
    model = algorithm(MazePolicy, env, n_steps=8, policy_kwargs={"channels": 8, "iterations": 5}, seed=0, **options)
    before = [parameter.clone() for parameter in model.policy.parameters()]
    model.learn(32)
    assert all((one != other).any() for one, other in zip(before, model.policy.parameters(), strict=True))
    mean, _ = evaluate_policy(model, env, n_eval_episodes=4, warn=False)
    assert 0 <= mean <= 1
    model.save(tmp_path / "model.zip")
    loaded = algorithm.load(tmp_path / "model.zip")
    assert loaded.policy.iterations == 5
    obs = env.reset()
    np.testing.assert_array_equal(loaded.predict(obs, deterministic=True)[0], model.predict(obs, deterministic=True)[0])


def test_a_policy_runs_on_larger_mazes():
    policy = make_policy()
    large = MazePool.generate(2, 15)
    policy = policy.at(iterations=default_iterations(15, 15))
    assert policy.log_prob_map(torch.tensor(large.walls), torch.tensor(large.goal)).shape == (2, 15, 15, 4)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Box(0, 255, (2, 5, 5), np.uint8), "MazePolicy needs a fully observed maze"),
        (spaces.Box(0, 31, (40,), np.uint8), "MlpPolicy"),
        (spaces.Dict({"a": spaces.Discrete(2)}), "MazePolicy needs"),
    ],
)
def test_other_spaces_are_refused(space, words):
    with pytest.raises(ValueError, match=words):
        MazePolicy(space, spaces.Discrete(4), lambda _: 1e-3)


def test_other_actions_and_bad_arguments_are_refused():
    space = MazeEnv(POOL).observation_space
    with pytest.raises(ValueError, match=r"Discrete\(4\), got Discrete\(5\)"):
        MazePolicy(space, spaces.Discrete(5), lambda _: 1e-3)
    for options in ({"channels": 0}, {"iterations": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(options))}=0"):
            MazePolicy(space, spaces.Discrete(4), lambda _: 1e-3, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"net_arch": [64, 64]}, r"net_arch=\[64, 64\] has no effect on a MazePolicy, leave it out; it takes channels"),
        ({"activation_fn": torch.nn.ReLU}, "activation_fn=.* has no effect"),
        ({"use_sde": True}, "use_sde=True has no effect"),
        ({"features_extractor_class": SmallGridCNN}, "features_extractor_class=.* has no effect"),
        ({"ortho_init": False}, "ortho_init=False has no effect"),
    ],
)
def test_options_without_effect_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        make_policy(**options)


def test_options_that_sb3_passes_or_that_have_an_effect_are_taken():
    policy = make_policy(use_sde=False, optimizer_class=torch.optim.SGD, optimizer_kwargs={"momentum": 0.5})
    assert isinstance(policy.optimizer, torch.optim.SGD)
    assert policy.optimizer.defaults["momentum"] == 0.5


def test_a_policy_is_saved_and_loaded_by_itself(tmp_path):
    options = {"iterations": 5, "vary_iterations": False, "optimizer_kwargs": {"weight_decay": 0.25}}
    policy = make_policy(**options)
    for parameter in policy.parameters():
        parameter.data += 0.125
    policy = policy.at(iterations=9)  # chosen later, for larger mazes
    policy.save(tmp_path / "policy.pt")
    loaded = MazePolicy.load(tmp_path / "policy.pt")
    assert (loaded.channels, loaded.iterations, loaded.vary_iterations) == (8, 9, False)
    assert loaded.maze_size == (7, 7)
    assert loaded.optimizer.defaults["weight_decay"] == 0.25
    walls, goal = torch.tensor(POOL.walls), torch.tensor(POOL.goal)
    assert torch.equal(loaded.log_prob_map(walls, goal), policy.log_prob_map(walls, goal))


@pytest.mark.parametrize("size", [(3, 7), (9, 9), (17, 17)])
def test_small_grid_extractor_lets_stock_policies_see_small_mazes(size):
    env = MazeEnv(size=size, num_mazes=1)
    model = PPO(
        "CnnPolicy", env, n_steps=8, batch_size=8, n_epochs=1,
        policy_kwargs={"features_extractor_class": SmallGridCNN, "features_extractor_kwargs": {"features_dim": 16}},
    )  # fmt: skip
    model.learn(8)
    policy = SmallGridPolicy(env.observation_space, env.action_space, lambda _: 1e-3)
    assert isinstance(policy.features_extractor, SmallGridCNN)
    assert policy.predict(env.reset()[0])[0] in range(4)
