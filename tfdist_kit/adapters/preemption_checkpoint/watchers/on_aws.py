"""Notices of Amazon EC2 Spot: the interruption, and the recommendation to move that precedes it.

    token (PUT, renewed in time, or when it is refused) -> one GET for each notice: 404 is none

The metadata server is `169.254.169.254`, or what AWS_EC2_METADATA_SERVICE_ENDPOINT says.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from tfdist_kit.adapters.preemption_checkpoint.watchers.config import termination_config
from tfdist_kit.adapters.preemption_checkpoint.watchers.metadata import (
    Answer,
    Client,
    Unexpected,
    checked_url,
)
from tfdist_kit.adapters.preemption_checkpoint.watchers.polling import Watcher

ENVIRONMENT = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
INTERRUPTION = ("spot/instance-action", "action")
REBALANCE = ("events/recommendations/rebalance", "noticeTime")
TTL_HEADER = "X-aws-ec2-metadata-token-ttl-seconds"
TTL = 6 * 3600


def aws_spot(
    *,
    rebalance: bool = False,
    **termination: Any,
) -> Any:
    """A `TerminationConfig` for EC2 Spot instances.

    Args:
        rebalance: Whether a recommendation to rebalance counts, too. It may come long before the
            interruption, and also when none follows.
        termination: What else `Termination` takes: ``exit_fn=``, ``grace_period=``, ...

    Returns:
        A `Termination`.

    Raises:
        UsageError: An argument or AWS_EC2_METADATA_SERVICE_ENDPOINT cannot be used.
    """
    return termination_config(aws_spot_watcher(rebalance), termination)


def aws_spot_watcher(rebalance: bool) -> Callable[[], bool]:
    """The watcher of `aws_spot`."""
    endpoint = os.environ.get(ENVIRONMENT) or "http://169.254.169.254"
    server = _Server(checked_url(endpoint, ENVIRONMENT).rstrip("/"))
    wanted = (INTERRUPTION, REBALANCE) if rebalance else (INTERRUPTION,)

    def look(client: Client) -> bool:
        return any(_has(server.get(client, path), key) for path, key in wanted)

    return Watcher("aws_spot", look)


def _has(answer: Answer, key: str) -> bool:
    if answer.expect(200, 404).status == 404:
        return False
    if key not in answer.json():
        raise Unexpected(f"no {key} from {answer.url}")
    return True


class _Server:
    """A metadata server that wants a token (IMDSv2).

    Args:
        endpoint: Its URL, without a path.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._token = ""
        self._renew_at = 0.0

    def get(self, client: Client, path: str) -> Answer:
        """Ask for `path` of the meta-data, with a token that holds."""
        fresh = not self._token or time.monotonic() >= self._renew_at
        if fresh:
            self._renew(client)
        answer = self._ask(client, path)
        if answer.status == 401 and not fresh:
            self._renew(client)
            answer = self._ask(client, path)
        return answer

    def _ask(self, client: Client, path: str) -> Answer:
        url = f"{self._endpoint}/latest/meta-data/{path}"
        return client.get(url, {"X-aws-ec2-metadata-token": self._token})

    def _renew(self, client: Client) -> None:
        self._token = ""
        asked = time.monotonic()
        answer = client.put(f"{self._endpoint}/latest/api/token", {TTL_HEADER: str(TTL)})
        token, told = answer.expect(200).text, answer.headers.get(TTL_HEADER.lower(), "")
        if not token.isascii() or not token.isprintable() or not token:
            raise Unexpected(f"no token from {answer.url}")
        lifetime = int(told) if told.isdecimal() else TTL
        self._token, self._renew_at = token, asked + 0.9 * lifetime
