"""docs/results.md and the script that refreshes it."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from sera_maze.studies.matched.study import METHODS, SETTINGS

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("results", DOCS / "results.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["results"] = module  # where dataclasses look
    spec.loader.exec_module(module)
    yield module
    del sys.modules["results"]


def test_texts_come_between_their_marks(script):
    text = "a <!-- begin x time -->old<!-- end x time --> b\n<!-- begin table -->\n| 1 |\n<!-- end table -->\n"
    once = script.refreshed(text, {"x time": r"3 \1 minutes", "table": "| 2 |\n| 3 |"})
    assert once == (
        "a <!-- begin x time -->3 \\1 minutes<!-- end x time --> b\n"
        "<!-- begin table -->\n\n| 2 |\n| 3 |\n\n<!-- end table -->\n"
    )
    assert script.refreshed(once, {"table": "| 2 |\n| 3 |"}) == once
    with pytest.raises(ValueError, match="has no place <!-- begin y --><!-- end y -->"):
        script.refreshed(text, {"y": "1"})
    cut = "<!-- begin x -->1 <!-- begin y -->2<!-- end y --> 3<!-- end x -->"  # no end of x, then one too many
    with pytest.raises(ValueError, match="has no place <!-- begin x -->"):
        script.refreshed(cut, {"x": "1"})


def test_every_setting_is_run(script):
    assert set(script.MATCHED) == set(SETTINGS)
    assert {method for methods in script.MATCHED.values() for method in methods} <= set(METHODS)
    assert all(methods[0] == "uniform" for methods in script.MATCHED.values())


def test_the_document_has_a_place_for_everything_and_its_figures(script):
    text = script.RESULTS.read_text(encoding="utf-8")
    names = re.findall("<!-- begin (.*?) -->", text)
    assert names == re.findall("<!-- end (.*?) -->", text)
    assert len(set(names)) == len(names)
    studies = (script.ALIGNMENT, script.DIGITS, *script.MATCHED)
    assert set(names) == {place for name in studies for place in script.places(name)}
    for name in names:
        assert re.search(f"<!-- begin {name} -->.+<!-- end {name} -->", text, re.DOTALL), name
    for figure in re.findall(r"!\[.*?\]\((.*?)\)", text):
        assert (DOCS / figure).exists(), figure
