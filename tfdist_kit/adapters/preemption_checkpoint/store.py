"""Keys that are written once, for a cluster or for a process that trains alone.

A cluster has those of `tfdist_kit.adapters._keys`; `LocalStore` is the same for one process, so
that nothing else has to tell them apart.
"""

from __future__ import annotations

import threading
from typing import Protocol


class Store(Protocol):
    """Keys that are written once."""

    def put(self, key: str, value: str) -> bool:
        """Write a key; False if it is there already."""

    def get(self, key: str, seconds: float) -> str | None:
        """Wait for a key; None if it does not come in time."""


class LocalStore:
    """Those of one process alone."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._changed = threading.Condition()

    def put(self, key: str, value: str) -> bool:
        """See `Store`."""
        with self._changed:
            if key in self._values:
                return False
            self._values[key] = value
            self._changed.notify_all()
            return True

    def get(self, key: str, seconds: float) -> str | None:
        """See `Store`."""
        with self._changed:
            self._changed.wait_for(lambda: key in self._values, seconds)
            return self._values.get(key)
