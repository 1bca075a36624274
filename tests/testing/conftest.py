"""One preloaded process for all clusters of the session, as for the adapters."""

from tests.adapters.conftest import _preloaded

__all__ = ["_preloaded"]
