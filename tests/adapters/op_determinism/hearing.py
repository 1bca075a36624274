"""Hears what the adapter tells, in a worker."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class Heard(logging.Handler):
    """What the adapter's warnings say."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@contextmanager
def hearing() -> Iterator[list[str]]:
    heard, log = Heard(), logging.getLogger("tfdist_kit")
    log.addHandler(heard)
    yield heard.texts
    log.removeHandler(heard)
