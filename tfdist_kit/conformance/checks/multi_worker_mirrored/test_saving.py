"""What the page says of saving and checkpointing on all workers."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)

LONG_ENOUGH = 1.0
"""Seconds; a save that waits for nobody takes some hundredths."""


@claim("mwms.saving.on-all-workers")
def test_each_worker_restores_what_it_saved(
    subject: Subject, tf_worker: Worker, tmp_path: Path
) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    with strategy.scope():
        kept = tf.Variable([1.0, 2.0])
        mean = _on_read("MEAN")
    _set_on_replica(strategy, mean, 4.0)
    checkpoint = tf.train.Checkpoint(kept=kept, mean=mean)
    path = checkpoint.save(str(tmp_path / str(tf_worker.rank) / "step"))
    kept.assign([8.0, 9.0])
    _set_on_replica(strategy, mean, 7.0)
    checkpoint.restore(path).assert_consumed()
    assert kept.numpy().tolist() == [1.0, 2.0]
    assert float(strategy.reduce("MEAN", mean, axis=None)) == 4.0


@claim("mwms.saving.one-worker-alone-blocks")
def test_one_worker_alone_waits_for_the_other(
    subject: Subject, tf_worker: Worker, tmp_path: Path
) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    with strategy.scope():
        checkpoint = tf.train.Checkpoint(sum=_on_read("SUM"))
    path = str(tmp_path / str(tf_worker.rank) / "step")
    # Both save in the end: the one that waits is let go, and the processes stay as they were.
    saving = threading.Thread(target=checkpoint.save, args=(path,), daemon=True)
    seen = tmp_path / "seen"
    if tf_worker.rank == 0:
        saving.start()
        saving.join(LONG_ENOUGH)
        assert saving.is_alive(), "the worker has saved without the other"
        seen.touch()
    else:
        while not seen.exists():
            time.sleep(0.01)
        saving.start()
    saving.join()


@claim("mwms.saving.mirrored-alone")
def test_mirrored_variables_are_saved_by_one_worker_alone(
    subject: Subject, tf_worker: Worker, tmp_path: Path
) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    with strategy.scope():
        kept = tf.Variable(3.0)
    if tf_worker.rank == 0:
        tf.train.Checkpoint(kept=kept).write(str(tmp_path / "step"))
    # A save that took part in a collective would have met this one, with another shape.
    assert float(_total(strategy, 1.0)) == 2.0
    saved = tf.train.load_checkpoint(str(tmp_path / "step"))
    assert float(saved.get_tensor("kept/.ATTRIBUTES/VARIABLE_VALUE")) == 3.0


@claim("mwms.saving.on-read-aggregates")
def test_the_sum_or_the_mean_over_the_replicas_is_saved(
    subject: Subject, tf_worker: Worker, tmp_path: Path
) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    with strategy.scope():
        sum_, mean = _on_read("SUM"), _on_read("MEAN")
    for variable in (sum_, mean):
        _set_on_replica(strategy, variable, tf_worker.rank + 1.0)
    path = str(tmp_path / str(tf_worker.rank))
    tf.train.Checkpoint(sum=sum_, mean=mean).write(path)
    saved = tf.train.load_checkpoint(path)
    assert float(saved.get_tensor("sum/.ATTRIBUTES/VARIABLE_VALUE")) == 3.0
    assert float(saved.get_tensor("mean/.ATTRIBUTES/VARIABLE_VALUE")) == 1.5


@claim("mwms.saving.restored-sum-is-divided")
def test_each_replica_gets_an_equal_part_of_a_restored_sum(
    subject: Subject, tf_worker: Worker, tmp_path: Path
) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    with strategy.scope():
        sum_ = _on_read("SUM")
    _set_on_replica(strategy, sum_, tf_worker.rank + 1.0)
    checkpoint = tf.train.Checkpoint(sum=sum_)
    checkpoint.read(checkpoint.write(str(tmp_path / str(tf_worker.rank)))).assert_consumed()
    [own] = strategy.experimental_local_results(sum_)
    assert float(own) == 1.5
    assert float(strategy.reduce("SUM", sum_, axis=None)) == 3.0


@claim("mwms.saving.same-on-every-worker")
def test_the_checkpoints_of_all_workers_hold_the_same(
    subject: Subject, tf_worker: Worker, tmp_path: Path
) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    with strategy.scope():
        kept, sum_ = tf.Variable(tf_worker.rank + 5.0), _on_read("SUM")
        _set_on_replica(strategy, sum_, tf_worker.rank + 1.0)
        checkpoint = tf.train.Checkpoint(kept=kept, sum=sum_)
    path = checkpoint.save(str(tmp_path / str(tf_worker.rank) / "step"))
    _total(strategy, 1.0)  # both have saved
    own, other = (
        _saved(path),
        _saved(path.replace(f"/{tf_worker.rank}/", f"/{1 - tf_worker.rank}/")),
    )
    assert len(own) == 3, own
    assert own == other


@claim("mwms.saving.saved-model")
def test_what_is_loaded_again_computes_the_same(
    subject: Subject, tf_worker: Worker, tmp_path: Path
) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    module = tf.Module()
    with strategy.scope():
        module.weight = tf.Variable(2.0)
    module.weight.assign(3.0)
    module.times = tf.function(
        lambda x: module.weight * x, input_signature=[tf.TensorSpec((), tf.float32)]
    )
    folder = str(tmp_path / str(tf_worker.rank))
    tf.saved_model.save(module, folder)
    assert float(tf.saved_model.load(folder).times(2.0)) == 6.0


def _on_read(aggregation: str) -> Any:
    import tensorflow as tf

    return tf.Variable(
        0.0,
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation[aggregation],
    )


def _set_on_replica(strategy: Any, variable: Any, value: float) -> None:
    """Give the variable a value on this worker's replica."""
    strategy.run(lambda: variable.assign(value))


def _total(strategy: Any, value: float) -> Any:
    import tensorflow as tf

    return strategy.reduce("SUM", tf.constant(value), axis=None)


def _saved(path: str) -> dict[str, Any]:
    """All values of a checkpoint."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(path)
    names = reader.get_variable_to_shape_map()
    return {
        name: reader.get_tensor(name).tolist()
        for name in names
        if name != "_CHECKPOINTABLE_OBJECT_GRAPH"
    }
