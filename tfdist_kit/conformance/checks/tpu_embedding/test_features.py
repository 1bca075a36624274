"""What is made of the features and of their tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tfdist_kit.conformance.checks.tpu_embedding._configs import feature, kit, names, saved, table
from tfdist_kit.conformance.checks.tpu_embedding._traced import proto, sgd, traced
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)


def table_names(embedding: Any) -> list[str]:
    return names(list(embedding.embedding_tables.values()))


@claim("tpu.config.shared-table")
def test_shared_table(subject: Subject) -> None:
    one, two = table(4, name="user"), table(6, name="video")
    config = {"a": feature(one), "b": feature(one), "c": feature(two)}
    found = subject.make_embedding(config, kit().SGD(0.1)).embedding_tables
    assert [tuple(each.shape) for each in found.values()] == [(4, 2), (6, 2)]


@claim("tpu.config.shared-by-identity")
def test_shared_by_identity(subject: Subject) -> None:
    config = [feature(table(4)), feature(table(4))]
    assert len(subject.make_embedding(config, kit().SGD(0.1)).embedding_tables) == 2


@claim("tpu.config.names-are-unique")
def test_names_are_unique(subject: Subject) -> None:
    config = [feature(table(4, name="user")), feature(table(6, name="user"))]
    with pytest.raises(ValueError, match="user"):
        subject.make_embedding(config, kit().SGD(0.1))


@claim("tpu.config.default-names")
def test_default_names(subject: Subject) -> None:
    first, last = table(), table()
    config = [feature(first), feature(table(name="user")), feature(last), feature(first)]
    embedding = subject.make_embedding(config, kit().SGD(0.1))
    assert table_names(embedding) == ["table_0", "user", "table_2"]


@claim("tpu.config.table-order")
def test_table_order(subject: Subject) -> None:
    user, video = feature(table(name="user")), feature(table(name="video"))
    for config, wanted in (
        ({"w": user, "f": video}, ["video", "user"]),
        ([user, video, user], ["user", "video"]),
    ):
        assert table_names(subject.make_embedding(config, kit().SGD(0.1))) == wanted


@claim("tpu.config.table-order")
def test_table_order_for_the_engine(subject: Subject) -> None:
    config = {"w": feature(table(name="user")), "f": feature(table(name="video"))}
    with traced() as strategy, strategy.scope():
        embedding = subject.make_embedding(config, sgd())
        embedding.build(2)
    assert [each.name for each in proto(embedding).table_descriptor] == ["video", "user"]


@claim("tpu.config.left-alone")
def test_left_alone(subject: Subject) -> None:
    config = table()
    subject.make_embedding(feature(config), kit().SGD(0.1))
    assert (config.name, config.optimizer) == (None, None), "the TableConfig has changed"


@claim("tpu.config.optimizer-of-a-table")
def test_optimizer_of_a_table(subject: Subject, tmp_path: Path) -> None:
    own = table(name="user", optimizer=kit().Adagrad(0.1))
    embedding = subject.make_embedding([feature(own), feature(table(name="video"))], kit().SGD(0.1))
    embedding.build()
    slots = [name for name in saved(embedding, tmp_path) if "accumulators" in name]
    assert len(slots) == 1
    assert slots[0].startswith("embedding/user")


@claim("tpu.config.optimizer-of-a-table")
def test_optimizer_of_a_table_for_the_engine(subject: Subject) -> None:
    config = [feature(table(name="user", optimizer=sgd(0.5))), feature(table(name="video"))]
    with traced() as strategy, strategy.scope():
        embedding = subject.make_embedding(config, sgd(0.25))
        embedding.build(2)
    rates = [
        each.optimization_parameters.learning_rate.constant
        for each in proto(embedding).table_descriptor
    ]
    assert rates == [0.5, 0.25]


@claim("tpu.config.nothing")
def test_nothing(subject: Subject) -> None:
    with pytest.raises(ValueError, match="feature_config"):
        subject.make_embedding({}, kit().SGD(0.1))
