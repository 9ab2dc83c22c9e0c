"""``python -m sera_maze`` is ``sera-maze``."""

import sys

from sera_maze.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
