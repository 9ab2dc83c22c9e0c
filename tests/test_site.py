"""The pages of docs/: their code runs, their commands parse, their links lead somewhere, nothing public is left out."""

import ast
import importlib
import inspect
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import sera_maze
from sera_maze import MaxRL, MazeLayout, MazePool
from sera_maze.allocation import allocate, group_advantages
from sera_maze.cli import app
from sera_maze.coverage.evaluation import check_ks
from sera_maze.envs import MazeEnv
from sera_maze.viewer.watching import HELP

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TEXTS = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def script(text):
    """The Python blocks of a page as one program, whose lines have the numbers that they have in the page."""
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside and line == "```python"
            line = ""
        lines.append(line if inside else "")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("page", [page for page, text in TEXTS.items() if blocks(text, "python")])
def test_python_blocks_run_in_the_order_of_the_page(page, tmp_path):
    program = tmp_path / page.replace("/", "_")
    program.write_text(script(TEXTS[page]), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_a_script_has_the_lines_of_its_page():
    text = "# A\n\n```python\nx = 1\n```\n\n```text\nno = 2\n```\n\n```python\ny = x\n```\n"
    assert script(text).splitlines() == ["", "", "", "x = 1", "", "", "", "", "", "", "", "y = x", ""]


COMMANDS = {
    line: page
    for page, text in TEXTS.items()
    for block in blocks(text, "bash")
    for line in block.splitlines()
    if line.startswith("sera-maze ")
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_understood(command, monkeypatch):
    """Here nothing runs; test_readme.py runs those that are short."""
    words = shlex.split(command, comments=True)[1:]
    monkeypatch.setattr(app.COMMANDS[words[0]], "run", lambda self, console: 0)
    assert app.main(words) == 0, COMMANDS[command]


def test_other_lines_of_shell_blocks_are_known():
    known = ("sera-maze ", "pip install -c constraints.txt -e ", "tensorboard --logdir ")
    for page, text in TEXTS.items():
        for block in blocks(text, "bash"):
            for line in block.splitlines():
                assert line.startswith(known), (page, line)


def test_every_key_of_the_viewer_is_listed():
    for key, meaning in HELP:
        assert f"| {key} | {meaning} |" in TEXTS["guide/watching.md"]


@pytest.mark.parametrize("page", ["guide/groups.md", "guide/allocation.md"])
def test_defaults_in_tables_are_those_of_the_code(page):
    parameters = inspect.signature(MaxRL.__init__).parameters
    table = TEXTS[page].split("| Option | Default |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| `?([^|`]*)`? \|", table, re.MULTILINE)
    assert len(rows) >= 4
    for name, default in rows:
        if parameters[name].default is not None:
            assert ast.literal_eval(default) == parameters[name].default, name


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", TEXTS[page]):
        if not target.startswith(("https://", "#")):
            assert ((DOCS / page).parent / target.split("#")[0]).exists(), target


def named(path):
    """What a dotted path names."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise AssertionError(path)


def doors():
    """The modules that say what is public in them."""
    yield sera_maze
    for module in pkgutil.walk_packages(sera_maze.__path__, "sera_maze."):
        if not module.name.endswith("__main__"):
            found = importlib.import_module(module.name)
            if hasattr(found, "__all__"):
                yield found


def test_every_public_name_is_in_the_reference():
    entries = [path for page, text in TEXTS.items() for path in re.findall(r"^::: (\S+)$", text, re.MULTILINE)]
    assert len(set(entries)) == len(entries)
    described = [named(path) for path in entries]
    for door in doors():
        for name in door.__all__:
            found = getattr(door, name)
            if not isinstance(found, ModuleType) and name != "__version__":
                assert any(found is other for other in described), f"{door.__name__}.{name}"


GAP = "…"
OF_OTHERS = {"Namespace SeraMaze not found. Have you installed the proper package for SeraMaze?"}  # Gymnasium's
# Messages that are put together from several texts, and what brings them about.
PUT_TOGETHER = (
    lambda: MazeLayout.from_text("#####\n#S.G#\n####"),
    lambda: setattr(MazeEnv(MazePool.generate(1, size=(5, 5))), "pool", None),
    lambda: allocate([0.5, 1.0], 8),
    lambda: allocate([0.5, 0.1, 0.2, 0.3], 7),
    lambda: check_ks((1, 128), 100),
    lambda: group_advantages([1, 0.5], [0, 0]),
)


def templates():
    """All texts in the code, with gaps in the places of values."""
    for folder in ("sera_maze", "envs"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
                elif isinstance(node, ast.JoinedStr):
                    yield "".join(part.value if isinstance(part, ast.Constant) else GAP for part in node.values)


def test_messages_in_troubleshooting_are_those_of_the_code():
    messages = re.findall(r"^### `(.*)`", TEXTS["troubleshooting.md"], re.MULTILINE)
    assert len(messages) >= 30
    known = {*templates(), *OF_OTHERS}
    for cause in PUT_TOGETHER:
        with pytest.raises((ValueError, AttributeError), match=r".") as error:
            cause()
        known.add(str(error.value))
    for message in messages:
        pattern = re.compile(".*".join(map(re.escape, message.split(GAP))))
        assert any(pattern.fullmatch(text) for text in known), message
