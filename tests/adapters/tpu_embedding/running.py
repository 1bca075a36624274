"""Runs the random cases through host mode; imported by TensorFlow workers only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.adapters.tpu_embedding.cases import (
    INNER,
    Array,
    Case,
    Feature,
    Table,
    Update,
    made,
    updates,
)
from tfdist_kit import multi_worker_mirrored, tpu_embedding
from tfdist_kit.adapters.tpu_embedding.updates import update_rows, why_unsupported

KINDS = tf.tpu.experimental.embedding
Result = tuple[list[list[Array]], dict[str, dict[str, Array]]]


def everything(seeds: Sequence[int], updates_of: Sequence[int]) -> dict[str, Any]:
    """All that one process alone computes."""
    return {
        "cases": run_cases(seeds),
        "updates": run_updates(updates_of),
        "without rate": without_rate(),
        "unsupported": unsupported(),
    }


def without_rate() -> dict[str, Array]:
    """FTRL's table and slots after a step with a learning rate of zero, which it may allow."""
    optimizer = KINDS.FTRL(0.0, beta=0.5, multiply_linear_by_learning_rate=True)
    values = {"parameters": 1.0, "accumulators": 0.25, "linears": -2.0}
    variables = {name: tf.Variable(tf.fill([2, 1], value)) for name, value in values.items()}
    update_rows(optimizer, variables, tf.constant([1], tf.int64), tf.constant([[3.0]]))
    return {name: variable.numpy() for name, variable in variables.items()}


def unsupported() -> dict[str, str]:
    """Why tables are refused, by what they ask for."""
    rate = tf.Variable(0.1)
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    plain = {"use_gradient_accumulation": False}
    optimizers = {
        "weight decay": KINDS.Adam(weight_decay_factor=0.1),
        "no accumulation": KINDS.Adagrad(**plain),
        "no accumulation, clipped": KINDS.SGD(**plain, clip_weight_min=-1.0),
        "custom": KINDS.CustomOptimizer(lambda *_: None),
        "subclass": type("Mine", (KINDS.SGD,), {})(0.1),
        "variable": KINDS.SGD(rate),
        "text": KINDS.SGD("0.1"),
        "schedule": KINDS.SGD(schedule),
        "power": KINDS.FTRL(learning_rate_power=0.5),
        "l1": KINDS.FTRL(l1_regularization_strength=-1.0),
        "beta": KINDS.FTRL(beta=float("nan")),
        "clipvalue": KINDS.SGD(clipvalue=(0.5, -0.5)),
        "clip weights": KINDS.SGD(clip_weight_min=0.5, clip_weight_max=-0.5),
        "good": KINDS.SGD(**plain),
        "good rate": KINDS.SGD(lambda: rate),
        "none": None,
    }
    tables = {name: {"optimizer": each} for name, each in optimizers.items()}
    combiner = KINDS.CustomCombiner(lambda valency, vectors: vectors[0], max_valency=1)
    others = {"combiner": {"combiner": combiner}, "layout": {"layout": 1}}
    dtype = {"dtype": {"dtype": tf.int32}}
    return {
        name: why_unsupported(KINDS.TableConfig(2, 1, name="users", **options))
        for name, options in {**tables, **others, **dtype}.items()
    }


def on_two_replicas(seeds: Sequence[int]) -> list[Result]:
    """The cases in one process with two replicas."""
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    return [run_case(made(seed), strategy) for seed in seeds]


def on_two_workers(seeds: Sequence[int]) -> list[Result]:
    """The cases on one of two workers."""
    strategy = multi_worker_mirrored()
    return [run_case(made(seed), strategy) for seed in seeds]


def run_cases(seeds: Sequence[int]) -> list[Result]:
    """Each case on this process alone."""
    return [run_case(made(seed), tf.distribute.get_strategy()) for seed in seeds]


def run_updates(seeds: Sequence[int]) -> list[dict[str, Array]]:
    """Each table and its slots after its updates, by `update_rows` alone."""
    return [_run_updates(updates(seed)) for seed in seeds]


def _run_updates(update: Update) -> dict[str, Array]:
    now = tf.Variable(0)
    table, optimizer = update.table, optimizer_of(update.table, now)
    starts = zip(optimizer._slot_names(), optimizer._slot_initializers(), strict=True)
    variables = {slot: tf.Variable(start(table.start.shape, tf.float32)) for slot, start in starts}
    variables["parameters"] = tf.Variable(table.start)
    for step, (rows, gradients) in enumerate(update.steps):
        now.assign(step)
        update_rows(optimizer, variables, tf.constant(rows, tf.int64), tf.constant(gradients))
    return {name: variable.numpy() for name, variable in variables.items()}


def run_case(case: Case, strategy: Any) -> Result:
    """A case on all replicas of a strategy, which share its batches."""
    now = tf.Variable(0)
    embedding = embedding_of(case, strategy, now)
    activations = []
    for number in range(len(case.steps)):
        now.assign(number)
        activations += steps(case, strategy, embedding, [number])
    return activations, values_of(strategy, embedding)


def steps(case: Case, strategy: Any, embedding: Any, numbers: Sequence[int]) -> list[list[Array]]:
    """Some steps of a case; the activations of each step and feature."""
    count = strategy.num_replicas_in_sync
    activations = []
    for number in numbers:
        for local, device in enumerate(devices(strategy)):
            given = features_of(case, number, number_of(strategy, local), count)
            embedding.enqueue(*given, training=True, device=device)

        def share(replica: int, number: int = number) -> Any:
            return gradients_of(case, number, replica, count)

        gradients = distributed(strategy, share)
        found = strategy.run(one_step, args=(embedding, case, gradients))
        activations.append(flat_rows(strategy, case, found))
    return activations


def one_step(embedding: Any, case: Case, gradients: dict[str, Any]) -> Any:
    """What runs in each replica."""
    activations = embedding.dequeue()
    embedding.apply_gradients({each.name: gradients.get(each.name) for each in case.features})
    return activations


def devices(strategy: Any) -> list[str]:
    """Of the local replicas."""
    default = not tf.distribute.has_strategy() and strategy.num_replicas_in_sync == 1
    return ["/device:CPU:0"] if default else list(strategy.extended.worker_devices)


def number_of(strategy: Any, local: int) -> int:
    """A local replica's number among all."""
    return int(strategy.cluster_resolver.task_id or 0) + local if is_multi(strategy) else local


def is_multi(strategy: Any) -> bool:
    """Whether it spans workers."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def distributed(strategy: Any, function: Any) -> Any:
    """What the function makes for each replica."""
    if strategy.num_replicas_in_sync == 1:
        return function(0)
    return strategy.experimental_distribute_values_from_function(
        lambda context: function(context.replica_id_in_sync_group)
    )


def embedding_of(case: Case, strategy: Any, now: Any) -> Any:
    """The case's embedding, in the strategy's scope; `now` holds the step's number."""
    tables = [_table(table, now) for table in case.tables]
    with strategy.scope():
        return tpu_embedding(configs_of(case, tables, strategy.num_replicas_in_sync), None)


def optimizer_of(table: Table, now: Any) -> Any:
    """The table's optimizer; a learning rate that changes is a function of `now`."""
    kind, options = table.optimizer
    rate = options["learning_rate"]
    if isinstance(rate, list):
        options = {**options, "learning_rate": lambda: tf.gather(rate, now)}
    return getattr(KINDS, kind)(**options)


def _table(table: Table, now: Any) -> Any:
    quantization = None if table.buckets is None else KINDS.QuantizationConfig(*table.buckets)
    return KINDS.TableConfig(
        table.rows,
        table.dim,
        initializer=lambda shape, dtype: tf.constant(table.start, dtype),
        optimizer=optimizer_of(table, now),
        combiner=table.combiner,
        name=table.name,
        quantization_config=quantization,
    )


def configs_of(case: Case, tables: Sequence[Any], replicas: int) -> Any:
    """Its features, by name."""
    return {
        feature.name: KINDS.FeatureConfig(
            tables[feature.table],
            max_sequence_length=feature.length if feature.kind.endswith("sequence") else 0,
            output_shape=output_shape(case, feature, replicas),
        )
        for feature in case.features
    }


def output_shape(case: Case, feature: Feature, replicas: int) -> list[int] | None:
    """Of the features that have one; of one replica."""
    if feature.kind == "shaped":
        return [case.batch // replicas, feature.length]
    return [case.batch // replicas, 1] if feature.kind == "folded" else None


def features_of(case: Case, step: int, replica: int, replicas: int) -> tuple[Any, Any]:
    """A replica's part of a batch: features and weights."""
    features, weights = {}, {}
    for feature, samples in zip(case.features, case.steps[step].samples, strict=True):
        share = len(samples) // replicas
        mine = samples[replica * share : (replica + 1) * share]
        ids = [[each for each, _ in sample] for sample in mine]
        given = [[weight for _, weight in sample] for sample in mine]
        features[feature.name] = _tensor(feature, ids, tf.int64)
        weights[feature.name] = _tensor(feature, given, tf.float32) if feature.weighted else None
    return features, weights


def _tensor(feature: Feature, rows: list[list[Any]], dtype: Any) -> Any:
    if feature.kind == "dense":
        return tf.constant(rows, dtype)
    if feature.kind in ("ragged", "ragged sequence", "shaped", "folded"):
        return tf.ragged.constant(rows, dtype=dtype, ragged_rank=1)
    places = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    values = [each for row in rows for each in row]
    indices = np.array(places, np.int64).reshape(-1, 2)
    shape = [len(rows), 5]
    if feature.kind == "sparse3":
        indices = np.stack([indices[:, 0] // INNER, indices[:, 0] % INNER, indices[:, 1]], 1)
        shape = [len(rows) // INNER, INNER, 5]
    return tf.SparseTensor(indices, tf.constant(values, dtype), shape)


def gradients_of(case: Case, step: int, replica: int, replicas: int) -> dict[str, Any]:
    """A replica's part of the gradients that are not None."""
    found = {}
    for feature, gradient in zip(case.features, case.steps[step].gradients, strict=True):
        if gradient is not None:
            share = len(gradient) // replicas
            mine = gradient[replica * share : (replica + 1) * share]
            shape = shape_of(case, feature, replicas)
            found[feature.name] = tf.constant(mine.reshape([*shape, -1]))
    return found


def shape_of(case: Case, feature: Feature, replicas: int) -> list[int]:
    """A replica's output shape."""
    batch = case.batch // replicas
    if feature.kind == "sparse3":
        return [batch, INNER]
    return output_shape(case, feature, replicas) or [
        batch,
        *[feature.length] * bool(feature.length),
    ]


def flat_rows(strategy: Any, case: Case, found: Any) -> list[Array]:
    """The local replicas' activations, as rows, one replica after the other."""
    flat = []
    for feature in case.features:
        parts = strategy.experimental_local_results(found[feature.name])
        dim = case.table(feature).dim
        flat.append(np.concatenate([part.numpy().reshape(-1, dim) for part in parts]))
    return flat


def values_of(strategy: Any, embedding: Any) -> dict[str, dict[str, Array]]:
    """Tables and slots, which must be the same bits on all local replicas."""
    return {
        name: {slot: _value(strategy, variable) for slot, variable in variables.items()}
        for name, variables in embedding._variables.items()
    }


def _value(strategy: Any, variable: Any) -> Array:
    first, *others = (each.numpy() for each in strategy.experimental_local_results(variable))
    assert all(np.array_equal(first, other) for other in others), variable.name
    return np.asarray(first)
