"""A team of two ranks: what each takes of a batch adds up to the whole, in the loss, the gradient and a training."""

import threading
from functools import partial

import pytest
import torch
from stable_baselines3.common.vec_env import DummyVecEnv

from helpers import maze_policy, parameters, small_model
from sera_maze.algorithm.maxrl import SERA
from sera_maze.allocation.advantages import group_advantages
from sera_maze.envs import MazeEnv, MazePool
from sera_maze.sampling.loss import LossTerms, Totals, rollout_weights
from sera_maze.sampling.maps import MapSampler
from sera_maze.sampling.plain_mazes import PlainMazes
from sera_maze.sampling.steps import StepSampler
from sera_maze.sampling.team import Alone

POOL = MazePool.generate(10, 7, "prim", seed=1, braid=0.5, endpoints="distance", distance=4)
RULES = {"on_wall": "stay", "max_steps": 12}
PROMPTS, COUNTS = torch.tensor([3, 0, 7, 5, 9, 2]), torch.tensor([6, 8, 0, 5, 9, 4])
SECONDS = 60  # a rank that does not come must not hang the tests


class Rank:
    """One of two threads that are a team: every second prompt is its own, and sums wait for the other."""

    size = 2

    def __init__(self, rank, barrier, slots):
        self.rank, self.barrier, self.slots = rank, barrier, slots

    def share(self, counts):
        own = torch.arange(len(counts)) % self.size == self.rank
        return torch.where(own, counts, 0)

    def sum_(self, tensor):
        self.slots[self.rank] = tensor.clone()
        self.barrier.wait(SECONDS)
        tensor.copy_(self.slots[0] + self.slots[1])
        self.barrier.wait(SECONDS)
        return tensor

    def gather(self, tensor):
        self.slots[self.rank] = tensor.clone()
        self.barrier.wait(SECONDS)
        together = torch.cat(self.slots)
        self.barrier.wait(SECONDS)
        return together


def ranks():
    barrier, slots = threading.Barrier(2), [None, None]
    return [Rank(number, barrier, slots) for number in range(2)]


def together(*tasks):
    """What tasks give that run at the same time; an error in one is raised here."""
    found, errors = [None] * len(tasks), []

    def run(number):
        try:
            found[number] = tasks[number]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found


def make_sampler(kind):
    if kind == "map":
        return MapSampler(PlainMazes(POOL, MazeEnv(POOL, **RULES).rules), 0)
    return StepSampler(DummyVecEnv([lambda: MazeEnv(POOL, **RULES)] * 3), 0)


def gradient(policy, sampler, rollouts, totals, multiplicity_correction=True, **options):
    advantages = group_advantages(rollouts.success, rollouts.owner)
    weights = rollout_weights(rollouts, advantages, totals, multiplicity_correction=multiplicity_correction)
    policy.zero_grad()
    loss = 0.0
    for part in sampler.losses(policy, LossTerms(rollouts, weights, totals, **options)):
        part.backward()
        loss += part.item()
    return torch.cat([parameter.grad.flatten().clone() for parameter in policy.parameters()]), loss


@pytest.mark.parametrize("kind", ["map", "step"])
@pytest.mark.parametrize(
    "options",
    [
        {}, {"multiplicity_correction": False}, {"ent_coef": 0.3}, {"critic_coef": 0.5},
        {"clip_range": 0.2, "ent_coef": 0.1, "critic_coef": 0.5},
    ],
)  # fmt: skip
def test_the_parts_of_two_ranks_add_up_to_the_whole_batch(kind, options):
    policy = maze_policy(MazeEnv(POOL), iterations=6)
    sampler = make_sampler(kind)
    whole = sampler.sample(policy, PROMPTS, COUNTS, 0)
    wanted, wanted_loss = gradient(policy, sampler, whole, Totals.of(whole), **options)
    team = ranks()
    shares = [rank.share(COUNTS) for rank in team]
    assert torch.equal(shares[0] + shares[1], COUNTS)
    halves = [sampler.sample(policy, PROMPTS, share, 0) for share in shares]
    assert all(0 < half.num_rollouts < whole.num_rollouts for half in halves)
    assert torch.equal(halves[0].successes + halves[1].successes, whole.successes)
    totals = together(*(partial(Totals.of, *pair) for pair in zip(halves, team, strict=True)))
    assert totals == [Totals.of(whole)] * 2
    found, losses = zip(*(gradient(policy, sampler, half, totals[0], **options) for half in halves), strict=True)
    assert all(part.abs().max() > 0 for part in found)
    torch.testing.assert_close(found[0] + found[1], wanted, atol=1e-6, rtol=1e-4)
    assert sum(losses) == pytest.approx(wanted_loss, abs=1e-6)
    # That the totals of the whole batch are needed; but (R / (B N_q)) / R has no R.
    own = [gradient(policy, sampler, half, Totals.of(half), **options)[0] for half in halves]
    assert torch.allclose(own[0] + own[1], wanted, atol=1e-6, rtol=1e-4) is (options == {})


def test_two_ranks_train_as_one_process():
    def model():
        return small_model(
            SERA, MazeEnv(POOL, **RULES), prompts_per_batch=10, rollouts_per_prompt=6, success="critic_history",
            policy_kwargs={"channels": 8, "iterations": 6},
        )  # fmt: skip

    alone, parts = model(), [model(), model()]
    before = parameters(alone)
    for part, rank in zip(parts, ranks(), strict=True):
        part.team = rank
    alone.learn(10**9, total_updates=3)
    together(*(partial(part.learn, 10**9, total_updates=3) for part in parts))
    assert torch.equal(parameters(parts[0]), parameters(parts[1]))
    torch.testing.assert_close(parameters(parts[0]), parameters(alone), atol=1e-5, rtol=1e-3)
    assert not torch.allclose(parameters(alone), before, atol=1e-5, rtol=1e-3)
    for part in parts:
        assert part.total_rollouts == alone.total_rollouts == 3 * 60
        for name, value in alone.success_estimator.state_dict().items():
            assert torch.equal(part.success_estimator.state_dict()[name], value)
    assert sum(part.num_timesteps for part in parts) == alone.num_timesteps


def test_only_rank_0_saves(tmp_path):
    model = small_model(SERA, MazeEnv(POOL, **RULES))
    for rank, written in ((1, False), (0, True)):
        model.team = ranks()[rank]
        model.save(tmp_path / "agent")
        model.save(tmp_path / "agent.zip")
        assert (tmp_path / "agent").exists() is (tmp_path / "agent.zip").exists() is written


def test_alone_everything_is_its_own():
    team, values = Alone(), torch.tensor([1, 2])
    assert (team.rank, team.size) == (0, 1)
    for method in (team.share, team.sum_, team.gather):
        assert method(values) is values
