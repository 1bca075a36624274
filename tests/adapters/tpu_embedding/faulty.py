"""Steps that TensorFlow traces, or refuses to trace, each with the fault in a line of its own."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

import tfdist_kit
from tests.adapters.tpu_embedding.steps import (
    BATCH,
    STEPS,
    E,
    Program,
    bare,
    dataset_fn,
    embedding,
    planned,
)
from tfdist_kit.adapters.tpu_embedding import per_replica

DATA = (dataset_fn, STEPS)


def _per_core(*cores: int) -> Program:
    def write(strategy: Any, own: Any, core_step: Any) -> Any:
        def step(iterator: Any, _steps: Any) -> None:
            features, _ = next(iterator)
            local = [strategy.experimental_local_results(features[name]) for name in "ab"]
            for core in cores:
                own.enqueue(
                    {"a": local[0][core], "b": local[1][core]},
                    device=strategy.extended.worker_devices[core],
                )
            strategy.run(core_step)

        return step

    return bare(write)


def _inside(training: Any = True, applied: bool = True) -> Program:
    """Enqueues inside `strategy.run`."""

    def write(strategy: Any, own: Any, core_step: Any) -> Any:
        def inner(features: Any, flag: Any) -> None:
            own.enqueue(features, training=flag if training is None else training)
            if applied:
                core_step()
            else:
                own.dequeue()

        def step(iterator: Any, steps: Any) -> None:
            features, _ = next(iterator)
            strategy.run(inner, args=(features, steps > 0))

        return step

    return bare(write)


def _write(body: Any, *, decorated: bool = True) -> Program:
    """A step of `body(strategy, embedding, core_step, features, steps)`."""

    def write(strategy: Any, own: Any, core_step: Any) -> Any:
        def step(iterator: Any, steps: Any) -> None:
            features, _ = next(iterator)
            body(strategy, own, core_step, features, steps)

        return step

    return bare(write, decorated=decorated)


def _once(strategy: Any, own: Any, core_step: Any, features: Any, _steps: Any) -> None:
    own.enqueue(features)
    strategy.run(core_step)


def _by_function(strategy: Any, own: Any, core_step: Any, features: Any, _steps: Any) -> None:
    own.enqueue(features)
    strategy.run(tf.function(core_step))


def _unrolled(strategy: Any, own: Any, core_step: Any, features: Any, _steps: Any) -> None:
    for _ in range(3):
        own.enqueue(features)
        strategy.run(core_step)


def _two_loops(strategy: Any, own: Any, core_step: Any, features: Any, steps: Any) -> None:
    for _ in tf.range(steps):
        own.enqueue(features)
        strategy.run(core_step)
    for _ in tf.range(steps):
        own.enqueue(features, training=False)
        strategy.run(own.dequeue)


def _both_at_once(strategy: Any, own: Any, core_step: Any, features: Any, _steps: Any) -> None:
    own.enqueue(features)
    strategy.run(core_step)
    own.enqueue(features, training=False)
    strategy.run(own.dequeue)


def _named_layers(strategy: Any, own: Any, _core_step: Any, features: Any, _steps: Any) -> None:
    own.enqueue(features, training=False, name="one")
    own.enqueue(features, training=False, name="two")
    strategy.run(lambda: (own.dequeue(name="one"), own.dequeue(name="two")))


def _other_name(strategy: Any, own: Any, _core_step: Any, features: Any, _steps: Any) -> None:
    own.enqueue(features, training=False, name="one")
    strategy.run(lambda: own.dequeue(name="two"))  # here


def _enqueue_before_loop(
    strategy: Any, own: Any, core_step: Any, features: Any, steps: Any
) -> None:
    own.enqueue(features)  # here
    for _ in tf.range(steps):
        strategy.run(core_step)


def _dequeue_on_condition(
    strategy: Any, own: Any, core_step: Any, features: Any, steps: Any
) -> None:
    own.enqueue(features)  # here
    if steps > 3:
        strategy.run(core_step)


def _condition_around_both(
    strategy: Any, own: Any, core_step: Any, features: Any, steps: Any
) -> None:
    if steps > 3:
        own.enqueue(features)
        strategy.run(core_step)


def _dequeue_in_a_case(strategy: Any, own: Any, core_step: Any, features: Any, steps: Any) -> None:
    own.enqueue(features)  # here

    def run() -> Any:
        strategy.run(core_step)
        return steps

    tf.switch_case(steps, [lambda: steps, run, run])


def _zero_gradients(strategy: Any, own: Any, _core_step: Any, features: Any, _steps: Any) -> None:
    def zeros() -> None:
        activations = own.dequeue()
        many = {name: tf.raw_ops.ZerosLike(x=each) for name, each in activations.items()}
        own.apply_gradients(many)  # here

    own.enqueue(features)
    strategy.run(zeros)


def _applied_outside(strategy: Any, own: Any, _core_step: Any, features: Any, _steps: Any) -> None:
    own.enqueue(features)
    strategy.run(own.dequeue)
    own.apply_gradients({"a": tf.ones([BATCH, 2]), "b": tf.ones([BATCH, 2])})  # here


def _tensor_flag(strategy: Any, own: Any, core_step: Any, features: Any, steps: Any) -> None:
    own.enqueue(features, training=steps > 0)  # here
    strategy.run(core_step)


def _structure(strategy: Any, own: Any, core_step: Any, features: Any, _steps: Any) -> None:
    own.enqueue({"a": features["a"]})  # here
    strategy.run(core_step)


def _gradient_structure(
    strategy: Any, own: Any, _core_step: Any, features: Any, _steps: Any
) -> None:
    own.enqueue(features)
    strategy.run(lambda: own.apply_gradients(list(own.dequeue().values())))  # here


def _gradient_shape(strategy: Any, own: Any, _core_step: Any, features: Any, _steps: Any) -> None:
    own.enqueue(features)
    strategy.run(lambda: own.apply_gradients({"a": own.dequeue()["a"][:1], "b": None}))  # here


def _weights(strategy: Any, own: Any, core_step: Any, features: Any, _steps: Any) -> None:
    own.enqueue(features, weights=features)  # here
    strategy.run(core_step)


def _other_shape(strategy: Any, own: Any, core_step: Any, features: Any, _steps: Any) -> None:
    own.build({"a": tf.TensorShape([BATCH, 1]), "b": tf.TensorShape([7, 1])})
    own.enqueue(features)  # here
    strategy.run(core_step)


def _dense_shape(strategy: Any, own: Any, core_step: Any, features: Any, _steps: Any) -> None:
    two = strategy.run(lambda ids: tf.concat([ids, ids], axis=1), args=(features["a"],))
    own.enqueue({"a": two, "b": features["b"]})  # here
    strategy.run(core_step)


def _nested(strategy: Any, own: Any, core_step: Any, features: Any, steps: Any) -> None:
    def inner(values: Any, flag: Any) -> None:
        if flag:
            own.enqueue(values)  # here
        core_step()

    strategy.run(inner, args=(features, steps > 0))


def _indirect(strategy: Any, own: Any, core_step: Any, features: Any, _steps: Any) -> None:
    def inner(values: Any) -> None:
        own.enqueue({"a": values["a"] + 1, "b": values["b"]})  # here
        core_step()

    strategy.run(inner, args=(features,))


def _no_tpu(strategy: Any, own: Any, core_step: Any, features: Any, _steps: Any) -> None:
    one = strategy.experimental_local_results(features["a"])[0]
    two = strategy.experimental_local_results(features["b"])[0]
    own.enqueue({"a": one, "b": two}, device="/device:CPU:0")  # here
    strategy.run(core_step)


def _dequeue_first(strategy: Any, own: Any, core_step: Any, features: Any, _steps: Any) -> None:
    strategy.run(core_step)  # here
    own.enqueue(features)


def _own_fault(strategy: Any, own: Any, core_step: Any, features: Any, _steps: Any) -> None:
    own.enqueue(features["nonsense"])  # here
    strategy.run(core_step)


def second_embedding(strategy: Any) -> Any:
    with strategy.scope():
        first, second = embedding(), embedding()

    @tf.function  # type: ignore[untyped-decorator]
    def step(iterator: Any, _steps: Any) -> None:
        features, _ = next(iterator)
        first.enqueue(features)
        second.enqueue(features)  # here

    return step


def outside_scope(strategy: Any, *, kit: bool = False) -> Any:
    own = embedding(kit=kit)

    @tf.function  # type: ignore[untyped-decorator]
    def step(iterator: Any, _steps: Any) -> None:
        features, _ = next(iterator)
        own.enqueue(features)  # here
        strategy.run(own.dequeue)

    return step


def host_mode(strategy: Any) -> Any:
    """A step without an embedding of the TPU."""

    @tf.function  # type: ignore[untyped-decorator]
    def step(iterator: Any, _steps: Any) -> Any:
        return strategy.run(lambda labels: labels, args=(next(iterator)[1],))

    return step


def eager_call(strategy: Any) -> Any:
    step = _write(_once)(strategy)
    options = tf.distribute.InputOptions(experimental_fetch_to_device=False)
    iterator = iter(strategy.distribute_datasets_from_function(dataset_fn, options))
    step(iterator, 1)  # here
    return step


def eager_run(strategy: Any) -> Any:
    return strategy.run(lambda: tf.ones([]))  # here


LARGE = tf.SparseTensorSpec([4096, 3], tf.int64)


def _large(strategy: Any) -> Any:
    """One feature whose zeros are too many for a constant."""
    with strategy.scope():
        table = E.TableConfig(8, 32, name="large")
        own = tfdist_kit.tpu_embedding(E.FeatureConfig(table=table), E.SGD(0.1))

    def core_step() -> None:
        with tf.GradientTape() as tape:
            activations = own.dequeue()
            loss = tf.reduce_sum(activations**2)
        own.apply_gradients(tape.gradient(loss, activations))  # here

    @tf.function  # type: ignore[untyped-decorator]
    def step(ids: Any) -> None:
        own.enqueue(ids)
        strategy.run(core_step)

    return step


def unknown_optimizer(strategy: Any) -> Any:
    with strategy.scope():
        return E.TPUEmbedding(E.FeatureConfig(table=E.TableConfig(8, 2)), "sgd")  # here


def step_is_lambda(strategy: Any) -> Any:
    step = _write(_once)(strategy).python_function
    return tf.function(lambda iterator, steps: step(iterator, steps))


def initializer_class(strategy: Any) -> Any:
    with strategy.scope():
        table = E.TableConfig(8, 2, name="zeros", initializer=tf.keras.initializers.Zeros)
        optimizer = E.SGD(0.1, low_dimensional_packing_status=0)
        own = E.TPUEmbedding({"a": E.FeatureConfig(table=table)}, optimizer)

    @tf.function  # type: ignore[untyped-decorator]
    def step(iterator: Any, _steps: Any) -> None:
        features, _ = next(iterator)
        own.enqueue({"a": features["a"]}, training=False)
        strategy.run(own.dequeue)

    return step


def _own_data(options: Any, *, ragged: bool = True, bare_ids: bool = False) -> Program:
    """The program distributes its data by itself; the step has no arguments."""

    def make(strategy: Any) -> Any:
        with strategy.scope():
            own = embedding()

        def data(context: Any) -> Any:
            both = dataset_fn(context, ragged=ragged)
            return both.map(lambda features, _: features["b"]) if bare_ids else both

        iterator = iter(strategy.distribute_datasets_from_function(data, options))  # here

        @tf.function  # type: ignore[untyped-decorator]
        def step() -> None:
            own.enqueue(next(iterator)[0], training=False)
            strategy.run(own.dequeue)

        return step

    return make


HERE = tf.distribute.InputOptions(experimental_fetch_to_device=False)

# Each program, and what its steps get.
PROGRAMS: dict[str, tuple[Program, Any]] = {
    "training": (planned(), DATA),
    "evaluation": (planned(training=False, applied=0), DATA),
    "a linear loss": (planned(linear=True), DATA),
    "two batches": (_write(_unrolled), DATA),
    "two loops": (_write(_two_loops), DATA),
    "training, then evaluation": (_write(_both_at_once), DATA),
    "two names": (_write(_named_layers), DATA),
    "enqueue inside run": (_inside(), DATA),
    "evaluation inside run": (_inside(training=False, applied=False), DATA),
    "enqueue for each core": (_per_core(0, 1), DATA),
    "under one condition": (_write(_condition_around_both), DATA),
    "plain step, function for run": (_write(_by_function, decorated=False), DATA),
    "own data": (_own_data(HERE), ()),
    "no embedding": (host_mode, DATA),
    "training without gradients": (planned(applied=0), DATA),
    "gradients in evaluation": (planned(training=False), DATA),
    "evaluation with gradients inside run": (_inside(training=False), DATA),
    "no enqueue": (planned(enqueues=0), DATA),
    "another name": (_write(_other_name), DATA),
    "no dequeue": (
        planned(dequeues=0, applied=0, training=False),
        DATA,
    ),
    "enqueued twice": (planned(enqueues=2), DATA),
    "dequeued twice": (planned(dequeues=2), DATA),
    "applied twice": (planned(applied=2), DATA),
    "one core is left out": (_per_core(0), DATA),
    "one core twice": (_per_core(0, 1, 1), DATA),
    "not watched": (planned(watched=False), DATA),
    "not used, SGD": (planned(used="a"), DATA),
    "not used, Adagrad": (planned(used="a", optimizer=lambda: E.Adagrad(0.1)), DATA),
    "not used, Adam": (planned(used="a", optimizer=lambda: E.Adam(0.1)), DATA),
    "not used, decay": (
        planned(used="a", optimizer=lambda: E.SGD(0.1, weight_decay_factor=0.1)),
        DATA,
    ),
    "enqueue before the loop": (_write(_enqueue_before_loop), DATA),
    "flag inside run": (_inside(training=None), DATA),
    "dequeue on a condition": (_write(_dequeue_on_condition), DATA),
    "dequeue in a case": (_write(_dequeue_in_a_case), DATA),
    "zeros for gradients": (_write(_zero_gradients), DATA),
    "large, not watched": (_large, per_replica(LARGE)),
    "applied outside run": (_write(_applied_outside), DATA),
    "dequeue first": (planned(early=True), DATA),
    "plain step": (_write(_once, decorated=False), DATA),
    "ragged data for the device": (_own_data(None), ()),
    "dense data for the device": (_own_data(None, ragged=False), ()),
    "bare ragged data for the device": (_own_data(None, bare_ids=True), ()),
    "initializer class": (initializer_class, DATA),
    "protobuf": (planned(kit=False), DATA),
    "own fault": (_write(_own_fault), DATA),
    "structure": (_write(_structure), DATA),
    "structure of gradients": (_write(_gradient_structure), DATA),
    "another shape": (_write(_other_shape), DATA),
    "unknown batch": (
        planned(),
        (lambda context: dataset_fn(context, whole=False), STEPS),
    ),
    "shape of a dense feature": (_write(_dense_shape), DATA),
    "weights": (_write(_weights), DATA),
    "shape of a gradient": (_write(_gradient_shape), DATA),
    "not built": (_write(_dequeue_first), DATA),
    "nested enqueue": (_write(_nested), DATA),
    "computed input": (_write(_indirect), DATA),
    "no TPU device": (_write(_no_tpu), DATA),
    "second embedding": (second_embedding, DATA),
    "outside the scope": (outside_scope, DATA),
    "outside the scope, host mode": (functools.partial(outside_scope, kit=True), DATA),
    "flag is a tensor": (_write(_tensor_flag), DATA),
    "data of a second host": (_own_data(HERE), ()),
    "step called": (eager_call, DATA),
    "eager run": (eager_run, DATA),
    "lambda": (step_is_lambda, DATA),
    "unknown optimizer": (unknown_optimizer, DATA),
}
