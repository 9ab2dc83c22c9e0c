"""Maze environments: layouts, generators, Gymnasium environments and their pictures.

Importing this package registers the Gymnasium ids and is otherwise light: public names load on first use.
It needs numpy, numba, gymnasium and pygame, and neither torch nor Stable-Baselines3.
"""
