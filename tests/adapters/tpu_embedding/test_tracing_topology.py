"""`made_up_tpu`: a real strategy, embeddings that are built without hardware, and all undone."""

from __future__ import annotations

import threading
from importlib.metadata import version
from typing import Any

from packaging.version import Version

from tests.adapters.cluster import run_workers
from tfdist_kit.adapters.tpu_embedding.tracing.needs import (
    EMBEDDING,
    NEEDED,
    OF_EMBEDDINGS,
    check_embedding,
)

HERE = "tests.adapters.tpu_embedding.test_tracing_topology"
NAMES = [
    *(".".join(each) for each in NEEDED),
    *(f"{EMBEDDING}.TPUEmbedding.{name}" for name in OF_EMBEDDINGS),
]


def _built(strategy: Any, *, kit: bool = True) -> Any:
    import tensorflow as tf

    from tests.adapters.tpu_embedding.steps import embedding

    with strategy.scope():
        own = embedding(kit=kit)
    own.build({name: tf.TensorShape([4, 1]) for name in "ab"})
    return own


def _error(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def in_worker_topology() -> dict[str, Any]:
    import tensorflow as tf

    from tests.adapters.tpu_embedding.steps import E, embedding
    from tfdist_kit.adapters.tpu_embedding import made_up_tpu

    original = E.TPUEmbedding.build
    told: dict[str, Any] = {}
    with made_up_tpu(hosts=3, cores_per_host=2) as strategy:
        told["strategy"] = (
            type(strategy) is tf.distribute.TPUStrategy,
            strategy.num_replicas_in_sync,
            strategy.extended.num_hosts,
            list(strategy.extended.worker_devices),
        )
        told["in use"] = tf.distribute.has_strategy()
        with strategy.scope():
            variable = tf.Variable(1.0)
        told["copies"] = len(variable.values)
        own = _built(strategy)
        told["hosts of the configuration"] = own._config_proto.num_hosts
        told["tables"] = _error(lambda: own.embedding_tables)
        own.build()  # a second time: nothing
        told["second"] = _error(lambda: _built(strategy))
        plain = embedding(kit=False)
        told["plain"] = [table.shape[0] for table in plain.embedding_tables.values()]
        with made_up_tpu() as inner:
            told["nested"] = (_built(inner)._strategy is inner, inner.num_replicas_in_sync)
        told["still open"] = E.TPUEmbedding.build is not original
        with made_up_tpu() as again:
            told["another one"] = _error(lambda: _built(again))
        with made_up_tpu() as again:
            told["TensorFlow's own alone"] = _error(lambda: _built(again, kit=False))
    told["restored"] = E.TPUEmbedding.build is original
    told["closed"] = _error(lambda: _built(strategy))
    told["broken off"] = _error(_broken_off)
    told["restored again"] = E.TPUEmbedding.build is original
    told["threads"] = _in_threads()
    told["restored after threads"] = E.TPUEmbedding.build is original
    told["variables after"] = type(tf.Variable(1.0)).__name__
    told["counts"] = [
        _error(lambda given=given: made_up_tpu(*given).__enter__())
        for given in [(0, 8), (1, -1), (True, 8), (1, 2.0)]
    ]
    return told


def _broken_off() -> None:
    from tfdist_kit.adapters.tpu_embedding import made_up_tpu

    with made_up_tpu():
        raise KeyError("on purpose")


def _in_threads() -> list[int]:
    from tfdist_kit.adapters.tpu_embedding import made_up_tpu

    cores: list[int] = []
    together = threading.Barrier(3)

    def use(count: int) -> None:
        with made_up_tpu(cores_per_host=count) as strategy:
            together.wait(60)
            cores.append(_built(strategy)._config_proto.num_tensor_cores)
            together.wait(60)

    threads = [threading.Thread(target=use, args=(count,)) for count in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return sorted(cores)


def in_worker_guards() -> list[str]:
    """What is said when TensorFlow lacks a private name; one after the other."""
    import importlib

    from tests.adapters.tpu_embedding.faulty import PROGRAMS
    from tests.adapters.tpu_embedding.steps import E
    from tfdist_kit.adapters.tpu_embedding import check_step

    said = []
    for module, *inner, name in NEEDED:
        owner = importlib.import_module(module)
        for each in inner:
            owner = getattr(owner, each)
        kept = getattr(owner, name)
        delattr(owner, name)
        said.append(_error(lambda: check_step(*PROGRAMS["training"], cores_per_host=1)))
        setattr(owner, name, kept)
    for name in OF_EMBEDDINGS:
        said.append(_error(lambda name=name: check_embedding(_without(name))))
    return [*said, _error(lambda: check_embedding(E.TPUEmbedding([], None)))]


def _without(name: str) -> Any:
    from tests.adapters.tpu_embedding.steps import E

    embedding = E.TPUEmbedding([], None)
    delattr(embedding, name)
    return embedding


def test_a_real_strategy_whose_embeddings_are_built_without_hardware() -> None:
    [told] = run_workers(f"{HERE}:in_worker_topology", workers=0)
    is_real, replicas, hosts, devices = told["strategy"]
    assert (is_real, replicas, hosts) == (True, 6, 3)
    assert devices == [
        f"/job:localhost/replica:0/task:{host}/device:TPU:{core}"
        for host in range(3)
        for core in range(2)
    ]
    assert not told["in use"]
    assert told["copies"] == 6
    assert told["hosts of the configuration"] == 3
    assert "Unable to retrieve embedding tables when using a TPU" in told["tables"]
    assert told["second"].startswith("RuntimeError: TPU is already initialized")
    assert told["another one"] == ""
    refuses_bools = Version(version("protobuf")) >= Version("7.34")
    assert ("Expected an int, got a boolean" in told["TensorFlow's own alone"]) == refuses_bools
    names = ["hosts is 0", "cores_per_host is -1", "hosts is True", "cores_per_host is 2.0"]
    assert [text.partition("\n")[0] for text in told["counts"]] == [
        f"UsageError: TFD001: {name}" for name in names
    ]
    _assert_undone(told)


def _assert_undone(told: dict[str, Any]) -> None:
    """Other embeddings are as ever while it is open, and all is afterwards."""
    assert told["plain"] == [8, 8]
    assert told["nested"] == (True, 8)
    assert told["still open"]
    assert told["restored"]
    assert "IsTPUEmbeddingInitialized" in told["closed"]
    assert told["broken off"] == "KeyError: 'on purpose'"
    assert told["restored again"]
    assert told["threads"] == [1, 2, 3]
    assert told["restored after threads"]
    assert told["variables after"] == "ResourceVariable"


def test_a_private_name_that_is_missing_is_named() -> None:
    [told] = run_workers(f"{HERE}:in_worker_guards", workers=0)
    *said, with_all = told
    for text, name in zip(said, NAMES, strict=True):
        assert text.startswith("UnsupportedVersionError: TFD041: TensorFlow 2."), name
        assert f" has no {name}\n" in text
    assert with_all == ""
