"""The package as it is installed: light imports, registered ids, no global `envs`, and use from the repository."""

import importlib
import os
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import gymnasium as gym
import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("sera_maze", "envs", "assets", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")


def python(*arguments, cwd, site=None):
    """Run a fresh interpreter in a folder; ``site`` comes first on its path, as an installed package's folder."""
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if site is not None:
        variables["PYTHONPATH"] = str(site)
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=cwd, env=variables
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A copy of the sources, with one small test."""
    folder = tmp_path_factory.mktemp("repository")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in SOURCES:
        source = ROOT / name
        shutil.copytree(source, folder / name, ignore=ignored) if source.is_dir() else shutil.copy(source, folder)
    (folder / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "envs" / "ground" / "test_errors.py", folder / "tests")
    return folder


@pytest.fixture(scope="module")
def wheel(repository, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    copy = tmp_path_factory.mktemp("build") / "copy"
    shutil.copytree(repository, copy)
    python("-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ".", cwd=copy)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    python("-m", "pip", "install", "-q", "--no-deps", "--target", folder, wheel, cwd=folder)
    return folder


def test_wheel_holds_the_package_and_nothing_global(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "sera_maze",
        f"sera_maze-{metadata.version('sera-maze')}.dist-info",
    }
    for name in ("envs/play/maze.py", "envs/py.typed", "py.typed", "cli/app.py", "assets/held_out_17x17_prim.npz"):
        assert f"sera_maze/{name}" in names


WHERE = "import sera_maze.envs.pools.pool as p; print(p.__file__); print(len(p.MazePool.papers('held_out')))"


def test_installed_package_works_away_from_the_repository(site, tmp_path):
    file, count = python("-c", WHERE, cwd=tmp_path, site=site).split("\n")
    assert Path(file) == site / "sera_maze" / "envs" / "pools" / "pool.py"
    assert count == "256"
    code = "import importlib.util, sera_maze.envs; print(importlib.util.find_spec('envs'))"
    assert python("-c", code, cwd=tmp_path, site=site) == "None"


@pytest.mark.parametrize("installed", [True, False])
def test_python_started_in_the_repository_uses_its_sources(installed, repository, site):
    file, count = python("-c", WHERE, cwd=repository, site=site if installed else None).split("\n")
    assert Path(file) == repository / "envs" / "pools" / "pool.py"
    assert count == "256"


@pytest.mark.parametrize("command", [["-m", "pytest"], ["-c", "import sys, pytest; sys.exit(pytest.console_main())"]])
def test_pytest_runs_in_the_repository_after_a_plain_install(command, repository, site):
    assert " passed" in python(*command, "-q", "-p", "no:cacheprovider", "tests", cwd=repository, site=site)


@pytest.mark.parametrize("module", ["sera_maze", "sera_maze.envs", "gymnasium"])
def test_imports_are_light(module, tmp_path):
    heavy = "{'torch', 'stable_baselines3', 'numba', 'pygame'}"
    assert python("-c", f"import sys, {module}; print({heavy} & set(sys.modules))", cwd=tmp_path) == "set()"


def test_environments_need_neither_torch_nor_stable_baselines3(tmp_path):
    code = """
import sys
sys.modules["torch"] = sys.modules["stable_baselines3"] = None  # an import of them is an error now
from sera_maze.envs import *
from sera_maze.envs import pictures, rendering, tokens
from sera_maze.envs.pictures import window
import gymnasium
env = gymnasium.make("SeraMaze/Prim-9x9-v0", render_mode="rgb_array")
env.reset(seed=0)
env.step(0)
print(env.render().shape)
"""
    assert python("-W", "error", "-c", code, cwd=tmp_path) == "(504, 504, 3)"


def test_ground_floor_imports_only_what_it_may():
    allowed = ("numpy", "numba", "gymnasium", "pygame", "sera_maze.envs", "sera_maze.assets", "PIL", "_typeshed")
    for file in (ROOT / "envs").rglob("*.py"):
        for line in file.read_text(encoding="utf-8").splitlines():
            words = line.split()
            if words[:1] in (["import"], ["from"]):
                module = words[1].rstrip(",")
                top = module.split(".")[0]
                assert top in sys.stdlib_module_names or top == "__future__" or module.startswith(allowed), (file, line)


@pytest.mark.parametrize("module", ["sera_maze", "sera_maze.envs"])
def test_importing_registers_the_ids(module, tmp_path):
    code = f"import gymnasium, {module}; print(gymnasium.make('SeraMaze/Wilson-9x9-v0').reset(seed=0)[0].shape)"
    assert python("-c", code, cwd=tmp_path) == "(3, 9, 9)"


def test_ids_that_name_the_module_need_no_import(tmp_path):
    code = "import gymnasium; print(gymnasium.make('sera_maze:SeraMaze/Dfs-9x9-v0').reset(seed=0)[0].shape)"
    assert python("-c", code, cwd=tmp_path) == "(3, 9, 9)"


def test_entry_points():
    (plugin,) = [e for e in metadata.entry_points(group="gymnasium.envs") if e.value.startswith("sera_maze")]
    importlib.import_module("sera_maze")
    before = {name: spec for name, spec in gym.registry.items() if name.startswith("SeraMaze/")}
    assert len(before) == 21
    plugin.load()()  # a second registration changes nothing
    assert {name: spec for name, spec in gym.registry.items() if name.startswith("SeraMaze/")} == before
    (command,) = [e for e in metadata.entry_points(group="console_scripts") if e.name == "sera-maze"]
    assert command.value == "sera_maze.cli:main"


PATHS = """
from sera_maze import allocate, evaluate, group_advantages, pass_at_k, MazeEnv, PromptQueue, SuccessHistory
from sera_maze import MaxRL, SERA, MazePolicy, MazePool, MazeLayout, FreshMazes, MazeVecEnv, CoverageCallback
from sera_maze.allocation import allocate, allocate_uniform, Allocation
from sera_maze.advantages import group_advantages
from sera_maze.success import SuccessHistory
from sera_maze.coverage import pass_at_k
from sera_maze.exact import success_probability, alignment
from sera_maze.network import default_iterations
from sera_maze.envs import MazeEnv, MazeVectorEnv, PromptQueue, generate_layouts
from sera_maze.envs.tokens import prompt_text, path_to_actions, verify
from sera_maze.envs.rendering import draw_paths, draw_heatmap
from sera_maze.envs.pictures import save_png
from sera_maze.viewer import render_paths
"""


def test_public_paths_give_what_they_name(tmp_path):
    """A room's public function must not be hidden by a file of its name, in whatever order they are loaded."""
    files = "import pkgutil, importlib, sera_maze\nfor m in pkgutil.walk_packages(sera_maze.__path__, 'sera_maze.'):\n"
    load = files + "    m.name.endswith('__main__') or importlib.import_module(m.name)\n"
    show = "print(sorted(n for n, v in list(globals().items()) if callable(v) and n[0] != '_'))"
    given = [name.strip() for line in PATHS.splitlines() if line for name in line.split(" import ")[1].split(",")]
    names = sorted(set(given))
    assert python("-W", "error", "-c", PATHS + show, cwd=tmp_path) == str(names)
    assert python("-W", "error", "-c", load + PATHS + show, cwd=tmp_path) == str(names)


def test_there_is_no_second_copy_of_the_package(repository):
    code = "import importlib.util; print(importlib.util.find_spec('sera_maze.sera_maze'))"
    assert python("-c", code, cwd=repository) == python("-c", code, cwd=ROOT) == "None"


def test_public_names():
    import sera_maze

    for name in sera_maze.__all__:
        assert getattr(sera_maze, name) is not None
    assert sera_maze.__version__ == metadata.version("sera-maze")
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = sera_maze.Nothing


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("from sera_maze import train_script", "it is in sera_maze.runs: from sera_maze.runs import train_script"),
        ("from sera_maze import save_png", "from sera_maze.envs.pictures import save_png"),
        ("from sera_maze import Promptqueue", "no attribute 'Promptqueue'; did you mean 'PromptQueue'?"),
        ("import sera_maze; sera_maze.render_path", "did you mean 'render_paths' of sera_maze.viewer?"),
        ("from sera_maze.coverage import Evaluator", "did you mean 'Evaluation'?"),
        ("from sera_maze.envs import MazeEnf", "did you mean 'MazeEnv'?"),
        ("from sera_maze import Nothing", "module 'sera_maze' has no attribute 'Nothing'"),
        ("from sera_maze import sera_maze", "module 'sera_maze' has no attribute 'sera_maze'"),
    ],
)
def test_a_missing_name_says_where_it_is_or_which_is_near(code, message):
    with pytest.raises(ImportError if code.startswith("from") else AttributeError) as caught:
        exec(code, {})
    assert str(caught.value).endswith(message)


def test_looking_for_a_name_is_no_error_and_loads_nothing_for_modules(tmp_path):
    import sera_maze

    assert not hasattr(sera_maze, "Nothing")
    assert not hasattr(sera_maze.envs, "Nothing")
    code = "import sys; from sera_maze import cli, studies; print('torch' in sys.modules)"
    assert python("-c", code, cwd=tmp_path) == "False"


@pytest.mark.parametrize(
    "room", ["algorithm", "allocation", "coverage", "exact", "policies", "runs", "sampling", "viewer"]
)
def test_a_room_carries_its_public_names(room):
    door = importlib.import_module(f"sera_maze.{room}")
    assert len(set(door.__all__)) == len(door.__all__) > 0
    for name in door.__all__:
        assert getattr(door, name) is not None
        assert name in dir(door)


@pytest.mark.parametrize(
    ("before", "variables", "value"),
    [
        ("", {}, "1000"),
        ("", {"GOMP_SPINCOUNT": "7"}, "7"),
        ("", {"OMP_WAIT_POLICY": "active"}, None),
        ("import torch; ", {}, None),  # too late: it has been read
    ],
)
def test_importing_the_package_lets_torchs_threads_sleep(before, variables, value):
    environment = {name: text for name, text in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    code = f"{before}import os, sera_maze; print(os.environ.get('GOMP_SPINCOUNT'))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment | variables
    )
    assert done.stdout.strip() == str(value)
