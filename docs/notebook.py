"""Executes docs/first_walk.ipynb and stores its outputs, small: ``python docs/notebook.py``; see ``--help``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).with_name("first_walk.ipynb")
_KEPT = {"image/png", "text/plain"}  # of the pictures that Pillow offers
_SECONDS = 600  # for one cell


def executed(path: Path) -> nbformat.NotebookNode:
    """A notebook with the outputs of a fresh run: a progress bar's last line alone, and pictures as PNG alone."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=_SECONDS, coalesce_streams=True, record_timing=False).execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "stream":
                output.text = "\n".join(line.split("\r")[-1] for line in output.text.split("\n"))
            elif "image/png" in output.get("data", {}):
                output.data = {kind: data for kind, data in output.data.items() if kind in _KEPT}
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def main() -> None:
    """Execute and write."""
    parser = argparse.ArgumentParser(description="Execute docs/first_walk.ipynb; an error in a cell is raised.")
    parser.add_argument("--out", type=Path, default=NOTEBOOK, help="where to write it (default: where it is)")
    out = parser.parse_args().out
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    nbformat.write(executed(NOTEBOOK), out)


if __name__ == "__main__":
    main()
