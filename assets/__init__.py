"""Data files that the package ships; read them with ``importlib.resources.files("sera_maze.assets")``."""
