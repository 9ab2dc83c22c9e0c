"""What TensorBoard gets: every tag read back from the event files, also after a stop."""

import io
import os
import re
import signal
from collections import Counter

import numpy as np
import pytest
import torch
from PIL import Image
from stable_baselines3 import PPO
from stable_baselines3.common.logger import DISABLED, configure
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import plugin_data_pb2

from sera_maze.algorithm.maxrl import SERA, MaxRL
from sera_maze.coverage import dashboard as board
from sera_maze.coverage import dashboard_pictures as board_pictures
from sera_maze.coverage.callback import CoverageCallback, read_history
from sera_maze.coverage.dashboard import hyperparameters, layout
from sera_maze.coverage.dashboard_pictures import CURVE, DOT
from sera_maze.envs import MazePool
from sera_maze.sampling.vec_env import MazeVecEnv
from sera_maze.storage.run_log import is_on_board, resumed_logger

HELD_OUT = MazePool.generate(6, 5, seed=7, endpoints="random")
POOL = MazePool.generate(12, 5, seed=8, endpoints="random")
OPTIONS = {"num_samples": 16, "ks": (1, 4), "eval_freq_updates": 2}
PICTURES = {"allocation/counts_by_probability", "coverage/paths"}
HISTOGRAMS = {"allocation/counts", "allocation/success_probability", "coverage/success_probability"}
SCALARS = {
    "coverage/pass@1", "coverage/pass@4", "coverage/exact_pass@1", "coverage/exact_pass@4", "coverage/solved_fraction",
    "coverage/distinct_solutions", "coverage/mean_steps", "rollout/ep_rew_mean", "rollout/ep_len_mean",
    "rollout/success_rate", "groups/mixed_fraction", "groups/all_fail_fraction", "groups/all_success_fraction",
    "allocation/count_min", "allocation/count_max", "allocation/count_std", "allocation/active_fraction",
    "allocation/waterline", "allocation/tau", "allocation/attenuation_min", "allocation/attenuation_mean",
    "allocation/uniform_attenuation_min", "allocation/uniform_attenuation_mean", "train/loss", "train/grad_norm",
    "train/entropy", "train/learning_rate", "time/fps", "time/total_rollouts",
}  # fmt: skip


def make_env(num_envs=4, pool=POOL):
    return MazeVecEnv(num_envs, pool, on_wall="stay", max_steps=12)


def make_model(kind=SERA, **options):
    options = {"prompts_per_batch": 4, "rollouts_per_prompt": 4, "seed": 0, **options}
    return kind("MazePolicy", make_env(), device="cpu", policy_kwargs={"channels": 4, "iterations": 10}, **options)


def events(folder):
    """What a board shows: what was logged before a stop and beyond the point gone on from is not among it."""
    sizes = {"scalars": 0, "images": 0, "histograms": 0, "tensors": 0}
    return EventAccumulator(str(folder), size_guidance=sizes).Reload()


def steps(folder):
    """The steps of every tag."""
    board = events(folder)
    tags = board.Tags()
    read = {"scalars": board.Scalars, "histograms": board.Histograms, "images": board.Images, "tensors": board.Tensors}
    return {tag: [event.step for event in get(tag)] for kind, get in read.items() for tag in tags[kind]}


def written(folder):
    """How often each tag is in the files."""
    paths = folder.glob("events.out.tfevents.*")
    return Counter(
        value.tag for path in paths for event in EventFileLoader(str(path)).Load() for value in event.summary.value
    )


def picture(board, tag, place=-1):
    return np.asarray(Image.open(io.BytesIO(board.Images(tag)[place].encoded_image_string)).convert("RGB"))


def train(model, folder, updates, callback=None, goes_on=False):
    """Train with logs in a folder, as a run does; return the callback."""
    callback = CoverageCallback(HELD_OUT, **OPTIONS) if callback is None else callback
    model.set_logger(resumed_logger(folder, model.num_timesteps, ["tensorboard", "csv"]))
    model.learn(2**62, callback, reset_num_timesteps=not goes_on, total_updates=updates)
    model.logger.close()
    return callback


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A training with everything known, five updates long."""
    folder = tmp_path_factory.mktemp("run")
    model = make_model(success="exact")
    return folder, train(model, folder, 5), model


def test_every_tag_is_there_with_every_step_once(run):
    folder, callback, model = run
    found, tags = steps(folder), events(folder).Tags()
    assert set(tags["scalars"]) == SCALARS
    assert set(tags["histograms"]) == HISTOGRAMS
    assert set(tags["images"]) == PICTURES
    evaluated = [entry["timesteps"] for entry in callback.history]
    assert [entry["update"] for entry in callback.history] == [0, 2, 4, 5]
    for tag, places in found.items():
        if tag.startswith("coverage/"):
            assert places == evaluated
        elif tag in HISTOGRAMS | PICTURES:  # before the first batch there is none to show
            assert places == evaluated[1:]
        elif tag in SCALARS:
            assert len(places) == 5
            assert places == sorted(set(places))
            assert places[-1] == model.num_timesteps
    assert max(map(len, SCALARS | HISTOGRAMS | PICTURES)) <= 36  # longer ones are cut in tables


def test_histograms_are_of_the_last_batch_and_of_the_held_out_mazes(run):
    folder, callback, _ = run
    board = events(folder)
    allocation, probability = callback.locals["allocation"], callback.locals["probability"]
    for tag, values in {
        "allocation/counts": allocation.counts.double(),
        "allocation/success_probability": probability,
        "coverage/success_probability": torch.from_numpy(callback.evaluation.probability),
    }.items():
        last = board.Histograms(tag)[-1].histogram_value
        assert last.num == len(values)
        assert (last.min, last.max) == pytest.approx((values.min().item(), values.max().item()))
        assert last.sum == pytest.approx(values.sum().item())
    assert board.Histograms("allocation/counts")[0].histogram_value.sum == 16  # the budget of a batch


def test_the_layout_is_written_once_and_names_what_is_logged(run):
    folder, _, _ = run
    (event,) = events(folder).Tensors("custom_scalars__config__")
    page = layout_pb2.Layout.FromString(event.tensor_proto.string_val[0])
    charts = {chart.title: list(chart.multiline.tag) for group in page.category for chart in group.chart}
    assert [group.title for group in page.category] == ["coverage", "coverage, exact", "allocation"]
    assert charts == {title: tags for group in layout((1, 4), True).values() for title, (_, tags) in group.items()}
    shown = {title: {tag for tag in SCALARS if any(re.match(x, tag) for x in tags)} for title, tags in charts.items()}
    for name in ("pass@1", "pass@4", "exact pass@1", "exact pass@4"):  # a curve a run, so that runs can be compared
        assert shown[name] == {f"coverage/{name.replace(' ', '_')}"}
    assert shown["rollouts of a prompt"] == {f"allocation/count_{name}" for name in ("min", "max", "std")}
    assert len(shown["attenuation, uniform and allocated"]) == 4
    for tags in charts.values():
        assert all(any(re.match(expression, tag) for tag in SCALARS) for expression in tags)


def test_hyperparameters_are_written_once_with_their_metrics(run):
    folder, _, model = run
    board = events(folder)
    contents = board._plugin_to_tag_to_content["hparams"]
    assert len(contents) == 3
    assert all(written(folder)[tag] == 1 for tag in contents)
    experiment = plugin_data_pb2.HParamsPluginData.FromString(contents["_hparams_/experiment"]).experiment
    metrics = {info.name.tag for info in experiment.metric_infos}
    assert metrics == {f"coverage/{name}" for name in ("pass@1", "pass@4", "solved_fraction", "distinct_solutions")}
    assert metrics <= SCALARS
    start = plugin_data_pb2.HParamsPluginData.FromString(contents["_hparams_/session_start_info"]).session_start_info
    values = {name: value.number_value or value.string_value for name, value in start.hparams.items()}
    assert values["n_max"] == 4 * model.rollouts_per_prompt == 16
    wanted = {"algorithm": "SERA", "success": "exact", "learning_rate": 1e-3, "policy/channels": 4, "num_prompts": 12}
    assert wanted.items() <= values.items()
    assert values["multiplicity_correction"] == "True"


def test_a_run_is_named_by_its_allocator(tmp_path):
    """A MaxRL with SERA's allocation, as the command line makes it, is SERA; a SERA with another one is not."""
    for model, name in (
        (make_model(MaxRL, allocator="sera", tensorboard_log=str(tmp_path)), "SERA"),
        (make_model(MaxRL), "MaxRL"),
        (make_model(SERA, allocator="vip"), "MaxRL-vip"),
    ):
        assert hyperparameters(model)["algorithm"] == model.method == name
        model.learn(1)
    assert [path.name for path in tmp_path.iterdir()] == ["SERA_1"]


def test_without_exact_figures_there_are_no_charts_of_them():
    assert [*layout((1, 256), False)] == ["coverage", "allocation"]
    assert [*layout((1, 256), False)["coverage"]] == ["pass@1", "pass@256", "solved fraction"]


def test_stopped_beyond_its_checkpoint_and_gone_on_with_it_shows_everything_once(tmp_path, run):
    """Logged to update 4, saved after 3: what came between is shown once, as is the rest, and all as without a stop."""
    whole_folder, _, _ = run
    folder, log_path = tmp_path / "log", tmp_path / "coverage.jsonl"
    model = make_model(success="exact")
    train(model, folder, 3, CoverageCallback(HELD_OUT, log_path=log_path, **OPTIONS))
    model.save(tmp_path / "agent")
    train(model, folder, 4, CoverageCallback(HELD_OUT, log_path=log_path, **OPTIONS), goes_on=True)
    loaded = SERA.load(tmp_path / "agent", device="cpu")
    train(loaded, folder, 5, CoverageCallback(HELD_OUT, log_path=log_path, **OPTIONS), goes_on=True)
    whole, parts = steps(whole_folder), steps(folder)
    assert parts.keys() == whole.keys()
    for tag, places in parts.items():
        assert places == sorted(set(places)), tag
        assert set(places) >= set(whole[tag])  # and the evaluation at the end of the first part
    files = [path.name for path in folder.iterdir()]
    assert len([name for name in files if name.startswith("events")]) == 3
    assert len(files) == 4  # with progress.csv; no folder
    counts = written(folder)
    assert counts["custom_scalars__config__"] == counts["_hparams_/experiment"] == 1
    assert counts["train/loss"] == 6  # one of which the board hides


def test_an_evaluation_is_not_logged_again_where_no_file_tells_of_it(tmp_path):
    """A model goes on in its own folder at an update that was evaluated and logged; no log_path, another callback."""
    model = make_model(tensorboard_log=str(tmp_path / "runs"))
    model.learn(10**9, CoverageCallback(HELD_OUT, **OPTIONS), total_updates=2)
    model.save(tmp_path / "agent")
    loaded = SERA.load(tmp_path / "agent", device="cpu")
    callback = CoverageCallback(HELD_OUT, **OPTIONS)
    loaded.learn(10**9, callback, total_updates=4, reset_num_timesteps=False)
    assert [entry["update"] for entry in callback.history] == [2, 4]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["SERA_1"]
    found = steps(tmp_path / "runs" / "SERA_1")
    assert len(found["coverage/pass@1"]) == 3
    assert all(len(places) == len(set(places)) for places in found.values())
    counts = written(tmp_path / "runs" / "SERA_1")
    assert counts["custom_scalars__config__"] == counts["_hparams_/experiment"] == 1
    assert counts["coverage/paths"] == 3


def test_ctrl_c_while_an_evaluation_is_logged_leaves_it_logged_everywhere(tmp_path, monkeypatch):
    real, log_path = board_pictures.paths_picture, tmp_path / "coverage.jsonl"

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return real(*arguments)

    monkeypatch.setattr(board_pictures, "paths_picture", interrupted)
    model = make_model()
    with pytest.raises(KeyboardInterrupt):
        train(model, tmp_path, 2, CoverageCallback(HELD_OUT, log_path=log_path, **OPTIONS))
    model.logger.close()
    found = steps(tmp_path)
    assert found["coverage/pass@1"] == found["coverage/paths"] == [0]
    assert len(read_history(log_path)) == 1


def test_as_long_as_no_probability_is_known_there_is_no_picture_of_it(tmp_path):
    model = make_model()  # the history knows nothing in the first epoch, which has three batches
    train(model, tmp_path, 3)
    found = steps(tmp_path)
    assert len(found["allocation/counts"]) == 2
    assert not {"allocation/counts_by_probability", "allocation/success_probability"} & found.keys()
    assert "allocation/uniform_attenuation_min" not in found
    train(model, tmp_path, 4, goes_on=True)
    found = steps(tmp_path)
    assert found["allocation/counts_by_probability"] == found["allocation/success_probability"]
    assert found["allocation/uniform_attenuation_min"] == [model.num_timesteps]


def test_uniform_allocation_has_dots_and_no_waterline(tmp_path):
    train(make_model(MaxRL, success="exact"), tmp_path, 2)
    board = events(tmp_path)
    assert set(board.Tags()["images"]) == PICTURES
    image = picture(board, "allocation/counts_by_probability")
    assert (image == DOT).all(-1).any()
    assert not (image == CURVE).all(-1).any()
    assert "allocation/waterline" not in board.Tags()["scalars"]


def test_other_algorithms_and_policies(tmp_path):
    env = make_env(3, HELD_OUT)
    model = PPO("MlpPolicy", make_env(), n_steps=8, batch_size=16, seed=0, device="cpu", tensorboard_log=str(tmp_path))
    model.learn(64, CoverageCallback(HELD_OUT, env=env, **OPTIONS))
    found, tags = steps(tmp_path / "PPO_1"), events(tmp_path / "PPO_1").Tags()
    assert tags["images"] == ["coverage/paths"]
    assert tags["histograms"] == ["coverage/success_rate"]
    assert len(found["coverage/paths"]) == 2
    assert {"algorithm": "PPO", "clip_range": 0.2, "n_steps": 8, "policy": "ActorCriticPolicy"}.items() <= (
        hyperparameters(model).items()
    )
    model.learn(64, CoverageCallback(HELD_OUT, env=env, **OPTIONS), reset_num_timesteps=False)
    assert [path.name for path in tmp_path.iterdir()] == ["PPO_1"]
    counts = written(tmp_path / "PPO_1")
    assert counts["custom_scalars__config__"] == counts["_hparams_/experiment"] == 1
    found = steps(tmp_path / "PPO_1")
    assert all(len(places) == len(set(places)) for places in found.values())
    assert len(found["coverage/paths"]) == 3


def test_environments_that_move_otherwise_have_no_paths_to_draw(tmp_path, monkeypatch):
    monkeypatch.setattr("sera_maze.sampling.steps.replayed_squares", lambda *arguments: None)
    model = PPO("MlpPolicy", make_env(), n_steps=8, batch_size=16, seed=0, device="cpu", tensorboard_log=str(tmp_path))
    model.learn(32, CoverageCallback(HELD_OUT, env=make_env(3, HELD_OUT), **OPTIONS))
    assert events(tmp_path / "PPO_1").Tags()["images"] == []


@pytest.fixture
def refusing(monkeypatch):
    """A model, and everything that TensorBoard alone needs refused."""

    def refuse(*arguments):
        raise RuntimeError("it was made")

    for module, name in (
        (board, "hyperparameters"), (board_pictures, "paths_picture"), (board_pictures, "allocation_picture"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, refuse)
    return make_model(success="exact")


@pytest.mark.parametrize("formats", [[], ["csv", "json", "log"], ["tensorboard"]])
def test_without_tensorboard_nothing_is_drawn(formats, tmp_path, refusing):
    refusing.set_logger(configure(str(tmp_path), formats))
    if formats == ["tensorboard"]:
        refusing.logger.set_level(DISABLED)
    callback = CoverageCallback(HELD_OUT, **OPTIONS)
    refusing.learn(2**62, callback, total_updates=2)
    refusing.logger.close()
    assert len(callback.history) == 2
    assert not is_on_board(tmp_path, "coverage/pass@1")


def test_with_tensorboard_it_is(tmp_path, refusing):
    refusing.set_logger(configure(str(tmp_path), ["tensorboard"]))
    with pytest.raises(RuntimeError, match="it was made"):
        refusing.learn(2**62, CoverageCallback(HELD_OUT, **OPTIONS), total_updates=2)
    refusing.logger.close()


def test_pictures_can_be_left_out(tmp_path, monkeypatch, refusing):
    monkeypatch.setattr(board, "hyperparameters", lambda model: {})
    train(refusing, tmp_path, 2, CoverageCallback(HELD_OUT, pictures=False, **OPTIONS))
    assert events(tmp_path).Tags()["images"] == []
    assert set(events(tmp_path).Tags()["histograms"]) == HISTOGRAMS


def test_the_training_does_not_notice(tmp_path, run):
    _, _, watched = run
    plain = make_model(success="exact")
    plain.set_logger(configure(None, []))
    plain.learn(2**62, total_updates=5)
    assert plain.num_timesteps == watched.num_timesteps
    for one, other in zip(plain.policy.parameters(), watched.policy.parameters(), strict=True):
        assert torch.equal(one, other)


def test_pictures_must_be_a_flag():
    with pytest.raises(TypeError, match="pictures='no' is a str"):
        CoverageCallback(HELD_OUT, pictures="no", **OPTIONS)


def test_pictures_show_the_paths_of_now_and_stay_small(run):
    folder, _, _ = run
    board = events(folder)
    first, last = (picture(board, "coverage/paths", place) for place in (0, -1))
    assert first.shape == last.shape  # the same mazes
    assert (first != last).any()
    assert max(len(event.encoded_image_string) for event in board.Images("coverage/paths")) < 100_000
    assert max(len(event.encoded_image_string) for event in board.Images("allocation/counts_by_probability")) < 30_000
