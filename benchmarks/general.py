"""The table of the agent that comes with the package: exact pass@1 on unseen mazes of every family and size.

    python benchmarks/general.py            # prints the table of the shipped agent
    python benchmarks/general.py runs/mine  # that of a run
    python benchmarks/general.py runs/mine --ship  # and puts its weights and table into assets/

The mazes are those of seeds that no training of the preset draws from. Small mazes are few, so their walls have mostly
been seen in training, with other starts and goals.
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

import numpy as np
import torch

from sera_maze import MazePolicy, MazePool
from sera_maze.envs.generating.spec import FAMILIES
from sera_maze.exact import success_probability
from sera_maze.policies.maze import as_maze_policy
from sera_maze.runs.folder import open_run

ASSETS = Path(__file__).parents[1] / "assets"
SIZES = {9: 256, 17: 256, 33: 256, 65: 64}  # mazes of each
SEED = 2**40
_TABLE = re.compile(r"(<!-- table -->\n).*?(<!-- end of table -->)", re.DOTALL)


def exact_pass(policy: MazePolicy, family: str, side: int, count: int) -> np.ndarray:
    """Exact success probabilities (count,) of a family's mazes with random endpoints."""
    algorithm, braid = FAMILIES[family]
    pool = MazePool.generate(count, side, algorithm, SEED, braid=braid, endpoints="random")
    with torch.no_grad():
        return success_probability(policy.for_size((side, side)), pool, batch_size=16).numpy()


def table(policy: MazePolicy) -> str:
    """Markdown: families by sizes, mean exact pass@1 in percent, with its standard error over mazes."""
    lines = ["| family | " + " | ".join(f"{side}x{side}" for side in SIZES) + " |", "|---" * (len(SIZES) + 1) + "|"]
    for family in FAMILIES:
        cells = []
        for side, count in SIZES.items():
            chances = 100 * exact_pass(policy, family, side, count)
            cells.append(f"{chances.mean():.2f} ± {chances.std(ddof=1) / count**0.5:.2f}")
        lines.append(f"| {family} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table, and ship the agent where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path, help="folder of a run; without one the shipped agent")
    parser.add_argument("--ship", action="store_true", help="put the run's weights and table into assets/")
    given = parser.parse_args()
    if given.ship and given.run is None:
        parser.error("--ship needs a run")
    policy = MazePolicy.pretrained() if given.run is None else as_maze_policy(open_run(given.run, "cpu")[0].policy)
    started = time.monotonic()
    found = table(policy)
    print(f"{time.monotonic() - started:.0f} s")
    if given.ship:
        policy.save_weights(ASSETS / "general.safetensors")
        card = (ASSETS / "general.md").read_text(encoding="utf-8")
        (ASSETS / "general.md").write_text(_TABLE.sub(rf"\1{found}\2", card), encoding="utf-8")


if __name__ == "__main__":
    main()
