"""Embeddings that differ between two workers, and data that does; imported by workers only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import tfdist_kit
from tests.adapters.tpu_embedding import training
from tfdist_kit.adapters.tpu_embedding import alike
from tfdist_kit.testing import barrier

KINDS = tf.tpu.experimental.embedding


def _made(strategy: Any, names: str = "AB", optimizer: Any = None, **table: Any) -> Any:
    """An embedding with a feature for each of the tables."""
    options = {"vocabulary_size": 7, "dim": 3, **table}
    features = {
        f"of_{number}": KINDS.FeatureConfig(KINDS.TableConfig(name=name, **options))
        for number, name in enumerate(names)
    }
    with strategy.scope():
        return tfdist_kit.tpu_embedding(features, optimizer or KINDS.SGD(0.1))


def _feature(strategy: Any, name: str = "feature", **options: Any) -> Any:
    table = KINDS.TableConfig(7, 3, name="A")
    with strategy.scope():
        return tfdist_kit.tpu_embedding({name: KINDS.FeatureConfig(table, **options)}, None)


def differing(strategy: Any, rank: int) -> dict[str, str]:
    """What is said of embeddings that differ in one thing."""
    other = bool(rank)

    def of(**options: Any) -> Callable[[], Any]:
        """Here the first, there the second of each pair."""
        mine = {name: pair[rank] for name, pair in options.items()}
        return lambda: _made(strategy, **mine).build()

    def of_feature(**options: Any) -> Callable[[], Any]:
        mine = {name: pair[rank] for name, pair in options.items()}
        return lambda: _feature(strategy, **mine).build()

    buckets = KINDS.QuantizationConfig(4, -1.0, 1.0)
    enqueued = _feature(strategy)
    enqueued.build()
    ids = {"feature": tf.constant([1, 2][: 1 + other])}
    cases: dict[str, Callable[[], Any]] = {
        "order": of(names=("AB", "BA")),
        "names": of(names=("AB", "AC")),
        "number": of(names=("AB", "A")),
        "rows": of(vocabulary_size=(7, 8)),
        "dim": of(dim=(3, 4)),
        "combiner": of(combiner=("mean", "sum")),
        "quantization": of(quantization_config=(None, buckets)),
        "optimizer": of(optimizer=(KINDS.SGD(0.1), KINDS.Adagrad(0.1))),
        "rate": of(optimizer=(KINDS.SGD(0.1), KINDS.SGD(0.2))),
        "rate function": of(optimizer=(KINDS.SGD(0.1), KINDS.SGD(lambda: 0.1))),
        "clipvalue": of(optimizer=(KINDS.SGD(0.1), KINDS.SGD(0.1, clipvalue=0.5))),
        "beta": of(optimizer=(KINDS.Adam(0.1), KINDS.Adam(0.1, beta_2=0.9))),
        "feature": of_feature(name=("one", "other")),
        "length": of_feature(max_sequence_length=(2, 3)),
        "shape": of_feature(output_shape=([2], [3])),
        "enqueued shape": lambda: enqueued.enqueue(ids, training=False),
        "alike": of(names=("AB", "AB"), optimizer=(KINDS.SGD(lambda: 0.1),) * 2),
    }
    return {name: _said(call) for name, call in cases.items()}


def absent(strategy: Any, rank: int) -> str:
    """What is said when one worker does not build: to it, when it does so later, the same."""
    alike.TIMEOUT, usual = 0.5, alike.TIMEOUT
    embedding = _made(strategy)
    if rank:
        barrier()
    said = _said(embedding.build)
    if not rank:
        barrier()
    alike.TIMEOUT = usual
    return said


def _said(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__} {error}"
    return ""


def finite(strategy: Any, rank: int) -> dict[str, Any]:
    """Data that is over after three batches here and two there: steps, and the tables' rows."""
    return {
        name: _finite(strategy, 6 - 2 * rank, is_graph)
        for name, is_graph in (("graph", True), ("eager", False))
    }


def _finite(strategy: Any, samples: int, is_graph: bool) -> Any:
    ids = tf.ones([samples, 1], tf.int64)
    given = {
        "dense": ids,
        "sparse": tf.sparse.from_dense(ids),
        "ragged": tf.RaggedTensor.from_tensor(ids),
    }
    zeros = tf.zeros_initializer()
    tables = {name: KINDS.TableConfig(3, 1, initializer=zeros, name=name) for name in given}
    config = {name: KINDS.FeatureConfig(each, output_shape=[2]) for name, each in tables.items()}
    with strategy.scope():
        embedding = tfdist_kit.tpu_embedding(config, KINDS.SGD(0.5))

    def dataset(_: Any) -> Any:
        return tf.data.Dataset.from_tensor_slices(given).batch(2, drop_remainder=True)

    options = tf.distribute.InputOptions(experimental_fetch_to_device=False)

    def learn() -> None:
        embedding.apply_gradients(tf.nest.map_structure(tf.ones_like, embedding.dequeue()))

    def eager(batch: Any) -> None:
        embedding.enqueue(batch)
        strategy.run(learn)

    step = tf.function(eager) if is_graph else eager
    steps = 0
    for batch in strategy.distribute_datasets_from_function(dataset, options):
        step(batch)
        steps += 1
    found = training.components(tables, embedding)
    return steps, {name: each.ravel().tolist() for name, [each] in found.items()}
