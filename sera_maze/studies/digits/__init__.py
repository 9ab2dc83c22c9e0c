"""Handwritten digits by trial and error, against exact cross-entropy."""
