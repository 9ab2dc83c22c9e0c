"""Speed of training, beside Stable-Baselines3's PPO and A2C on the same mazes in the same run.

    python benchmarks/training.py [learn] [walk] [allocate] [paper] [growth] [--threads N] [--device cuda]

The same as ``sera-maze bench``, see `sera_maze.studies.speed`.
"""

import sys

from sera_maze.cli.app import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
