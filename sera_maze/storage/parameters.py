"""The parameters and optimizers of an SB3 algorithm as named tensors and JSON values, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.save_util import recursive_getattr
from torch import Tensor

from sera_maze.storage.plain_values import decode, encode


def class_name(item: type) -> str:
    """Module and name of a class."""
    return f"{item.__module__}.{item.__qualname__}"


def parameter_state(model: BaseAlgorithm) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What ``model.get_parameters()`` gives, taken apart.

    Returns:
        All tensors, not copied, named "policy/net.weight" or "policy.optimizer/0/exp_avg"; and of each optimizer what
        JSON can hold.

    Raises:
        TypeError: if a state has a value that is neither a tensor nor one for JSON.
    """
    tensors: dict[str, Tensor] = {}
    optimizers: dict[str, Any] = {}
    for owner, state in model.get_parameters().items():
        if state.keys() != {"state", "param_groups"}:
            tensors |= named_tensors(owner, state)
            continue
        values: dict[str, dict[str, Any]] = {}
        for index, entries in state["state"].items():
            held = {name: value for name, value in entries.items() if isinstance(value, Tensor)}
            tensors |= named_tensors(f"{owner}/{index}", held)
            rest = {name: value for name, value in entries.items() if name not in held}
            values[str(index)] = encode(f"{owner}.state[{index}]", rest)
        optimizers[owner] = {
            "class": class_name(type(recursive_getattr(model, owner))),
            "param_groups": encode(f"{owner}.param_groups", state["param_groups"]),
            "values": values,
        }
    return tensors, optimizers


def named_tensors(owner: str, state: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of a state dict, with the owner before their names.

    Raises:
        TypeError: if one is no tensor.
    """
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"the state of {owner} has {name!r} of type {type(value).__name__}; allowed are tensors")
    return {f"{owner}/{name}": value for name, value in state.items()}


def tensors_of(owner: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict that `named_tensors` named."""
    return {name[len(owner) + 1 :]: tensor for name, tensor in tensors.items() if name.startswith(f"{owner}/")}


def load_parameter_state(model: BaseAlgorithm, tensors: Mapping[str, Tensor], optimizers: Mapping[str, Any]) -> None:
    """Put back what `parameter_state` gave.

    Raises:
        ValueError: if it does not fit the model: another architecture, or another class of optimizer.
    """
    parameters: dict[str, Any] = {}
    try:
        for owner in model._get_torch_save_params()[0]:
            own = tensors_of(owner, tensors)
            parameters[owner] = _optimizer_state(model, owner, own, optimizers[owner]) if owner in optimizers else own
        model.set_parameters(parameters, exact_match=True, device=model.device)
    except (RuntimeError, ValueError, KeyError) as error:
        detail = re.sub(r"\s+", " ", str(error))
        raise ValueError(
            f"the saved parameters do not fit the policy ({detail}); load with the policy and policy_kwargs that they "
            "were saved with"
        ) from error


def _optimizer_state(
    model: BaseAlgorithm, owner: str, tensors: Mapping[str, Tensor], record: Mapping[str, Any]
) -> dict[str, Any]:
    present = class_name(type(recursive_getattr(model, owner)))
    if record["class"] != present:
        raise ValueError(f"the state of a {record['class']} was saved, but {owner} is a {present}")
    state = {int(index): decode(values) for index, values in record["values"].items()}
    for name, tensor in tensors.items():
        index, _, entry = name.partition("/")
        state[int(index)][entry] = tensor
    return {"state": state, "param_groups": decode(record["param_groups"])}
