"""`MapSampler`: the rollouts that stepping gives, whatever the batch and the threads, and what it keeps of a batch."""

import numpy as np
import pytest
import torch
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from helpers import assert_same_rollouts, maze_policy
from sera_maze.envs import FreshMazes, MazeEnv, MazePool
from sera_maze.exact.probability import success_probability
from sera_maze.sampling.maps import MapSampler
from sera_maze.sampling.plain_mazes import PlainMazes
from sera_maze.sampling.rollouts import owners
from sera_maze.sampling.steps import StepSampler
from sera_maze.sampling.vec_env import MazeVecEnv

POOL = MazePool.generate(40, 7, "prim", seed=1, braid=0.5, endpoints="random")


def map_sampler(pool=POOL, seed=3, **rules):
    return MapSampler(PlainMazes(pool, MazeEnv(pool, **{"on_wall": "stay", **rules}).rules), seed)


def make_env(kind, observation="grid", on_wall="fail", n=5):
    def one():
        return MazeEnv(POOL, observation=observation, on_wall=on_wall, max_steps=15)

    if kind == "vector":
        return MazeVecEnv(n, POOL, observation=observation, on_wall=on_wall, max_steps=15)
    return (SubprocVecEnv if kind == "subproc" else DummyVecEnv)([one] * n)


def batch(seed=0, size=20):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.permutation(40)[:size]), torch.from_numpy(rng.integers(0, 7, size))


@pytest.mark.parametrize("on_wall", ["fail", "stay"])
@pytest.mark.parametrize(
    ("kind", "observation"), [("dummy", "grid"), ("dummy", "dict"), ("vector", "grid"), ("subproc", "grid")]
)
def test_map_and_step_samplers_give_the_same_rollouts(kind, observation, on_wall):
    env = make_env(kind, observation, on_wall)
    policy = maze_policy(env)
    prompts, counts = batch()
    sampler = map_sampler(on_wall=on_wall, max_steps=15)
    mapped = sampler.sample(policy, prompts, counts, update=2)
    stepped = StepSampler(env, seed=3).sample(policy, prompts, counts, update=2)
    env.close()
    assert_same_rollouts(mapped, stepped)
    assert mapped.num_rollouts == counts.sum()
    if on_wall == "stay":
        assert 0 < mapped.success.sum() < mapped.num_rollouts
    # The squares are where the observations show the agent.
    if observation == "grid":
        shown = stepped.states[:, 1].flatten(1).argmax(dim=1)
    else:
        shown = stepped.states["position"][:, 0] * 7 + stepped.states["position"][:, 1]
    assert torch.equal(shown, sampler.squares(mapped))


def test_rollouts_depend_on_seed_update_prompt_and_number_alone():
    """Alone, in another order, with other neighbours and counts, on more threads: the common rollouts are the same."""
    sampler, policy = map_sampler(), maze_policy(MazeEnv(POOL))

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


def test_rollouts_are_reported_as_stepping_reports_them():
    """As many environments as rollouts, so that all begin together: the same calls, and the same ends in each."""
    prompts, counts = torch.tensor([3, 7, 30]), torch.tensor([6, 0, 9])
    env, policy, told = make_env("vector", on_wall="stay", n=15), maze_policy(MazeEnv(POOL)), {"map": [], "step": []}

    def report(name):
        def take(alive, values):
            ends = [(info["prompt"], info["is_success"]) for info in values["infos"] if "episode" in info]
            assert len(ends) == values["dones"].sum()
            told[name].append((alive, sorted(ends), values["rewards"].sum()))
            return True

        return take

    rollouts = map_sampler(max_steps=15).sample(policy, prompts, counts, 0, report("map"))
    StepSampler(env, seed=3).sample(policy, prompts, counts, 0, report("step"))
    assert told["map"] == told["step"]
    assert [alive for alive, *_ in told["map"]] == [
        int((rollouts.lengths > step).sum()) for step in range(int(rollouts.lengths.max()))
    ]


def test_fresh_mazes_are_made_once_for_a_batch(monkeypatch):
    """Asked what it thinks of prompts, then sampled and trained on them: the mazes are those of the last call."""
    mazes, asked = FreshMazes(7, seed=2), []
    arrays = FreshMazes.arrays
    monkeypatch.setattr(FreshMazes, "arrays", lambda self, prompts: asked.append(len(prompts)) or arrays(self, prompts))
    sampler, policy, prompts = map_sampler(mazes), maze_policy(MazeEnv(POOL)), torch.tensor([5, 2, 9])
    asked.clear()
    sampler.success_logits(policy, prompts)
    rollouts = sampler.sample(policy, prompts.clone(), torch.tensor([2, 2, 2]), 0)
    chances = sampler.success_probability(policy, prompts)
    assert asked == [3]
    torch.testing.assert_close(sampler.success_probability(policy, prompts, rollouts), chances, rtol=1e-12, atol=0)
    sampler.look_up(torch.tensor([5, 2, 8]))
    assert asked == [3, 3]
    assert sampler.look_up(prompts.flip(0)).walls.flip(0).equal(rollouts.states.mazes.walls)


def test_what_it_computes_is_the_policys_success_probability():
    sampler, policy = map_sampler(max_steps=15), maze_policy(MazeEnv(POOL))
    prompts = torch.tensor([5, 2, 9])
    expected = success_probability(policy, POOL, 15, "stay", prompts=prompts).detach()
    torch.testing.assert_close(sampler.success_probability(policy, prompts), expected, rtol=1e-12, atol=0)
    assert sampler.is_exact
    assert sampler.can_imitate


def test_rollouts_of_another_sampler_are_refused():
    policy = maze_policy(MazeEnv(POOL))
    stepped = StepSampler(make_env("dummy"), 0).sample(policy, torch.tensor([3]), torch.tensor([2]), 0)
    with pytest.raises(TypeError, match="the rollouts are those of another sampler"):
        map_sampler().squares(stepped)


def test_a_tensor_of_prompts_that_is_changed_in_place_is_looked_up_again():
    pool = MazePool.generate(8, 7)
    sampler = MapSampler(PlainMazes(pool, MazeEnv(pool).rules), 0)
    prompts = torch.arange(4)
    sampler.look_up(prompts)
    prompts += 4
    assert np.array_equal(sampler.look_up(prompts).walls.numpy(), pool.walls[4:])
