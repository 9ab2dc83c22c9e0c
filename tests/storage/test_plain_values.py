"""Values and spaces as JSON and back."""

import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule

from sera_maze.policies.small_grid import SmallGridCNN
from sera_maze.storage.plain_values import decode, decode_space, encode, encode_space


def through_json(data):
    return json.loads(json.dumps(data, allow_nan=False))


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 2**62, 0.1, 1e-300, -float("inf"), "text", [1, [2.5, None]], (0.9, 0.999), ((1,), [(2,)]),
        {"net_arch": {"pi": [64], "vf": []}, "betas": (0.9, 0.95)}, torch.nn.Tanh, torch.optim.RMSprop, SmallGridCNN,
    ],
)  # fmt: skip
def test_values_come_back_as_they_were(value):
    back = decode(through_json(encode("x", value)))
    assert back == value
    assert type(back) is type(value)


def test_numpy_numbers_and_paths_become_pythons():
    data = encode("x", [np.float64(0.5), np.float32(0.5), np.int64(3), np.bool_(True), Path("a") / "b"])
    assert data == [0.5, 0.5, 3, True, str(Path("a") / "b")]
    assert [type(item) for item in data] == [float, float, int, bool, str]


def test_schedules_come_back():
    schedules = [LinearSchedule(1e-3, 1e-4, 0.8), ConstantSchedule(0.5), FloatSchedule(LinearSchedule(2.0, 1.0, 1.0))]
    for schedule in schedules:
        back = decode(through_json(encode("learning_rate", schedule)))
        assert type(back) is type(schedule)
        assert repr(back) == repr(schedule)
        assert [back(p) for p in (1.0, 0.7, 0.1)] == [schedule(p) for p in (1.0, 0.7, 0.1)]


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (lambda progress: progress, "learning_rate=<function"),
        (FloatSchedule(lambda progress: progress), "learning_rate.value_schedule=<function"),
        ({"a": [0, {1, 2}]}, "learning_rate['a'][1]={1, 2}"),
        ({1: 2}, "learning_rate has the key 1"),
        ({"$class": "os.system"}, r"learning_rate has the key '$class'"),
        (np.zeros(2), "learning_rate=array"),
        (torch.nn.Linear, "learning_rate=<class"),
    ],
)
def test_others_are_refused_by_their_place(value, place):
    with pytest.raises(TypeError) as caught:
        encode("learning_rate", value)
    assert place in str(caught.value)
    assert "allowed are" in str(caught.value)


@pytest.mark.parametrize("data", [{"$class": "os.system"}, {"$schedule": "Popen"}, {"$float": "1"}, {"$what": 1}])
def test_nothing_outside_the_closed_list_is_read(data):
    with pytest.raises(ValueError, match="is of no known kind"):
        decode([data])


@pytest.mark.parametrize(
    "space",
    [
        gym.make("CartPole-v1").observation_space,
        spaces.Box(0, 255, (3, 9, 9), np.uint8),
        spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, np.inf]), dtype=np.float64),
        spaces.Box(-1, 1, ()),
        spaces.Discrete(4),
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([3, 4]),
        spaces.MultiBinary(3),
        spaces.MultiBinary([2, 3]),
        spaces.Dict([("z", spaces.Discrete(2)), ("a", spaces.Box(0, 1, (2,)))]),
    ],
)
def test_spaces_come_back(space):
    back = decode_space(through_json(encode_space("observation_space", space)))
    assert back == space
    assert repr(back) == repr(space)
    assert back.dtype == space.dtype


def test_other_spaces_are_refused():
    with pytest.raises(TypeError, match=r"action_space\['a'\]=Text.*allowed are Box"):
        encode_space("action_space", spaces.Dict({"a": spaces.Text(3)}))
    with pytest.raises(ValueError, match="'Graph' is no known space"):
        decode_space({"space": "Graph"})
