"""Coverage of several methods at a matched budget of rollouts."""
