"""Controlled experiments: each a function that returns numbers, and a figure and a table made of them."""
