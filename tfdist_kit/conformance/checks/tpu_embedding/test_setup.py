"""How the input of a step is set up."""

from __future__ import annotations

from typing import Any

import pytest

from tfdist_kit.conformance.checks.tpu_embedding._configs import feature
from tfdist_kit.conformance.checks.tpu_embedding._traced import sgd, traced
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)


def on_the_host() -> Any:
    """The option that the page asks for."""
    import tensorflow as tf

    return tf.distribute.InputOptions(experimental_fetch_to_device=False)


def sparse_ids() -> Any:
    """A dataset of batches of two examples, as a SparseTensor."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensors(tf.sparse.from_dense([[1, 2], [3, 0]])).repeat()


def check_sparse_batches(strategy: Any) -> None:
    """Distribute sparse ids with the option, and look at the first batch."""
    import tensorflow as tf

    made = strategy.distribute_datasets_from_function(lambda context: sparse_ids(), on_the_host())
    [batch] = strategy.experimental_local_results(next(iter(made)))
    assert tf.sparse.to_dense(batch).numpy().tolist() == [[1, 2], [3, 0]]
    assert "CPU" in batch.values.device


@claim("tpu.setup.option-elsewhere")
@pytest.mark.parametrize("kind", ["default", "mirrored"])
def test_option_elsewhere(kind: str) -> None:
    import tensorflow as tf

    mirrored = kind == "mirrored"
    check_sparse_batches(
        tf.distribute.MirroredStrategy(["CPU:0"]) if mirrored else tf.distribute.get_strategy()
    )


@claim("tpu.setup.option-elsewhere")
@pytest.mark.tfdist(workers=2)
def test_option_elsewhere_with_workers(subject: Subject) -> None:
    check_sparse_batches(subject.make_strategy())


@claim("tpu.setup.sparse-without-the-option")
def test_sparse_without_the_option() -> None:
    with traced() as strategy:
        with pytest.raises(ValueError, match="experimental_fetch_to_device"):
            strategy.distribute_datasets_from_function(lambda context: sparse_ids())
        strategy.distribute_datasets_from_function(lambda context: sparse_ids(), on_the_host())


@claim("tpu.setup.sparse-in-a-dict-without-the-option")
def test_sparse_in_a_dict_without_the_option() -> None:
    with traced() as strategy, pytest.raises(ValueError, match="experimental_fetch_to_device"):
        strategy.distribute_datasets_from_function(
            lambda context: sparse_ids().map(lambda ids: {"f": ids})
        )


@claim("tpu.setup.ids-on-a-tpu-device")
def test_ids_on_a_tpu_device(subject: Subject) -> None:
    import tensorflow as tf

    with traced() as strategy:
        with strategy.scope():
            embedding = subject.make_embedding({"f": feature()}, sgd())

        @tf.function
        def step(device: str) -> None:
            with tf.device(device):
                ids = tf.identity(tf.constant([[1]]))
            embedding.enqueue({"f": ids}, training=False)

        step.get_concrete_function("CPU:0")
        with pytest.raises(ValueError, match="experimental_fetch_to_device"):
            step.get_concrete_function(strategy.extended.worker_devices[0])


@claim("tpu.setup.batch-size-of-a-finite-dataset")
@pytest.mark.tfdist(workers=2)
def test_batch_size_of_a_finite_dataset(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()

    def batch_size(dataset: Any) -> Any:
        found: list[Any] = []
        made = strategy.distribute_datasets_from_function(lambda context: dataset, on_the_host())

        @tf.function
        def step(iterator: Any) -> None:
            [batch] = strategy.experimental_local_results(next(iterator))
            found.append(batch.shape[0])

        step.get_concrete_function(iter(made))
        return found[0]

    batches = tf.data.Dataset.range(8).batch(2, drop_remainder=True)
    assert batch_size(batches.repeat()) == 2
    found = batch_size(batches)
    assert found == 2, f"the batch size is {found}"
