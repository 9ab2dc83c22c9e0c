"""Why rollouts are shared out: 256 bandits in plain torch, each with one arm that wins, once evenly and once by SERA.

Prompt q is won with probability p[q] = sigmoid(theta[q]), at first from 1 in 500 to 1 in 2. Both ways spend the same
rollouts and take the same steps; SERA moves rollouts to the prompts that are rarely won. With steps a fifth as long it
is behind even shares for the first hundred updates, and ahead after three hundred.

    python examples/bandit.py --updates 100 --seeds 3
"""

import argparse

import torch

from sera_maze import SuccessHistory, allocate, group_advantages
from sera_maze.allocation import allocate_uniform

PROMPTS, MEAN_ROLLOUTS, RATE = 256, 8, 0.5


def train(method: str, updates: int, seed: int) -> torch.Tensor:
    """Train from plain numbers; returns the final win probabilities (B,)."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.exp(torch.empty(PROMPTS).uniform_(-6.2, -0.7, generator=generator))
    theta = torch.logit(first).requires_grad_()
    optimizer = torch.optim.SGD([theta], lr=RATE * PROMPTS)
    history, prompts = SuccessHistory(PROMPTS), torch.arange(PROMPTS)
    budget = PROMPTS * MEAN_ROLLOUTS
    for _ in range(updates):
        if method == "SERA":
            shares = allocate(history.probability(prompts), budget, n_max=8 * MEAN_ROLLOUTS)
        else:
            shares = allocate_uniform(PROMPTS, budget)
        group = torch.repeat_interleave(prompts, shares.counts)  # (R,), the prompt of each rollout
        p = torch.sigmoid(theta)[group]
        won = torch.bernoulli(p.detach(), generator=generator)  # (R,)
        log_prob = torch.where(won > 0, p.log(), (1 - p).log())
        weight = shares.weights[group] * group_advantages(won, group)
        optimizer.zero_grad()
        (-(weight * log_prob).sum() / budget).backward()
        optimizer.step()
        history.record(prompts, torch.bincount(group[won > 0], minlength=PROMPTS), shares.counts)
        history.start_epoch()
    return torch.sigmoid(theta).detach()


def main() -> None:
    """Compare both ways over some seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for method in ("uniform", "SERA"):
        p = torch.stack([train(method, options.updates, seed) for seed in range(options.seeds)])
        means = ", ".join(f"{mean:.3f}" for mean in p.mean(1).tolist())
        print(f"{method:>8}: mean p {means}; {(p < 0.5).float().mean():.1%} of the prompts are won less than half")


if __name__ == "__main__":
    main()
