"""`Rollouts`: what is counted over the groups of a ragged batch, by hand."""

import torch

from sera_maze.sampling.rollouts import Rollouts, owners


def ragged():
    """Three prompts with 2, 0 and 3 rollouts."""
    counts = torch.tensor([2, 0, 3])
    owner, _ = owners(counts)
    success, lengths = torch.tensor([True, False, True, True, False]), torch.tensor([4, 1, 2, 3, 2])
    steps = torch.zeros(12)
    return Rollouts(torch.tensor([7, 1, 5]), counts, owner, success, lengths, steps.long(), steps, steps, None)


def test_owners_and_numbers():
    owner, number = owners(torch.tensor([2, 0, 3]))
    assert owner.tolist() == [0, 0, 2, 2, 2]
    assert number.tolist() == [0, 1, 0, 1, 2]


def test_places_and_sums():
    rollouts = ragged()
    assert (rollouts.num_rollouts, rollouts.num_steps) == (5, 12)
    assert rollouts.first_steps.tolist() == [0, 4, 5, 7, 10]
    assert rollouts.step_owner.tolist() == [0, 0, 0, 0, 1, 2, 2, 3, 3, 3, 4, 4]
    assert rollouts.successes.tolist() == [1, 0, 2]


def test_a_mean_over_prompts_counts_each_prompt_once_and_leaves_out_those_without_rollouts():
    rollouts = ragged()
    assert rollouts.mean_over_prompts(rollouts.success).item() == (1 / 2 + 2 / 3) / 2
    assert rollouts.mean_over_prompts(rollouts.lengths).item() == (5 / 2 + 7 / 3) / 2
