"""Strategy.reduce: over the replicas of all workers, and along an axis."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import both, make
from tfdist_kit.conformance.checks.multi_worker_mirrored._values import held, here
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing.worker import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)
two_replicas = pytest.mark.tfdist(local_replicas=2)
one_process = pytest.mark.tfdist(workers=1, local_replicas=2)

PARTS = ([0.0, 1.0, 2.0, 3.0], [4.0, 5.0])
"""The parts of a last batch of 6 that two replicas get."""


def halves(replica: int) -> Any:
    """The example's values: 0 to 3 in the first replica, 4 to 7 in the second."""
    return [4.0 * replica + i for i in range(4)]


@claim("mwms.reduce.signature")
def test_signature(subject: Subject) -> None:
    parameters = inspect.signature(subject.make_strategy_v1().reduce).parameters
    assert list(parameters) == ["reduce_op", "value", "axis"]
    required = [name for name, one in parameters.items() if one.default is inspect.Parameter.empty]
    assert required == ["reduce_op", "value"]
    assert parameters["axis"].default is None


@claim("mwms.reduce.signature-v2")
def test_axis_is_required_on_the_v2_class(subject: Subject) -> None:
    strategy = subject.make_strategy()
    assert inspect.signature(strategy.reduce).parameters["axis"].default is inspect.Parameter.empty
    with pytest.raises(TypeError, match="axis"):
        strategy.reduce("SUM", 1.0)


@both
@claim("mwms.reduce.sum-over-workers")
def test_sum(subject: Subject, api: str) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    total = strategy.reduce(tf.distribute.ReduceOp.SUM, held(strategy, lambda i: i + 1.5), None)
    assert total.numpy() == 4.0


@claim("mwms.reduce.mean-over-workers")
def test_mean(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    mean = strategy.reduce(tf.distribute.ReduceOp.MEAN, held(strategy, lambda i: i + 1.5), None)
    assert mean.numpy() == 2.0


@two_replicas
@both
@claim("mwms.reduce.over-local-replicas")
def test_local_replicas(subject: Subject, api: str) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    ids = held(strategy, lambda replica: replica)
    assert len(here(strategy, ids)) == 2
    assert strategy.reduce(tf.distribute.ReduceOp.SUM, ids, axis=None).numpy() == 6


@two_replicas  # on another CPU than the only one
@claim("mwms.reduce.on-the-workers-cpu")
def test_device(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    own = f"/job:worker/replica:0/task:{tf_worker.rank}/device:CPU:0"
    values = held(strategy, lambda replica: 1.0)
    assert strategy.reduce(tf.distribute.ReduceOp.SUM, values).device == own
    assert strategy.reduce(tf.distribute.ReduceOp.MEAN, values).device == own


@claim("mwms.reduce.on-the-tpu-host")
@pytest.mark.tfdist(workers=1)
def test_tpu_host() -> None:
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
    tf.tpu.experimental.initialize_tpu_system(resolver)
    strategy = tf.distribute.TPUStrategy(resolver)
    total = strategy.reduce("SUM", strategy.run(tf.function(lambda: tf.constant(1.0))), axis=None)
    assert "task:0/device:CPU:0" in total.device


def _as_in_the_example(strategy: Any) -> Any:
    import tensorflow as tf

    def step_fn() -> Any:
        i = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.identity(i)

    return strategy.run(step_fn)


@one_process
@claim("mwms.reduce.example-two-devices")
def test_example(subject: Subject) -> None:
    import tensorflow as tf

    subject.make_strategy()  # not used: it must not be too late for one in a later check
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    total = strategy.reduce("SUM", _as_in_the_example(strategy), axis=None)
    assert (total.numpy(), total.dtype, total.shape.rank) == (1, tf.int32, 0)


@one_process
@claim("mwms.reduce.example-devices")
def test_devices_of_the_example(subject: Subject) -> None:
    import tensorflow as tf

    subject.make_strategy()  # as above
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    result = _as_in_the_example(strategy)
    devices = [each.device for each in strategy.experimental_local_results(result)]
    assert [device.rpartition("/")[2] for device in devices] == ["device:CPU:0", "device:CPU:1"]
    total = strategy.reduce("SUM", result, axis=None)
    assert total.device.endswith("/device:CPU:0")


@claim("mwms.reduce.example-gpu-devices")
@pytest.mark.tfdist(workers=1, fresh=True)
def test_devices_of_the_example_on_gpus() -> None:
    import tensorflow as tf

    if len(tf.config.list_physical_devices("GPU")) < 2:
        pytest.skip("there is no second GPU")
    strategy = tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"])
    result = _as_in_the_example(strategy)
    devices = [each.device for each in strategy.experimental_local_results(result)]
    assert [device.rpartition("/")[2] for device in devices] == ["device:GPU:0", "device:GPU:1"]
    assert strategy.reduce("SUM", result, axis=None).device.endswith("/device:CPU:0")


@claim("mwms.reduce.op-by-name")
def test_op_by_name(subject: Subject) -> None:
    strategy = subject.make_strategy_v1()
    values = held(strategy, lambda replica: replica + 1.0)
    found = {op: strategy.reduce(op, values).numpy() for op in ("SUM", "sum", "MEAN", "mean")}
    assert found == {"SUM": 3.0, "sum": 3.0, "MEAN": 1.5, "mean": 1.5}


@claim("mwms.reduce.op-unknown")
def test_unknown_op(subject: Subject) -> None:
    strategy = subject.make_strategy_v1()
    for op in ("MAX", "NONSENSE"):
        with pytest.raises(ValueError, match=f"'{op}' is not a valid ReduceOp"):
            strategy.reduce(op, 1.0)


@claim("mwms.reduce.axis-none")
def test_axis_none(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    total = strategy.reduce(tf.distribute.ReduceOp.SUM, held(strategy, halves), axis=None)
    assert total.numpy().tolist() == [4.0, 6.0, 8.0, 10.0]


@both
@claim("mwms.reduce.axis-zero")
def test_axis_zero(subject: Subject, api: str) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    total = strategy.reduce(tf.distribute.ReduceOp.SUM, held(strategy, halves), axis=0)
    assert total.numpy().tolist() == 28.0


@claim("mwms.reduce.partial-batch-with-an-axis")
def test_partial_batch_with_an_axis(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    values = held(strategy, PARTS.__getitem__)
    total = strategy.reduce(tf.distribute.ReduceOp.SUM, values, axis=0)
    mean = strategy.reduce(tf.distribute.ReduceOp.MEAN, values, axis=0)
    assert (total.numpy().tolist(), mean.numpy().tolist()) == (15.0, 2.5)


@claim("mwms.reduce.mean-of-means")
def test_mean_of_means(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    means = held(strategy, lambda replica: tf.reduce_mean(PARTS[replica]))
    mean = strategy.reduce(tf.distribute.ReduceOp.MEAN, means).numpy()
    assert mean == 3.0, "(1.5 + 4.5) / 2 is what it gives"
    assert mean != 15 / 6


@claim("mwms.reduce.other-axes")
def test_other_axes(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    values = held(strategy, lambda replica: [[1.0, 2.0], [3.0, 4.0 + replica]])
    op = tf.distribute.ReduceOp.SUM
    assert strategy.reduce(op, values, axis=-1).numpy().tolist() == [6.0, 15.0]
    assert strategy.reduce(op, values, axis=-2).numpy().tolist() == [8.0, 13.0]
    assert strategy.reduce(op, values, axis=(0, 1)).numpy().tolist() == 21.0


@claim("mwms.reduce.axis-of-a-scalar")
def test_axis_of_a_scalar(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    values = held(strategy, lambda replica: replica + 1.0)
    for op in (tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN):
        with pytest.raises(ValueError, match=r"dimension|axis"):
            strategy.reduce(op, values, axis=0)
    assert strategy.reduce(tf.distribute.ReduceOp.SUM, values).numpy() == 3.0


@claim("mwms.reduce.in-a-function")
def test_in_a_function(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()

    def losses() -> Any:
        def loss() -> Any:
            context = tf.distribute.get_replica_context()
            return 1.0 + tf.cast(context.replica_id_in_sync_group, tf.float32)

        return strategy.run(loss)

    @tf.function
    def inside() -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses())

    outside = strategy.reduce(tf.distribute.ReduceOp.MEAN, losses())
    assert (inside().numpy(), outside.numpy()) == (1.5, 1.5)


@claim("mwms.reduce.not-in-a-step")
def test_not_in_a_step(subject: Subject) -> None:
    strategy = subject.make_strategy_v1()
    with pytest.raises(RuntimeError, match="cross-replica context"):
        strategy.run(lambda: strategy.reduce("SUM", 1.0))


@claim("mwms.reduce.plain-value")
def test_plain_value(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    for value in (2.0, tf.constant(2.0)):
        assert strategy.reduce(tf.distribute.ReduceOp.SUM, value).numpy() == 4.0


@claim("mwms.reduce.mean-of-a-mirrored-variable")
def test_mean_of_a_mirrored_variable(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    with strategy.scope():
        variable = tf.Variable(2.5)
    assert strategy.reduce(tf.distribute.ReduceOp.MEAN, variable).numpy() == 2.5


@claim("mwms.reduce.mean-of-integers")
def test_mean_of_integers(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    mean = strategy.reduce(tf.distribute.ReduceOp.MEAN, held(strategy, lambda replica: replica + 1))
    assert mean.dtype.is_floating
    assert mean.numpy() == 1.5


@claim("mwms.reduce.dtypes")
def test_dtypes(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64):
        values = tf.cast(held(strategy, lambda replica: replica + 1), dtype)
        total = strategy.reduce(tf.distribute.ReduceOp.SUM, values)
        assert (total.numpy(), total.dtype) == (3, dtype)


@claim("mwms.reduce.other-dtypes")
def test_other_dtypes(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    for dtype in (tf.int8, tf.uint8, tf.bool, tf.complex64):
        with pytest.raises(tf.errors.InvalidArgumentError, match=dtype.name):
            strategy.reduce(tf.distribute.ReduceOp.SUM, tf.cast(1, dtype))


@claim("mwms.reduce.partial-batch-needs-an-axis")
@pytest.mark.tfdist(fresh=True)  # no collective works afterwards
def test_partial_batch_without_an_axis(subject: Subject) -> None:
    import tensorflow as tf

    from tfdist_kit.testing import gather

    options = tf.distribute.experimental.CommunicationOptions(timeout_seconds=1.0)
    strategy = subject.make_strategy(communication_options=options)
    try:
        total = strategy.reduce("SUM", held(strategy, PARTS.__getitem__), axis=None)
    except tf.errors.OpError as error:  # the other worker may wait until the time is over
        told = f"{type(error).__name__}: {error.message}"
    else:
        told = f"it gave {total.numpy()}"
    every = gather(told)
    assert not [each for each in every if each.startswith("it gave")], every
    assert any("InvalidArgumentError: " in each and "hape mismatch" in each for each in every), (
        every
    )
