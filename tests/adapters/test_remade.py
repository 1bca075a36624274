"""A second strategy in the same processes: the workers make it together."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.cluster import run_workers


def meetings_and_totals(*, stock: bool) -> tuple[list[str], list[float]]:
    import tensorflow as tf
    from tensorflow.python.eager import context

    import tfdist_kit

    held = []
    wait = context.Context.wait_at_barrier

    def wait_at_barrier(self: Any, name: str, timeout: int) -> None:
        held.append(name)
        wait(self, name, timeout)

    def total(strategy: Any, size: int) -> float:
        def one() -> Any:
            return tf.distribute.get_replica_context().all_reduce("sum", tf.ones([size]))

        return float(sum(strategy.run(tf.function(one)).numpy()))

    context.Context.wait_at_barrier = wait_at_barrier
    make = tf.distribute.MultiWorkerMirroredStrategy if stock else tfdist_kit.multi_worker_mirrored
    totals = [total(tfdist_kit.multi_worker_mirrored(), 1)]
    totals += [total(make(), size) for size in range(2, 12)]
    return held, totals


@pytest.mark.parametrize("stock", [False, True], ids=["kit", "stock"])
def test_the_workers_wait_for_each_other_before_and_after(stock: bool) -> None:
    """Ten times: without it, one in sixty loses what it sends, or finds its peer's last shape."""
    told = run_workers("tests.adapters.test_remade:meetings_and_totals", stock=stock, timeout=60)
    meetings = [f"tfdist/remade/{number}" for number in range(1, 21)]
    assert told == [(meetings, [2.0 * size for size in range(1, 12)])] * 2
