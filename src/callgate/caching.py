"""The one bounded cache."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Remembers values by key. When they weigh more than `most` together, the least recently used go first.

    Without `weigh` each weighs 1. A value that alone weighs more than `most` is not kept. Any thread may use it.
    """

    def __init__(self, most: int, weigh: Callable[[V], int] | None = None) -> None:
        self._most = most
        self._weigh = weigh
        self._values: dict[K, V] = {}
        self._weight = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        with self._lock:
            if key not in self._values:
                return None
            value = self._values[key] = self._values.pop(key)
            return value

    def put(self, key: K, value: V) -> V:
        weight = self._weight_of(value)
        with self._lock:
            if key in self._values:
                self._weight -= self._weight_of(self._values.pop(key))
            if weight <= self._most:
                self._values[key] = value
                self._weight += weight
            while self._weight > self._most:
                self._weight -= self._weight_of(self._values.pop(next(iter(self._values))))
        return value

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """What is remembered, or what `make` returns; None is never remembered."""
        value = self.get(key)
        return self.put(key, make()) if value is None else value

    def _weight_of(self, value: V) -> int:
        return 1 if self._weigh is None else self._weigh(value)
