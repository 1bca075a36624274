"""An all-reduce of what a step was given, as it came, in a function."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.cluster import run_workers

HERE = "tests.adapters.test_raw_arguments"


def reduced(*, api: str) -> list[Any]:
    """What each step gives on this worker: of an argument, an element, a structure, a gradient."""
    import json
    import os

    import tensorflow as tf

    import tfdist_kit

    strategy = tfdist_kit.multi_worker_mirrored(api=api)  # type: ignore[arg-type]
    own = tf.constant([1.0, 2.0 + json.loads(os.environ["TF_CONFIG"])["task"]["index"]])

    def context() -> Any:
        return tf.distribute.get_replica_context()

    def total(value: Any) -> Any:
        return context().all_reduce("SUM", value)

    def structure(value: Any) -> Any:
        nested = {"in": [value], "of": 2.0 * value, "plain": 1.0}
        return context().all_reduce(reduce_op="MEAN", value=nested)

    def gathered(value: Any) -> Any:
        return context().all_gather(value, axis=0)

    def slices(value: Any) -> Any:
        sparse = tf.IndexedSlices(value, tf.constant([0, 1]), tf.constant([2]))
        return tf.convert_to_tensor(context().all_reduce("SUM", sparse))

    def gradient(value: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(value)
            loss = tf.reduce_sum(total(value) ** 2)
        return tape.gradient(loss, value)

    @tf.function  # type: ignore[untyped-decorator]
    def one_step(step: Any, value: Any) -> Any:
        return strategy.run(step, args=(value,))

    @tf.function  # type: ignore[untyped-decorator]
    def of_an_element(iterator: Any) -> Any:
        return strategy.run(total, args=(next(iterator),))

    dataset = tf.data.Dataset.from_tensor_slices([1.0, 2.0, 3.0, 4.0]).batch(2)
    found = [of_an_element(iter(strategy.experimental_distribute_dataset(dataset)))]
    found += [one_step(step, own) for step in (total, structure, gathered, slices, gradient)]
    return list(tf.nest.map_structure(lambda value: value.numpy().tolist(), found))


def stock_refuses() -> str:
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function  # type: ignore[untyped-decorator]
    def one_step(value: Any) -> Any:
        def total(value: Any) -> Any:
            return tf.distribute.get_replica_context().all_reduce("SUM", value)

        return strategy.run(total, args=(value,))

    with pytest.raises(ValueError) as error:
        one_step(tf.constant(1.0))
    return str(error.value)


def check_guard_and_repetition() -> str:
    from tensorflow.python.distribute import mirrored_run

    from tfdist_kit import UnsupportedVersionError
    from tfdist_kit.adapters.raw_arguments import reduce_raw_arguments

    context: Any = mirrored_run._MirroredReplicaContext
    reduce_raw_arguments()
    once = context.all_reduce, context.all_gather
    reduce_raw_arguments()
    assert (context.all_reduce, context.all_gather) == once
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(mirrored_run, "_MirroredReplicaContext")
        with pytest.raises(UnsupportedVersionError) as error:
            reduce_raw_arguments()
    return str(error.value)


@pytest.mark.parametrize("api", ["v2", "compat.v1"])
def test_what_a_step_was_given_is_reduced(api: str) -> None:
    nested = {"in": [[1.0, 2.5]], "of": [2.0, 5.0], "plain": 1.0}
    sums, gradients = [2.0, 5.0], [8.0, 20.0]
    wanted = [[3.0], sums, nested, [1.0, 2.0, 1.0, 3.0], sums, gradients]
    assert run_workers(f"{HERE}:reduced", api=api, timeout=90) == [wanted] * 2


def test_stock_tensorflow_refuses_it() -> None:
    """When this fails, TensorFlow can do without ``reduce_raw_arguments``."""
    for text in run_workers(f"{HERE}:stock_refuses", timeout=90):
        assert "destinations can not be empty" in text


def test_unknown_internals_are_named() -> None:
    [text] = run_workers(f"{HERE}:check_guard_and_repetition", workers=0)
    assert "has no tensorflow.python.distribute.mirrored_run._MirroredReplicaContext" in text
