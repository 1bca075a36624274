"""Looks features up without a step, exports and loads; imported by TensorFlow workers only."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist_kit import tpu_embedding
from tfdist_kit.adapters.tpu_embedding import adam_bias_correction, export, serving_lookup

KINDS = tf.tpu.experimental.embedding
ROWS = 5

SPARSE = tf.sparse.from_dense([[1, 2, 0], [0, 0, 0], [4, 0, 3], [0, 0, 0]])
RAGGED = tf.RaggedTensor.from_row_splits([1, 2, 4, 3], [0, 2, 2, 4, 4])
DEEP = tf.sparse.from_dense(
    [[[1, 2], [3, 0]], [[0, 0], [4, 1]], [[2, 2], [2, 0]], [[0, 0], [0, 0]]]
)
WEIGHTS = [1.0, -1.5, 0.0, 2.0]
FEATURES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "sparse": (SPARSE, None, {}),
    "weighted": (SPARSE, WEIGHTS, {}),
    "sequence": (SPARSE, None, {"max_sequence_length": 2}),
    "weighted_sequence": (SPARSE, WEIGHTS, {"max_sequence_length": 2}),
    "ragged": (RAGGED, None, {}),
    "weighted_ragged": (RAGGED, WEIGHTS, {}),
    "ragged_sequence": (RAGGED, None, {"max_sequence_length": 3}),
    "weighted_ragged_sequence": (RAGGED, WEIGHTS, {"max_sequence_length": 3}),
    "shaped": (RAGGED, WEIGHTS, {"output_shape": [4, 2]}),
    "folded": (RAGGED, WEIGHTS, {"output_shape": [2, 2]}),
    "deep": (DEEP, None, {}),
    "weighted_deep": (DEEP, [1.0, 2.0, -1.0, 0.0, 3.0, 1.0, 1.0, 0.5], {}),
    "dense": (tf.constant([[1], [2], [4], [0]]), None, {}),
    "dense_vector": (tf.constant([1, 2, 4, 0]), None, {}),
    "dense_sequence": (tf.constant([[1], [2], [4], [0]]), None, {"max_sequence_length": 2}),
}


SEED = tf.random_uniform_initializer(-1.0, 1.0, seed=1)


def embedding_of(combiner: str, *, is_quantized: bool = False, validates: bool = True) -> Any:
    """All features in one table, which is always the same."""
    table = KINDS.TableConfig(
        ROWS,
        3,
        initializer=SEED,
        combiner=combiner,
        name="table",
        quantization_config=KINDS.QuantizationConfig(5, -0.5, 0.5) if is_quantized else None,
    )
    configs = {
        name: KINDS.FeatureConfig(table, validate_weights_and_indices=validates, **options)
        for name, (_, _, options) in FEATURES.items()
    }
    return tpu_embedding(configs, KINDS.SGD(0.1))


def given() -> tuple[dict[str, Any], dict[str, Any]]:
    """Features, and the weights of some."""
    features = {name: ids for name, (ids, _, _) in FEATURES.items()}
    weights = {
        name: _like(ids, values)
        for name, (ids, values, _) in FEATURES.items()
        if values is not None
    }
    return features, weights


def _like(ids: Any, values: list[Any]) -> Any:
    if isinstance(ids, tf.RaggedTensor):
        return ids.with_values(values)
    return tf.SparseTensor(ids.indices, values, ids.dense_shape)


def spec(value: Any) -> Any:
    """The value's spec, with a batch of any size."""
    if isinstance(value, tf.SparseTensor):
        return tf.SparseTensorSpec([None] * value.shape.rank, value.dtype)
    if isinstance(value, tf.RaggedTensor):
        return tf.RaggedTensorSpec([None, None], value.dtype)
    return tf.TensorSpec([None, *value.shape[1:]], value.dtype)


def step_of(embedding: Any) -> dict[str, Any]:
    """The activations of a step."""
    features, weights = given()
    embedding.enqueue(features, {name: weights.get(name) for name in features}, training=False)
    return dict(embedding.dequeue())


def numbers(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value.numpy() for name, value in values.items()}


TABLES: dict[str, tuple[str, dict[str, bool]]] = {
    "mean": ("mean", {}),
    "sum": ("sum", {}),
    "sqrtn": ("sqrtn", {"validates": False}),
    "quantized": ("mean", {"is_quantized": True, "validates": False}),
}


def lookups() -> dict[str, dict[str, Any]]:
    """For each kind of table: activations of a step, and of lookups with and without a graph."""
    features, weights = given()
    signature = [{k: spec(v) for k, v in each.items()} for each in (features, weights)]
    found = {}
    for name, (combiner, options) in TABLES.items():
        embedding = embedding_of(combiner, **options)
        each = {
            "step": step_of(embedding),
            "lookup": serving_lookup(embedding, features, weights),
        }
        if name in ("mean", "quantized"):
            traced = tf.function(functools.partial(serving_lookup, embedding), signature)
            each["graph"] = traced(features, weights)
        found[name] = {key: numbers(values) for key, values in each.items()}
    return found


def exported(folder: str) -> list[dict[str, Any]]:
    """Activations of steps, whose tables are then written as SavedModels."""
    features, weights = given()
    embedding = embedding_of("mean", is_quantized=True)
    specs, weight_specs = ({k: spec(v) for k, v in each.items()} for each in (features, weights))
    export(embedding, f"{folder}/weighted", specs, weights=weight_specs)
    dense = {name: specs[name] for name in ("dense", "dense_sequence")}
    model = keras.Sequential([keras.layers.Dense(1)])
    answer = model(tf.concat([serving_lookup(embedding, features)[name] for name in dense], 1))

    def then(activations: Any) -> Any:
        return model(tf.concat([activations[name] for name in dense], 1))

    export(embedding, f"{folder}/model", dense, then=model_of(model, then))
    return [numbers(step_of(embedding)), {"answer": answer.numpy()}]


def model_of(model: Any, then: Callable[[Any], Any]) -> Any:
    """A module that holds the model, so that its variables are saved."""

    class Answers(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.held = model

        def __call__(self, activations: Any) -> Any:
            return then(activations)

    return Answers()


def reloaded(folder: str) -> list[Any]:
    """What a fresh process gets from the SavedModels; and what of an id that is no row."""
    features, weights = given()
    weighted = tf.saved_model.load(f"{folder}/weighted")
    found: list[Any] = [numbers(weighted.lookup(features, weights))]
    served = tf.saved_model.load(f"{folder}/model").signatures["serving_default"]
    dense = {name: features[name] for name in ("dense", "dense_sequence")}
    found.append({"answer": next(iter(served(**dense).values())).numpy()})
    for ids in ([[ROWS]], [[-1]]):
        try:
            found.append(served(dense=tf.constant(ids), dense_sequence=tf.constant([[0]])))
        except tf.errors.InvalidArgumentError as error:
            found.append(str(error))
    names = [name for name, _ in tf.train.list_variables(f"{folder}/weighted/variables/variables")]
    return [*found, sorted(names)]


def refused() -> list[str]:
    """What is said of features that cannot be looked up."""
    embedding = embedding_of("mean")
    dense = {"dense": tf.constant([[1]])}
    given: list[tuple[Any, ...]] = [
        ({"unknown": tf.constant([[1]])},),
        ({"dense": tf.constant([[1, 2]])},),
        ({"dense": tf.constant([[1.0]])},),
        ({"dense": tf.constant([[ROWS]])},),
        ({"sparse": tf.SparseTensor([[0, 0]], [-1], [1, 1])},),
        (dense, {"dense": tf.ones([1, 1])}),
        (dense, {"other": None}),
        ({"sparse": SPARSE}, {"sparse": _like(RAGGED, WEIGHTS)}),
        ({"shaped": RAGGED[:3]},),
        ({"ragged": tf.ragged.constant([[[1]]])},),
        ({"dense": None},),
        ({"dense": [[1]]},),
        ({"dense": {"part": tf.constant([[1]])}},),
        ({"dense": tf.data.Dataset.range(3)},),
        ({"dense": "1"},),
        ({},),
        ({"dense": []},),
        (None,),
        (dense["dense"],),
        ({"sparse": SPARSE}, {"sparse": [[1.0]]}),
        ({"sparse": SPARSE}, _like(SPARSE, WEIGHTS)),
        ({"sparse": SPARSE}, {"sparse": _like(SPARSE, ["a", "b", "c", "d"])}),
        ({"ragged": RAGGED}, {"ragged": tf.ragged.constant([[[1.0]]])}),
    ]
    calls = [functools.partial(serving_lookup, embedding, *each) for each in given]
    alone = tpu_embedding(KINDS.FeatureConfig(KINDS.TableConfig(ROWS, 3)), None)
    calls += [functools.partial(serving_lookup, alone, each) for each in (None, [[1]])]
    calls.append(functools.partial(serving_lookup, tf.Module(), dense))
    return [_said(call) for call in calls]


def not_exported(folder: str) -> list[str]:
    """What is said of SavedModels that cannot be, and what is in their folder."""
    embedding, dense = embedding_of("mean"), {"dense": tf.TensorSpec([None, 1], tf.int64)}
    sparse = {"sparse": tf.SparseTensorSpec([None, None], tf.int64)}
    calls: list[Callable[..., Any]] = [
        functools.partial(export, embedding, features=each)
        for each in (
            {},
            None,
            {"dense": "x"},
            {"dense": tf.constant([[1]])},
            {"dense": [dense["dense"]]},
            {"dense": None},
            {"other": dense["dense"]},
            dense["dense"],
            {"dense": tf.TensorSpec([None, 1])},
            {"dense": tf.TensorSpec(None, tf.int64)},
        )
    ]
    calls += [
        functools.partial(export, embedding, features=sparse, weights=each)
        for each in ({"sparse": None}, {"sparse": "x"}, {"dense": None})
    ]
    calls.append(functools.partial(export, embedding, features=dense, then=3))  # type: ignore[arg-type]
    calls.append(functools.partial(export, tf.Module(), features=dense))
    said = [_said(functools.partial(call, f"{folder}/saved")) for call in calls]
    said.append(_said(functools.partial(export, embedding, None, dense)))  # type: ignore[arg-type]
    return [*said, str(os.listdir(folder))]


def _said(call: Callable[[], Any]) -> str:
    try:
        return str(call())
    except Exception as error:
        return f"{type(error).__name__} {error}"


def bias_correction() -> dict[str, Any]:
    """A table after ten steps of Adam: with the correction, without it, and by Keras."""
    start = np.random.default_rng(1).normal(size=(ROWS, 3)).astype(np.float32)
    gradients = np.random.default_rng(2).normal(size=(10, ROWS, 3)).astype(np.float32)
    other = keras.optimizers.Adam(0.05, beta_1=0.8, beta_2=0.99)
    variable = keras.Variable(start)
    step = tf.Variable(0, dtype=tf.int64)
    rate = adam_bias_correction(0.05, 0.8, 0.99, step)
    tables = {}
    for name, learning_rate in (("corrected", rate), ("plain", 0.05)):
        optimizer = KINDS.Adam(learning_rate, beta_1=0.8, beta_2=0.99, sum_inside_sqrt=False)
        config = KINDS.TableConfig(ROWS, 3, initializer=tf.constant_initializer(start))
        embedding = tpu_embedding(KINDS.FeatureConfig(config), optimizer)
        step.assign(0)
        for gradient in gradients:
            embedding.enqueue(tf.range(ROWS)[:, tf.newaxis])
            embedding.dequeue()
            embedding.apply_gradients(tf.constant(gradient))
            step.assign_add(1)
        tables[name] = embedding.embedding_tables[config].numpy()
    for gradient in gradients:
        other.apply([tf.constant(gradient)], [variable])
    return {**tables, "keras": variable.numpy()}
