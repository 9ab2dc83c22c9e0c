"""Episodes in mazes: the rules, the single and the vector environment, and assigned prompts for any environment."""
