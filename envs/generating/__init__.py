"""Random mazes: the generators, and different mazes for a pool."""
