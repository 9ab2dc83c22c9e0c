"""Run every study of docs/results.md and put its tables and figures there.

    pip install -c constraints.txt -e ".[studies]"
    python docs/results.py [--out results] [--only alignment digits default hard ...]

What is finished in the folder is kept, so that it can be stopped and run again. The tables replace what stands between
the marks ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` in docs/results.md, the figures those in docs/.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import tyro

from sera_maze.cli.app import main as sera_maze
from sera_maze.envs.ground.atomic_files import write_text
from sera_maze.runs.comparison import compare
from sera_maze.runs.figure import save_figure
from sera_maze.studies.alignment.report import read_rows
from sera_maze.studies.alignment.tables import answer, cosine_table, direction_table, estimators_table
from sera_maze.studies.digits.report import read_runs, table
from sera_maze.studies.matched.report import Outcome, allocation_table, coverage_table, pairs_table, settings_table
from sera_maze.studies.matched.study import SETTINGS, outcomes

DOCS = Path(__file__).parent
RESULTS = DOCS / "results.md"
ALIGNMENT, DIGITS, DEFAULT = "alignment", "digits", "default"
CLAIM = ("uniform", "sera", "sera-posterior", "sera-exact")
CRITIC = ("uniform-critic", "sera-critic-history")
FEW = ("uniform", "sera")
# Setting of `sera-maze compare --train` -> methods, the first of which is what the others are compared with.
MATCHED = {
    DEFAULT: (
        "uniform", "sera", "sera-posterior", "sera-exact", "uniform-critic", "sera-critic", "sera-critic-history",
        "vip", "knapsack", "rloo", "grpo",
    ),
    "hard": CLAIM,
    "easy": CLAIM,
    "graded": CLAIM,
    "small-pool": CLAIM,
    "large-pool": (*CLAIM, *CRITIC),
    "fresh": ("uniform", "sera-exact", "uniform-critic", "sera-critic"),
    "more-rollouts": CLAIM,
    "17x17": (*CLAIM, *CRITIC),
    "no-threshold": (*FEW, "sera-exact"),
    "low-rate": FEW,
    "high-rate": FEW,
    "no-clipping": FEW,
}  # fmt: skip
# Of the default setting, what differs in one thing alone.
PAIRS = (
    ("sera", "sera-exact"), ("sera-posterior", "sera"), ("sera-critic", "uniform-critic"),
    ("sera-critic-history", "uniform-critic"),
)  # fmt: skip
DIGITS_TABLES = {
    "long-tailed": ("pass@1, %", "pass@1, rarest classes, %", "mean log p", "cosine with the exact gradient"),
    "balanced": ("pass@1, %", "pass@32, %", "cosine with the exact gradient"),
}
SEEDS = 10
SECONDS = "seconds.json"


@dataclass(frozen=True)
class Arguments:
    """Run the studies of docs/results.md and put their tables and figures there."""

    out: Path = Path("results")
    """Folder of the studies."""
    only: tuple[str, ...] = (ALIGNMENT, DIGITS, *MATCHED)
    """What to run and to refresh."""
    processes: int = 2
    """At a time."""


def run(name: str, folder: Path, processes: int) -> None:
    """Run a study, or what is left of it, and add up the seconds that it took."""
    path = folder / SECONDS  # written last, so that it also tells that the study is finished
    begun = folder / f"begun_{SECONDS}"
    if path.exists():
        return
    if name in MATCHED:
        command = ["compare", "--train", "--setting", name, "--methods", *MATCHED[name], "--seeds", str(SEEDS)]
    else:
        command = ["align" if name == ALIGNMENT else name]
    started, before = time.monotonic(), json.loads(begun.read_text()) if begun.exists() else 0.0
    try:
        status = sera_maze([*command, "--processes", str(processes), "--out", str(folder)])
    finally:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(begun, json.dumps(before + time.monotonic() - started))
    if status:
        raise SystemExit(status)
    begun.rename(path)


def places(name: str) -> list[str]:
    """The names of the marks of a study."""
    own = {
        ALIGNMENT: ["cosines", "answer", "directions", "estimators"],
        DIGITS: [f"digits {variant}" for variant in DIGITS_TABLES],
        DEFAULT: ["coverage", "pairs", "allocations"],
    }
    return [f"{name} time", *own.get(name, ["settings"])]


def blocks(name: str, folder: Path) -> dict[str, str]:
    """What docs/results.md has of a study: name of the marks to text. Settings share a table, of all that are there."""
    minutes = max(1, round(json.loads((folder / SECONDS).read_text()) / 60))
    found = {f"{name} time": f"{minutes} minute{'s' * (minutes > 1)}"}
    if name == ALIGNMENT:
        rows = read_rows(folder / "alignment.json")
        found |= {
            "cosines": cosine_table(rows),
            "answer": answer(rows).splitlines()[0],  # the stars tell of the other cases
            "directions": direction_table(rows),
            "estimators": estimators_table(rows),
        }
    elif name == DIGITS:
        runs, setting = read_runs(folder / "digits.json")
        for variant, names in DIGITS_TABLES.items():
            found[f"digits {variant}"] = "\n\n".join(table(runs, setting, variant, which) for which in names)
    elif name == DEFAULT:
        results = _outcomes(name, folder)
        found |= {
            "coverage": coverage_table(results),
            "pairs": pairs_table(results, PAIRS),
            "allocations": allocation_table(results),
        }
    else:
        others = [other for other in MATCHED if other != DEFAULT and (folder.parent / other / SECONDS).exists()]
        found["settings"] = settings_table({other: _outcomes(other, folder.parent / other) for other in others})
    return found


def _outcomes(name: str, folder: Path) -> list[Outcome]:
    return outcomes(SETTINGS[name], MATCHED[name], SEEDS, folder / "runs")


def figures(name: str, folder: Path) -> None:
    """Put the figures of a study into docs/."""
    if name == ALIGNMENT:
        for figure in ("alignment.png", "alignment_estimators.png"):
            shutil.copyfile(folder / figure, DOCS / figure)
    elif name == DIGITS:
        shutil.copyfile(folder / "digits.png", DOCS / "digits.png")
    elif name == DEFAULT:
        shown = ("uniform", "grpo", "sera", "sera-exact")
        chosen = [folder / "runs" / f"{method}-{seed}" for method in shown for seed in range(SEEDS)]
        save_figure(compare(chosen), DOCS / "matched_budget.png")


def refreshed(text: str, found: dict[str, str]) -> str:
    """Put texts between their marks.

    Raises:
        ValueError: if there is no place for one.
    """
    for name, block in found.items():
        gap = "\n\n" if "|" in block or "\n" in block else ""
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        filled = f"{begin}{gap}{block.strip()}{gap}{end}"
        # Not over the marks of others.
        parts = re.split(f"{begin}(?:(?!<!-- begin ).)*?{end}", text, flags=re.DOTALL)
        text = filled.join(parts)
        if len(parts) == 1:
            raise ValueError(f"{RESULTS} has no place {begin}{end}")
    return text


def main(arguments: Arguments) -> None:
    """Run what is left, and refresh docs/results.md study by study."""
    for name in arguments.only:
        if name not in (ALIGNMENT, DIGITS, *MATCHED):
            raise SystemExit(f"--only {name}: there are {', '.join((ALIGNMENT, DIGITS, *MATCHED))}")
    text = RESULTS.read_text(encoding="utf-8")
    for name in arguments.only:  # before hours are spent
        refreshed(text, dict.fromkeys(places(name), ""))
    for name in arguments.only:
        folder = arguments.out / name
        run(name, folder, arguments.processes)
        write_text(RESULTS, refreshed(RESULTS.read_text(encoding="utf-8"), blocks(name, folder)))
        figures(name, folder)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
