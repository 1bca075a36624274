"""One preloaded process for all clusters of the session, so that no test is charged with it."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _preloaded(preloaded: None) -> None:
    pass
