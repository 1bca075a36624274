"""The clusters of a pytest session: used again where that is safe.

    Wish -> a warm cluster of that shape and environment, or a new one -> a test -> kept, or ended

One is kept only when every worker has passed and left its process as it was. All are forked from
one process, which imports TensorFlow while the session goes on.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfdist_kit.launcher import LocalCluster
from tfdist_kit.testing.marker import Wish

MOST_KEPT = 3
DRAIN = 1.0
"""How long the others have when a test has failed in one worker, in seconds."""
_NOT_THE_TESTS = ("PYTEST_", "COV_CORE_")


@dataclass
class Lease:
    """A cluster, while a test has it.

    Attributes:
        cluster: The cluster.
        tests: How many tests have used it before.
        keep: Whether the next test may use it; set by whoever has it.
    """

    cluster: LocalCluster
    tests: int = 0
    keep: bool = False


@dataclass(frozen=True)
class _Key:
    shape: tuple[int, bool, int, bool, int]
    environ: tuple[tuple[str, str], ...]


class WarmClusters:
    """Those of one pytest process.

    Args:
        preload: What the workers have imported when they start.
        always_fresh: Whether no cluster is used twice.
    """

    def __init__(self, preload: Sequence[str], *, always_fresh: bool) -> None:
        self._preload = tuple(preload)
        self._always_fresh = always_fresh
        self._idle: dict[_Key, Lease] = {}  # the one used last comes last

    @contextlib.contextmanager
    def lend(self, wish: Wish, debug_rank: int | None = None) -> Iterator[Lease]:
        """A cluster for one test, which is alone with it.

        Args:
            wish: What the test wants.
            debug_rank: Which rank gets the terminal, if one does.
        """
        key = _key(wish)
        fresh = self._always_fresh or wish.fresh or debug_rank is not None
        lease = None if fresh else self._take(key)
        if lease is None:
            lease = Lease(self._start(wish, debug_rank))
        try:
            yield lease
        finally:
            if lease.keep and not fresh:
                self._keep(key, lease)
            else:
                lease.cluster.close()

    def new(self, wish: Wish, **more: Any) -> LocalCluster:
        """A cluster that was not started yet, for a test that drives it itself.

        Args:
            wish: What the test wants.
            more: Further arguments of `LocalCluster`.
        """
        return LocalCluster(**_shape(wish), timeout=wish.timeout, preload=self._preload, **more)

    def _start(self, wish: Wish, debug_rank: int | None) -> LocalCluster:
        return LocalCluster(
            **_shape(wish),
            preload=self._preload,
            debug_rank=debug_rank,
            drain=DRAIN if debug_rank is None else None,
        ).__enter__()

    def _take(self, key: _Key) -> Lease | None:
        lease = self._idle.pop(key, None)
        if lease is not None and not lease.cluster.is_usable:  # a worker has died meanwhile
            lease.cluster.close()
            return None
        return lease

    def _keep(self, key: _Key, lease: Lease) -> None:
        lease.tests += 1
        lease.keep = False
        self._idle[key] = lease
        while len(self._idle) > MOST_KEPT:
            self._idle.pop(next(iter(self._idle))).cluster.close()

    def close(self) -> None:
        """End all clusters that wait for a test."""
        while self._idle:
            self._idle.popitem()[1].cluster.close()


def _shape(wish: Wish) -> Mapping[str, Any]:
    return {
        "workers": wish.workers,
        "chief": wish.chief,
        "evaluator": bool(wish.evaluator),
        "isolate": wish.isolate,
    }


def _key(wish: Wish) -> _Key:
    environ = sorted(item for item in os.environ.items() if not item[0].startswith(_NOT_THE_TESTS))
    shape = (wish.workers, wish.chief, wish.evaluator, wish.isolate, wish.local_replicas)
    return _Key(shape, tuple(environ))
