"""Tests in workers that use TensorFlow: on warm clusters as alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testing.sessions import Session, session, session_once

TESTS = """\
import os
import pytest
import tensorflow as tf
import tfdist_kit

pytestmark = pytest.mark.tfdist(timeout=90)

def write(name):
    with open("pids", "a") as file:
        file.write(f"{name} {os.getpid()}\\n")

def sum_of_ones(strategy):
    def one():
        return tf.distribute.get_replica_context().all_reduce("sum", tf.identity(1.0))
    total = strategy.run(tf.function(one))
    return float(strategy.experimental_local_results(total)[0])

def test_a(tf_worker):
    write("a")
    assert sum_of_ones(tfdist_kit.multi_worker_mirrored()) == tf_worker.size

def test_b(tf_worker):
    write("b")
    strategy = tfdist_kit.multi_worker_mirrored()
    assert sum_of_ones(strategy) == tf_worker.size == strategy.num_replicas_in_sync
    assert sum_of_ones(tfdist_kit.multi_worker_mirrored()) == tf_worker.size

@pytest.mark.tfdist(workers=1, chief=True)
def test_uses_tensorflow_alone():
    write("alone")
    assert float(tf.constant(1.0)) == 1.0

@pytest.mark.tfdist(workers=1, chief=True)
def test_after_it(tf_worker):
    write("after")
    assert sum_of_ones(tfdist_kit.multi_worker_mirrored()) == tf_worker.size

@pytest.mark.tfdist(workers=1)
@pytest.mark.parametrize("number", [1, 2])
def test_one_worker(number):
    write("single")
    tf.constant(1.0)

def test_too_late():
    write("late")
    x = tf.constant(1.0)
    with pytest.raises(tfdist_kit.TooLateError, match=r"by test_it.py:\\d+: x = tf.constant"):
        tfdist_kit.multi_worker_mirrored()

@pytest.mark.parametrize("change", [
    lambda: tf.random.set_seed(1),
    lambda: tf.config.run_functions_eagerly(True),
    lambda: tf.config.experimental.enable_op_determinism(),
    lambda: tf.keras.mixed_precision.set_global_policy("mixed_bfloat16"),
    lambda: tf.compat.v1.disable_eager_execution(),
    lambda: tf.config.set_soft_device_placement(False),
    lambda: tf.distribute.experimental_set_strategy(tf.distribute.get_strategy()) or
            tf.distribute.experimental_set_strategy(tf.distribute.OneDeviceStrategy("CPU:0")),
], ids=["seed", "eager", "determinism", "policy", "graph", "placement", "strategy"])
def test_changes(change, request):
    write(request.node.name)
    change()

@pytest.mark.tfdist(local_replicas=2)
def test_replicas(tf_worker):
    strategy = tfdist_kit.multi_worker_mirrored()
    assert tf_worker.local_replicas == 2
    assert sum_of_ones(strategy) == 4 == strategy.num_replicas_in_sync

@pytest.mark.tfdist(local_replicas=2)
def test_replicas_again():
    assert sum_of_ones(tfdist_kit.multi_worker_mirrored()) == 4

@pytest.mark.tfdist(local_replicas=[1, 2])
def test_replicas_that_fail(tf_worker):
    assert tf_worker.rank < 0

@pytest.mark.tfdist_replicas_agree
def test_marked_agree():
    strategy = tfdist_kit.multi_worker_mirrored()
    with strategy.scope():
        return [tf.Variable(1.0), tf.Variable([2.0])]

@pytest.mark.tfdist_replicas_agree
def test_marked_disagree(tf_worker):
    strategy = tfdist_kit.multi_worker_mirrored()
    with strategy.scope():
        variable = tf.Variable(1.0)
    variable.assign(tf_worker.rank)
    return variable

@pytest.mark.tfdist_replicas_agree
def test_marked_and_returns_nothing(): pass

@pytest.mark.tfdist_each_row_once
def test_marked_rows():
    strategy = tfdist_kit.multi_worker_mirrored()
    return tf.data.Dataset.range(64).batch(8)

@pytest.mark.tfdist_each_row_once
def test_marked_rows_that_are_lost():
    strategy = tfdist_kit.multi_worker_mirrored()
    return tf.data.Dataset.range(64).shuffle(64).batch(8)

@pytest.mark.tfdist_same_as_single_process(rtol=1e-4)
def test_marked_same():
    tfdist_kit.multi_worker_mirrored()
    def step(weight, batch):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss((batch * weight - 1.0) ** 2, global_batch_size=8)
        context = tf.distribute.get_replica_context()
        weight.assign_sub(context.all_reduce("sum", tape.gradient(loss, weight)))
    return step, lambda: tf.Variable(3.0), tf.range(8.0).numpy()
"""

FAIL = {
    "test_replicas_that_fail[local_replicas=1]": "assert 0 < 0",
    "test_replicas_that_fail[local_replicas=2]": (
        "2 replicas in each worker, by a hook that TensorFlow does not have"
    ),
    "test_marked_disagree": "AssertionError: ",
    "test_marked_and_returns_nothing": "is marked tfdist_replicas_agree, and returns nothing",
    "test_marked_rows_that_are_lost": "a shuffle without a seed before the sharding",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return session_once(tmp_path_factory, {"test_it.py": TESTS})


IMPORTS = """\
import os
import pytest

@pytest.mark.parametrize("number", range(3))
@pytest.mark.tfdist
def test_it(number, tf_worker):
    import tensorflow as tf
    tf.distribute.MultiWorkerMirroredStrategy()
    with open("pids", "a") as file:
        file.write(f"{os.getpid()}\\n")
"""


REMAKES = """\
import pytest

@pytest.mark.tfdist
def test_it():
    import tensorflow as tf
    from tensorflow.python.eager import context
    assert hasattr(context.Context.enable_collective_ops, "tfdist_meeting")
"""


@pytest.mark.parametrize("preload", ["tensorflow", ""])
def test_the_first_test_of_a_process_makes_strategies_together_too(
    tmp_path: Path, preload: str
) -> None:
    (tmp_path / "test_it.py").write_text(REMAKES)
    ran = session(tmp_path, "-o", f"tfdist_preload={preload}")
    assert ran.code == 0, ran.out


def test_importing_tensorflow_in_a_test_leaves_nothing_that_matters(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(IMPORTS)
    assert session(tmp_path).code == 0
    assert len(set((tmp_path / "pids").read_text().split())) == 2


def test_everything_else_passes(ran: Session) -> None:
    failed = {name: went.text for name, went in ran.tests.items() if went.outcome != "passed"}
    assert set(failed) == set(FAIL), ran.out
    for name, told in FAIL.items():
        assert told in failed[name]


def test_processes_that_tensorflow_was_changed_in_are_not_used_again(ran: Session) -> None:
    used: dict[str, set[str]] = {}
    for line in (ran.folder / "pids").read_text().splitlines():
        name, pid = line.split()
        used.setdefault(name, set()).add(pid)
    assert used["a"] == used["b"] == used["late"]
    assert not used["after"] & used["alone"], "TensorFlow could not join any more"
    assert len(used["single"]) == 1
    changes = [pids for name, pids in used.items() if name.startswith("test_changes")]
    assert len(changes) == 7
    assert len(set.union(*changes)) == 14
