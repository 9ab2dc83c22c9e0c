"""Values and spaces as JSON can hold them, and back; reading runs nothing that the JSON names.

JSON's own values stay as they are. A few others are written as an object with one key that begins with "$": tuples,
infinite numbers, Stable-Baselines3's schedules, and classes of a closed list (activations, optimizers, extractors).
"""

from __future__ import annotations

import math
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor, NatureCNN
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule

from sera_maze.policies.small_grid import SmallGridCNN

_SCHEDULES: dict[str, tuple[type, tuple[str, ...]]] = {
    "FloatSchedule": (FloatSchedule, ("value_schedule",)),
    "ConstantSchedule": (ConstantSchedule, ("val",)),
    "LinearSchedule": (LinearSchedule, ("start", "end", "end_fraction")),
}
_ACTIVATIONS = {f"torch.nn.{name}": getattr(torch.nn, name) for name in torch.nn.modules.activation.__all__}
_OPTIMIZERS = {
    f"torch.optim.{name}": item
    for name, item in vars(torch.optim).items()
    if isinstance(item, type) and issubclass(item, torch.optim.Optimizer)
}
_EXTRACTORS = {item.__name__: item for item in (CombinedExtractor, FlattenExtractor, NatureCNN, SmallGridCNN)}
_CLASSES: dict[str, type] = {**_ACTIVATIONS, **_OPTIMIZERS, **_EXTRACTORS, "RMSpropTFLike": RMSpropTFLike}
_CLASS_NAMES = {item: name for name, item in _CLASSES.items()}
_ALLOWED = (
    "allowed are None, bool, int, float, str, lists, tuples and dicts of them, Stable-Baselines3's FloatSchedule, "
    "ConstantSchedule and LinearSchedule, and classes of torch.nn (activations) and torch.optim"
)


def encode(name: str, value: Any) -> Any:
    """The value as JSON can hold it.

    Args:
        name: how an error calls the value.
        value: None, bool, int, float, str, a path (becomes str), a NumPy number, lists, tuples and dicts of them, SB3's
            schedule classes, or a class of the closed list.

    Raises:
        TypeError: for anything else, naming the place inside the value.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": str(float(value))}
    if isinstance(value, np.generic):
        return encode(name, value.item())
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, list | tuple | dict):
        return _encode_collection(name, value)
    if isinstance(value, type) and value in _CLASS_NAMES:
        return {"$class": _CLASS_NAMES[value]}
    for kind, (schedule, fields) in _SCHEDULES.items():
        if type(value) is schedule:
            return {"$schedule": kind, **{field: encode(f"{name}.{field}", getattr(value, field)) for field in fields}}
    raise TypeError(f"{name}={value!r} cannot be written as JSON; {_ALLOWED}")


def _encode_collection(name: str, value: list[Any] | tuple[Any, ...] | dict[Any, Any]) -> Any:
    if isinstance(value, list):
        return [encode(f"{name}[{i}]", item) for i, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"$tuple": _encode_collection(name, list(value))}
    for key in value:
        if not isinstance(key, str) or key.startswith("$"):
            raise TypeError(f"{name} has the key {key!r}, which JSON cannot hold; allowed are str that begin without $")
    return {key: encode(f"{name}[{key!r}]", item) for key, item in value.items()}


def decode(data: Any) -> Any:
    """The value that `encode` wrote.

    Raises:
        ValueError: for what `encode` does not write.
    """
    if isinstance(data, list):
        return [decode(item) for item in data]
    if not isinstance(data, dict):
        return data
    if "$tuple" in data:
        return tuple(decode(data["$tuple"]))
    if "$float" in data and data["$float"] in ("inf", "-inf", "nan"):
        return float(data["$float"])
    if "$class" in data and data["$class"] in _CLASSES:
        return _CLASSES[data["$class"]]
    if "$schedule" in data and data["$schedule"] in _SCHEDULES:
        schedule, fields = _SCHEDULES[data["$schedule"]]
        return schedule(*(decode(data[field]) for field in fields))
    if any(key.startswith("$") for key in data):
        raise ValueError(f"{data!r} is of no known kind")
    return {key: decode(item) for key, item in data.items()}


def encode_space(name: str, space: spaces.Space[Any]) -> dict[str, Any]:
    """A Gymnasium space: Box, Discrete, MultiDiscrete, MultiBinary, or a Dict of them.

    Raises:
        TypeError: for another space.
    """
    if isinstance(space, spaces.Box):
        bounds = {"low": _encode_array(space.low), "high": _encode_array(space.high)}
        return {"space": "Box", **bounds, "shape": list(space.shape), "dtype": str(space.dtype)}
    if isinstance(space, spaces.Discrete):
        return {"space": "Discrete", "n": int(space.n), "start": int(space.start), "dtype": str(space.dtype)}
    if isinstance(space, spaces.MultiDiscrete):
        sizes = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
        return {"space": "MultiDiscrete", **sizes, "dtype": str(space.dtype)}
    if isinstance(space, spaces.MultiBinary):
        return {"space": "MultiBinary", "n": space.n if isinstance(space.n, int) else [int(n) for n in space.n]}
    if isinstance(space, spaces.Dict):
        return {"space": "Dict", "spaces": [[key, encode_space(f"{name}[{key!r}]", s)] for key, s in space.items()]}
    raise TypeError(
        f"{name}={space} cannot be written as JSON; allowed are Box, Discrete, MultiDiscrete, MultiBinary and Dict"
    )


def decode_space(data: Any) -> spaces.Space[Any]:
    """The space that `encode_space` wrote.

    Raises:
        ValueError, KeyError, TypeError: for what `encode_space` does not write.
    """
    kind = data["space"]
    if kind == "Box":
        dtype, shape = np.dtype(data["dtype"]), tuple(data["shape"])
        low, high = (np.broadcast_to(np.array(decode(data[bound]), dtype), shape) for bound in ("low", "high"))
        return spaces.Box(low.copy(), high.copy(), dtype=dtype.type)
    if kind == "Discrete":
        return spaces.Discrete(data["n"], start=data["start"], dtype=np.dtype(data["dtype"]).type)
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(data["nvec"], dtype=np.dtype(data["dtype"]).type, start=data["start"])
    if kind == "MultiBinary":
        return spaces.MultiBinary(data["n"])
    if kind == "Dict":
        return spaces.Dict([(key, decode_space(item)) for key, item in data["spaces"]])
    raise ValueError(f"{kind!r} is no known space")


def _encode_array(array: np.ndarray) -> Any:
    """Nested lists; one number where all are equal, as in the bounds of images."""
    values = array.ravel().tolist()
    return encode("bound", values[0] if values and values.count(values[0]) == len(values) else array.tolist())
