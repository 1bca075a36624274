"""What the switch does not reach is told where the program uses it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.cluster import run_workers
from tests.adapters.op_determinism.hearing import hearing

HERE = "tests.adapters.op_determinism.test_known"


# In the worker


def check_known() -> dict[str, Any]:
    """For each op of the table: warnings for it and for its cure, and how many results each has."""
    import numpy as np
    import tensorflow as tf

    from tfdist_kit import UsageError, enable_op_determinism
    from tfdist_kit.adapters.op_determinism import KNOWN, disabled

    tf.config.threading.set_intra_op_parallelism_threads(4)
    enable_op_determinism(1)
    random = np.random.RandomState(1)
    which = tf.constant(random.randint(0, 50, 200_000), tf.int32)
    weights = tf.constant(random.rand(200_000), tf.float32)
    square = tf.constant((random.rand(600, 600) > 0.5) * random.rand(600, 600), tf.float32)
    csr = tf.raw_ops.DenseToCSRSparseMatrix(dense_input=square, indices=tf.where(square != 0))
    right = tf.constant(random.rand(600, 32), tf.float32)
    turned = tf.raw_ops.SparseMatrixTranspose(input=csr, type=tf.float32)
    image, ratio = tf.reshape(weights[:225], [1, 15, 15, 1]), [1.0, 1.44, 1.73, 1.0]
    pool = {"value": image, "pooling_ratio": ratio}
    product = tf.raw_ops.SparseMatrixMatMul
    summed = lambda: tf.math.unsorted_segment_sum(weights, which, 50)  # noqa: E731

    uses: dict[str, tuple[Any, Any]] = {
        "DenseBincount": (lambda: tf.math.bincount(which, weights), summed),
        "Bincount": (lambda: tf.raw_ops.Bincount(arr=which, size=50, weights=weights), summed),
        "SparseMatrixMatMul": (
            lambda: product(a=csr, b=right, transpose_a=True),
            lambda: product(a=turned, b=right),
        ),
        "FractionalAvgPool": (
            lambda: tf.nn.fractional_avg_pool(image, ratio, pseudo_random=True)[0],
            lambda: tf.nn.fractional_avg_pool(image, ratio, pseudo_random=True, seed=1)[0],
        ),
        "FractionalMaxPool": (
            lambda: tf.raw_ops.FractionalMaxPool(**pool, pseudo_random=True)[0],
            lambda: tf.raw_ops.FractionalMaxPool(
                **pool, pseudo_random=True, seed=1, seed2=1, deterministic=True
            )[0],
        ),
        "NonDeterministicInts": (
            lambda: tf.raw_ops.NonDeterministicInts(shape=[4]),
            lambda: tf.random.stateless_uniform([4], [1, 2], maxval=9, dtype=tf.int32),
        ),
    }

    def told(use: Any) -> list[str]:
        with hearing() as texts:
            result = use()
            use()
        return [str(result.shape), *texts]

    def results(use: Any, times: int) -> int:
        return len({use().numpy().tobytes() for _ in range(times)})

    def several(use: Any) -> bool:
        return any(results(use, 20) > 1 for _ in range(20))

    found: dict[str, Any] = {
        "table": [known.op for known in KNOWN],
        "told": {op: told(use) for op, (use, _) in uses.items()},
        "in a function": told(tf.function(lambda: tf.math.bincount(which, weights))),
        "cured": {op: told(cure)[1:] for op, (_, cure) in uses.items()},
        "not these": told(lambda: tf.math.bincount(which))[1:]
        + told(lambda: tf.math.bincount(which, tf.ones_like(which)))[1:]
        + told(lambda: tf.math.bincount(which[None], weights[None], axis=-1))[1:],
        "results differ": {op: several(use) for op, (use, _) in uses.items()},
        "results of the cure": {op: results(cure, 20) for op, (_, cure) in uses.items()},
        "cures are equal": [
            bool(np.allclose(uses[op][0](), uses[op][1]()))
            for op in ("DenseBincount", "SparseMatrixMatMul")
        ],
    }
    enable_op_determinism(1, on_known="refuse")
    with pytest.raises(UsageError) as error:
        uses["DenseBincount"][0]()
    found["refused"] = str(error.value)
    with disabled():
        uses["DenseBincount"][0]()
    return found


def check_one_thread() -> list[Any]:
    import numpy as np
    import tensorflow as tf

    from tfdist_kit import enable_op_determinism

    tf.config.threading.set_intra_op_parallelism_threads(1)
    enable_op_determinism(1, on_known="refuse")
    random = np.random.RandomState(1)
    which = tf.constant(random.randint(0, 50, 200_000), tf.int32)
    weights = tf.constant(random.rand(200_000), tf.float32)
    return [len({tf.math.bincount(which, weights).numpy().tobytes() for _ in range(40)})]


def check_silent() -> dict[str, Any]:
    import numpy as np
    import tensorflow as tf

    from tfdist_kit import UsageError, enable_op_determinism
    from tfdist_kit.adapters.op_determinism import disabled

    def told(make: Any) -> list[str]:
        with hearing() as texts:
            make()
        return texts

    def servers() -> None:
        with pytest.raises(AttributeError):
            tf.distribute.ParameterServerStrategy(None)

    def session() -> None:
        with tf.Graph().as_default(), tf.compat.v1.Session() as made:
            assert made.run(tf.constant(3)) == 3

    def interactive() -> None:
        with tf.Graph().as_default():
            tf.compat.v1.InteractiveSession().close()

    things = {
        "servers": servers,
        "session": session,
        "interactive": interactive,
        "generator": lambda: np.random.default_rng(),
        "seeded generator": lambda: np.random.default_rng(1),
        "seeded by name": lambda: np.random.default_rng(seed=1),
    }
    found: dict[str, Any] = {}
    enable_op_determinism(1)
    with disabled():
        found["off"] = [text for make in things.values() for text in told(make)]
    found["on"] = {name: told(make) for name, make in things.items()}
    enable_op_determinism(1, unseeded_numpy="allow")
    found["allowed"] = told(lambda: np.random.default_rng())
    enable_op_determinism(1, unseeded_numpy="refuse")
    with pytest.raises(UsageError) as error:
        np.random.default_rng()
    found["refused"] = str(error.value).splitlines()[0]
    return found


# In pytest


def alone(function: str, **kwargs: Any) -> Any:
    [found] = run_workers(f"{HERE}:{function}", workers=0, **kwargs)
    return found


def test_known_ops_differ_and_are_told_and_their_cures_neither() -> None:
    found = alone("check_known")
    assert set(found["told"]) == set(found["table"])
    for op, (_, *texts) in found["told"].items():
        assert len(texts) == 1, op
        assert (
            "although op determinism is on: tests/adapters/op_determinism/test_known.py:"
            in (texts[0])
        )
    assert (
        "tf.math.bincount is not deterministic (float weights on a flat input)"
        in (found["in a function"][1])
    )
    assert found["cured"] == {op: [] for op in found["table"]}
    assert found["not these"] == []
    assert found["refused"].startswith("TFD001: tf.math.bincount is not deterministic")
    assert "hint: tf.math.unsorted_segment_sum" in found["refused"]
    assert found["results differ"] == dict.fromkeys(found["table"], True)
    assert found["results of the cure"] == dict.fromkeys(found["table"], 1)
    assert found["cures are equal"] == [True, True]


def test_one_thread_cures_a_sum_and_is_not_told() -> None:
    assert alone("check_one_thread") == [1]


def test_what_tensorflow_is_silent_about_is_told_where_it_is_made() -> None:
    found = alone("check_silent")
    assert found["off"] == []
    counts = {name: len(texts) for name, texts in found["on"].items()}
    assert counts == {
        **dict.fromkeys(("servers", "session", "interactive", "generator"), 1),
        **dict.fromkeys(("seeded generator", "seeded by name"), 0),
    }
    for name, words in (
        ("servers", "tf.distribute.ParameterServerStrategy is not deterministic"),
        ("session", "tf.compat.v1.Session is not deterministic"),
        ("generator", "numpy.random.default_rng() without a seed"),
    ):
        assert words in found["on"][name][0]
        assert "test_known.py:" in found["on"][name][0]
    assert found["allowed"] == []
    assert found["refused"].startswith("TFD001: numpy.random.default_rng() without a seed")
