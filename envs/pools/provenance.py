"""Where the mazes of a pool come from: a dict that JSON can hold, with what they were taken ``of`` inside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Provenance = dict[str, Any]


def checked_provenance(provenance: object) -> Provenance:
    """A copy of ``provenance`` as it comes back from a file.

    Raises:
        TypeError: if it is not a dict, or holds something that JSON cannot.
        ValueError: for NaN or infinite numbers, and for what is nested without end.
    """
    allowed = "allowed is a dict of str, int, float, bool, None, lists and dicts"
    if not isinstance(provenance, dict):
        raise TypeError(f"provenance is a {type(provenance).__name__}; {allowed}")
    try:
        copy: Provenance = json.loads(json.dumps(provenance, allow_nan=False))
    except TypeError as error:
        raise TypeError(f"provenance cannot be written as JSON ({error}); {allowed}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"provenance cannot be written as JSON ({error}); {allowed}") from None
    return copy


def taken(how: Provenance, of: Provenance) -> Provenance:
    """The provenance of some mazes of a pool: how they were taken, and where the mazes first came from."""
    sources = _sources(of)
    return {**how, "of": sources[0] if len(sources) == 1 else {"made_by": "concatenate", "parts": sources}}


def put_together(parts: Sequence[Provenance]) -> Provenance:
    """The provenance of several pools in one: where their mazes first came from, each source once."""
    return {"made_by": "concatenate", "parts": _distinct([source for part in parts for source in _sources(part)])}


def _sources(provenance: Provenance) -> list[Provenance]:
    """Where mazes first came from, without the selections on the way, each source once."""
    found, left = [], [provenance]
    while left:
        one = left.pop()
        parts, of = one.get("parts"), one.get("of")
        if isinstance(parts, list) and parts and all(isinstance(part, dict) for part in parts):
            left += reversed(parts)
        elif isinstance(of, dict):
            left.append(of)
        else:
            found.append(one)
    return _distinct(found)


def _distinct(sources: list[Provenance]) -> list[Provenance]:
    return list({json.dumps(source, sort_keys=True): source for source in sources}.values())
