"""Several replicas in each worker on CPU: they are real, and asking too late or twice is told."""

from __future__ import annotations

from typing import Any

import pytest

import tfdist_kit
from tests.adapters.cluster import run_workers
from tfdist_kit.adapters.local_replicas import enable_local_replicas

HERE = "tests.adapters.test_local_replicas"


def in_worker_sum(api: str) -> tuple[int, list[float], tuple[str, ...]]:
    import tensorflow as tf

    enable_local_replicas(2)
    enable_local_replicas(2)
    strategy = tfdist_kit.multi_worker_mirrored(api=api)  # type: ignore[arg-type]

    def add() -> Any:
        return tf.distribute.get_replica_context().all_reduce("SUM", tf.identity(1.0))

    totals = strategy.experimental_local_results(strategy.run(add))
    devices = tuple(device[-5:] for device in strategy.extended.worker_devices)
    return strategy.num_replicas_in_sync, [float(total) for total in totals], devices


@pytest.mark.parametrize("api", ["v2", "compat.v1"])
def test_two_workers_with_two_replicas_each_are_four(api: str) -> None:
    told = run_workers(f"{HERE}:in_worker_sum", api=api)
    assert told == [(4, [4.0, 4.0], ("CPU:0", "CPU:1"))] * 2


def test_a_single_worker_has_several_as_well() -> None:
    [(replicas, totals, _)] = run_workers(f"{HERE}:in_worker_sum", workers=0, api="v2")
    assert (replicas, totals) == (2, [2.0, 2.0])


def in_worker_refused(case: str) -> str:
    import tensorflow as tf

    if case == "another count":
        enable_local_replicas(2)
    elif case == "too late":
        tf.constant(1)
    elif case == "a GPU":
        tf.config.list_physical_devices = lambda kind: [kind]
    elif case == "no method":
        from tensorflow.python.distribute import collective_all_reduce_strategy as module

        del module.CollectiveAllReduceExtended._initialize_local_devices
    try:
        enable_local_replicas(3)
    except tfdist_kit.TfdistError as error:
        return f"{type(error).__name__}: {error}"
    return "enabled"


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("another count", "UsageError: TFD001: count is 3, but 2 local replicas were enabled"),
        ("too late", "TooLateError: TFD021: TensorFlow was initialised before enable_local"),
        ("a GPU", "UsageError: TFD001: this machine has GPUs"),
        ("no method", "CollectiveAllReduceExtended._initialize_local_devices"),
        ("nothing", "enabled"),
    ],
)
def test_what_cannot_be_is_refused(case: str, expected: str) -> None:
    [told] = run_workers(f"{HERE}:in_worker_refused", workers=1, case=case)
    assert expected in told
    if case == "too late":
        assert "tf.constant(1)" in told
    if case == "no method":
        assert told.startswith("UnsupportedVersionError: TFD041: TensorFlow 2.")


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_a_count_that_is_none_is_refused(count: Any) -> None:
    with pytest.raises(tfdist_kit.UsageError, match="count is"):
        enable_local_replicas(count)
