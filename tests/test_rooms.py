"""The order of the rooms: each imports only rooms to its left, and no file imports itself through others."""

import ast
import configparser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = {"sera_maze.envs": ROOT / "envs", "sera_maze.assets": ROOT / "assets", "sera_maze": ROOT / "sera_maze"}
# From left to right; rooms in one group know nothing of each other.
ROOMS = (
    ("envs", "assets"), ("allocation",), ("exact", "policies"), ("sampling", "storage"), ("algorithm",), ("coverage",),
    ("runs", "viewer"), ("studies",), ("cli",),
)  # fmt: skip
ENVS_ROOMS = (("ground",), ("layouts",), ("tokens",), ("generating",), ("pools",), ("pictures",), ("play",))
# What stands at the top: doors to rooms, which no room goes through.
DOORS = {"sera_maze", "sera_maze.__main__", "sera_maze.advantages", "sera_maze.network", "sera_maze.success"}
ENVS_DOORS = {"sera_maze.envs", "sera_maze.envs.rendering"}
MOST_FILES = 12  # of a room
MOST_LINES = 60  # of a function that is no constructor
# Where the kind of a policy may be asked for: the rooms of those that draw its maps, and the sampler that walks them.
MAY_ASK_FOR_MAZE_POLICIES = ("sera_maze.policies.", "sera_maze.viewer.", "sera_maze.sampling.maps")


def modules():
    """Name of each module -> its file."""
    found = {}
    for package, folder in SOURCES.items():
        for file in sorted(folder.rglob("*.py")):
            parts = (package, *file.relative_to(folder).with_suffix("").parts)
            found[".".join(part for part in parts if part != "__init__")] = file
    return found


MODULES = modules()


def imports(source, known):
    """(line, module) of each import of the package in a source, lazy and type-only ones too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            if (node.module or "").split(".")[0] == "sera_maze":
                for name in node.names:
                    full = f"{node.module}.{name.name}"
                    yield node.lineno, full if full in known else node.module
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names if name.name.split(".")[0] == "sera_maze")


def place(name, groups, parts):
    """Group number and room of a module whose room is ``parts`` deep; (None, None) if it is in no room."""
    path = name.split(".")
    room = path[parts] if len(path) > parts else None
    return next(((number, room) for number, group in enumerate(groups) if room in group), (None, None))


def wrong_order(name, source, known):
    """A line for each import of a module that goes to the right, to a neighbour, or through a door."""
    for line, target in imports(source, known):
        for groups, parts, doors in ((ROOMS, 1, DOORS), (ENVS_ROOMS, 2, ENVS_DOORS)):
            here, there = place(name, groups, parts), place(target, groups, parts)
            if here[0] is None:
                continue
            if target in doors and name not in doors:
                yield f"{name}, line {line}: imports {target}, a door; name the room that has it"
            if there[0] is not None and (there[0] > here[0] or (there[0] == here[0] and there[1] != here[1])):
                yield f"{name}, line {line}: imports {target}, which is not to the left of {here[1]}"


def circles(graph):
    """Lists of modules that import each other in a circle, one for each circle that a search comes upon."""
    done = set()

    def visit(name, trail):
        if name in trail:
            yield [*trail[trail.index(name) :], name]
        elif name not in done:
            for target in sorted(graph.get(name, ())):
                yield from visit(target, [*trail, name])
            done.add(name)

    for name in sorted(graph):
        yield from visit(name, [])


def asserts(source):
    """Lines of the assert statements of a source."""
    return [node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert)]


def asks_for_maze_policies(source):
    """Lines on which a source asks whether something is a `MazePolicy`."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", None) in ("isinstance", "issubclass")
        and any(
            "MazePolicy" in (getattr(part, "id", None), getattr(part, "attr", None)) for part in ast.walk(node.args[1])
        )
    ]


@pytest.mark.parametrize("name", sorted(set(MODULES) - DOORS))
def test_imports_go_to_the_left(name):
    assert not list(wrong_order(name, MODULES[name].read_text(encoding="utf-8"), MODULES))


def test_no_circle():
    # A room's own __init__ is its door: its files import each other, not it.
    graph = {
        name: {target for _, target in imports(file.read_text(encoding="utf-8"), MODULES) if target in MODULES}
        for name, file in MODULES.items()
        if file.name != "__init__.py"
    }
    assert not [" -> ".join(circle) for circle in circles(graph)]


def test_these_checks_can_fail():
    known = {
        "sera_maze.allocation.advantages": None,
        "sera_maze.coverage.tables": None,
        "sera_maze.envs.play.maze": None,
    }
    late = "def f():\n    from sera_maze.coverage import tables\n"
    (complaint,) = wrong_order("sera_maze.allocation.advantages", late, known)
    assert complaint.endswith("line 2: imports sera_maze.coverage.tables, which is not to the left of allocation")
    neighbour = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sera_maze.runs.config import RunConfig\n"
    assert len(list(wrong_order("sera_maze.viewer.scenes", neighbour, known))) == 1
    assert len(list(wrong_order("sera_maze.envs.pools.pool", "import sera_maze.envs.play.maze\n", known))) == 1
    assert len(list(wrong_order("sera_maze.exact.chains", "from sera_maze import MaxRL\n", known))) == 1
    assert not list(wrong_order("sera_maze.coverage.tables", "from sera_maze.allocation import advantages\n", known))
    assert list(circles({"a": {"b"}, "b": {"c"}, "c": {"b"}})) == [["b", "c", "b"]]
    assert asserts("x = 1\n\ndef f(y):\n    assert y is not None\n") == [4]
    asking = (
        "isinstance(p, MazePolicy)\nisinstance(p, (A, maze.MazePolicy))\nissubclass(P, MazePolicy | A)\nMazePolicy()"
    )
    assert asks_for_maze_policies(asking) == [1, 2, 3]


def test_the_algorithm_asserts_nothing():
    """What may be None is asked for where it is, and not narrowed by an assert in the algorithm."""
    found = {
        name: lines
        for name, file in MODULES.items()
        if name.startswith("sera_maze.algorithm") and (lines := asserts(file.read_text(encoding="utf-8")))
    }
    assert not found


def test_nobody_asks_whether_a_policy_is_a_maze_policy():
    """A sampler knows what it can sample, and `policies.asking` what a policy can."""
    found = {
        name
        for name, file in MODULES.items()
        if not name.startswith(MAY_ASK_FOR_MAZE_POLICIES) and asks_for_maze_policies(file.read_text(encoding="utf-8"))
    }
    assert not found


def test_every_module_is_in_a_room_or_a_door():
    for name in MODULES:
        assert name in DOORS or place(name, ROOMS, 1)[0] is not None, name
        if name.startswith("sera_maze.envs") and name not in ENVS_DOORS:
            assert place(name, ENVS_ROOMS, 2)[0] is not None, name


def test_rooms_are_small():
    # The command line has a file for each command.
    for folder in {file.parent for file in MODULES.values()} - {ROOT / "sera_maze", ROOT / "sera_maze" / "cli"}:
        files = [file for file in folder.glob("*.py") if file.name not in ("__init__.py", "__main__.py")]
        assert len(files) <= MOST_FILES, folder


def test_functions_are_short():
    for file in MODULES.values():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name != "__init__":
                body = node.body[1:] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body
                lines = (node.end_lineno or 0) - body[0].lineno + 1
                assert lines <= MOST_LINES, f"{file}, line {node.lineno}: {node.name} has {lines} lines"


def test_setup_lists_every_package():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = config["options"]["packages"].split()
    assert listed == sorted(name for name, file in MODULES.items() if file.name == "__init__.py")
