"""enqueue: what it takes, and for which cores."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tfdist_kit.conformance.checks.tpu_embedding._features import (
    HOST,
    TRACED,
    dense,
    feature,
    ragged,
    sparse,
    trace,
    value,
    ways,
    without_a_tpu,
)
from tfdist_kit.conformance.checks.tpu_embedding._traced import (
    ENQUEUE,
    nodes,
    ops,
    sgd,
    traced,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import ADAPTER, Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)

IDS = sparse(4, 5)


def enqueued(
    subject: Subject, config: Any, features: Any, weights: Any = None, way: str = TRACED
) -> Any:
    """Enqueue a batch; gives the traced function, and nothing in host mode."""
    if way == HOST:
        import tensorflow as tf

        embedding = without_a_tpu(subject, config, sgd())
        made = [tf.nest.map_structure(_value, each) for each in (features, weights)]
        return embedding.enqueue(*made, training=False)
    with traced(cores_per_host=1) as strategy:
        with strategy.scope():
            embedding = subject.make_embedding(config, sgd())
        return trace(embedding.enqueue, features, weights)


def _value(spec: Any) -> Any:
    return None if spec is None else value(spec)


@ways
@claim("tpu.enqueue.structure")
def test_structure(subject: Subject, way: str) -> None:
    config = {"a": feature(), "b": [feature(), feature()]}
    right = {"a": IDS, "b": [IDS, IDS]}
    another_type = {"a": IDS, "b": (IDS, IDS)}
    another_size = {"a": IDS, "b": [IDS]}
    enqueued(subject, config, right, right, way=way)
    for wrong, error in ((another_type, TypeError), (another_size, ValueError)):
        with pytest.raises(error):
            enqueued(subject, config, wrong, way=way)
        with pytest.raises(error):
            enqueued(subject, config, right, wrong, way=way)


@claim("tpu.enqueue.ids-are-int32")
def test_ids_are_int32(subject: Subject) -> None:
    concrete = enqueued(subject, feature(), IDS)
    [op] = [one for one in concrete.graph.get_operations() if one.type == ENQUEUE]
    indices, ids, *_ = (each.dtype.name for each in op.inputs)
    assert indices == "int32"
    assert ids == "int32", f"ids go to the engine as {ids}"


@claim("tpu.enqueue.float-ids")
def test_float_ids(subject: Subject) -> None:
    way = HOST if subject.kind == ADAPTER else TRACED
    try:
        enqueued(subject, feature(), sparse(4, 5, dtype="float32"), way=way)
    except (TypeError, ValueError):
        return
    pytest.fail("float ids were taken")


@claim("tpu.enqueue.one-composite-type")
def test_one_composite_type(subject: Subject) -> None:
    try:
        enqueued(subject, [feature(), feature()], [IDS, ragged(4, None)])
    except (TypeError, ValueError):
        return
    pytest.fail("sparse and ragged features were taken")


@ways
@claim("tpu.enqueue.weights-of-dense")
def test_weights_of_dense(subject: Subject, way: str) -> None:
    with pytest.raises(ValueError, match=r"[Ww]eight"):
        enqueued(subject, feature(), dense(4, 1), dense(4, 1, dtype="float32"), way=way)


@ways
@claim("tpu.enqueue.weights-of-another-type")
def test_weights_of_another_type(subject: Subject, way: str) -> None:
    rows = ragged(4, None)
    for ids, weights in ((IDS, rows), (rows, IDS), (IDS, dense(4, 5, dtype="float32"))):
        with pytest.raises(ValueError, match=r"[Ww]eight"):
            enqueued(subject, feature(), ids, weights, way=way)


@ways
@claim("tpu.enqueue.weights-for-some")
def test_weights_for_some(subject: Subject, way: str) -> None:
    features = {"a": IDS, "b": dense(4, 1), "c": IDS}
    weights = {"a": None, "b": None, "c": sparse(4, 5, dtype="float32")}
    config = {name: feature() for name in features}
    enqueued(subject, config, features, weights, way=way)


@claim("tpu.enqueue.training-by-default")
def test_training_by_default(subject: Subject) -> None:
    enqueue = subject.make_embedding(feature(), sgd()).enqueue
    assert inspect.signature(enqueue).parameters["training"].default is True


@claim("tpu.enqueue.direct-inputs")
def test_direct_inputs(subject: Subject) -> None:
    import tensorflow as tf

    with pytest.raises(ValueError, match="taken directly from"):
        in_a_step(subject, lambda embedding, ids: embedding.enqueue(tf.identity(ids)))


@claim("tpu.enqueue.nested-function")
def test_nested_function(subject: Subject) -> None:
    import tensorflow as tf

    def nested(embedding: Any, ids: Any) -> None:
        tf.function(lambda: embedding.enqueue(ids), autograph=False)()

    def branch(embedding: Any, ids: Any) -> None:
        tf.cond(ids[0, 0] > 0, lambda: embedding.enqueue(ids) or 0, lambda: 0)

    for body in (nested, branch):
        with pytest.raises(RuntimeError, match=r"inside `strategy\.run`"):
            in_a_step(subject, body)


@claim("tpu.enqueue.in-the-step")
def test_in_the_step(subject: Subject) -> None:
    concrete = in_a_step(subject, lambda embedding, ids: embedding.enqueue(ids))
    [op] = [node for node in nodes(concrete) if node.op == ENQUEUE]
    assert op.attr["device_ordinal"].i == -1
    assert "_xla_outside_compilation" in op.attr


def in_a_step(subject: Subject, body: Any) -> Any:
    """A traced step of two cores, whose body is given the embedding and dense ids."""
    with traced() as strategy:
        with strategy.scope():
            embedding = subject.make_embedding(feature(), sgd())

        def step(ids: Any) -> None:
            body(embedding, ids)

        return trace(lambda ids: strategy.run(step, args=(ids,)), dense(4, 1))


@claim("tpu.enqueue.device-is-a-tpu")
def test_device_is_a_tpu(subject: Subject) -> None:
    with traced() as strategy:
        with strategy.scope():
            embedding = subject.make_embedding(feature(), sgd())
        with pytest.raises(ValueError, match="CPU:0"):
            trace(lambda ids: embedding.enqueue(ids, device="/device:CPU:0"), IDS)


@claim("tpu.enqueue.device")
def test_device(subject: Subject) -> None:
    with traced(cores_per_host=3) as strategy:
        with strategy.scope():
            embedding = subject.make_embedding(feature(), sgd())
        device = strategy.extended.worker_devices[1]
        one = trace(lambda ids: embedding.enqueue(ids, device=device), IDS)
        every = trace(embedding.enqueue, IDS)
    assert (ops(one)[ENQUEUE], ops(every)[ENQUEUE]) == (1, 3)
    assert cores(one) == [1]
    assert cores(every) == [0, 1, 2]


def cores(concrete: Any) -> list[int]:
    """The core that each enqueue of a traced function is for."""
    return [node.attr["device_ordinal"].i for node in nodes(concrete) if node.op == ENQUEUE]


EXAMPLE = """
per_core_embedding_features = strategy.experimental_local_results(embedding_features)

def per_core_enqueue(ctx):
    core_id = ctx.replica_id_in_sync_group
    device = strategy.extended.worker_devices[core_id]
    embedding.enqueue(per_core_embedding_features[core_id], device=device)

strategy.experimental_distribute_values_from_function(per_core_queue_inputs)
"""
GIVEN = {"strategy", "embedding", "embedding_features"}
"""What the example begins with."""


@claim("tpu.enqueue.per-core-example")
def test_per_core_example() -> None:
    code = compile(EXAMPLE, "the example", "exec")
    made = {"per_core_embedding_features", "per_core_enqueue"}
    loose = set(code.co_names) - GIVEN - made
    methods = {"experimental_local_results", "experimental_distribute_values_from_function"}
    assert loose - methods == set(), f"names that nothing defines: {loose - methods}"


@claim("tpu.enqueue.per-replica")
def test_per_replica(subject: Subject) -> None:
    import tensorflow as tf

    found = []
    with traced(cores_per_host=2) as strategy:
        with strategy.scope():
            embedding = subject.make_embedding(feature(), sgd())
        ids = tf.data.Dataset.from_tensors(tf.zeros([8, 1], tf.int64)).unbatch().batch(8, True)
        options = tf.distribute.InputOptions(experimental_fetch_to_device=False)
        batches = iter(strategy.experimental_distribute_dataset(ids, options))

        def step(batches: Any) -> None:
            embedding.enqueue(next(batches))
            strategy.run(lambda: found.append(embedding.dequeue().shape))

        trace(step, batches)
    assert found == [[4, 3]]
