"""Host mode on several workers: the same tables bit by bit, and the numbers of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.adapters.cluster import run_workers
from tests.adapters.tpu_embedding import model

HERE = "tests.adapters.tpu_embedding.test_workers"
STEPS = 4
UNEVEN = 110
FIRST = {"last": "first", "uneven": "uneven_first"}


# In the workers


def trained() -> dict[str, Any]:
    """The model's steps, and more of batches that differ in size, empty ones among them."""
    import tensorflow as tf

    import tfdist_kit
    from tests.adapters.tpu_embedding import training, unlike

    strategy = tfdist_kit.multi_worker_mirrored(keras=False)
    rank = strategy.cluster_resolver.task_id
    embedding, tables = training.made(strategy)
    first = training.components(tables, embedding)
    iterator = training.batches(strategy, [rank])
    training.loop_of(strategy, embedding)(iterator, tf.constant(STEPS))
    last = training.components(tables, embedding)
    return {
        "first": first,
        "last": last,
        **_uneven(strategy, rank),
        "differing": unlike.differing(strategy, rank),
        "absent": unlike.absent(strategy, rank),
        "finite": unlike.finite(strategy, rank),
    }


def _uneven(strategy: Any, rank: int) -> dict[str, Any]:
    """Lookups differ in number between workers and steps, within one call of one function."""
    import tensorflow as tf

    import tfdist_kit
    from tests.adapters.tpu_embedding import training

    kinds = tf.tpu.experimental.embedding
    table = kinds.TableConfig(9000, 2, combiner="sum")  # its first values have no seed
    with strategy.scope():
        embedding = tfdist_kit.tpu_embedding(
            kinds.FeatureConfig(table, output_shape=[4]), kinds.Adagrad(0.1)
        )
    embedding.build()
    tables = {"table": table}
    first = training.components(tables, embedding)

    def ragged(step: Any) -> Any:
        seed = tf.stack([rank, tf.cast(step, tf.int32)])
        most = tf.gather([0, 3, 3000], tf.random.stateless_uniform([], seed, 0, 3, tf.int32))
        lengths = tf.random.stateless_uniform([4], seed, 0, most + 1, tf.int32)
        ids = tf.random.stateless_uniform([tf.reduce_sum(lengths)], seed, 0, 9000, tf.int64)
        return tf.RaggedTensor.from_row_lengths(ids, lengths)

    data = tf.data.Dataset.range(UNEVEN).map(ragged)
    step = training.step_of(embedding)

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def train(iterator: Any, steps: Any) -> None:
        for _ in tf.range(steps):
            embedding.enqueue(next(iterator))
            strategy.run(step)

    train(iter(data), tf.constant(UNEVEN))
    last = training.components(tables, embedding)
    return {
        "uneven_first": first,
        "uneven": last,
        "left": embedding.unfinished(),
        "sums": _sums(strategy, rank),
    }


def _sums(strategy: Any, rank: int) -> dict[int, list[float]]:
    """The sum itself, of ids that no float can hold."""
    import tensorflow as tf

    from tfdist_kit.adapters.tpu_embedding.reducing import Rows, summed

    ids = tf.constant([2**40 + 1, 2**24 + 1, 2**40 + 1][: 3 - rank], tf.int64)
    gradients = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]][: 3 - rank])

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def summed_up() -> Any:
        return summed(strategy, rank, [Rows(ids, gradients, dim=2, chunk=2)])[0]

    with strategy.scope():
        found, values = summed_up()
    return dict(zip(found.numpy().tolist(), values.numpy().tolist(), strict=True))


# On what they return


@pytest.fixture(scope="module")
def results() -> list[dict[str, Any]]:
    return list(run_workers(f"{HERE}:trained"))


def test_two_workers_train_as_one_process_with_two_replicas(results: list[dict[str, Any]]) -> None:
    first = {name: parts[0] for name, parts in results[0]["first"].items()}
    expected = model.trained(first, STEPS, 2)
    for name, [table] in results[0]["last"].items():
        np.testing.assert_allclose(table, expected[name], atol=2e-6, err_msg=name)
        assert abs(table - first[name]).max() > 1e-3


def test_tables_that_have_no_seed_are_alike_on_all_workers(results: list[dict[str, Any]]) -> None:
    [one], [other] = (result["uneven_first"]["table"] for result in results)
    assert np.array_equal(one, other)
    assert one.std() > 0.1


@pytest.mark.parametrize("part", ["last", "uneven"])
def test_every_worker_makes_the_same_updates(results: list[dict[str, Any]], part: str) -> None:
    for name, [table] in results[0][part].items():
        assert np.array_equal(table, results[1][part][name][0]), name
        assert not np.array_equal(table, results[0][FIRST[part]][name][0])


def test_ids_beyond_a_floats_precision_are_summed_apart(results: list[dict[str, Any]]) -> None:
    expected = {2**40 + 1: [7.0, 10.0], 2**24 + 1: [6.0, 8.0]}
    assert [result["sums"] for result in results] == [expected, expected]


def test_uneven_batches_leave_nothing_over(results: list[dict[str, Any]]) -> None:
    assert [result["left"] for result in results] == [[], []]


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("order", "table number 0 is 'A' on worker:0, 'B' on worker:1; table number 1 is 'B' on"),
        ("names", "differ: table number 1 is 'B' on worker:0, 'C' on worker:1"),
        ("number", "table number 1 is 'B' on worker:0, unset on worker:1; feature number 1 is"),
        (
            "rows",
            "vocabulary_size of table 'A' is 7 on worker:0, 8 on worker:1; vocabulary_size of",
        ),
        ("dim", "dim of table 'A' is 3 on worker:0, 4 on worker:1"),
        ("combiner", "combiner of table 'A' is mean on worker:0, sum on worker:1"),
        ("quantization", "num_buckets of table 'A' is unset on worker:0, 4 on worker:1"),
        ("optimizer", "the optimizer of table 'A' is SGD on worker:0, Adagrad on worker:1"),
        ("rate", "learning_rate of table 'A' is 0.1 on worker:0, 0.2 on worker:1"),
        ("rate function", "learning_rate of table 'A' is 0.1 on worker:0, a function on worker:1"),
        ("clipvalue", "clip_gradient_min of table 'A' is unset on worker:0, -0.5 on worker:1"),
        ("beta", "beta_2 of table 'A' is 0.999 on worker:0, 0.9 on worker:1"),
        ("feature", "feature number 0 is 'one' on worker:0, 'other' on worker:1"),
        ("length", "max_sequence_length of feature 'feature' is 2 on worker:0, 3 on worker:1"),
        ("shape", "the output shape of feature 'feature' is (2,) on worker:0, (3,) on worker:1"),
        ("enqueued shape", "feature 'feature' is (1,) on worker:0, (2,) on worker:1"),
    ],
)
def test_workers_whose_embeddings_differ_all_say_so(
    results: list[dict[str, Any]], case: str, text: str
) -> None:
    one, other = (result["differing"][case] for result in results)
    assert one == other
    assert one.startswith("EmbeddingError TFD080: the workers' embeddings differ: ")
    assert text in one
    assert "hint: make the same tables and features in the same order on every worker" in one


def test_workers_that_are_alike_say_nothing(results: list[dict[str, Any]]) -> None:
    assert [result["differing"]["alike"] for result in results] == ["", ""]


def test_a_worker_that_builds_no_embedding_is_told_of(results: list[dict[str, Any]]) -> None:
    said = "EmbeddingError TFD080: worker:1 did not build the embedding within 0.5 s"
    for result in results:
        assert result["absent"].startswith(said)


def test_a_worker_whose_data_is_over_has_no_lookups(results: list[dict[str, Any]]) -> None:
    learned = [0.0, -5.0, 0.0]  # 10 samples of row 1, at 0.5
    tables = {"dense": learned, "sparse": learned, "ragged": learned}
    for result in results:
        assert result["finite"] == {"graph": (3, tables), "eager": (3, tables)}
