"""docs/first_walk.ipynb: its code runs, what is stored with it reads well, and the site's page shows all of it."""

import base64
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
FILE = DOCS / "first_walk.ipynb"
NOTEBOOK = json.loads(FILE.read_text(encoding="utf-8"))
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
OUTPUTS = [output for cell in CODE for output in cell["outputs"]]
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def text_of(output):
    return "".join(output.get("text") or output["data"]["text/plain"])


def test_cells_run_from_top_to_bottom(tmp_path):
    """With a twentieth of the updates; .ci/run executes it whole."""
    program = "\n\n".join("".join(cell["source"]) for cell in CODE)
    assert program.count("\nUPDATES = 800 ") == 1
    (tmp_path / "walk.py").write_text(program.replace("\nUPDATES = 800 ", "\nUPDATES = 40 "), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "walk.py"], capture_output=True, text=True, check=False, cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_it_is_stored_as_executed_once_from_top_to_bottom():
    assert [cell["execution_count"] for cell in CODE] == list(range(1, len(CODE) + 1))


def test_what_is_stored_is_small_and_reads_well():
    assert FILE.stat().st_size < 400_000
    for output in OUTPUTS:
        assert output["output_type"] in ("stream", "display_data", "execute_result"), output
        assert set(output.get("data", {})) <= {"image/png", "text/plain"}  # neither scripts nor pages
        text = text_of(output)
        assert not re.search(r"[\r\x1b]|/[\w.-]+/|\w:\\|Warning|Error", text), text  # bars, colours, places, faults
        if output.get("name") == "stderr":
            assert re.fullmatch(r"(warm start|learn): 100%\S*.*\n", text), text  # a progress bar, at its end
    assert sum("image/png" in output.get("data", {}) for output in OUTPUTS) >= 6


def test_the_site_has_every_output():
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    page, pictures = hooks.notebook_page(NOTEBOOK, "first_walk")
    stored = [output["data"]["image/png"] for output in OUTPUTS if "image/png" in output.get("data", {})]
    assert list(pictures.values()) == [base64.b64decode(picture) for picture in stored]
    assert all(picture.startswith(SIGNATURE) for picture in pictures.values())
    assert re.findall(r"!\[Output\]\((.*?)\)", page) == list(pictures)
    for cell in CODE:
        assert f"```python\n{''.join(cell['source'])}\n```" in page
    for output in OUTPUTS:
        assert "image/png" in output.get("data", {}) or text_of(output).strip("\n") in page


@pytest.mark.parametrize("cell", [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "markdown"])
def test_links_lead_somewhere(cell):
    for target in re.findall(r"\]\(([^)\s]+)\)", "".join(cell["source"])):
        assert (DOCS / target).exists(), target
