"""Notices of Google Compute Engine: host maintenance, and preemption of a Spot machine.

The metadata server is `metadata.google.internal`, or what the variable GCE_METADATA_IP says, as
for TensorFlow. Its answers carry a header that nobody else sends.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters.preemption_checkpoint.watchers.config import chosen, termination_config
from tfdist_kit.adapters.preemption_checkpoint.watchers.metadata import (
    Answer,
    Client,
    Unexpected,
    checked_url,
)
from tfdist_kit.adapters.preemption_checkpoint.watchers.polling import Look, Watcher

ENVIRONMENT = "GCE_METADATA_IP"
HEADER = {"Metadata-Flavor": "Google"}
NOTICES = {
    "maintenance": ("instance/maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE"),
    "preempted": ("instance/preempted", "TRUE"),
}


def gce(
    *,
    notices: tuple[str, ...] = ("maintenance", "preempted"),
    **termination: Any,
) -> Any:
    """A `TerminationConfig` for machines of Google Compute Engine.

    Args:
        notices: What counts: `maintenance` (the machine will be stopped for its host's
            maintenance, up to an hour ahead), `preempted` (a Spot machine has 30 s left).
        termination: What else `Termination` takes: ``exit_fn=``, ``grace_period=``, ...

    Returns:
        A `Termination`.

    Raises:
        UsageError: An argument or GCE_METADATA_IP cannot be used.
    """
    return termination_config(gce_watcher(notices), termination)


def gce_watcher(notices: tuple[str, ...]) -> Callable[[], bool]:
    """The watcher of `gce`."""
    wanted = [NOTICES[name] for name in chosen("notices", notices, tuple(NOTICES))]
    base = _base()

    def look(client: Client) -> bool:
        return any(
            _from_google(client.get(f"{base}/{path}", HEADER)).expect(200).text == value
            for path, value in wanted
        )

    return Watcher("gce", look)


def is_gce() -> bool:
    """Whether this machine is one of Google Compute Engine; takes at most a second.

    Raises:
        UsageError: GCE_METADATA_IP cannot be used.
    """
    base = _base()

    def look(client: Client) -> bool:
        return _is_from_google(client.get(f"{base}/instance/hostname", HEADER))

    asked = Look(look)
    asked.wait()
    return asked.found


def _base() -> str:
    host = os.environ.get(ENVIRONMENT) or "metadata.google.internal"
    if set(host) & set("/?#"):
        raise UsageError(
            f"{ENVIRONMENT} is {host!r}", hint="give a host, or a host and a port as in host:8080"
        )
    return checked_url(f"http://{host}/computeMetadata/v1", f"the URL made of {ENVIRONMENT}")


def _is_from_google(answer: Answer) -> bool:
    return answer.headers.get("metadata-flavor") == "Google"


def _from_google(answer: Answer) -> Answer:
    if not _is_from_google(answer):
        raise Unexpected(f"{answer.url} is no metadata server of Google")
    return answer
