"""What apply_gradients makes of what it is given, seen in steps that are traced."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tfdist_kit.conformance.checks.tpu_embedding._traced import APPLY, proto, sgd, traced
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)

BATCH, DIM = 4, 2
NAMES = ("a", "b")


def _features(rates: tuple[Any, ...] = (0.1, 0.1)) -> Any:
    """A feature for each rate, each with a table of its own."""
    import tensorflow as tf

    kinds = tf.tpu.experimental.embedding
    return {
        name: kinds.FeatureConfig(kinds.TableConfig(8, DIM, optimizer=sgd(rate), name=name))
        for name, rate in zip("abc", rates, strict=False)
    }


def _built(subject: Subject, rates: tuple[Any, ...] = (0.1, 0.1)) -> Any:
    import tensorflow as tf

    features = _features(rates)
    made = subject.make_embedding(features, sgd())
    made.build({name: tf.TensorShape([BATCH, 1]) for name in features})
    return made


def _apply(strategy: Any, made: Any, gradients: Callable[[Any], Any]) -> list[Any]:
    """Trace apply_gradients of what `gradients` makes of the activations; the op's inputs."""
    import tensorflow as tf

    inputs: list[Any] = []

    def step() -> None:
        made.apply_gradients(gradients(made.dequeue()))
        graph = tf.compat.v1.get_default_graph()
        [op] = [op for op in graph.get_operations() if op.type == APPLY]
        inputs.extend(op.inputs)

    @tf.function
    def whole() -> None:
        strategy.run(step)

    whole.get_concrete_function()
    return inputs


def _applied(subject: Subject, gradients: Callable[[Any], Any]) -> list[Any]:
    with traced() as strategy, strategy.scope():
        return _apply(strategy, _built(subject), gradients)


def _value(tensor: Any) -> Any:
    """What a tensor of a graph always is; None if that depends on something."""
    import tensorflow as tf

    while tensor.op.type in ("Reshape", "Identity"):
        tensor = tensor.op.inputs[0]
    return tf.get_static_value(tensor)


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """What TensorFlow warns of meanwhile."""
    told: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("absl").addHandler(handler)
    try:
        yield told
    finally:
        logging.getLogger("absl").removeHandler(handler)


@claim("tpu.apply-gradients.none-is-zero")
def test_none_is_zero(subject: Subject) -> None:
    with _warnings() as told:
        first, second = _applied(subject, lambda found: {"a": None, "b": found["b"]})[:2]
    assert _value(first) is not None, "what is sent is no constant"
    assert _value(first).tolist() == [[0.0] * DIM] * BATCH
    assert _value(second) is None
    about = [line for line in told if "zero gradient" in line]
    assert len(about) == 1, told
    assert "feature a" in about[0]


@claim("tpu.apply-gradients.no-tensor")
def test_no_tensor(subject: Subject) -> None:
    with pytest.raises(ValueError, match=r"non-tensor.*path a"):
        _applied(subject, lambda found: {"a": 1.0, "b": found["b"]})


@claim("tpu.apply-gradients.wrong-shape")
def test_wrong_shape(subject: Subject) -> None:
    import tensorflow as tf

    for shape in ([BATCH, DIM + 1], [BATCH + 1, DIM], [BATCH * DIM]):
        wrong = tf.zeros(shape)
        with pytest.raises(ValueError, match=r"gradient of shape .* at path b"):
            _applied(subject, lambda found: {**found, "b": wrong})  # noqa: B023  # called at once


@claim("tpu.apply-gradients.wrong-type-of-structure")
def test_wrong_type(subject: Subject) -> None:
    with pytest.raises(TypeError):
        _applied(subject, lambda found: [found["a"], found["b"]])


@claim("tpu.apply-gradients.wrong-size-of-structure")
def test_wrong_size(subject: Subject) -> None:
    with pytest.raises(ValueError, match="same"):
        _applied(subject, lambda found: {"a": found["a"]})


@claim("tpu.apply-gradients.before-build")
def test_before_build(subject: Subject) -> None:
    with traced() as strategy, strategy.scope():
        made = subject.make_embedding(_features(), sgd())
        with pytest.raises(RuntimeError, match="unbuilt"):
            made.apply_gradients(dict.fromkeys(NAMES))


@claim("tpu.apply-gradients.one-tag-for-one-function")
def test_one_tag(subject: Subject) -> None:
    def one() -> float:
        return 0.1

    def other() -> float:
        return 0.1

    with traced() as strategy, strategy.scope():
        tables = proto(_built(subject, (one, one, other))).table_descriptor
    rates = [table.optimization_parameters.learning_rate for table in tables]
    assert [rate.WhichOneof("learning_rate") for rate in rates] == ["dynamic"] * 3
    assert [rate.dynamic.tag for rate in rates] == [0, 0, 1]
