"""`WarningSigns`: says when a training stands still, and what helps."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping

_PATIENCE = 20  # updates in a row
_DETERMINISTIC = 0.01  # nats a step: less is a policy that takes one action almost always
_MANY_FAIL = 0.05  # of the prompts


class WarningSigns:
    """Watches the figures of batches, and warns once of each of three things when it has lasted for 20 updates.

    No rollout succeeds; no group holds both successes and failures, the only ones that teach anything; or the policy
    has become deterministic while prompts fail.
    """

    def __init__(self) -> None:
        self._lasting: Counter[str] = Counter()
        self._said: set[str] = set()

    def look(self, figures: Mapping[str, float], *, is_discrete: bool = True) -> None:
        """Take in one batch.

        Args:
            figures: of the batch, under the logger's keys.
            is_discrete: whether its actions are; else the entropy has no least value that could tell.
        """
        failing, mixed = figures["groups/all_fail_fraction"], figures["groups/mixed_fraction"]
        entropy = figures["train/entropy"]
        signs = {
            "failing": failing == 1,
            "unmixed": mixed == 0 and 0 < failing < 1,
            "collapsed": is_discrete and entropy < _DETERMINISTIC and failing >= _MANY_FAIL,
        }
        share = f"{100 * failing:.0f} % of the prompts"
        messages = {
            "failing": "no rollout has succeeded, so there is nothing to learn from: begin with easier prompts, "
            "imitate first (warm_start), sample more (rollouts_per_prompt), or let success be easier "
            "(on_wall='stay' and max_steps in mazes, is_success of your own environment)",
            "unmixed": f"in every group all rollouts succeed or all fail ({share}), and only mixed groups teach: "
            "sample more (rollouts_per_prompt), add prompts in between, or keep the policy more random (a smaller "
            "learning_rate, ent_coef)",
            "collapsed": f"the policy has become deterministic (entropy {entropy:.1g} nats a step) while {share} fail: "
            "go back to a checkpoint, with a smaller learning_rate or an ent_coef",
        }
        for name, is_seen in signs.items():
            self._lasting[name] = self._lasting[name] + 1 if is_seen else 0
            if self._lasting[name] >= _PATIENCE and name not in self._said:
                self._said.add(name)
                warnings.warn(f"for {_PATIENCE} updates {messages[name]}", RuntimeWarning, stacklevel=2)
