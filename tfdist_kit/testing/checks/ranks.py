"""The workers of a check, and how they tell each other what they have found.

    local work -> exchange (two all-reduces through the strategy) -> the same verdict on all ranks

Whatever may fail on one worker alone is done by `Ranks.together`: nobody goes on to the next
collective before all know that all have got there.
"""

from __future__ import annotations

import dataclasses
import functools
import pickle
import re
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tfdist_kit._errors import UsageError
from tfdist_kit.launcher.hangs.explain import name_ranks

T = TypeVar("T")
LONGEST_ERROR = 500
LINES_OF_ERROR = 4


@dataclasses.dataclass(frozen=True)
class Ranks:
    """The workers of a strategy, of which this process is one.

    Attributes:
        strategy: The strategy whose collectives are used.
        workers: How many workers there are.
        replicas: Local replicas of each worker.
    """

    strategy: Any
    workers: int
    replicas: int

    @classmethod
    def of(cls, strategy: Any) -> Ranks:
        """The workers of `strategy`; with None, of the strategy in whose scope this is called.

        Raises:
            UsageError: It is no strategy, or this is called where no check can run.
        """
        strategy = _usable(strategy)
        total = strategy.num_replicas_in_sync
        replicas = 1 if total == 1 else len(strategy.extended.worker_devices)
        return cls(strategy, total // replicas, replicas)

    @property
    def all_replicas(self) -> int:
        """How many replicas there are in all workers."""
        return self.workers * self.replicas

    def exchange(self, payload: Any) -> list[Any]:
        """What each of the workers has given here, in rank order; all must call it."""
        if self.workers == 1:
            return [payload]
        data = pickle.dumps(payload)
        sizes = self._table(np.array([len(data)], np.int32))[:, 0]
        width = -(-int(sizes.max()) // 4)
        table = self._table(np.frombuffer(data.ljust(width * 4, b"\0"), np.int32))
        return [pickle.loads(row.tobytes()[:size]) for row, size in zip(table, sizes, strict=True)]

    def _table(self, own: Any) -> Any:
        """A row from each worker, which all give rows of the same length."""
        return self._sum_of_tables(own).numpy()

    @functools.cached_property
    def _sum_of_tables(self) -> Any:
        """Add up tables of which each replica has filled one row, or none; so it is exact."""
        import tensorflow as tf

        def sum_of_tables(own: Any) -> Any:
            def add() -> Any:
                context = tf.distribute.get_replica_context()
                replica = tf.convert_to_tensor(context.replica_id_in_sync_group)
                is_first = tf.cast(replica % self.replicas == 0, tf.int32)
                place = tf.one_hot(replica // self.replicas, self.workers, dtype=tf.int32)
                return context.all_reduce("SUM", is_first * place[:, None] * own[None, :])

            return self.strategy.experimental_local_results(self.strategy.run(add))[0]

        return tf.function(sum_of_tables, input_signature=[tf.TensorSpec([None], tf.int32)])

    def together(self, what: str, function: Callable[[], T]) -> T:
        """Call `function`, which has no collective in it, and return what it returned.

        Args:
            what: What it does, as the subject of "... failed on rank 1".
            function: The work of this worker.

        Raises:
            UsageError: It raised that in all workers that failed. The same on all.
            AssertionError: It failed in some worker. The same on all.
        """
        error: Exception | None = None
        value: Any = None
        try:
            value = function()
        except Exception as problem:
            error = problem
        self.agree(what, error)
        return value  # type: ignore[no-any-return]

    def agree(self, what: str, error: Exception | None) -> None:
        """Raise on all ranks if one of them has an error; see `together`."""
        try:
            told = self.exchange(error and _Trouble.of(error))
        except Exception:
            if error is not None:
                raise error from None  # the first one: it is why the collectives broke
            raise
        troubles = {rank: trouble for rank, trouble in enumerate(told) if trouble}
        if troubles:
            raise _joint(what, troubles, self.workers) from error


@dataclasses.dataclass(frozen=True)
class _Trouble:
    """An exception, as it is told to the other workers."""

    text: str
    hint: str
    is_usage: bool

    @classmethod
    def of(cls, error: Exception) -> _Trouble:
        if isinstance(error, UsageError):
            return cls(str(error.args[0]), error.hint, True)
        kind, text = f"{type(error).__name__}: ", _first_lines(str(error))
        return cls(kind + text.removeprefix(kind), "", False)


def _first_lines(text: str) -> str:
    """An error's own words: without the names of TensorFlow's nodes, stacks and dumps."""
    text = re.sub(r"\{\{.*?\}\}\s*", "", text).partition("\nTraceback")[0].strip()
    lines = text.splitlines()
    if text.startswith("in user code:"):  # AutoGraph puts the error below the stack
        lines = lines[-1:]
    shown = "\n    ".join(line.strip() for line in lines[:LINES_OF_ERROR] if line.strip())
    return shown if len(shown) <= LONGEST_ERROR else f"{shown[:LONGEST_ERROR]} ..."


def _joint(what: str, troubles: dict[int, _Trouble], workers: int) -> Exception:
    """One exception for all ranks, of the first rank that failed."""
    rank, first = min(troubles.items())
    if all(trouble.is_usage for trouble in troubles.values()):
        everywhere = len(troubles) == workers and len(set(troubles.values())) == 1
        where = "" if everywhere else f"on rank {rank}: "
        return UsageError(f"{where}{first.text}", hint=first.hint)
    rank, *others = sorted(rank for rank, trouble in troubles.items() if not trouble.is_usage)
    first = troubles[rank]
    also = f"\n  it failed on {name_ranks(others)} as well" if others else ""
    return AssertionError(f"{what} failed on rank {rank}: {first.text}{also}")


def _usable(strategy: Any) -> Any:
    import tensorflow as tf

    if not tf.executing_eagerly():
        raise UsageError(
            "the check was called in a graph or in a tf.function", hint="call it outside, eagerly"
        )
    if tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context():
        raise UsageError(
            "the check was called by a replica, in strategy.run", hint="call it outside of that"
        )
    if strategy is None:
        return _present_strategy()
    if not hasattr(strategy, "experimental_local_results"):
        raise UsageError(
            f"strategy is {strategy!r}", hint="give a tf.distribute strategy, or leave it out"
        )
    return strategy


def _present_strategy() -> Any:
    import tensorflow as tf

    from tfdist_kit.adapters.multi_worker_mirrored import multi_worker_mirrored

    if tf.distribute.has_strategy():
        return tf.distribute.get_strategy()
    return multi_worker_mirrored()
