"""Configs: copied and never written to, and checked where TensorFlow does not, also on a TPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.adapters.cluster import run_workers

HERE = "tests.adapters.tpu_embedding.test_configs"


RATES = [math.nan, math.inf, -1.0, np.float32(-0.5)]
LIMITS = [(1.0, -1.0), (1.0, 1.0), (math.nan, 1.0), (-math.inf, 1.0)]
_CLIP = ["clip_weight_min", "clip_weight_max", "clipvalue"]
NAN = {
    "SGD": _CLIP,
    "Adagrad": [*_CLIP, "initial_accumulator_value"],
    "AdagradMomentum": [*_CLIP, "momentum", "exponent", "beta2", "epsilon"],
    "FTRL": [*_CLIP, "initial_accumulator_value", "learning_rate_power", "beta"],
    "Adam": [*_CLIP, "beta_1", "beta_2", "epsilon"],
}


# In one process


def attempted() -> dict[str, Any]:
    """All of it, in one process."""
    return {
        "copies": _copies(),
        "keys": _keys(),
        "initializers": _initializers(),
        "tpu": _on_tpu(),
        **_wrong(),
    }


def _kinds() -> Any:
    import tensorflow as tf

    return tf.tpu.experimental.embedding


def _copies() -> dict[str, Any]:
    import tensorflow as tf

    import tfdist_kit

    kinds = _kinds()
    shared, own = kinds.TableConfig(10, 2), kinds.TableConfig(10, 2, optimizer=kinds.SGD(0.1))
    features = [kinds.FeatureConfig(table) for table in (shared, own, shared)]
    first = tfdist_kit.tpu_embedding(features, kinds.Adagrad(0.1), mode="host")
    second = tfdist_kit.tpu_embedding(features, kinds.Adam(0.1))
    for embedding in (first, second):
        embedding.build()
    third = tfdist_kit.tpu_embedding(features[0], kinds.SGD(0.1))
    third.enqueue(tf.constant([1, 2, 3]))
    tables = first.embedding_tables
    try:
        _ = first.embedding_table
    except AttributeError as error:
        answer = str(error)
    return {
        "written": [(table.name, table.optimizer is None) for table in (shared, own)],
        "is_ours": [table in (shared, own) for table in tables],
        "by_copy": tables[first._feature_config[2].table] is tables[shared],
        "missing": kinds.TableConfig(1, 1) in tables,
        "slots": [sorted(embedding._variables["table_0"]) for embedding in (first, second)],
        "own": sorted(second._variables["table_1"]),
        "is_tensorflows": isinstance(first, kinds.TPUEmbedding),
        "shape": third.dequeue().shape.as_list(),
        "answer": answer,
    }


def _keys() -> dict[str, Any]:
    """What a checkpoint holds: of the plain class, and in host mode after a step."""
    import tempfile

    import tensorflow as tf

    import tfdist_kit

    kinds = _kinds()

    def config() -> Any:
        return {"ids": kinds.FeatureConfig(kinds.TableConfig(10, 2, name="table"))}

    plain = kinds.TPUEmbedding(config(), kinds.Adagrad(0.1))
    plain.build()
    host = tfdist_kit.tpu_embedding(config(), kinds.Adagrad(0.1))
    host.enqueue({"ids": tf.constant([1])})
    host.apply_gradients({"ids": tf.ones_like(host.dequeue()["ids"])})
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, embedding in enumerate((plain, host)):
            path = tf.train.Checkpoint(embedding=embedding).save(f"{folder}/{number}")
            graph = tf.train.load_checkpoint(path)
            found.append(sorted(graph.get_variable_to_shape_map().items()))
        before = np.array(next(iter(host.embedding_tables.values())))
        tf.train.Checkpoint(embedding=plain).restore(path).assert_consumed()
    same = np.array_equal(before, np.array(next(iter(plain.embedding_tables.values()))))
    return {"plain": found[0], "host": found[1], "restored": same}


def _initializers() -> list[Any]:
    import tensorflow as tf

    import tfdist_kit

    kinds = _kinds()
    made: list[Callable[..., Any]] = [
        lambda shape: tf.ones(shape) * 2.0,
        lambda shape, dtype: tf.ones(shape, dtype) * 3.0,
        tf.constant_initializer(4.0),
        kinds.RowIdInitializer(1),
    ]
    tables = [kinds.TableConfig(2, 1, initializer=each, name=str(i)) for i, each in enumerate(made)]
    embedding = tfdist_kit.tpu_embedding([kinds.FeatureConfig(t) for t in tables], None)
    return [np.array(embedding.embedding_tables[table]).ravel().tolist() for table in tables]


def _on_tpu() -> dict[str, Any]:
    import tensorflow as tf

    import tfdist_kit
    from tfdist_kit.adapters.tpu_embedding import made_up_tpu

    kinds = _kinds()
    optimizer = kinds.Adagrad(0.1)
    table = kinds.TableConfig(10, 2)
    feature = kinds.FeatureConfig(table)
    ftrl = kinds.FTRL(0.1, l1_regularization_strength=-1.0)
    with made_up_tpu() as strategy, strategy.scope():
        embedding = tfdist_kit.tpu_embedding(
            feature, optimizer, mode="tpu", pipeline_execution_with_tensor_core=True
        )
        embedding.build(tf.TensorShape([4, 1]))  # there a list is none
        make: Any = tfdist_kit.tpu_embedding
        errors = [
            _error(lambda: make(feature, optimizer, mode="host")),
            _error(lambda: make(feature, None)),
            _error(lambda: make(feature, ftrl)),
            _error(lambda: make(feature, kinds.SGD(0.1, clipvalue=-1.0))),
            _error(lambda: make(feature, kinds.SGD(-1.0))),
            _error(lambda: make(feature, kinds.Adagrad(0.1, clip_weight_min=math.nan))),
            _error(lambda: make([], optimizer)),
            _error(lambda: make(kinds.FeatureConfig(kinds.TableConfig(True, 2)), optimizer)),
        ]
    return {
        "is_tensorflows": type(embedding) is kinds.TPUEmbedding,
        "pipeline": embedding._config_proto.pipeline_execution_with_tensor_core,
        "written": (table.name, table.optimizer, optimizer.low_dimensional_packing_status),
        "errors": errors,
    }


def _error(function: Callable[[], Any]) -> tuple[str, str]:
    try:
        function()
    except Exception as error:
        return type(error).__name__, str(error)
    return "", ""


def _buckets(lower: float, upper: float) -> Any:
    return _kinds().QuantizationConfig(4, lower, upper)


def _not_numbers() -> dict[tuple[str, str], Any]:
    """Each optimizer with one parameter that is nan, where TensorFlow itself lets it pass."""
    kinds = _kinds()
    made = {}
    for name, keys in NAN.items():
        for key in keys:
            made[name, key] = getattr(kinds, name)(**{"learning_rate": 0.1, key: math.nan})
    return made


def _wrong() -> dict[str, tuple[str, str]]:
    """The error of each wrong config."""
    import tensorflow as tf

    import tfdist_kit

    kinds = _kinds()
    sgd = kinds.SGD(0.1)
    make: Any = tfdist_kit.tpu_embedding

    def table(**changes: Any) -> Any:
        return kinds.TableConfig(**{"vocabulary_size": 10, "dim": 2, "name": "table", **changes})

    def of(optimizer: Any = sgd, features: Any = None, **changes: Any) -> Callable[[], Any]:
        return lambda: make(features or {"ids": kinds.FeatureConfig(table(**changes))}, optimizer)

    one = table()
    scalar = kinds.FeatureConfig(one, output_shape=[])
    cases: dict[str, Callable[[], Any]] = {
        "empty": lambda: make({}, sgd),
        "no_config": of(features={"a": {"b": one}}),
        "two_names": of(features=[kinds.FeatureConfig(t) for t in (one, table())]),
        "default_name": of(
            features=[kinds.FeatureConfig(t) for t in (table(name="table_1"), table(name=None))]
        ),
        "bool_rows": of(vocabulary_size=True),
        "bool_dim": of(dim=True),
        "bool_length": of(features=kinds.FeatureConfig(one, max_sequence_length=True)),
        "scalar": of(features=(scalar,)),
        "initializer_class": of(initializer=tf.keras.initializers.Zeros),
        "initializer_arguments": of(initializer=lambda: 1),
        "optimizer_class": of(kinds.SGD),
        "optimizer_name": of("sgd"),
        "table_optimizer": of(optimizer=sgd, features=kinds.FeatureConfig(table(optimizer="sgd"))),
        "keras_optimizer": of(tf.keras.optimizers.SGD()),
        "clip": of(kinds.SGD(0.1, clipvalue=-1.0)),
        "ftrl": of(kinds.FTRL(0.1, learning_rate_power=0.5)),
        "custom": of(kinds.CustomOptimizer(lambda: None)),
        "combiner": of(combiner=kinds.CustomCombiner(lambda valency, vectors: vectors, 3)),
        "decay": of(kinds.Adagrad(0.1, weight_decay_factor=0.1)),
        "accumulation": of(kinds.Adagrad(0.1, use_gradient_accumulation=False)),
        "sgd_accumulation": of(kinds.SGD(0.1, use_gradient_accumulation=False)),
        **{f"rate {rate}": of(kinds.SGD(rate)) for rate in RATES},
        **{f"quantized {limits}": of(quantization_config=_buckets(*limits)) for limits in LIMITS},
        **{f"{name} {key}": of(each) for (name, key), each in _not_numbers().items()},
        "no limit": of(kinds.SGD(0.0, clipvalue=math.inf, clip_weight_max=math.inf)),
        "name": of(name=5),
        "empty name": of(name=""),
        "mode": lambda: make(scalar, sgd, mode="cpu"),
        "batch_size": lambda: make(scalar, sgd, batch_size=4),
        "initialize": lambda: make(scalar, sgd, initialize_tpu_embedding=False),
        "unknown": lambda: make(scalar, sgd, nonsense=1),
    }
    return {name: _error(case) for name, case in cases.items()}


# On what they return


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    [results] = run_workers(f"{HERE}:attempted", workers=0)
    return dict(results)


def test_configs_are_not_written_to_and_can_be_used_again(results: dict[str, Any]) -> None:
    copies = results["copies"]
    assert copies["written"] == [(None, True), (None, False)]
    assert copies["slots"] == [
        ["accumulators", "parameters"],
        ["momenta", "parameters", "velocities"],
    ]
    assert copies["own"] == ["parameters"]
    assert copies["shape"] == [3, 2]


def test_tables_are_found_by_the_callers_own_configs(results: dict[str, Any]) -> None:
    copies = results["copies"]
    assert copies["is_tensorflows"]
    assert copies["is_ours"] == [True, True]
    assert copies["by_copy"]
    assert not copies["missing"]
    assert copies["answer"].endswith("it is embedding_tables")


def test_a_checkpoint_has_the_plain_classs_keys_and_nothing_else(results: dict[str, Any]) -> None:
    keys = results["keys"]
    assert keys["host"] == keys["plain"]
    assert any("table" in key for key, _ in keys["plain"])
    assert keys["restored"]


def test_an_initializer_may_know_only_the_shape(results: dict[str, Any]) -> None:
    assert results["initializers"] == [[2.0, 2.0], [3.0, 3.0], [4.0, 4.0], [1.0, 2.0]]


def test_under_a_tpu_strategy_it_is_tensorflows_own_class(results: dict[str, Any]) -> None:
    tpu = results["tpu"]
    assert tpu["is_tensorflows"]
    assert tpu["pipeline"]
    assert tpu["written"] == (None, None, False)


def test_a_tpus_configs_are_checked_too(results: dict[str, Any]) -> None:
    expected = [
        ("UnsupportedStrategyError", "mode is 'host'"),
        ("UsageError", "table 'table_0' has no optimizer"),
        ("UsageError", "l1_regularization_strength is -1.0"),
        ("UsageError", "clipvalue has the lower limit 1.0"),
        ("UsageError", "learning_rate is -1.0, but must be one finite number, 0 or more"),
        ("UsageError", "clip_weight_min is nan, but must be a number"),
        ("UsageError", "there is no feature in it"),
        ("UsageError", "vocabulary_size of table 'table_0' is True"),
    ]
    for (kind, text), (expected_kind, part) in zip(results["tpu"]["errors"], expected, strict=True):
        assert kind == expected_kind, text
        assert part in text


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("empty", "feature_config is {}: there is no feature in it"),
        ("no_config", "feature_config[a/b] is a TableConfig"),
        ("two_names", "two tables, number 0 and 1 in order of first use, have the name 'table'"),
        ("default_name", "have the name 'table_1'"),
        ("bool_rows", "vocabulary_size of table 'table' is True"),
        ("bool_dim", "dim of table 'table' is True"),
        ("bool_length", "max_sequence_length of feature_config is True"),
        ("scalar", "output_shape of feature_config[0] is []"),
        ("initializer_class", "give an instance: initializer=Zeros(...)"),
        ("initializer_arguments", "cannot be called with a shape alone"),
        ("optimizer_class", "optimizer is the class SGD"),
        ("optimizer_name", "optimizer is a str"),
        ("table_optimizer", "the optimizer of table 'table' is a str"),
        ("keras_optimizer", "optimizer is a SGD"),
        ("clip", "lower limit 1.0 above the upper limit -1.0"),
        ("ftrl", "learning_rate_power is 0.5"),
        ("custom", "CustomOptimizer"),
        ("combiner", "CustomCombiner"),
        ("decay", "weight_decay_factor"),
        ("accumulation", "use_gradient_accumulation=False"),
        ("name", "the name of a table is 5"),
        ("empty name", "the name of a table is ''"),
        ("mode", "mode is 'cpu'"),
        ("batch_size", "the batch size comes from build()"),
        ("initialize", "TensorFlow has no such argument"),
        ("unknown", "tpu_embedding() has no argument 'nonsense'"),
    ],
)
def test_what_cannot_work_is_refused(results: dict[str, Any], case: str, text: str) -> None:
    kind, told = results[case]
    assert kind == "UsageError", told
    assert text in told
    assert "hint: " in told


@pytest.mark.parametrize("rate", RATES)
def test_a_rate_that_computes_nonsense_is_refused(results: dict[str, Any], rate: Any) -> None:
    kind, told = results[f"rate {rate}"]
    assert kind == "UsageError"
    assert f"table 'table': learning_rate is {rate}, but must be one finite number" in told


@pytest.mark.parametrize("limits", LIMITS)
def test_limits_between_which_nothing_is_are_refused(results: dict[str, Any], limits: Any) -> None:
    kind, told = results[f"quantized {limits}"]
    assert kind == "UsageError"
    assert f"quantization_config has the limits {limits[0]} and {limits[1]}" in told


def test_no_parameter_may_be_nan(results: dict[str, Any]) -> None:
    for name, keys in NAN.items():
        for key in keys:
            kind, told = results[f"{name} {key}"]
            assert kind == "UsageError", (name, key)
            assert " is nan, but must be " in told


def test_what_can_be_modelled_is_not_refused(results: dict[str, Any]) -> None:
    assert results["no limit"] == ("", "")
    assert results["sgd_accumulation"] == ("", "")
