"""How groups of rollouts are made, and how their loss is taken back."""
