"""The benchmarks can be loaded: they are run by hand, and would be found broken late."""

import runpy
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.name)
def test_it_loads(path):
    assert runpy.run_path(str(path), run_name="loaded")["__doc__"]
