"""The examples run, in a short form, without a warning."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SHORT = {
    "bandit": ["--updates", "2", "--seeds", "1"],
    "cart_pole": ["--updates", "1"],
    "frozen_lake": ["--updates", "1"],
    "llm_loop": ["--updates", "2"],
    "sweep": ["--trials", "1", "--seeds", "1", "--updates", "1"],
}
SAID = {
    "bandit": "SERA: mean p",
    "cart_pole": "| k | pass@k, sampled |",
    "frozen_lake": "update 1: pass@1",
    "llm_loop": "after 2 updates: pass@1",
    "sweep": "learning rate   pass@8",
}


def test_every_example_is_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SHORT) == set(SAID)


@pytest.mark.parametrize("name", SHORT)
def test_it_runs_in_a_short_form(name, tmp_path):
    if name == "sweep":
        pytest.importorskip("optuna")
    path = EXAMPLES / f"{name}.py"
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(path), *SHORT[name]],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert SAID[name] in done.stdout
    assert len(path.read_text(encoding="utf-8").splitlines()) <= (60 if name == "bandit" else 80)
