"""Files of a policy's parameters with the options that it was made with: safetensors, which hold no code."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from sera_maze.envs.ground.atomic_files import whole_file

_OPTIONS = "policy"


def write_weights(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], options: Mapping[str, Any]) -> None:
    """Write tensors, and options that JSON can hold."""
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    with whole_file(Path(path)) as file:
        file.write(save(copies, metadata={_OPTIONS: json.dumps(dict(options))}))


def read_weights(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and options of `write_weights`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for another file.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            options = json.loads((file.metadata() or {})[_OPTIONS])
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is no file of MazePolicy.save_weights ({error}); give one") from None
    return tensors, options
