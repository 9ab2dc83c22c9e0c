"""The samplers: the same rollouts on every path, whatever the batch, the threads and the environments."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from scipy import stats
from stable_baselines3.common.distributions import make_proba_distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from sera_maze.envs import MazeEnv, MazePool, PromptQueue
from sera_maze.policies.maze import MazePolicy
from sera_maze.sampling.randomness import random_bits, rollout_keys
from sera_maze.sampling.rollouts import owners
from sera_maze.sampling.sampling import MapSampler, StepSampler, StoppedByCallback, keyed_actions
from sera_maze.sampling.vec_env import MazeVecEnv
from sera_maze.sampling.walking import action_thresholds, walk_in_torch, walk_on_cpu

POOL = MazePool.generate(40, 7, "prim", seed=1, braid=0.5, endpoints="random")


def make_policy(env, seed=0):
    torch.manual_seed(seed)
    return MazePolicy(env.observation_space, env.action_space, lambda _: 1e-3, channels=8)


def make_env(kind, observation="grid", on_wall="fail", n=5):
    def one():
        return MazeEnv(POOL, observation=observation, on_wall=on_wall, max_steps=15)

    if kind == "vector":
        return MazeVecEnv(n, POOL, observation=observation, on_wall=on_wall, max_steps=15)
    return (SubprocVecEnv if kind == "subproc" else DummyVecEnv)([one] * n)


def batch(seed=0, size=20):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.permutation(40)[:size]), torch.from_numpy(rng.integers(0, 7, size))


def assert_same(one, other):
    for name in ("prompts", "counts", "owner", "success", "lengths", "actions"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    for name in ("log_probs", "entropies"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("on_wall", ["fail", "stay"])
@pytest.mark.parametrize(
    ("kind", "observation"), [("dummy", "grid"), ("dummy", "dict"), ("vector", "grid"), ("subproc", "grid")]
)
def test_map_andstep_samplers_give_the_same_rollouts(kind, observation, on_wall):
    env = make_env(kind, observation, on_wall)
    policy = make_policy(env)
    prompts, counts = batch()
    rules = MazeEnv(POOL, on_wall=on_wall, max_steps=15).rules
    mapped = MapSampler(POOL, rules, seed=3).sample(policy, prompts, counts, update=2)
    stepped = StepSampler(env, seed=3).sample(policy, prompts, counts, update=2)
    env.close()
    assert_same(mapped, stepped)
    assert mapped.num_rollouts == counts.sum()
    if on_wall == "stay":
        assert 0 < mapped.success.sum() < mapped.num_rollouts
    # The squares are where the observations show the agent.
    planes = stepped.observations["layout"] if observation == "dict" else stepped.observations
    if observation == "grid":
        assert torch.equal(planes[:, 1].flatten(1).argmax(dim=1), mapped.squares)
    else:
        position = stepped.observations["position"]
        assert torch.equal(position[:, 0] * 7 + position[:, 1], mapped.squares)


def test_rollouts_depend_on_seed_update_prompt_and_number_alone():
    """Alone, in another order, with other neighbours and counts, on more threads: the common rollouts are the same."""
    sampler = MapSampler(POOL, MazeEnv(POOL, on_wall="stay").rules, seed=3)
    policy = make_policy(make_env("dummy"))

    def by_name(prompts, counts):
        rollouts = sampler.sample(policy, prompts, counts, update=5)
        owner, number = owners(counts)
        ends = rollouts.lengths.cumsum(0)
        return {
            (int(prompts[o]), int(n)): rollouts.actions[end - length : end].tolist()
            for o, n, end, length in zip(owner, number, ends, rollouts.lengths, strict=True)
        }

    prompts, counts = batch(size=40)
    everything = by_name(prompts, counts)
    shuffled = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    assert by_name(prompts[shuffled], counts[shuffled]) == everything
    more = by_name(prompts, counts + 3)
    assert {name: more[name] for name in everything} == everything
    assert by_name(prompts[7:8], counts[7:8]).items() <= everything.items()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        large = torch.full((40,), 200)
        many = by_name(prompts, large)
        torch.set_num_threads(1)
        assert by_name(prompts, large) == many
    finally:
        torch.set_num_threads(threads)
    assert sampler.sample(policy, prompts, counts, update=6).actions.tolist() != [
        action for actions in everything.values() for action in actions
    ]


def test_kernel_and_torch_walk_alike():
    sampler = MapSampler(POOL, MazeEnv(POOL, on_wall="stay").rules, seed=3)
    prompts, counts = batch()
    owner, number = owners(counts)
    log_probs = torch.randn(20, 49, 4, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    arguments = action_thresholds(log_probs), sampler.board(prompts), owner, rollout_keys(1, 2, prompts[owner], number)
    for one, other in zip(walk_on_cpu(*arguments), walk_in_torch(*arguments), strict=True):
        assert torch.equal(one, other)


@pytest.mark.gpu
def test_gpu_walks_as_the_cpu_does():
    sampler = MapSampler(POOL, MazeEnv(POOL, on_wall="stay").rules, seed=3)
    prompts, counts = batch()
    owner, number = owners(counts)
    log_probs = torch.randn(20, 49, 4, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    thresholds, keys = action_thresholds(log_probs), rollout_keys(1, 2, prompts[owner], number)
    board = sampler.board(prompts)
    moved = board._replace(walls=board.walls.cuda(), start=board.start.cuda(), goal=board.goal.cuda())
    there = walk_in_torch(thresholds.cuda(), moved, owner.cuda(), keys.cuda())
    for one, other in zip(walk_on_cpu(thresholds, board, owner, keys), there, strict=True):
        assert torch.equal(one, other.cpu())


def test_actions_have_the_policys_probabilities():
    probabilities = torch.tensor([0.1, 0.2, 0.3, 0.4])
    count = 40_000
    keys = rollout_keys(7, 0, torch.arange(count), torch.zeros(count, dtype=torch.int64))
    bits = random_bits(keys, 3)
    actions = (bits[:, None] >= action_thresholds(probabilities.log())).sum(dim=1)
    assert stats.chisquare(torch.bincount(actions), (probabilities * count).numpy()).pvalue > 1e-4


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, 2, 3, 4), (2, 2, 3, 4)), ((1, 2, 3, 4), (1, 3, 3, 4)), ((1, 2, 3, 4), (1, 2, 4, 4)),
        ((1, 2, 3, 4), (1, 2, 3, 5)), ((1, 2, 3, 4), (1, 2, 4, 3)), ((0, 0, 0, 1), (0, 0, 1, 0)),
    ],
)  # fmt: skip
def test_keys_differ_in_each_part(one, other):
    def stream(seed, update, prompt, number):
        key = rollout_keys(seed, update, torch.tensor([prompt]), torch.tensor([number]))
        return [int(random_bits(key, step)) for step in range(4)]

    assert not set(stream(*one)) & set(stream(*other))


def test_random_bits_are_uniform_and_uncorrelated():
    keys = rollout_keys(0, 0, torch.arange(200).repeat_interleave(100), torch.arange(100).repeat(200))
    draws = torch.stack([random_bits(keys, step) for step in range(5)] + [random_bits(keys, 0, 1)]).double() / 2**32
    for row in draws:
        assert stats.kstest(row.numpy(), "uniform").pvalue > 1e-4
    correlation = np.corrcoef(draws.numpy()) - np.eye(6)
    assert np.abs(correlation).max() < 5 / np.sqrt(20_000)


@pytest.mark.parametrize(
    "space",
    [spaces.Discrete(3), spaces.MultiDiscrete([2, 5]), spaces.MultiBinary(3), spaces.Box(-1, 1, (2,), np.float32)],
)
def test_keyed_actions_follow_every_distribution(space):
    """Frequencies, or means and spreads, of 20,000 keyed draws against SB3's own distribution."""
    count = 20_000
    distribution = make_proba_distribution(space)
    width = {"Discrete": 3, "MultiDiscrete": 7, "MultiBinary": 3, "Box": 2}[type(space).__name__]
    parameters = torch.linspace(-1, 1, width).repeat(count, 1)
    spread = (torch.tensor([-0.5, 0.3]),) if isinstance(space, spaces.Box) else ()
    distribution.proba_distribution(parameters, *spread)
    keys = rollout_keys(5, 0, torch.arange(count), torch.zeros(count, dtype=torch.int64))
    actions = keyed_actions(distribution, keys, torch.zeros(count, dtype=torch.int64)).double()
    torch.manual_seed(0)
    own = distribution.sample().double()
    assert actions.shape == own.shape
    assert (actions.mean(0) - own.mean(0)).abs().max() < 0.05
    assert (actions.std(0) - own.std(0)).abs().max() < 0.05
    assert torch.isfinite(distribution.log_prob(actions.to(parameters.dtype))).all()


def cart_poles(n=3, limit=30):
    def one():
        return PromptQueue(gym.make("CartPole-v1", max_episode_steps=limit), list(range(10)), lambda e: e.steps >= 20)

    return DummyVecEnv([one] * n)


def test_any_environment_and_policy():
    env = cart_poles()
    torch.manual_seed(0)
    policy = ActorCriticPolicy(env.observation_space, env.action_space, lambda _: 1e-3)
    prompts, counts = torch.tensor([3, 7, 1]), torch.tensor([4, 0, 5])
    rollouts = StepSampler(env, seed=1).sample(policy, prompts, counts, update=0)
    assert rollouts.lengths.sum() == rollouts.num_steps == len(rollouts.observations)
    assert torch.equal(rollouts.success, rollouts.lengths >= 20)
    first = rollouts.observations[torch.cumsum(rollouts.lengths, 0) - rollouts.lengths]
    expected = [env.envs[0].reset(options={"prompt": p})[0] for p in (3, 1)]
    np.testing.assert_array_equal(first[:4], np.stack([expected[0]] * 4))
    np.testing.assert_array_equal(first[4:], np.stack([expected[1]] * 5))
    _, log_probs, _ = policy.evaluate_actions(rollouts.observations, rollouts.actions)
    torch.testing.assert_close(log_probs, rollouts.log_probs)


def test_number_of_environments_does_not_change_rollouts():
    prompts, counts = torch.tensor([3, 7, 1]), torch.tensor([4, 2, 5])
    results = []
    for n in (1, 4, 30):
        env = cart_poles(n)
        torch.manual_seed(0)
        policy = ActorCriticPolicy(env.observation_space, env.action_space, lambda _: 1e-3)
        results.append(StepSampler(env, seed=1).sample(policy, prompts, counts, update=0))
    for other in results[1:]:
        assert_same(results[0], other)
        torch.testing.assert_close(results[0].observations, other.observations)


def test_no_length_bias():
    """A success takes long here, and half of the rollouts succeed: taking the first finished ones would hide it."""
    layout = "#" * 12 + "\n#S" + " " * 8 + "G#\n" + "#" * 12
    pool = MazePool.from_layouts([POOL[0].from_text(layout)])
    env = MazeVecEnv(16, pool)

    class Halved(MazePolicy):
        def maps(self, walls, goal):
            log_probs, values = super().maps(walls, goal)
            table = torch.full_like(log_probs, -40.0)
            table[..., 3] = 0.0  # RIGHT
            table[:, 1, 1] = torch.tensor([0.5, 1e-9, 1e-9, 0.5]).log()  # UP, into the wall, or RIGHT
            return table.log_softmax(-1), values

    policy = Halved(env.observation_space, env.action_space, lambda _: 1e-3)
    rollouts = StepSampler(env, seed=0).sample(policy, torch.tensor([0]), torch.tensor([400]), update=0)
    assert set(rollouts.lengths[rollouts.success].tolist()) == {9}
    assert set(rollouts.lengths[~rollouts.success].tolist()) == {1}
    assert stats.binomtest(int(rollouts.success.sum()), 400, 0.5).pvalue > 1e-4


def test_on_step_counts_the_rollouts_alive_and_can_stop():
    env = cart_poles(4)
    policy = ActorCriticPolicy(env.observation_space, env.action_space, lambda _: 1e-3)
    seen = []
    sampler = StepSampler(env, 1, on_step=lambda alive, values: seen.append((alive, sorted(values))) or True)
    rollouts = sampler.sample(policy, torch.tensor([3, 7]), torch.tensor([3, 4]), update=0)
    assert sum(alive for alive, _ in seen) == rollouts.num_steps
    assert seen[0] == (4, ["dones", "infos", "new_obs", "rewards"])
    sampler.on_step = lambda alive, values: False
    with pytest.raises(StoppedByCallback):
        sampler.sample(policy, torch.tensor([3]), torch.tensor([3]), update=0)


def test_environments_that_are_not_promptable():
    with pytest.raises(ValueError, match="PromptQueue"):
        StepSampler(DummyVecEnv([lambda: gym.make("CartPole-v1")]), seed=0)

    class Disobedient(gym.Wrapper):
        def assign(self, prompts):
            pass

    env = DummyVecEnv([lambda: Disobedient(MazeEnv(POOL))])
    env.seed(0)
    policy = make_policy(env)
    with pytest.raises(RuntimeError, match="environment 0 was assigned prompt 11, but its last info has prompt="):
        StepSampler(env, seed=0).sample(policy, torch.tensor([11]), torch.tensor([4]), update=0)


def test_alive_counts():
    env = cart_poles(3)
    policy = ActorCriticPolicy(env.observation_space, env.action_space, lambda _: 1e-3)
    rollouts = StepSampler(env, 1).sample(policy, torch.tensor([3, 7]), torch.tensor([3, 4]), update=0)
    alive = [int((rollouts.lengths > t).sum()) for t in range(int(rollouts.lengths.max()))]
    assert rollouts.alive().tolist() == alive
    assert rollouts.alive().sum() == rollouts.num_steps
    assert rollouts.successes.tolist() == [
        int(rollouts.success[:3].sum()), int(rollouts.success[3:].sum()),
    ]  # fmt: skip
