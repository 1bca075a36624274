"""dequeue: the activations, their structure and their shapes."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tfdist_kit.conformance.checks.tpu_embedding import _engine
from tfdist_kit.conformance.checks.tpu_embedding._configs import counted
from tfdist_kit.conformance.checks.tpu_embedding._features import (
    activations,
    feature,
    ragged,
    sparse,
    table,
    trace,
    ways,
)
from tfdist_kit.conformance.checks.tpu_embedding._traced import (
    APPLY,
    DEQUEUE,
    ENQUEUE,
    nodes,
    proto,
    sgd,
    traced,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)

IDS = sparse(4, 5)


@ways
@claim("tpu.dequeue.structure")
def test_structure(subject: Subject, way: str) -> None:
    config = {"a": feature(), "b": [feature(), (feature(), feature())]}
    found = activations(subject, config, {"a": IDS, "b": [IDS, (IDS, IDS)]}, way=way)
    assert list(found) == ["a", "b"]
    b, (c, d) = found["b"]
    assert isinstance(found["b"], list)
    assert {one.dtype.name for one in (found["a"], b, c, d)} == {"float32"}


@ways
@claim("tpu.dequeue.shape")
def test_shape(subject: Subject, way: str) -> None:
    config = [feature(table(dim=2)), feature(table(dim=5), output_shape=[2, 2]), feature()]
    inputs = [IDS, ragged(4, None), sparse(4, 3, 5)]
    shapes = [tuple(one.shape) for one in activations(subject, config, inputs, way=way)]
    assert shapes == [(4, 2), (2, 2, 5), (4, 3, 3)]


@claim("tpu.dequeue.unbuilt")
def test_unbuilt(subject: Subject) -> None:
    with traced() as strategy:
        with strategy.scope():
            embedding = subject.make_embedding(feature(output_shape=[4]), sgd())
        with pytest.raises(RuntimeError, match="unbuilt"):
            trace(lambda: strategy.run(embedding.dequeue))
        embedding.build()
        trace(lambda: strategy.run(embedding.dequeue))


@claim("tpu.dequeue.pipelining-asked-for")
def test_pipelining_asked_for(subject: Subject) -> None:
    asked: list[dict[str, bool]] = [{}, {"pipeline_execution_with_tensor_core": True}]
    told = []
    for arguments in asked:
        with traced() as strategy:
            with strategy.scope():
                config = feature(output_shape=[4])
                embedding = subject.make_embedding(config, sgd(), **arguments)
            embedding.build()
            told.append(proto(embedding).pipeline_execution_with_tensor_core)
    assert told == [False, True]


@claim("tpu.dequeue.pipelining-is-late")
def test_pipelining_is_late(subject: Subject) -> None:
    import tensorflow as tf

    strategy = _engine.tpu_strategy()
    with strategy.scope():
        embedding = subject.make_embedding(
            feature(table(dim=1, initializer=counted(6, 1))),
            sgd(),
            pipeline_execution_with_tensor_core=True,
        )

    @tf.function
    def step(ids: Any) -> Any:
        embedding.enqueue(ids, training=False)
        return strategy.run(embedding.dequeue)

    batches = [tf.fill([4, 1], tf.constant(row, tf.int64)) for row in (1, 2, 3)]
    found = [strategy.experimental_local_results(step(each))[0].numpy() for each in batches]
    assert [one.flatten().tolist() for one in found[1:]] == [[1.0] * 4, [2.0] * 4]


@claim("tpu.dequeue.argument-of-build")
def test_argument_of_build(subject: Subject) -> None:
    build = subject.make_embedding(feature(), sgd()).build
    name = "per_replica_output_shapes"
    assert name in inspect.signature(build).parameters, f"build has no {name}"


@claim("tpu.dequeue.name")
def test_name(subject: Subject) -> None:
    with traced(cores_per_host=1) as strategy:
        with strategy.scope():
            embedding = subject.make_embedding(feature(), sgd())

        def step() -> None:
            found = embedding.dequeue(name="one")
            embedding.apply_gradients(found, name="one")

        def both(ids: Any) -> None:
            embedding.enqueue(ids, name="one")
            strategy.run(step)

        concrete = trace(both, IDS)
    kinds = (ENQUEUE, DEQUEUE, APPLY)
    named = {node.op: node.attr["_tpu_embedding_layer"].s for node in nodes(concrete)}
    assert [named[kind] for kind in kinds] == [b"one"] * 3
