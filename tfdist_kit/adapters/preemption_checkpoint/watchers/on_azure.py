"""Notices of Azure: scheduled events that name this machine.

    the machine's name (given, or asked for once) -> the list of events -> one of a chosen type?

The watcher only reads. It approves no event, which would end the machine's time early.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters.preemption_checkpoint.watchers.config import chosen, termination_config
from tfdist_kit.adapters.preemption_checkpoint.watchers.metadata import (
    Client,
    Unexpected,
    checked_url,
)
from tfdist_kit.adapters.preemption_checkpoint.watchers.polling import Watcher

ENDPOINT = "http://169.254.169.254"
HEADER = {"Metadata": "true"}
NAME = "metadata/instance/compute/name?api-version=2021-02-01&format=text"
EVENTS = "metadata/scheduledevents?api-version=2020-07-01"
TYPES = ("Preempt", "Terminate", "Reboot", "Redeploy", "Freeze")


def azure(
    *,
    events: tuple[str, ...] = ("Preempt", "Terminate"),
    name: str | None = None,
    endpoint: str = ENDPOINT,
    **termination: Any,
) -> Any:
    """A `TerminationConfig` for virtual machines of Azure.

    Args:
        events: The types of events that count: `Preempt` (a Spot machine has 30 s left),
            `Terminate`, `Reboot`, `Redeploy`, `Freeze`.
        name: This machine's name in the events; None to ask the metadata server for it.
        endpoint: The metadata server's URL.
        termination: What else `Termination` takes: ``exit_fn=``, ``grace_period=``, ...

    Returns:
        A `Termination`.

    Raises:
        UsageError: An argument cannot be used.
    """
    watcher = azure_watcher(events, name, endpoint)
    return termination_config(watcher, termination)


def azure_watcher(events: tuple[str, ...], name: str | None, endpoint: str) -> Callable[[], bool]:
    """The watcher of `azure`."""
    wanted = chosen("events", events, TYPES)
    if name is not None and not (isinstance(name, str) and name.strip()):
        raise UsageError(f"name is {name!r}", hint="give the machine's name, or None")
    base = checked_url(endpoint, "endpoint").rstrip("/")
    known = [name] if name is not None else []

    def look(client: Client) -> bool:
        if not known:
            known.append(_own_name(client, f"{base}/{NAME}"))
        answer = client.get(f"{base}/{EVENTS}", HEADER).expect(200)
        listed = answer.json().get("Events")
        if not isinstance(listed, list):
            raise Unexpected(f"no list of events from {answer.url}")
        return any(_concerns(event, known[0], wanted) for event in listed)

    return Watcher("azure", look)


def _own_name(client: Client, url: str) -> str:
    found = client.get(url, HEADER).expect(200).text
    if not found:
        raise Unexpected(f"no name from {url}")
    return found


def _concerns(event: Any, name: str, types: tuple[str, ...]) -> bool:
    if not isinstance(event, dict) or event.get("EventType") not in types:
        return False
    resources = event.get("Resources")
    listed = resources if isinstance(resources, list) else []
    return name.casefold() in [str(resource).casefold() for resource in listed]
