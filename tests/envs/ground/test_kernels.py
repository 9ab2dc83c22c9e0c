"""Where compiled kernels are kept, when they are compiled anew, and that each has one type of arguments."""

import ast
import copy
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from sera_maze.envs.ground import kernels
from sera_maze.envs.layouts.layout import MazeLayout
from sera_maze.envs.play.maze import MazeEnv
from sera_maze.envs.play.vector import MazeVectorEnv
from sera_maze.envs.pools.pool import MazePool

ENVS = Path(kernels.__file__).parents[1]
INNER = """
from small.ground.kernels import kernel_part

FACTOR = 2

@kernel_part
def times(x):
    return FACTOR * x
"""
OUTER = """
from small.ground.kernels import kernel
from small.inner import times

@kernel
def result(x):
    return times(x) + 1
"""
RUN = "import small.outer as o; print(o.result(10), sum(o.result.stats.cache_hits.values()))"


@pytest.fixture
def package(tmp_path):
    """A package with our decorators, a kernel, and a part of it in another file."""
    folder = tmp_path / "site" / "small"
    (folder / "ground").mkdir(parents=True)
    (folder / "__init__.py").touch()
    shutil.copy(kernels.__file__, folder / "ground" / "kernels.py")
    (folder / "inner.py").write_text(INNER)
    (folder / "outer.py").write_text(OUTER)
    (tmp_path / "tmp").mkdir()
    return folder


def temporary(package):
    """The folder for temporary files of what is started beside a package."""
    return package.parents[1] / "tmp"


def start(package, code=RUN, **variables):
    """Start Python beside a package; only in its __pycache__ and in the temporary folder can anything be kept."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_")}
    environ |= {"HOME": os.devnull, "XDG_CACHE_HOME": f"{os.devnull}/x", "PYTHONDONTWRITEBYTECODE": "1"}
    environ |= {"TMPDIR": str(temporary(package)), **variables}
    environ["PYTHONPATH"] = str(package.parent)
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(package, code=RUN, **variables):
    process = start(package, code, **variables)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out.split(), err


def test_a_change_in_another_file_is_compiled_in(package):
    assert run(package) == (["21", "0"], "")
    (package / "inner.py").write_text(INNER.replace("FACTOR = 2", "FACTOR = 3"))
    assert run(package) == (["31", "0"], "")
    (package / "inner.py").write_text(INNER)
    (package / "other.py").write_text("x = 'a file without kernels'\n")
    assert run(package) == (["21", "1"], "")


def places(package, **variables):
    code = "import small.outer, numba; print(small.outer.result.stats.cache_path, repr(numba.config.CACHE_DIR))"
    (path, setting), err = run(package, code, **variables)
    return Path(path), setting, err


def test_order_of_places(package, tmp_path):
    """NUMBA_CACHE_DIR, the package's __pycache__, the user's cache folder; numba's setting stays as it was."""
    chosen, user, home = tmp_path / "chosen", tmp_path / "user", tmp_path / "home"
    path, setting, err = places(package, NUMBA_CACHE_DIR=str(chosen), XDG_CACHE_HOME=str(user), HOME=str(home))
    assert (path.parents[1], setting, err) == (chosen, repr(str(chosen)), "")
    assert path.parent.name.startswith("sera_maze-")
    path, setting, err = places(package, XDG_CACHE_HOME=str(user))
    assert (path.parents[1], setting, err) == (package / "__pycache__", "''", "")
    shutil.rmtree(package / "__pycache__")
    (package / "__pycache__").touch()  # a file: nothing can be written below it
    assert places(package, XDG_CACHE_HOME=str(user))[0].parents[1] == user
    unusable = str(package / "__pycache__" / "x")
    assert places(package, NUMBA_CACHE_DIR=unusable, HOME=str(home))[0].parents[1] == home / ".cache"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the folder is named after the user")
def test_the_last_place_is_a_temporary_folder_of_the_users_own(package):
    (package / "__pycache__").touch()
    assert run(package) == (["21", "0"], "")
    assert run(package) == (["21", "1"], "")
    own = temporary(package) / f"sera_maze-{os.getuid()}"
    assert own.stat().st_mode & 0o777 == 0o700
    assert places(package)[0].parents[1] == own


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the folder is named after the user")
@pytest.mark.parametrize("fault", ["writable for others", "a link", "of another user"])
def test_a_temporary_folder_that_others_could_write_is_not_used(package, fault):
    """What lies in it would be run."""
    (package / "__pycache__").touch()
    own = temporary(package) / f"sera_maze-{os.getuid()}"
    run(package)
    code = RUN
    if fault == "a link":
        own.rename(own.with_name("elsewhere"))
        own.symlink_to(own.with_name("elsewhere"))
    elif fault == "of another user":
        code = f"import os, stat; real = os.getuid(); os.getuid = lambda: {os.getuid() + 1}; {RUN}"
        own.rename(own.with_name(f"sera_maze-{os.getuid() + 1}"))
    else:
        own.chmod(0o777)
    out, err = run(package, code)
    assert out == ["21", "0"]
    assert "compiled kernels cannot be kept" in err


def not_writable(package, code=RUN):
    """The code, run where nobody, not even root, can write in the package's __pycache__."""
    return f"""
import small.ground.kernels as kernels
is_writable = kernels._is_writable
kernels._is_writable = lambda folder: {str(package)!r} not in str(folder) and is_writable(folder)
{code}
"""


def test_kernels_of_a_place_that_cannot_be_written_are_used(package):
    """Such as those of an image that was built by another user."""
    assert run(package) == (["21", "0"], "")
    for folder in (package / "__pycache__").rglob("*"):
        folder.chmod(0o555)
    assert run(package, not_writable(package)) == (["21", "1"], "")
    copies = sorted(path.name for path in temporary(package).rglob("*") if path.is_file())
    assert [name.split(".")[-1] for name in copies] == ["nbc", "nbi"]
    assert run(package, not_writable(package)) == (["21", "1"], "")
    assert sorted(path.name for path in temporary(package).rglob("*") if path.is_file()) == copies


def test_kernels_are_copied_beside_those_that_the_user_has(package, tmp_path):
    (package / "outer.py").write_text(OUTER + "\n\n@kernel\ndef other(x):\n    return x\n")
    home = str(tmp_path / "home")
    both = f"{RUN}; print(o.other(3), sum(o.other.stats.cache_hits.values()))"
    run(package)
    for hits in "01":
        assert run(package, not_writable(package, both), HOME=home) == (["21", "1", "3", hits], "")
    assert not list(temporary(package).iterdir())


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="others write into any temporary folder")
def test_without_any_place_kernels_are_compiled_and_one_warning_says_so(package):
    (package / "__pycache__").touch()
    (temporary(package) / f"sera_maze-{os.getuid()}").touch()
    (package / "outer.py").write_text(OUTER + "\n\n@kernel\ndef other(x):\n    return x\n")
    out, err = run(package)
    assert out == ["21", "0"]
    assert err.count("RuntimeWarning: compiled kernels cannot be kept") == 1
    assert "set NUMBA_CACHE_DIR to a folder that can be written" in err


def test_sources_that_are_no_files_are_not_kept(package):
    code = """
import importlib.util, small.ground.kernels
code = compile("def f(x):\\n    return x + 1\\n", "/nowhere/f.py", "exec")
exec(code)
print(small.ground.kernels.kernel(f)(1))
"""
    out, err = run(package, code)
    assert out == ["2"]
    assert err.count("RuntimeWarning: compiled kernels cannot be kept") == 1


def test_processes_that_compile_at_the_same_time(package):
    processes = [start(package) for _ in range(3)]
    for process in processes:
        out, err = process.communicate()
        assert (out.split()[:1], err) == (["21"], "")
    assert run(package) == (["21", "1"], "")


CROWD = """
import os, signal, threading, numba, small.ground.kernels

def load(name):
    import small.outer
    line = f"{name} {small.outer.result(10)} {numba.config.CACHE_DIR!r}\\n"
    os.write(1, line.encode())  # print may write a line in several pieces

if __name__ == "__main__":
    signal.alarm(30)  # ends a process that waits for ever
    def make():
        for _ in range(200):
            small.ground.kernels.kernel(lambda x: x)
    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(3):
        child = os.fork()
        if not child:
            signal.alarm(20)
            load("fork")
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    for thread in threads:
        thread.join()
    load("parent")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_threads_and_forks(package, tmp_path):
    """A child that is forked while other threads decorate neither waits for ever nor keeps a changed setting."""
    (tmp_path / "crowd.py").write_text(CROWD)
    out, _ = run(package, f"import runpy; runpy.run_path({str(tmp_path / 'crowd.py')!r}, run_name='__main__')")
    assert out == ["fork", "21", "''"] * 3 + ["parent", "21", "''"]


def test_spawned_processes_find_what_was_compiled(package):
    run(package)
    code = """
import multiprocessing
import small.outer as o
def work(x):
    return o.result(x)
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(*pool.map(work, [10, 20]), sum(o.result.stats.cache_hits.values()))
"""
    (package.parent / "work.py").write_text(code)
    out, _ = run(package, "import runpy; runpy.run_module('work', run_name='__main__', alter_sys=True)")
    assert out[:2] == ["21", "41"]


# ---------------------------------------------------------------------------------------------- the kernels of envs/


def kernel_files():
    """The syntax tree of each module with kernels, by its name."""
    return {
        ".".join(("sera_maze.envs", *p.relative_to(ENVS).with_suffix("").parts)): ast.parse(p.read_text())
        for p in ENVS.rglob("*.py")
        if "\n@kernel" in p.read_text()
    }


def test_every_kernel_uses_the_decorators():
    files = kernel_files()
    assert {
        "generating.carving", "generating.kernels", "ground.random_bits", "layouts.distances",
        "play.stepping", "play.vector_observations",
    } == {name.removeprefix("sera_maze.envs.") for name in files}  # fmt: skip
    for path in ENVS.rglob("*.py"):
        assert "njit" not in path.read_text() or path == Path(kernels.__file__), path


def names_defined_in(tree):
    """Where each global name of a file comes from: (module, None) for imports, (None, node) for definitions."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: (alias.name, None) for alias in node.names}
        elif isinstance(node, ast.Assign):
            found |= {name.id: (None, node) for t in node.targets for name in ast.walk(t) if isinstance(name, ast.Name)}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = (None, node)
    return found


def test_kernels_take_in_nothing_from_other_files():
    """A constant from a file that does not count would stay as it was in what is kept; kernels get it handed over."""
    files = kernel_files()
    allowed = {
        "numpy",
        "numpy.typing",
        "typing",
        "sera_maze.envs.ground.kernels",
        *files,
    }

    def check(where, node, names, seen):
        for used in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & names.keys() - seen:
            module, definition = names[used]
            if module is None:
                check(f"{where} > {used}", definition, names, seen | {used})
            else:
                assert {module, f"{module}.{definition}"} & allowed, f"{where} takes {used} from {module}"

    count = 0
    for name, tree in files.items():
        names = names_defined_in(tree)
        for node in tree.body:
            decorators = getattr(node, "decorator_list", [])
            if any(isinstance(d, ast.Name) and d.id.startswith("kernel") for d in decorators):
                count += 1
                body = ast.Module([*node.body, node.args], [])
                check(f"{name}.{node.name}", body, names, {node.name})
    assert count > 25


def test_each_kernel_is_compiled_for_one_type_of_arguments():
    """Else processes that compile one kernel for different types at once could spoil numba's index of what is kept."""
    text = "#######\n#S   G#\n#######"
    layout = MazeLayout(np.asfortranarray(MazeLayout.from_text(text).walls), (1, 1), (1, 5))
    layout.distances()
    for pool in (MazePool.from_layouts([layout]), MazePool.generate(6, 7, endpoints="random")):
        for observation in ("grid", "local", "tokens", "dict"):
            env = MazeVectorEnv(2, pool, observation=observation, autoreset_mode="SameStep", record_paths=True)
            env.reset(seed=0)
            for copied in (env, copy.deepcopy(env)):
                read_only = np.array([0, 3], np.int32)
                read_only.setflags(write=False)
                for actions in (read_only, np.zeros((2, 3), np.int64)[:, 1], [1, 2], np.zeros(2, np.uint64)):
                    copied.step(actions)
                copied.reset(options={"prompt": 0, "reset_mask": np.array([True, False])})
        MazeEnv(pool).reset()
    MazePool.papers("held_out")
    kept = 0
    for name in kernel_files():
        module = importlib.import_module(name)
        for value in vars(module).values():
            if isinstance(value, numba.core.registry.CPUDispatcher) and value.stats.cache_path is not None:
                assert len(value.signatures) <= 1, (value, value.signatures)
                kept += 1
    assert kept >= 12


def test_whether_kernels_are_kept_is_told(tmp_path):
    code = "from sera_maze.envs.ground.kernels import has_kernels; print(has_kernels())"
    make = "from sera_maze.envs import MazePool; MazePool.generate(1, 5)"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    shown = [
        subprocess.run(
            [sys.executable, "-c", command], capture_output=True, text=True, check=True, env=environment
        ).stdout.strip()
        for command in (code, make, code)
    ]
    assert shown == ["False", "", "True"]
