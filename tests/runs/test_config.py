"""The config of a run: a tree of options, each known by a name of its own, and its file now and before."""

import json
import math
from dataclasses import asdict, fields

import pytest

from sera_maze.envs.generating.spec import MazeSpec
from sera_maze.envs.ground.options import descriptions, differences, is_tree, leaves, option_types
from sera_maze.runs.config import PRESETS, RunConfig

# As version 0.1 wrote it before options lay in a tree.
FLAT = {
    "size": [9, 9], "algorithm": "dfs", "num_mazes": 100, "fresh_mazes": False, "distances": [4, 8],
    "held_out_mazes": 20, "on_wall": "stay", "warm_start": 5, "updates": 6, "prompts_per_batch": 7,
    "rollouts_per_prompt": 8, "n_max": 9, "allocator": "vip", "advantage": "rloo", "success": "exact",
    "activation_threshold": None, "learning_rate": 0.01, "max_grad_norm": 2.0, "channels": 16, "iterations": 10,
    "eval_every": 2, "num_samples": 32, "seed": 3,
}  # fmt: skip


def names(tree):
    """Names of all options, repeated ones too."""
    for field in fields(tree):
        value = getattr(tree, field.name)
        yield from names(value) if is_tree(value) else [field.name]


def test_every_option_has_a_name_of_its_own_and_is_described():
    assert len(set(names(RunConfig()))) == len(list(names(RunConfig()))) == len(leaves(RunConfig()))

    def check(tree):
        texts = descriptions(type(tree))
        assert list(texts) == list(option_types(type(tree)))
        for field in fields(tree):
            value = getattr(tree, field.name)
            if is_tree(value):
                check(value)
            elif value is None:
                assert "; None: " in texts[field.name], f"{field.name}: what decides?"

    check(RunConfig())


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "config.json"
    for config in (*PRESETS.values(), RunConfig.of(distances=(4, 8), n_max=40, activation_threshold=None)):
        config.save(path)
        assert RunConfig.load(path) == config
        assert json.loads(path.read_text())["mazes"]["size"] == list(config.mazes.size)


def test_flat_files_of_earlier_versions_are_read(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(FLAT))
    config = RunConfig.load(path)
    assert leaves(config) | FLAT | {"size": (9, 9), "distances": (4, 8)} == leaves(config)
    assert config == RunConfig.of(**FLAT)
    # Still earlier ones lack these, and their runs did what the defaults say.
    for name in ("distances", "activation_threshold", "max_grad_norm"):
        path.write_text(json.dumps({key: value for key, value in FLAT.items() if key != name}))
        assert leaves(RunConfig.load(path))[name] == leaves(RunConfig())[name]


def test_options_are_changed_and_compared_by_their_names():
    config = RunConfig().changed({"size": 9, "allocator": "uniform", "activation_threshold": None})
    assert (config.mazes.size, config.method.allocator, config.seed) == ((9, 9), "uniform", 0)
    assert differences(RunConfig(), config) == {
        "size": ((17, 17), (9, 9)), "allocator": ("sera", "uniform"), "activation_threshold": (0.05, None),
    }  # fmt: skip
    assert differences(config, config) == {}
    with pytest.raises(TypeError, match="'rollout_per_prompt' is no option of RunConfig; did you mean 'rollouts_per_p"):
        RunConfig.of(rollout_per_prompt=3)
    with pytest.raises(TypeError, match="method='sera' is a str; allowed is MaxRLOptions"):
        RunConfig(method="sera")


def test_no_clipping_is_written_as_strict_json(tmp_path):
    config = RunConfig.of(max_grad_norm=math.inf)
    config.save(tmp_path / "config.json")
    assert RunConfig.load(tmp_path / "config.json") == config
    assert json.loads((tmp_path / "config.json").read_text())["method"]["max_grad_norm"] == "inf"


def test_a_config_is_plain_data():
    assert RunConfig.from_dict(json.loads(json.dumps(asdict(PRESETS["paper"])))) == PRESETS["paper"]


def test_kinds_of_mazes_are_sizes_times_families():
    one = RunConfig.of(size=9, algorithm="dfs", braid=0.5, openings=2, endpoints="random").mazes
    assert one.kinds() == one.curriculum()[0] == [MazeSpec((9, 9), "dfs", 0.5, 2, "random")]
    mazes = RunConfig.of(size=17, algorithm="all", smaller_sizes=(13, 9), endpoints="farthest").mazes
    assert len(mazes.kinds()) == 24
    assert [sorted({kind.size for kind in stage}) for stage in mazes.curriculum()] == [
        [(9, 9)], [(9, 9), (13, 13)], [(9, 9), (13, 13), (17, 17)],
    ]  # fmt: skip
    assert [(kind.algorithm, kind.braid) for kind in mazes.kinds((5, 5))][-2:] == [("prim", 1.0), ("dfs", 1.0)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "all", "braid": 0.5}, "braid goes with one algorithm"),
        ({"algorithm": "all", "distances": (4, 8)}, "distances go with one kind of mazes"),
        ({"endpoints": "random", "distances": (4, 8)}, "distances go with one kind of mazes"),
        ({"smaller_sizes": (17,)}, "smaller_sizes=17 is out of range"),
        ({"smaller_sizes": (9, 9)}, "all different"),
        ({"smaller_sizes": (10,)}, "not an odd number"),
        ({"smaller_sizes": 9}, "such as"),
        ({"algorithm": "all", "held_out_mazes": 7}, "there are 8 kinds of mazes"),
        ({"braid": 2.0}, "braid=2.0 is out of range"),
        ({"endpoints": "middle"}, "endpoints='middle' is not known"),
        ({"growth": "length"}, "growth='length' is not known"),
    ],
)
def test_kinds_that_do_not_go_together_are_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        RunConfig.of(**options)
