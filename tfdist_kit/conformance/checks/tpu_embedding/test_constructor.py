"""How a TPUEmbedding is made."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from tfdist_kit.conformance.checks.tpu_embedding._configs import feature, kit, saved, table
from tfdist_kit.conformance.checks.tpu_embedding._traced import traced
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)


def assert_is_made(subject: Subject, **arguments: Any) -> None:
    """Make an embedding; the kit's refusal of an argument is a failure as TensorFlow's is."""
    try:
        subject.make_embedding(feature(), **arguments)
    except Exception as error:
        raise AssertionError(f"it is refused ({type(error).__name__}) for {arguments}") from error


@claim("tpu.constructor.signature")
def test_signature() -> None:
    parameters = inspect.signature(kit().TPUEmbedding).parameters.values()
    empty = inspect.Parameter.empty
    assert [(one.name, one.default) for one in parameters] == [
        *(("feature_config", empty), ("optimizer", empty)),
        ("pipeline_execution_with_tensor_core", False),
    ]


@claim("tpu.constructor.optimizer-is-required")
def test_optimizer_is_required(subject: Subject) -> None:
    with pytest.raises(TypeError, match="optimizer"):
        subject.make_embedding(feature_config=feature())


@claim("tpu.constructor.no-optimizer-no-slots")
def test_no_optimizer_no_slots(subject: Subject, tmp_path: Path) -> None:
    without = subject.make_embedding(feature(), None)
    without.build()
    assert list(saved(without, tmp_path)) == ["embedding/user"]
    having = subject.make_embedding(feature(), kit().Adagrad(0.1))
    having.build()
    assert len(saved(having, tmp_path)) == 2


@claim("tpu.constructor.no-optimizer-under-tpu")
def test_no_optimizer_under_tpu(subject: Subject) -> None:
    with traced() as strategy, strategy.scope(), pytest.raises(ValueError, match="optimizer"):
        subject.make_embedding(feature(), None)


@claim("tpu.constructor.other-optimizers")
def test_other_optimizers(subject: Subject) -> None:
    import tensorflow as tf

    for wrong in ("sgd", tf.keras.optimizers.SGD(0.1), tf.compat.v1.train.AdamOptimizer(0.1)):
        with pytest.raises(ValueError, match="optimizer"):
            subject.make_embedding(feature(), wrong)
        with pytest.raises(ValueError, match="optimizer"):
            subject.make_embedding(feature(table(optimizer=wrong)), kit().SGD(0.1))


@claim("tpu.constructor.initialize-argument")
def test_initialize_argument(subject: Subject) -> None:
    assert_is_made(subject, optimizer=kit().SGD(0.1), initialize_tpu_embedding=False)


@claim("tpu.constructor.batch-size-argument")
def test_batch_size_argument(subject: Subject) -> None:
    assert_is_made(subject, batch_size=4, optimizer=kit().Adam(0.1))


@claim("tpu.constructor.nested-features")
def test_nested_features(subject: Subject) -> None:
    one, other = feature(table(name="user")), feature(table(name="video"))
    for config, names in (
        (one, ["user"]),
        ([one, other], ["user", "video"]),
        ((one, {"a": [other]}), ["user", "video"]),
        ({"a": other, "b": (one, other)}, ["video", "user"]),
    ):
        found = subject.make_embedding(config, kit().SGD(0.1)).embedding_tables
        assert [each.name for each in found] == names
