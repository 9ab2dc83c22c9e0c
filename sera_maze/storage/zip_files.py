"""Zip files of Stable-Baselines3: whose they are, told without unpickling anything."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

# An attribute that tells the algorithm, the first that is found.
_TELLING = {
    "rollouts_per_prompt": "MaxRL", "cg_max_steps": "TRPO", "clip_range": "PPO", "vf_coef": "A2C",
    "exploration_rate": "DQN", "target_entropy": "SAC", "policy_delay": "TD3",
}  # fmt: skip
_LIKE_OURS = ("PPO", "A2C", "TRPO")  # whose policies have the parameters of ours


def check_is_own(path: str | os.PathLike[str] | io.BufferedIOBase, wanted: str) -> None:
    """Check that a zip file was not saved by an algorithm of Stable-Baselines3's own.

    Args:
        path: a file, with or without ".zip", or an open one, whose position stays. What is no zip file passes, for
            Stable-Baselines3 to refuse.
        wanted: name of the class that is to be loaded.

    Raises:
        ValueError: naming the algorithm that saved it, and what to do.
    """
    names = _attributes(path)
    found = next((algorithm for name, algorithm in _TELLING.items() if name in names), None)
    if not names or found == "MaxRL":
        return
    where = "the file" if isinstance(path, io.BufferedIOBase) else str(path)
    if found is None:
        raise ValueError(
            f"{where} was saved by another algorithm of Stable-Baselines3 than {wanted}; load it with its own class"
        )
    remedy = f"load it with {found}.load"
    if found in _LIKE_OURS:
        remedy += (
            f", or go on from its parameters: model = {wanted}(policy, env) of the same policy, then "
            f"model.policy.load_state_dict({found}.load(...).policy.state_dict())"
        )
    raise ValueError(f"{where} was saved by a {found} (or an algorithm of its kind), not by a {wanted}; {remedy}")


def _attributes(path: str | os.PathLike[str] | io.BufferedIOBase) -> set[str]:
    """Names of the attributes in a zip file; empty if they cannot be read."""
    position = None
    if isinstance(path, io.BufferedIOBase):
        position = path.tell()
    elif not Path(path).exists():
        path = f"{os.fspath(path)}.zip"
    try:
        with zipfile.ZipFile(path) as archive:
            return set(json.loads(archive.read("data")))
    except (zipfile.BadZipFile, OSError, KeyError, ValueError):
        return set()
    finally:
        if position is not None:
            path.seek(position)  # type: ignore[union-attr]
