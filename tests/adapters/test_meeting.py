"""Where workers tell each other something: what one of them learns, all do."""

from __future__ import annotations

import os
import time

from tests.adapters.cluster import cluster
from tfdist_kit.adapters import _keys, _meeting


def leave_after_the_verdict() -> None:
    """The chief goes as soon as it may; its peer is slow to read the verdict."""
    import tfdist_kit

    group = _meeting.group_of(tfdist_kit.multi_worker_mirrored(keras=False))
    read = _keys.Keys.get

    def reads_late(self: _keys.Keys, key: str, seconds: float) -> str | None:
        if key.endswith("/verdict"):
            time.sleep(0.5)
        return read(self, key, seconds)

    if not group.is_chief:
        _keys.Keys.get = reads_late  # type: ignore[method-assign]
    told = _meeting.Meeting(group, 20.0).tell(group.task)
    os._exit(7 if list(told) == ["worker:0", "worker:1"] else 8)


def test_the_chief_stays_until_all_know_the_verdict() -> None:
    with cluster(2) as workers:
        told = workers.run_each(leave_after_the_verdict, timeout=30)
    assert [getattr(rank.lost, "returncode", None) for rank in told.ranks] == [7, 7]
