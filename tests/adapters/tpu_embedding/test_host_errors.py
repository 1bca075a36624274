"""What host mode does with calls in a wrong order and with wrong values: an error, at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.adapters.cluster import run_workers

HERE = "tests.adapters.tpu_embedding.test_host_errors"


# In one process


def attempted() -> dict[str, list[tuple[str, str]]]:
    """For each case the errors of its variants, as class and text; "" for none."""
    import tensorflow as tf

    from tests.adapters.tpu_embedding import wrong_calls

    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    cases: list[Callable[[], list[tuple[str, str]]]] = [
        order,
        too_many,
        structures,
        inputs,
        shapes,
        gradients,
        strategies,
        values,
        warned,
        left_over,
        wrong_calls.arguments,
        wrong_calls.ranks,
        wrong_calls.places,
        wrong_calls.compiled,
        wrong_calls.in_graphs,
        wrong_calls.empty,
    ]
    return {case.__name__: case() for case in cases}


def _error(function: Callable[[], Any]) -> tuple[str, str]:
    try:
        function()
    except Exception as error:
        return type(error).__name__, str(error)
    return "", ""


def _both(function: Callable[[], Any]) -> list[tuple[str, str]]:
    """Eagerly, and in a graph."""
    import tensorflow as tf

    def of_no_value() -> None:
        function()

    return [_error(function), _error(tf.function(of_no_value))]


def _made(strategy: Any = None, **feature: Any) -> Any:
    """An embedding of two features, "ids" and "more", of one table."""
    import tensorflow as tf

    import tfdist_kit

    kinds = tf.tpu.experimental.embedding
    table = kinds.TableConfig(10, 2, name="table")
    strategy = strategy or tf.distribute.get_strategy()
    features = {name: kinds.FeatureConfig(table, **feature) for name in ("ids", "more")}
    with strategy.scope():
        return tfdist_kit.tpu_embedding(features, kinds.SGD(0.1))


def _batch(ids: Any = (1, 2)) -> dict[str, Any]:
    import tensorflow as tf

    return {"ids": tf.constant(ids), "more": tf.constant([3, 4])}


def _ones() -> dict[str, Any]:
    import tensorflow as tf

    return {"ids": tf.ones([2, 2]), "more": tf.ones([2, 2])}


def order() -> list[tuple[str, str]]:
    """Wrong orders, which a TPU may answer by waiting."""
    unbuilt, built, trains, frozen, twice = (_made() for _ in range(5))
    for embedding in (built, frozen):
        embedding.enqueue(_batch(), training=False)
        embedding.dequeue()
    trains.enqueue(_batch())
    trains.dequeue()
    trains.enqueue(_batch())
    twice.enqueue(_batch())
    twice.dequeue()
    twice.apply_gradients(_ones())
    return [
        _error(unbuilt.dequeue),
        _error(lambda: unbuilt.apply_gradients(_ones())),
        *_both(built.dequeue),
        *_both(trains.dequeue),
        *_both(lambda: frozen.apply_gradients(_ones())),
        *_both(lambda: twice.apply_gradients(_ones())),
    ]


def too_many() -> list[tuple[str, str]]:
    """More batches than may wait, and a step that enqueues twice in a loop."""
    import tensorflow as tf

    embedding, looped = _made(), _made()
    for _ in range(64):
        embedding.enqueue(_batch())

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def loop() -> None:
        for _ in tf.range(70):
            looped.enqueue(_batch(), training=False)
            looped.enqueue(_batch(), training=False)
            looped.dequeue()

    return [_error(lambda: embedding.enqueue(_batch())), _error(loop)]


def structures() -> list[tuple[str, str]]:
    """Structures that are not the config's."""
    embedding = _made()
    batch = _batch()
    return [
        _error(lambda: embedding.enqueue({"ids": batch["ids"]})),
        _error(lambda: embedding.enqueue({**batch, "extra": batch["ids"]})),
        _error(lambda: embedding.enqueue([batch["ids"]] * 2)),
        _error(lambda: embedding.enqueue({**batch, "ids": [batch["ids"]]})),
        _error(lambda: embedding.enqueue(batch, {"ids": None})),
    ]


def inputs() -> list[tuple[str, str]]:
    """Features and weights of wrong kinds and types."""
    import tensorflow as tf

    batch, embedding = _batch(), _made(output_shape=[2])
    ragged = tf.RaggedTensor.from_row_lengths([1, 2, 3], [1, 2])
    sparse = tf.SparseTensor([[0, 0]], [1.0], [2, 1])

    def with_ids(ids: Any, weight: Any = None) -> Callable[[], Any]:
        given = {**batch, "ids": ids}
        return lambda: embedding.enqueue(given, {"ids": weight, "more": None})

    return [
        _error(with_ids(tf.constant([1.0, 2.0]))),
        _error(with_ids(tf.constant(["1", "2"]))),
        _error(with_ids(batch["ids"], tf.ones([2]))),
        _error(with_ids(ragged, sparse)),
        _error(with_ids(ragged, tf.ones([3]))),
        _error(with_ids(ragged, tf.RaggedTensor.from_row_lengths([1.0, 2.0], [1, 1]))),
        _error(lambda: embedding.enqueue(batch, device="/device:CPU:7")),
    ]


def shapes() -> list[tuple[str, str]]:
    """Output shapes that conflict, that stay unknown, and lists as shapes."""
    import tensorflow as tf

    batch = _batch()
    configured, built, listed, later = _made(output_shape=[3]), _made(), _made(), _made()
    built.build({"ids": [2, 1], "more": [3, 1]})
    listed.build({"ids": [2, 1], "more": tf.TensorShape([2, None])})
    listed.enqueue(batch)
    later.enqueue(batch, training=False)
    unknown, partial = _made(), _made(output_shape=[None])
    spec = {name: tf.TensorSpec([None], tf.int32) for name in batch}
    high = _made(output_shape=[2, 2])
    sparse = tf.SparseTensor([[0, 0]], [1], [2, 4])
    return [
        _error(lambda: configured.build({"ids": [2, 1], "more": [3, 1]})),
        _error(lambda: configured.enqueue(batch)),
        _error(lambda: built.enqueue(batch)),
        _error(lambda: later.enqueue(_batch((1, 2, 3)))),
        _error(
            lambda: tf.function(unknown.enqueue, input_signature=[spec]).get_concrete_function()
        ),
        _error(lambda: partial.enqueue(batch)),
        _error(lambda: _made().build([[None, 1]] * 2)),
        _error(lambda: _made().build(per_replica_output_shapes=[[2]] * 2)),
        _error(lambda: _made().build({"ids": [2, 1]})),
        _error(lambda: _made().build({"ids": "2", "more": [2]})),
        _error(lambda: high.enqueue({"ids": sparse, "more": sparse})),
    ]


def gradients() -> list[tuple[str, str]]:
    """Gradients that are none of the activations'."""
    import tensorflow as tf

    embedding = _made()
    embedding.enqueue(_batch())
    shown = embedding.dequeue()
    ones = _ones()
    return [
        _error(lambda: embedding.apply_gradients({**ones, "ids": 1.0})),
        _error(lambda: embedding.apply_gradients({**ones, "ids": tf.ones([2, 3])})),
        _error(lambda: embedding.apply_gradients(list(ones.values()))),
        _error(lambda: embedding.apply_gradients({"ids": ones["ids"]})),
        _error(lambda: embedding.apply_gradients(shown)),
    ]


def strategies() -> list[tuple[str, str]]:
    """Calls in another place than the embedding's strategy."""
    import tensorflow as tf

    import tfdist_kit

    mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    ours, default = _made(mirrored), _made()
    ours.build([[2, 1]] * 2)
    default.build([[2, 1]] * 2)
    kinds = tf.tpu.experimental.embedding
    feature = kinds.FeatureConfig(kinds.TableConfig(10, 2))

    def central() -> None:
        with tf.distribute.experimental.CentralStorageStrategy(["CPU:0"], "CPU:0").scope():
            tfdist_kit.tpu_embedding(feature, kinds.SGD(0.1))

    return [
        _error(ours.dequeue),
        _error(tf.function(lambda: mirrored.run(default.dequeue))),
        _error(central),
        _error(lambda: tfdist_kit.tpu_embedding(feature, kinds.SGD(0.1), mode="tpu")),
    ]


def values() -> list[tuple[str, str]]:
    """Values that do not fit, which only the running step can know."""
    import tensorflow as tf

    embedding = _made(output_shape=[2])
    ragged = tf.RaggedTensor.from_row_lengths([1, 2, 3], [1, 2])
    weights = tf.RaggedTensor.from_row_lengths([1.0, 2.0], [1, 1])
    sparse = tf.SparseTensor([[0, 0]], [1], [3, 4])
    beyond = tf.SparseTensor([[2, 0]], [1], [2, 4])
    unknown = tf.SparseTensorSpec([None, None], tf.int32)
    spec = {"ids": unknown, "more": unknown}
    enqueue = tf.function(embedding.enqueue, input_signature=[spec])
    floats = tf.RaggedTensorSpec([2, None], tf.float32)
    batch_spec = {name: tf.RaggedTensorSpec([2, None], tf.int32) for name in spec}
    weigh = tf.function(
        embedding.enqueue, input_signature=[batch_spec, dict.fromkeys(spec, floats)]
    )
    batch = {"ids": ragged, "more": ragged}
    return [
        *_both(lambda: embedding.enqueue(_batch((1, 10)))),
        *_both(lambda: embedding.enqueue(_batch((-1, 1)))),
        _error(lambda: weigh(batch, {"ids": weights, "more": weights})),
        _error(lambda: enqueue({"ids": sparse, "more": sparse})),
        _error(lambda: embedding.enqueue({"ids": beyond, "more": beyond})),
    ]


def warned() -> list[tuple[str, str]]:
    """What a forgotten tape.watch() and the pipeline tell, as texts of the log."""
    import tensorflow as tf

    import tfdist_kit
    from tests.adapters.op_determinism.hearing import hearing

    kinds = tf.tpu.experimental.embedding
    with hearing() as texts:
        embedding = _made()
        for _ in range(2):
            embedding.enqueue(_batch())
            with tf.GradientTape() as tape:
                shown = embedding.dequeue()
                loss = tf.reduce_sum(shown["ids"])
            embedding.apply_gradients(tape.gradient(loss, shown))
        feature = kinds.FeatureConfig(kinds.TableConfig(10, 2, name="table"))
        tfdist_kit.tpu_embedding(feature, kinds.SGD(0.1), pipeline_execution_with_tensor_core=True)
    return [("", text) for text in texts]


def left_over() -> list[tuple[str, str]]:
    """What is left over, before and after it is dropped; and frozen tables."""
    import tensorflow as tf

    import tfdist_kit

    embedding = _made()
    for _ in range(3):
        embedding.enqueue(_batch())
    embedding.dequeue()
    before = embedding.unfinished()
    embedding.discard_batches()
    embedding.enqueue(_batch(), training=False)
    embedding.dequeue()
    kinds = tf.tpu.experimental.embedding
    feature = kinds.FeatureConfig(kinds.TableConfig(10, 2, name="table"))
    frozen = tfdist_kit.tpu_embedding(feature, None)
    frozen.enqueue(tf.constant([1, 2]), training=False)
    shape = frozen.dequeue().shape
    return [
        ("", "; ".join(before)),
        ("", "; ".join(embedding.unfinished())),
        _error(lambda: frozen.enqueue(tf.constant([1, 2]))),
        *_both(lambda: frozen.apply_gradients(tf.ones([2, 2]))),
        ("", str(shape)),
    ]


# On what they return


@pytest.fixture(scope="module")
def results() -> dict[str, list[tuple[str, str]]]:
    [results] = run_workers(f"{HERE}:attempted", workers=0)
    return dict(results)


GRAPH, EAGER = "InvalidArgumentError", "EmbeddingError"
NO_BATCH = "dequeue() found no batch that was enqueued"
NEVER = "never got apply_gradients()"
IN_SERVING = "the weights of feature ids have not the indices or splits of its ids"
NOTHING = "apply_gradients() found no dequeued batch"


def _all_three(text: str) -> list[tuple[str, str]]:
    """Of an eager step, of one in a graph, and of a lookup."""
    return [(EAGER, text), (GRAPH, text), (EAGER, IN_SERVING)]


EXPECTED: dict[str, list[tuple[str, str]]] = {
    "order": [
        (EAGER, "dequeue() is called before the embedding is built"),
        (EAGER, "apply_gradients() is called before the embedding is built"),
        (EAGER, NO_BATCH),
        (GRAPH, NO_BATCH),
        (EAGER, NEVER),
        (GRAPH, NEVER),
        (EAGER, NOTHING),
        (GRAPH, NOTHING),
        (EAGER, NOTHING),
        (GRAPH, NOTHING),
    ],
    "too_many": [
        (EAGER, "64 batches were enqueued and not dequeued"),
        (GRAPH, "64 batches were enqueued and not dequeued"),
    ],
    "structures": [
        ("UsageError", "features lacks ['more']"),
        ("UsageError", "features has ['extra'] too many"),
        ("TypeError", "features is a list, where feature_config has a dict"),
        ("UsageError", "features['ids'] is a list, where feature_config has one FeatureConfig"),
        ("UsageError", "weights lacks ['more']"),
    ],
    "inputs": [
        ("UsageError", "the ids of feature ids are float32"),
        ("UsageError", "the ids of feature ids are string"),
        ("UsageError", "a weight is given for the dense feature ids"),
        ("UsageError", "the weight of feature ids is a SparseTensor, the feature a RaggedTensor"),
        ("UsageError", "the weight of feature ids is a EagerTensor, the feature a RaggedTensor"),
        ("UsageError", "feature ids: not a weight for each id: 3 ids, 2 weights"),
        ("UsageError", "device '/device:CPU:7' is none of the strategy's devices"),
    ],
    "shapes": [
        ("UsageError", "ids has the output shape (3,) from FeatureConfig.output_shape, but (2,)"),
        ("UsageError", "(3,) from FeatureConfig.output_shape, but (2,) from this enqueue()"),
        ("UsageError", "feature more has the output shape (3,) from build(), but (2,)"),
        ("UsageError", "(2,) from the first enqueue(), but (3,) from this enqueue()"),
        ("UsageError", "has the output shape (None,) from the first enqueue(), which is not fully"),
        ("UsageError", "(None,) from FeatureConfig.output_shape, which is not fully defined"),
        ("UsageError", "feature ids has the output shape (None,) from build(), which is not fully"),
        ("UsageError", "build() has no argument 'per_replica_output_shapes'"),
        ("UsageError", "per_replica_input_shapes is not built like feature_config"),
        ("UsageError", "the input shape of feature ids is '2'"),
        ("UsageError", "sparse feature ids of rank 2 cannot get the output shape [2, 2]"),
    ],
    "gradients": [
        ("UsageError", "the gradient of feature ids is a float"),
        ("UsageError", "the gradient of feature ids has the shape (2, 3), its activations have"),
        ("TypeError", "gradients is a list, where feature_config has a dict"),
        ("UsageError", "gradients lacks ['more']"),
        ("", ""),
    ],
    "strategies": [
        (EAGER, "dequeue() is called outside of strategy.run"),
        (EAGER, "dequeue() is called in a MirroredStrategy, but the embedding was made for no"),
        ("UnsupportedStrategyError", "host mode does not model CentralStorageStrategy"),
        ("UnsupportedStrategyError", "mode is 'tpu', but the call is not in the scope"),
    ],
    "values": [
        (EAGER, "ids are no rows of their tables, which are table (10 rows): [10]"),
        (GRAPH, "ids are no rows of their tables, which are table (10 rows)"),
        (EAGER, "ids are no rows of their tables, which are table (10 rows): [-1]"),
        (GRAPH, "ids are no rows of their tables, which are table (10 rows)"),
        (GRAPH, "feature ids: not a weight for each id"),
        (GRAPH, "sparse feature ids: not [2] rows of ids"),
        (EAGER, "sparse feature ids: indices beyond its dense_shape"),
    ],
    "warned": [
        ("", "call tape.watch(activations) right after dequeue()"),
        ("", "pipeline_execution_with_tensor_core has no effect without a TPU"),
    ],
    "left_over": [
        (
            "",
            "replica 0: 2 batches were never dequeued; "
            f"replica 0: a batch enqueued with training=True {NEVER}",
        ),
        ("", ""),
        (EAGER, "a batch is to train, but table 'table' has no optimizer"),
        (EAGER, "gradients are to be applied, but table 'table' has no optimizer"),
        (EAGER, "gradients are to be applied, but table 'table' has no optimizer"),
        ("", "(2, 2)"),
    ],
    "arguments": [
        ("UsageError", "training is None"),
        ("UsageError", "training is 'no'"),
        ("UsageError", "training is <tf.Tensor"),
        ("UsageError", "feature ids is None"),
        ("UsageError", "feature ids is a object"),
        ("UsageError", "the learning_rate of table 'table' is a function that returned None"),
        ("UsageError", "is a function that returned '0.1'"),
        ("UsageError", "is a function that returned [0.1, 0.2]"),
        *[("", "")] * 3,
    ],
    "ranks": [
        ("UsageError", "feature ids has ids of unknown rank"),
        ("UsageError", "feature ids has ids of unknown rank"),
        ("UsageError", "feature ids is dense, of shape (2, 2), whose last dimension must be 1"),
        ("UsageError", "feature ids is one number"),
        ("UsageError", "feature ids is ragged, of rank 3"),
        ("UsageError", "feature ids is sparse, of rank 1"),
        ("UsageError", "the ids of feature (the only one) are bool"),
        ("UsageError", "feature (the only one) is None"),
    ],
    "places": [
        *_all_three("weights of other row_splits"),
        *_all_three("weights of other indices"),
        *_all_three("weights of other row_splits"),
        *[("", "")] * 6,
        *[("UsageError", "the weight of feature ids is float32 of rank 3")] * 3,
        *[("UsageError", "the weight of feature ids is string of rank 2")] * 3,
    ],
    "compiled": [
        (EAGER, "enqueue() is called in a function that XLA compiles"),
        (EAGER, "dequeue() is called in a function that XLA compiles"),
        (EAGER, "apply_gradients() is called in a function that XLA compiles"),
        ("", ""),
    ],
    "in_graphs": [
        (EAGER, "unfinished() is called in a tf.function"),
        (EAGER, "discard_batches() is called in a tf.function"),
    ],
    "empty": [("", "[0.0, 0.0, 0.0, 0.0] [[2, 2], [2, 3, 2], [2, 2], [2, 2]] 20.0")] * 2,
}


@pytest.mark.parametrize("case", EXPECTED)
def test_what_is_wrong_is_told_at_once(
    results: dict[str, list[tuple[str, str]]], case: str
) -> None:
    assert len(results[case]) == len(EXPECTED[case]), results[case]
    for (kind, text), (expected_kind, expected) in zip(results[case], EXPECTED[case], strict=True):
        assert kind == expected_kind, text
        assert expected in text
        assert (text == "") == (expected == "")
        if kind in (EAGER, GRAPH, "UsageError"):
            assert "TFD" in text
            assert "hint: " in text
