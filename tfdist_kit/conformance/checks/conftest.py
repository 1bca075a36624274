"""Loads the suite's plugin, however pytest came here."""

from __future__ import annotations

import pytest

_PLUGIN = "tfdist_kit.conformance.plugin"


def pytest_configure(config: pytest.Config) -> None:
    """Load it, if ``-p`` has not."""
    if not config.pluginmanager.has_plugin(_PLUGIN):
        config.pluginmanager.import_plugin(_PLUGIN)
