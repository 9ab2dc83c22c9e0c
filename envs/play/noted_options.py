"""`NotedOptions`: reset options that remember which of them an environment read."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any


class NotedOptions(dict[str, Any]):
    """A dict that notes the keys that were asked for; whoever goes through all of it has read all keys.

    Attributes:
        unread: the keys that were not asked for so far.
    """

    def __init__(self, options: dict[str, Any]):
        super().__init__(options)
        self.unread = set(options)

    def __getitem__(self, key: str) -> Any:
        self.unread.discard(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.unread.discard(key)
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """See `dict.get`."""
        self.unread.discard(key)
        return super().get(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        """See `dict.pop`."""
        self.unread.discard(key)
        return super().pop(key, *default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """See `dict.setdefault`."""
        self.unread.discard(key)
        return super().setdefault(key, default)

    def __iter__(self) -> Iterator[str]:
        self.unread.clear()
        return super().__iter__()

    def __eq__(self, other: object) -> bool:
        self.unread.clear()
        return super().__eq__(other)

    __hash__ = None

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """See `dict.keys`."""
        self.unread.clear()
        return super().keys()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """See `dict.values`."""
        self.unread.clear()
        return super().values()

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        """See `dict.items`."""
        self.unread.clear()
        return super().items()

    def copy(self) -> dict[str, Any]:
        """A plain dict; see `dict.copy`."""
        self.unread.clear()
        return dict(super().items())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)
