"""Values and commands on the command line: what is read, and what an error says."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Union

import pytest
import tyro

from sera_maze.cli.app import main
from sera_maze.cli.values import VALUES


@dataclass(frozen=True)
class Options:
    number: int = 1
    rate: float = 0.5
    text: str = ""
    path: Path | None = None
    kind: Literal["one", "two"] = "one"
    speed: Literal[1, 2, 4] = 1
    pair: tuple[int, int] = (1, 2)
    kinds: tuple[Literal["one", "two"], ...] = ("one",)
    paths: tuple[Path, ...] = ()
    limit: int | None = None
    threshold: Union[float, Literal["none"]] = "none"  # noqa: UP007
    distances: Union[tuple[int, ...], Literal["none"]] = "none"  # noqa: UP007


def read(*words):
    with VALUES:
        return tyro.cli(Options, args=words)


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("--number -3", "number", -3),
        ("--rate 1e-3", "rate", 0.001),
        ("--rate 2", "rate", 2.0),
        ("--text 5", "text", "5"),
        ("--path a/b", "path", Path("a/b")),
        ("--path None", "path", None),
        ("--kind two", "kind", "two"),
        ("--speed 4", "speed", 4),
        ("--pair 3 4", "pair", (3, 4)),
        ("--kinds two one", "kinds", ("two", "one")),
        ("--kinds", "kinds", ()),
        ("--paths a b", "paths", (Path("a"), Path("b"))),
        ("--limit 7", "limit", 7),
        ("--threshold none", "threshold", "none"),
        ("--threshold 0.1", "threshold", 0.1),
        ("--distances none", "distances", "none"),
        ("--distances 4 8", "distances", (4, 8)),
    ],
)
def test_values_are_read(words, name, value):
    found = read(*words.split())
    assert found == Options(**{name: value})
    assert type(getattr(found, name)) is type(value)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("train --allocator sear", "'sear' is not known; allowed are uniform, sera, sera_posterior, vip, knapsack; "
         "did you mean 'sera'?"),
        ("train --preset=quik", "did you mean 'quick'?"),
        ("compare --methods uniform seraa", "did you mean 'sera'?"),
        ("bench lern", "did you mean 'learn'?"),
        ("mazes --algorithm Prim", "did you mean 'prim'?"),
        ("mazes --endpoints randm", "did you mean 'random'?"),
        ("play --on-wall stya", "did you mean 'stay'?"),
        ("watch x --speed 3", "'3' is not known; allowed are 1, 2, 4, 8, 16, 32, 64, 128"),
        ("train --updates 1.5", "Error parsing --updates: '1.5' is not a whole number"),
        ("train --learning-rate fast", "'fast' is not a number"),
        ("train --n-max many", "'many' is not a whole number; none is allowed, too"),
        ("train --activation-threshold nne", "'nne' is not a number; none is allowed, too; did you mean 'none'?"),
        ("train --distances 4 far", "'far' is not a whole number; none is allowed, too"),
        ("watch x --window 900 b", "'b' is not a whole number"),
        ("train --alocator sera", "Perhaps you meant: --allocator"),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_with_the_nearest(words, error, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as end:
        main(words.split())
    assert end.value.code == 2
    assert error in " ".join(capsys.readouterr().err.replace("\u2502", "").split())


def test_commands_that_are_not_known(capsys):
    assert main(["trian", "--preset", "quick"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("sera-maze: error: command='trian' is not known; allowed are 'train', 'eval', ")
    assert error.endswith("; did you mean 'train'?\n")
