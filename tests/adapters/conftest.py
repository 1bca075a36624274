"""One preloaded process for all clusters of the session, so that no test is charged with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adapters.cluster import run_workers
from tfdist_kit.launcher import close_pool


@pytest.fixture(scope="session", autouse=True)
def _preloaded() -> Iterator[None]:
    run_workers("os:getpid", workers=1)
    yield
    close_pool()
