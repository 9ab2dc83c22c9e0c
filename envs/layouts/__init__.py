"""One maze: walls, start and goal, as text, JSON, tokens and files, and its distances."""
