"""What mkdocs needs beside its configuration: the package in one place, the pictures of assets/, and formulas."""

from __future__ import annotations

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
    """Add the pictures of assets/ to the site, as assets/NAME."""
    for path in sorted((ROOT / "assets").iterdir()):
        if path.suffix in (".png", ".gif", ".svg"):
            files.append(File.generated(config, f"assets/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to assets/, which is beside docs/ in the repository, lead to where it is in the site."""
    depth = page.file.src_uri.count("/")
    return markdown.replace(f"]({'../' * (depth + 1)}assets/", f"]({'../' * depth}assets/")


def on_page_content(html: str, **_: Any) -> str:
    """Draw the formulas, so that they look the same in every browser, without scripts and fonts."""
    return _FORMULA.sub(lambda match: drawn(unescape(match["formula"]).strip(), match["tag"] == "div"), html)


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
