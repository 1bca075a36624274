"""Saves and restores embeddings of every kind; imported by TensorFlow workers only."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.tpu.tpu_embedding_v2 import make_sharded_variable_creator

from tests.adapters.tpu_embedding import running
from tests.adapters.tpu_embedding.cases import Array, Case, made
from tfdist_kit import multi_worker_mirrored
from tfdist_kit.adapters.checkpoint import restore, save
from tfdist_kit.adapters.tpu_embedding import HostTPUEmbedding, assert_checkpoint_matches
from tfdist_kit.adapters.tpu_embedding import restore as restore_embedding

KINDS = tf.tpu.experimental.embedding
HOSTS = ["/device:CPU:0"] * 3

SEED = 21
"""Of a case in which both steps change every table, and a table has fewer rows than hosts."""


class Sharded(tf.tpu.experimental.embedding.TPUEmbedding):  # type: ignore[misc]
    """Its variables are those of a TPU with three hosts."""

    def _create_variables_and_slots(self) -> Any:
        with tf.variable_creator_scope(make_sharded_variable_creator(HOSTS)):
            return super()._create_variables_and_slots()


CLASSES = {
    "host": HostTPUEmbedding,
    "plain": KINDS.TPUEmbedding,
    "serving": KINDS.TPUEmbeddingForServing,
    "sharded": Sharded,
}


def new(name: str, case: Case) -> Any:
    """An embedding of a class, with the case's tables but values of its own."""
    tables = [
        KINDS.TableConfig(
            table.rows,
            table.dim,
            initializer=tf.random_uniform_initializer(7.0, 8.0),
            optimizer=running.optimizer_of(table, 0),
            combiner=table.combiner,
            name=table.name,
        )
        for table in case.tables
    ]
    return CLASSES[name](running.configs_of(case, tables, 1), None)


def values(embedding: Any) -> dict[str, Array]:
    """Tables and slots, whole."""
    return {
        f"{name}/{slot}": np.concatenate([part.numpy() for part in _parts(variable)])
        for name, variables in embedding._variables.items()
        for slot, variable in variables.items()
    }


def _parts(variable: Any) -> list[Any]:
    return list(getattr(variable, "variables", [variable]))


def built(embedding: Any) -> Any:
    embedding.build()
    return embedding


def interchange() -> dict[str, Any]:
    """Which classes restore what others have saved, with every optimizer."""
    case = made(SEED, every=True)
    strategy = tf.distribute.get_strategy()
    trained = running.embedding_of(case, strategy, 0)
    running.steps(case, strategy, trained, range(2))
    same, keys, fresh = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        first = tf.train.Checkpoint(embedding=trained).save(f"{folder}/host")
        for source in CLASSES:
            middle = built(new(source, case))
            fresh[source] = equal(values(trained), values(middle))
            tf.train.Checkpoint(embedding=middle).restore(first)
            path = tf.train.Checkpoint(embedding=middle).save(f"{folder}/{source}")
            keys[source] = sorted(tf.train.list_variables(path))
            for target, before in itertools.product(CLASSES, (True, False)):
                last = new(target, case)
                if before:
                    last.build()
                restore_embedding(tf.train.Checkpoint(embedding=last), path)
                last.build()
                same[source, target, before] = equal(values(trained), values(last))
    return {"same": same, "keys": keys, "fresh": fresh}


def equal(one: dict[str, Array], other: dict[str, Array]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name]) for name in one
    )


def resumed(folder: str) -> dict[str, bool]:
    """Whether a step, a restart and one more end like two steps, on one process or two."""
    strategy = multi_worker_mirrored() if os.environ.get("TF_CONFIG") else None
    ways: dict[str, Callable[..., None]] = {"manager": _by_manager, "package": _by_package}
    return {way: _resumes(strategy, f"{folder}/{way}", function) for way, function in ways.items()}


def _resumes(strategy: Any, folder: str, resume: Callable[..., None]) -> bool:
    case = made(SEED, every=True)
    scope = strategy or tf.distribute.get_strategy()
    whole = running.embedding_of(case, scope, 0)
    running.steps(case, scope, whole, range(2))
    one, other = (running.embedding_of(case, scope, 0) for _ in range(2))
    running.steps(case, scope, one, [0])
    resume(strategy, one, other, folder)
    running.steps(case, scope, other, [1])
    ended = [running.values_of(scope, each) for each in (whole, other, one)]
    for name, slots in ended[2].items():
        assert not equal(slots, ended[0][name])  # the second step counts for every optimizer
    return _same(ended[0], ended[1])


def _same(one: Any, other: Any) -> bool:
    return all(equal(slots, other[name]) for name, slots in one.items())


def _by_manager(strategy: Any, one: Any, other: Any, folder: str) -> None:
    """As TensorFlow's documentation has it: each worker has a folder of its own."""
    number = strategy.cluster_resolver.task_id if strategy else 0
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(embedding=one), f"{folder}/{number}", max_to_keep=1
    )
    manager.save()
    restore_embedding(tf.train.Checkpoint(embedding=other), f"{folder}/{number}")


def _by_package(strategy: Any, one: Any, other: Any, folder: str) -> None:
    """All workers save one checkpoint, and restore it."""
    path = save(strategy, tf.train.Checkpoint(embedding=one), f"{folder}/all")
    assert path is not None
    assert_checkpoint_matches(path, other)
    restore(strategy, tf.train.Checkpoint(embedding=other), f"{folder}/all")
