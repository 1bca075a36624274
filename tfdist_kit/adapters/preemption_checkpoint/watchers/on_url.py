"""A URL as the notice: it answers 200, if need be with a certain text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters.preemption_checkpoint.watchers.config import termination_config
from tfdist_kit.adapters.preemption_checkpoint.watchers.metadata import LIMIT, Client, checked_url
from tfdist_kit.adapters.preemption_checkpoint.watchers.polling import Watcher

NOT_YET = (204, 404)


def http(
    url: str,
    *,
    text: str | None = None,
    regex: str | None = None,
    headers: Mapping[str, str] | None = None,
    **termination: Any,
) -> Any:
    """A `TerminationConfig` whose notice is a URL's answer of status 200.

    204 and 404 mean that there is none yet; other answers are told as problems. The request goes
    straight to the server, without the environment's proxies, and no redirect is followed.

    Args:
        url: With `http://` or `https://`.
        text: What the answer must contain, in its first 64 KiB.
        regex: Or what must be found in it, as by `re.search`.
        headers: Sent along.
        termination: What else `Termination` takes: ``exit_fn=``, ``grace_period=``, ...

    Returns:
        A `Termination`.

    Raises:
        UsageError: An argument cannot be used.
    """
    watcher = http_watcher(url, text, regex, headers)
    return termination_config(watcher, termination)


def http_watcher(
    url: str,
    text: str | None = None,
    regex: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Callable[[], bool]:
    """The watcher of `http`."""
    checked_url(url, "url")
    sent = _checked(headers or {})
    pattern = _pattern(text, regex)
    limit = LIMIT if pattern else 0  # without a pattern the status says it all

    def look(client: Client) -> bool:
        answer = client.get(url, sent, limit).expect(200, *NOT_YET)
        return answer.status == 200 and (pattern is None or bool(pattern.search(answer.text)))

    return Watcher(f"http {url.partition('?')[0]}", look)


def _pattern(text: str | None, regex: str | None) -> re.Pattern[str] | None:
    if text is not None and regex is not None:
        raise UsageError("both text and regex were given", hint="give one of them")
    for name, value in (("text", text), ("regex", regex)):
        if value is not None and not (isinstance(value, str) and value):
            raise UsageError(f"{name} is {value!r}", hint="give some text, or None")
    if text is not None:
        return re.compile(re.escape(text))
    try:
        return None if regex is None else re.compile(regex)
    except re.error as error:
        raise UsageError(
            f"regex is {regex!r}, which is none: {error}", hint="write it as for Python's re"
        ) from error


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    found = dict(headers)
    for name, value in found.items():
        both = isinstance(name, str) and isinstance(value, str)
        if not both or not re.fullmatch(r"[\w-]+", name, re.ASCII) or not _plain(value):
            raise UsageError(f"headers has {name!r}: {value!r}", hint="give names and plain texts")
    return found


def _plain(value: str) -> bool:
    return value.isascii() and value.isprintable()
