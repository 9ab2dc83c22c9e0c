"""A loop as language models are trained by: prompts, groups of sampled answers, a verifier, one gradient step.

Prompts are sums such as "3+5=", answers two digits. The token model is tiny, and has read a corpus in which two of
three answers are wrong. Any trainer has the same two places: for `allocate` (how many answers a prompt gets) and for
`group_advantages` (what each answer weighs). Run: python examples/llm_loop.py --updates 200
"""

import argparse

import torch
from torch import Tensor, nn

from sera_maze import SuccessHistory, allocate, group_advantages
from sera_maze.coverage import coverage

TOKENS = "0123456789+="
SUMS = [(a, b) for a in range(10) for b in range(10)]
PROMPTS = torch.tensor([[TOKENS.index(token) for token in f"{a}+{b}="] for a, b in SUMS])  # (100, 4)
RIGHT = torch.tensor([divmod(a + b, 10) for a, b in SUMS])  # (100, 2)
BATCH, MEAN_ANSWERS = 25, 16


class Model(nn.Module):
    """Predicts a token from the five before it; those that are not there are blanks."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(TOKENS) + 1, 32)
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(5 * 32, 128), nn.ReLU(), nn.Linear(128, len(TOKENS)))

    def _next(self, text: Tensor) -> Tensor:  # log-probabilities (R, V) of the token that follows texts (R, T)
        return self.body(self.embed(nn.functional.pad(text, (5 - text.shape[1], 0), value=len(TOKENS)))).log_softmax(1)

    def log_prob(self, prompts: Tensor, answers: Tensor) -> Tensor:
        """Log-probabilities (R,) of answers (R, 2) to prompts (R, 4)."""
        text = torch.cat([prompts, answers], 1)
        return torch.stack([self._next(text[:, :t]).gather(1, text[:, [t]]) for t in (4, 5)]).sum(0)[:, 0]

    @torch.no_grad()
    def sample(self, text: Tensor) -> Tensor:
        """An answer (R, 2) to each of the prompts (R, 4)."""
        for _ in range(2):
            text = torch.cat([text, torch.multinomial(self._next(text).exp(), 1)], 1)
        return text[:, -2:]


def report(model: Model, when: str) -> None:
    """Print pass@k over all prompts, from 64 answers each."""
    right = (model.sample(PROMPTS.repeat_interleave(64, 0)) == RIGHT.repeat_interleave(64, 0)).all(1)
    found = coverage(right.reshape(-1, 64).sum(1).numpy(), (1, 8, 64), 64)
    print(when + ": " + ", ".join(f"pass@{k} {p:.1%}" for k, p in zip(found.ks, found.pass_at_k, strict=True)))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--updates", type=int, default=200)
updates = parser.parse_args().updates
torch.manual_seed(0)
model = Model()
optimizer = torch.optim.Adam(model.parameters(), 2e-3)
for _ in range(300):  # of pretraining
    others = torch.where(torch.rand(len(PROMPTS), 1) < 2 / 3, RIGHT[torch.randperm(len(PROMPTS))], RIGHT)
    loss = -model.log_prob(PROMPTS, others).mean()
    optimizer.zero_grad(), loss.backward(), optimizer.step()
report(model, "after pretraining")
optimizer, history = torch.optim.Adam(model.parameters(), 1e-3), SuccessHistory(len(PROMPTS))
for update in range(updates):
    if update % (len(PROMPTS) // BATCH) == 0:  # an epoch
        order = torch.randperm(len(PROMPTS))
        history.start_epoch()
    batch = order[update * BATCH % len(PROMPTS) :][:BATCH]  # (B,)
    shares = allocate(history.probability(batch), BATCH * MEAN_ANSWERS)
    group = torch.repeat_interleave(torch.arange(BATCH), shares.counts)  # (R,)
    prompts, answers = batch[group], model.sample(PROMPTS[batch[group]])
    is_right = (answers == RIGHT[prompts]).all(1)  # the verifier
    weights = shares.weights[group] * group_advantages(is_right, group)  # (R,)
    loss = -(weights * model.log_prob(PROMPTS[prompts], answers)).sum() / len(group)
    optimizer.zero_grad(), loss.backward(), optimizer.step()
    history.record(batch, torch.bincount(group[is_right], minlength=BATCH), shares.counts)
    if (update + 1) % 50 == 0 or update + 1 == updates:
        report(model, f"after {update + 1} updates")
