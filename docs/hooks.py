"""What mkdocs needs beside its configuration: the package in one place, assets/, formulas, and notebooks as pages."""

from __future__ import annotations

import base64
import json
import re
import shutil
from html import escape, unescape
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path as Path2D
from matplotlib.textpath import text_to_path
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
# The package as it is installed, which mkdocstrings reads; `paths` in mkdocs.yml.
PACKAGE = ROOT / "build" / "docs" / "sera_maze"
_EM = 100  # points of a formula's font
_LETTERS = {Path2D.MOVETO: "M", Path2D.LINETO: "L", Path2D.CURVE3: "Q", Path2D.CURVE4: "C"}
_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?:\(|\[)(?P<formula>.*?)\\(?:\)|\])</(?P=tag)>', re.DOTALL
)


@event_priority(100)  # before mkdocstrings looks for it
def on_config(config: Any) -> Any:
    """Put the package together: envs/ and assets/ lie beside sera_maze/ in the repository, and inside it elsewhere."""
    shutil.rmtree(PACKAGE, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "sera_maze", PACKAGE, ignore=ignored)
    for name in ("assets", "envs"):
        shutil.copytree(ROOT / name, PACKAGE / name, ignore=ignored)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pictures of assets/ to the site, as assets/NAME, and each notebook as a page beside it."""
    for path in sorted((ROOT / "assets").iterdir()):
        if path.suffix in (".png", ".gif", ".svg"):
            files.append(File.generated(config, f"assets/{path.name}", abs_src_path=str(path)))
    for path in sorted((ROOT / "docs").glob("*.ipynb")):
        page, pictures = notebook_page(json.loads(path.read_text(encoding="utf-8")), path.stem)
        files.append(File.generated(config, f"{path.stem}.md", content=page))
        for name, picture in pictures.items():
            files.append(File.generated(config, name, content=picture))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to assets/, which is beside docs/ in the repository, and to notebooks lead to where they are here."""
    depth = page.file.src_uri.count("/")
    markdown = markdown.replace(f"]({'../' * (depth + 1)}assets/", f"]({'../' * depth}assets/")
    return markdown if page.file.generated_by else re.sub(r"(\]\([\w./]+)\.ipynb\)", r"\1.md)", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Draw the formulas, so that they look the same in every browser, without scripts and fonts."""
    return _FORMULA.sub(lambda match: drawn(unescape(match["formula"]).strip(), match["tag"] == "div"), html)


def notebook_page(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown with its stored outputs, and its pictures by the names of their files.

    Args:
        notebook: as in its file.
        name: of the file, without its suffix.
    """
    title, *parts = "".join(notebook["cells"][0]["source"]).split("\n", 1)
    parts = [title, f"[The notebook]({name}.ipynb), to be run.", *parts]
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"][1:]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                file = f"{name}_{len(pictures) + 1}.png"
                pictures[file] = base64.b64decode(data["image/png"])
                parts.append(f"![Output]({file})")
                continue
            text = "".join(output.get("text") or data["text/plain"]).strip("\n")
            parts.append(text if text.startswith("|") else f"```text\n{text}\n```")
    return "\n\n".join(parts) + "\n", pictures


def drawn(formula: str, alone: bool) -> str:
    """A formula of LaTeX, as matplotlib understands it, as an SVG picture that has the size and colour of the text.

    Args:
        formula: without dollar signs.
        alone: whether it stands on a line of its own, with large fractions, or within a sentence.
    """
    text = " ".join((formula.replace(r"\frac", r"\dfrac") if alone else formula).split())
    font = FontProperties(size=_EM, math_fontfamily="stix")
    points, codes = text_to_path.get_text_path(font, f"${text}$", ismath=True)
    width, height, descent = text_to_path.get_text_width_height_descent(f"${text}$", font, ismath=True)
    steps = "".join(_step(ends, code) for ends, code in Path2D(points, codes).iter_segments(simplify=False))
    style = f"width:{width / _EM:.3f}em;height:{height / _EM:.3f}em;vertical-align:{-descent / _EM:.3f}em"
    picture = (
        f'<svg class="formula" role="img" aria-label="{escape(formula)}" style="{style}" '
        f'viewBox="0 {descent - height:.1f} {width:.1f} {height:.1f}"><path d="{steps}"/></svg>'
    )
    return f'<div class="formula-line">{picture}</div>' if alone else picture


def _step(ends: NDArray[np.float64], code: np.uint8) -> str:
    """One step of an SVG path, whose y axis points down."""
    if code == Path2D.CLOSEPOLY:
        return "Z"
    return _LETTERS[code] + " ".join(f"{x:.1f} {-y:.1f}" for x, y in ends.reshape(-1, 2))
