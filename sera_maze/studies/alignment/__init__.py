"""How well gradient estimates align with the exact likelihood gradient."""
