"""Comparing runs: numbers by hand, groups and labels, what is refused, the files."""

import json
import math

import numpy as np
import pytest
from PIL import Image

from sera_maze.cli.app import main
from sera_maze.coverage.unbiased import coverage
from sera_maze.runs import figure as compare_figure
from sera_maze.runs.comparison import _replicates, compare
from sera_maze.runs.config import RunConfig
from sera_maze.runs.maze_task import held_out_pool

SMALL = {"size": (9, 9), "held_out_mazes": 4, "num_samples": 4, "updates": 10}
KS = (1, 2, 4)
# Successes of 4 rollouts: pass@1 is 1, 1/2, 0, 1/4; pass@2 is 1, 5/6, 0, 1/2; pass@4 is 1, 1, 0, 1.
SUCCESSES = [4, 2, 0, 1]
PASS_AT_K = [7 / 16, 7 / 12, 3 / 4]


def history(values, updates=(0, 10), exact=False, interval=None):
    """Entries whose pass@k is the same for every k."""
    entries = []
    for update, value in zip(updates, values, strict=True):
        entry = {"update": update, "timesteps": 100 * update, "rollouts": 64 * update}
        entry |= {f"coverage/pass@{k}": value for k in KS}
        entry |= {f"coverage/exact_pass@{k}": value / 2 for k in KS if exact}
        entry |= {} if interval is None else {"interval": {f"pass@{k}": interval for k in KS}}
        entries.append(entry)
    return entries


def make_run(folder, successes=SUCCESSES, entries=None, ks=KS, **options):
    """Write what a finished run leaves."""
    config = RunConfig.of(**{**SMALL, **options})
    lengths = held_out_pool(config).shortest_lengths.tolist()
    folder.mkdir(parents=True)
    config.save(folder / "config.json")
    figures = coverage(np.array(successes), ks, config.num_samples)
    columns = (figures.pass_at_k.tolist(), figures.low.tolist(), figures.high.tolist())
    names = ("k", "sampled", "low", "high")
    evaluation = {
        "mazes": len(successes),
        "size": list(config.mazes.size),
        "num_samples": config.num_samples,
        "pass_at_k": [dict(zip(names, row, strict=True)) for row in zip(ks, *columns, strict=True)],
        "per_maze": {"shortest_length": lengths, "successes": list(successes), "probability": None},
    }
    (folder / "evaluation.json").write_text(json.dumps(evaluation))
    entries = history([0.25, 0.5]) if entries is None else entries
    (folder / "coverage.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return folder


def test_one_run_has_the_figures_of_its_evaluation(tmp_path):
    comparison = compare([make_run(tmp_path / "first")])
    assert [group.label for group in comparison.groups] == ["first"]
    assert (comparison.ks, comparison.prompts, comparison.num_samples) == (KS, 4, 4)
    (interval,) = comparison.pass_at_k
    assert interval.mean == pytest.approx(PASS_AT_K)
    # The squares of 1, 1/2, 0, 1/4 less 7/16 sum to 35/64; so the standard error is sqrt(35/64 / 3 / 4).
    margin = 1.959964 * math.sqrt(35 / 64 / 12)
    assert (interval.low[0], interval.high[0]) == pytest.approx((7 / 16 - margin, 7 / 16 + margin))
    said = json.loads((tmp_path / "first" / "evaluation.json").read_text())["pass_at_k"]
    assert [row["low"] for row in said] == interval.low.tolist()
    assert [row["high"] for row in said] == interval.high.tolist()
    assert comparison.difference is None
    table = comparison.markdown().splitlines()
    assert table[0] == "|  | first |"
    assert table[2:] == [
        "| seeds | 1 |",
        "| pass@1, % | 43.75 [1.91, 85.59] |",
        f"| pass@2, % | 58.33 [{100 * interval.low[1]:.2f}, 100.00] |",
        "| pass@4, % | 75.00 [26.00, 100.00] |",
        "| solved, % | 75.00 |",
        "| rollouts | 640 |",
        "",
        comparison.caption(),
    ]
    assert "over mazes (normal approximation, near 0 and 100 % widened to Wilson's)" in comparison.caption()
    assert "bootstrap" not in comparison.caption()


def test_seeds_are_grouped_and_labels_say_what_differs(tmp_path):
    folders = [
        make_run(tmp_path / "a", seed=1),
        make_run(tmp_path / "b", seed=0, allocator="uniform", n_max=64),
        make_run(tmp_path / "c", seed=0),
        make_run(tmp_path / "d", seed=1, allocator="uniform", n_max=64),
    ]
    comparison = compare(folders)
    assert [group.label for group in comparison.groups] == ["allocator=sera, n_max=None", "allocator=uniform, n_max=64"]
    assert [[run.folder.name for run in group.runs] for group in comparison.groups] == [["c", "a"], ["b", "d"]]
    assert [group.seeds for group in comparison.groups] == [(0, 1), (0, 1)]
    assert [group.label for group in compare([folders[0], folders[2]]).groups] == ["c"]


def test_many_groups_are_listed_before_the_table(tmp_path):
    folders = [make_run(tmp_path / str(channels), channels=channels) for channels in (8, 16, 24)]
    lines = compare(folders).markdown().splitlines()
    assert lines[:5] == ["1. channels=8", "2. channels=16", "3. channels=24", "", "|  | 1 | 2 | 3 |"]
    long = make_run(tmp_path / "long", channels=16, learning_rate=0.002)
    assert compare([folders[0], long]).markdown().splitlines()[:4] == [
        "1. channels=8, learning_rate=0.001", "2. channels=16, learning_rate=0.002", "", "|  | 1 | 2 | difference |",
    ]  # fmt: skip


def test_several_seeds_have_an_interval_over_seeds_and_mazes(tmp_path):
    folders = [make_run(tmp_path / "0", [4, 4, 4, 4]), make_run(tmp_path / "1", [0, 0, 0, 0], seed=1)]
    comparison = compare(folders)
    (interval,) = comparison.pass_at_k
    assert interval.mean.tolist() == [0.5, 0.5, 0.5]
    # Of two draws of two seeds a quarter is twice the first, a quarter twice the second.
    assert interval.low.tolist() == [0, 0, 0]
    assert interval.high.tolist() == [1, 1, 1]
    assert "over seeds and mazes" in comparison.caption()
    assert "| solved, % | 50.00 |" in comparison.markdown()


def test_no_interval_is_a_point(tmp_path):
    """All mazes solved in all rollouts: of one seed Wilson's interval, of several none; in the JSON as it was."""
    one, two = make_run(tmp_path / "0", [4, 4, 4, 4]), make_run(tmp_path / "1", [4, 4, 4, 4], seed=1)
    alone = compare([one])
    assert "| pass@1, % | 100.00 [51.01, 100.00] |" in alone.markdown()  # 4 / (4 + 1.95996**2)
    assert alone.to_json()["groups"][0]["pass_at_k"][0] == {"k": 1, "mean": 1.0, "low": 1.0, "high": 1.0}
    assert "| pass@1, % | 100.00 |" in compare([one, two]).markdown()
    other = make_run(tmp_path / "other", [4, 4, 4, 4], channels=16)
    assert "| +0.00 |" in compare([one, other]).markdown()


@pytest.mark.parametrize("share_mazes", [True, False])
def test_the_bootstrap_has_the_variance_of_its_definition(share_mazes):
    values = np.random.default_rng(0).random((3, 5, 2)) + np.arange(5)[:, None]
    replicates = _replicates(values, share_mazes, 0, 100_000)
    assert replicates.mean(0) == pytest.approx(values.mean((0, 1)), abs=0.01)
    if share_mazes:  # the moments of multinomial counts, for seeds times those for mazes
        seeds, mazes = ((1 - 1 / n + np.eye(n)) / n**2 for n in (3, 5))
        variance = np.einsum("smk,tnk,st,mn->k", values, values, seeds, mazes) - values.mean((0, 1)) ** 2
    else:  # three independent draws of a seed, each with five draws of its mazes
        variance = (values.mean(1).var(0) + values.var(1).mean(0) / 5) / 3
    assert replicates.var(0) == pytest.approx(variance, rel=0.02)


@pytest.mark.parametrize("share_mazes", [True, False])
def test_the_bootstrap_repeats_itself_whatever_is_held_at_a_time(monkeypatch, share_mazes):
    values = np.random.default_rng(0).random((2, 5, 1))
    whole = _replicates(values, share_mazes, 0, 500)
    assert np.array_equal(whole, _replicates(values, share_mazes, 0, 500))
    assert not np.array_equal(whole, _replicates(values, share_mazes, 1, 500))
    monkeypatch.setattr("sera_maze.runs.comparison._MAX_CELLS", 35)
    parts = _replicates(values, share_mazes, 0, 500)
    assert parts.shape == whole.shape
    assert parts == pytest.approx(whole)


def test_the_difference_is_of_pairs(tmp_path):
    one = make_run(tmp_path / "a", [4, 2, 0, 1])
    other = make_run(tmp_path / "b", [3, 2, 0, 0], allocator="uniform")
    difference = compare([one, other]).difference
    # 1/4, 0, 0 and 1/4 in the mazes: means of four draws are 0 with probability 1/16 and 1/4 with 1/16.
    assert (difference.mean[0], difference.low[0], difference.high[0]) == (0.125, 0, 0.25)
    assert compare([other, one]).difference.mean[0] == -0.125
    table = compare([one, other]).markdown()
    assert table.startswith("|  | allocator=sera | allocator=uniform | difference |")
    assert "| +12.50 [+0.00, +25.00] |" in table
    assert "interval over mazes." in table


def test_a_difference_that_is_the_same_in_all_mazes_and_seeds_is_certain(tmp_path):
    folders = []
    for allocator, less in (("sera", 0), ("uniform", 1)):
        for seed, successes in enumerate(([4, 3, 2, 1], [2, 1, 1, 4])):
            name = f"{allocator}-{seed}"
            folders.append(
                make_run(tmp_path / name, [x - less for x in successes], seed=seed, allocator=allocator)
            )  # fmt: skip
    comparison = compare(folders)
    assert comparison.difference.low[0] == pytest.approx(0.25)
    assert comparison.difference.high[0] == pytest.approx(0.25)
    assert comparison.pass_at_k[0].high[0] - comparison.pass_at_k[0].low[0] > 0.25
    assert "paired maze by maze and seed by seed" in comparison.caption()


def test_shipped_mazes_are_shared_by_all_seeds(tmp_path):
    options = {"size": (17, 17), "held_out_mazes": 256}
    successes = np.random.default_rng(0).integers(0, 5, 256).tolist()
    folders = [make_run(tmp_path / str(seed), successes, seed=seed, **options) for seed in (0, 1)]
    single = make_run(tmp_path / "single", successes, seed=5, channels=8, **options)
    comparison = compare([*folders, single])
    shared, alone = comparison.pass_at_k
    # Equal seeds on equal mazes tell nothing new: the interval is that of a single run, but for chance.
    assert shared.low == pytest.approx(alone.low, abs=0.005)
    assert shared.high == pytest.approx(alone.high, abs=0.005)
    assert comparison.difference.low == pytest.approx(0)
    assert comparison.difference.high == pytest.approx(0)
    caption = comparison.caption()
    assert "seed by seed" not in caption
    assert "Brackets of a single seed" in caption
    assert "Brackets of several seeds" in caption


def test_a_single_maze_has_no_interval(tmp_path):
    folders = [
        make_run(tmp_path / allocator, [2], held_out_mazes=1, allocator=allocator) for allocator in ("sera", "uniform")
    ]
    comparison = compare(folders)
    assert "| pass@1, % | 50.00 | 50.00 | +0.00 |" in comparison.markdown()
    assert comparison.to_json()["groups"][0]["pass_at_k"][0] == {"k": 1, "mean": 0.5, "low": None, "high": None}
    assert comparison.to_json()["difference"][0] == {"k": 1, "mean": 0, "low": None, "high": None}


def test_only_ks_that_all_have_are_compared(tmp_path):
    one, other = make_run(tmp_path / "a"), make_run(tmp_path / "b", ks=(1, 4), channels=8)
    assert compare([one, other]).ks == (1, 4)


def test_curves(tmp_path):
    entries = [history([0.2, 0.3, 0.4], (0, 5, 10), exact=True), history([0.4, 0.8], exact=False)]
    folders = [make_run(tmp_path / str(seed), entries=x, seed=seed) for seed, x in enumerate(entries)]
    comparison = compare(folders)
    curve = comparison.curve(0, 4)  # at the updates that both have
    assert not comparison.exact_curves
    assert curve.rollouts.tolist() == [0, 640]
    assert curve.mean == pytest.approx([0.3, 0.6])
    assert (curve.low.tolist(), curve.high.tolist()) == ([0.2, 0.4], [0.4, 0.8])
    exact = compare(folders[:1])
    assert exact.exact_curves
    assert exact.curve(0, 1).mean == pytest.approx([0.1, 0.15, 0.2])
    assert np.isnan(exact.curve(0, 1).low).all()  # a file that was written before intervals were
    known = compare([make_run(tmp_path / "known", entries=history([0.2, 0.3], interval=[0.1, 0.4]))])
    assert (known.curve(0, 2).low.tolist(), known.curve(0, 2).high.tolist()) == ([0.1, 0.1], [0.4, 0.4])


def change(folder, **changes):
    path = folder / "evaluation.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def unfinished(folder):
    (folder / "evaluation.json").unlink()


def prolonged(folder):
    RunConfig.of(**{**SMALL, "updates": 20}).save(folder / "config.json")


def without_log(folder):
    (folder / "coverage.jsonl").unlink()


def of_other_mazes(folder):
    mazes = json.loads((folder / "evaluation.json").read_text())["per_maze"]
    change(folder, per_maze={**mazes, "shortest_length": [1, 2, 3, 4]})


def with_a_wrong_entry(folder):
    entries = history([0.1, 0.2])
    del entries[1]["rollouts"]
    (folder / "coverage.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), FileNotFoundError, "bad is not the folder of a run"),
        (unfinished, FileNotFoundError, "not finished, it has no evaluation.json; .*sera-maze train --resume .*bad"),
        (without_log, FileNotFoundError, "not finished, it has no coverage.jsonl; .*--resume"),
        (prolonged, FileNotFoundError, "not finished, coverage.jsonl ends with update 10 of 20; .*--resume"),
        (of_other_mazes, ValueError, "not of the held-out mazes"),
        (with_a_wrong_entry, ValueError, r"not those of the run \(no 'rollouts'\)"),
        (lambda folder: change(folder, num_samples=5), ValueError, "another number of rollouts"),
        (lambda folder: change(folder, per_maze={}), ValueError, r"\(no 'successes'\)"),
        (lambda folder: (folder / "evaluation.json").write_text("{"), ValueError, "not those of the run"),
        (lambda folder: (folder / "evaluation.json").write_text("[]"), ValueError, "it is not an object"),
    ],
)
def test_folders_that_are_no_finished_run_are_refused(tmp_path, spoil, error, message):
    good, bad = make_run(tmp_path / "good"), make_run(tmp_path / "bad", seed=1)
    spoil(bad)
    with pytest.raises(error, match=message):
        compare([good, bad])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": (11, 11)}, r"mazes of different sizes \(size=\(9, 9\) and \(11, 11\)\)"),
        ({"algorithm": "dfs"}, "different held-out mazes .*algorithm='prim' and 'dfs'"),
        ({"held_out_mazes": 5, "successes": [1] * 5}, "different held-out mazes .*held_out_mazes=4 and 5"),
        ({"num_samples": 8}, "different numbers of rollouts for each held-out maze"),
        ({"ks": (3,), "entries": [{**x, "coverage/pass@3": 0.5} for x in history([0, 1])]}, "no k of pass@k in common"),
        (
            {"seed": 1, "channels": 8},
            "different held-out mazes, which follow the seed .*runs of the same seeds",
        ),
        ({}, "are the same run by their config.json, seed and all: leave one out"),
    ],
)
def test_runs_that_do_not_fit_together_are_refused(tmp_path, options, message):
    one, other = make_run(tmp_path / "a"), make_run(tmp_path / "b", **options)
    with pytest.raises(ValueError, match=message):
        compare([one, other])


def test_groups_with_a_seed_that_the_other_lacks_are_refused_where_mazes_follow_it(tmp_path):
    folders = [make_run(tmp_path / f"a{seed}", seed=seed) for seed in (0, 1)]
    other = make_run(tmp_path / "b", channels=8)
    for order in ([*folders, other], [other, *folders]):
        with pytest.raises(ValueError, match=r"a1 \(seed 1\) and .*b have different held-out mazes"):
            compare(order)


def test_a_folder_that_comes_twice_and_none_at_all_are_refused(tmp_path, capsys):
    folder = make_run(tmp_path / "a")
    with pytest.raises(ValueError, match="is named twice"):
        compare([folder, tmp_path / "x" / ".." / "a"])
    with pytest.raises(ValueError, match="nothing to compare"):
        compare([])


def test_the_command(tmp_path, monkeypatch, capsys):
    folders = [make_run(tmp_path / "a"), make_run(tmp_path / "b", [3, 2, 0, 0], allocator="uniform")]
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *map(str, folders)]) == 0
    shown = capsys.readouterr().out
    assert "43.75 [1.91, 85.59]" in shown
    names = [f"comparison/comparison.{suffix}" for suffix in ("png", "md", "json")]
    assert [line for line in shown.splitlines() if line.startswith("wrote")] == [f"wrote {name}" for name in names]
    comparison = compare(folders)
    assert (tmp_path / names[1]).read_text() == comparison.markdown() + "\n"
    assert json.loads((tmp_path / names[2]).read_text()) == comparison.to_json()
    with Image.open(tmp_path / names[0]) as picture:
        inches, dots = compare_figure.FIGURE_SIZE, compare_figure.DOTS_PER_INCH
        assert picture.size == (inches[0] * dots, inches[1] * dots)
        colours = {colour for _, colour in picture.convert("RGB").getcolors(2**24)}
    assert {(0x56, 0xB4, 0xE9), (0xD5, 0x5E, 0x00), (255, 255, 255)} <= colours  # both lines on white


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to compare; name the folders"),
        (["missing"], "missing is not the folder of a run"),
        (["missing", "--out", "file/deeper"], "file is a file; name a folder"),
    ],
)
def test_the_command_complains(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert main(["compare", *arguments]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_figure_says_what_is_on_it(tmp_path):
    entries = history([0.5, 1.0], interval=[0.4, 1.0])
    figure = compare_figure.draw_comparison(compare([make_run(tmp_path / "a", entries=entries)]))
    final, first, last = figure.get_axes()
    assert final.get_xscale() == "log"
    assert [tick.get_text() for tick in final.get_xticklabels()] == ["1", "2", "4"]
    assert [axes.get_ylabel() for axes in (first, last)] == ["\u2212log pass@1", "\u2212log pass@4"]
    line = next(line for line in last.lines if line.get_marker() == "^")
    assert line.get_xdata().tolist() == [0, 640]
    # Half of one of 16 rollouts failed, as far as a logarithmic axis can tell.
    assert line.get_ydata() == pytest.approx([math.log(2), 1 / 32])
    texts = [text.get_text() for axes in figure.get_axes() for text in axes.texts]
    assert "pass@k = 1 to within half a rollout" in texts
    assert texts.count("bands: 95 % intervals over mazes") == 2
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a (1 seed)"]


def test_the_figure_of_many_groups(tmp_path):
    folders = [make_run(tmp_path / str(i), channels=8 + i) for i in range(9)]
    figure = compare_figure.draw_comparison(compare([*folders, make_run(tmp_path / "x", channels=8, seed=0, n_max=64)]))
    lines = [line for line in figure.get_axes()[0].lines if not line.get_label().startswith("_")]
    looks = [(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines]
    assert len(set(looks)) == len(looks) == 10
    texts = [text.get_text() for axes in figure.get_axes() for text in axes.texts]
    assert "" in texts  # without intervals there are no bands on the right, and nothing is said of them


@pytest.mark.parametrize(("value", "expected"), [(0.0, -math.log(0.01)), (1.0, 0.01), (0.999, 0.01), (math.exp(-1), 1)])
def test_neg_log(value, expected):
    assert compare_figure.neg_log(np.array([value]), 0.01) == pytest.approx([expected])
