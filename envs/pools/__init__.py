"""Many mazes as prompts: pools, files of them, and mazes that never come twice."""
