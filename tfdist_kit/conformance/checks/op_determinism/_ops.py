"""What ops give when they are run again and again on the same inputs."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from tfdist_kit.conformance.checks.op_determinism._sweep import Case, Inputs, families, gradient
from tfdist_kit.conformance.stage import Stage

SEED = 7
REPEATS = 6
PATIENCE = 3.0
"""How long to look for a second result where there should be one, in seconds."""
THREADS = 8
"""More than there are processors, so that a loaded machine and an idle one are alike."""


def prepared(threads: int = THREADS) -> None:
    """Have this process be no part of a cluster, and run ops on so many threads."""
    import tensorflow as tf

    os.environ.pop("TF_CONFIG", None)
    tf.config.threading.set_intra_op_parallelism_threads(threads)


def digest(result: Any) -> str:
    """What is the same for the same bits."""
    import tensorflow as tf

    found = hashlib.sha256()
    for each in tf.nest.flatten(result):
        found.update(memoryview(tf.convert_to_tensor(each).numpy().tobytes()))
    return found.hexdigest()[:16]


def results(case: Callable[[], Any], repeats: int = REPEATS) -> list[str]:
    """The different results of a case."""
    return sorted({digest(case()) for _ in range(repeats)})


def search(case: Callable[[], Any], patience: float = PATIENCE) -> int:
    """How many different results there are, as far as one or two."""
    ends, seen = time.monotonic() + patience, {digest(case())}
    while len(seen) == 1 and time.monotonic() < ends:
        seen.add(digest(case()))
    return len(seen)


def sweep(stage: Stage) -> None:
    """All ops of the sweep, with the switch on."""
    prepared()
    stage.subject.enable_op_determinism(SEED)
    for name, family in families().items():
        found = {case: results(run) for case, run in family.items()}
        differ = [case for case, each in found.items() if len(each) > 1]
        firsts = {case: each[0] for case, each in found.items()}
        stage.say("family", name=name, differ=differ, results=firsts)


def bad_cases() -> Mapping[str, Case]:
    """Ops that give different results with the switch on, too."""
    import tensorflow as tf
    from tensorflow.python.ops.linalg.sparse import sparse_csr_matrix_ops as csr

    inputs = Inputs()
    ids, weights = inputs.below(8, 200000), inputs.floats(200000)
    whole = inputs.floats(400, 400) * tf.cast(inputs.below(3, 400, 400) == 0, tf.float32)
    matrix = csr.dense_to_csr_sparse_matrix(whole, tf.where(whole != 0.0))
    dense = inputs.floats(400, 64)
    return {
        "math.bincount": lambda: tf.math.bincount(ids, weights, minlength=8, maxlength=8),
        "Bincount": lambda: tf.raw_ops.Bincount(arr=ids, size=8, weights=weights),
        "DenseBincount": lambda: tf.raw_ops.DenseBincount(input=ids, size=8, weights=weights),
        "transpose_a": lambda: csr.sparse_matrix_mat_mul(matrix, dense, transpose_a=True),
        "adjoint_a": lambda: csr.sparse_matrix_mat_mul(matrix, dense, adjoint_a=True),
    }


def bad_ops(stage: Stage) -> None:
    """Those, each until it has given two results."""
    prepared()
    stage.subject.enable_op_determinism(SEED)
    for name, case in bad_cases().items():
        try:
            stage.say("bad", name=name, results=search(case))
        except Exception as error:
            stage.say("bad", name=name, error=type(error).__name__)


def _unsteady() -> Mapping[str, Case]:
    """Ops that give different results unless the switch is on."""
    import tensorflow as tf

    inputs = Inputs()
    rows, updates = inputs.below(50, 100000), inputs.floats(100000, 8)
    variable, zeros = tf.Variable(tf.zeros([50, 8])), tf.zeros([50, 8])
    image, boxes = inputs.floats(1, 32, 32, 4), abs(inputs.floats(200, 4)) / 3.0

    def scatter() -> Any:
        variable.assign(zeros)
        variable.scatter_add(tf.IndexedSlices(updates, rows))
        return variable.read_value()

    def cropped(image: Any) -> Any:
        return tf.image.crop_and_resize(image, boxes, tf.zeros(200, tf.int32), [14, 14])

    return {"scatter_add": scatter, "crop_and_resize gradient": gradient(cropped, image)}


def _rewritten() -> Mapping[str, Case]:
    """Ops whose algorithm is another one with the switch on."""
    import tensorflow as tf

    inputs = Inputs()
    classes, logits = inputs.below(200, 64), inputs.floats(64, 200)

    def entropy() -> Any:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(classes, logits)

    return {"sparse softmax cross entropy": entropy}


def before_and_after(stage: Stage) -> None:
    """The same ops in the same process without the switch, with it, and without it again."""
    from tensorflow.python.framework import config

    prepared()
    stage.say("at first", answer=config.is_op_determinism_enabled())
    unsteady, rewritten = _unsteady(), _rewritten()
    stage.say("before", **{name: search(case) for name, case in unsteady.items()})
    bits = {name: digest(case()) for name, case in rewritten.items()}
    stage.subject.enable_op_determinism(SEED, late=True)
    stage.say("with", **{name: len(results(case, 12)) for name, case in unsteady.items()})
    changed = [name for name, case in rewritten.items() if digest(case()) != bits[name]]
    stage.say("changed", names=changed)
    stage.say("is on", answer=config.is_op_determinism_enabled())
    config.disable_op_determinism()
    stage.say("after", **{name: search(case) for name, case in unsteady.items()})
    stage.say("is off", answer=not config.is_op_determinism_enabled())


def always_steady(stage: Stage) -> None:
    """Ops that one expects to differ without the switch, without it."""
    prepared()
    found = families()
    names = {**found["segments"], **found["scatters"]}
    names = {name: case for name, case in names.items() if not name.startswith("Variable.")}
    stage.say("differ", names=[name for name, case in names.items() if len(results(case)) > 1])


EXAMPLE = """
labels = tf.random.normal((1, 10000))
logits = tf.random.normal((1, 10000))
output = tf.nn.softmax_cross_entropy_with_logits(labels=labels,
                                                 logits=logits)
for _ in range(5):
  output2 = tf.nn.softmax_cross_entropy_with_logits(labels=labels,
                                                    logits=logits)
  tf.debugging.assert_equal(output, output2)
"""


def example(stage: Stage) -> None:
    """The page's example, after the two lines that the page puts in front of every program."""
    import tensorflow as tf

    prepared()
    stage.subject.enable_op_determinism(1)
    exec(EXAMPLE, {"tf": tf})  # the page's own lines are what is checked


def state(stage: Stage) -> None:
    """Stateful ops, each time from the same state and from another."""
    import tensorflow as tf

    prepared()
    stage.subject.enable_op_determinism(SEED)
    inputs = Inputs()
    table, rows = tf.Variable(inputs.floats(50, 8)), inputs.below(50, 1000)
    start, updates = table.read_value(), inputs.floats(1000, 8)

    def changed() -> Any:
        table.assign(start)
        read = table.sparse_read(rows)
        table.scatter_sub(tf.IndexedSlices(updates, rows))
        return [read, table.sparse_read(rows)]

    found = results(changed)
    start = start + 1.0
    stage.say("read", same=len(found), other=results(changed) != found)


def compiled(stage: Stage) -> None:
    """Programs that XLA has compiled, and one that it refuses."""
    import tensorflow as tf

    prepared()
    stage.subject.enable_op_determinism(SEED)
    inputs = Inputs()
    image, kernel = inputs.floats(2, 8, 8, 4), inputs.floats(3, 3, 4, 4)
    rows, values = inputs.below(8, 5000), inputs.floats(5000)

    @tf.function(jit_compile=True)
    def program() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            loss = tf.reduce_sum(tf.nn.relu(tf.nn.conv2d(image, kernel, 1, "SAME")))
        return [tape.gradient(loss, kernel), tf.math.unsorted_segment_sum(values, rows, 8)]

    @tf.function(jit_compile=True)
    def pooled() -> Any:
        return gradient(lambda image: tf.nn.max_pool2d(image, 2, 2, "SAME"), image)()

    stage.say("compiled", results=results(program))
    try:
        pooled()
    except tf.errors.OpError as error:
        stage.say("refused", type=type(error).__name__, text=str(error))


def durations(stage: Stage) -> None:
    """How long the same op takes each time."""
    prepared()
    stage.subject.enable_op_determinism(SEED)
    found, product = [], Inputs().floats(64, 64)
    for _ in range(20):
        begins = time.perf_counter_ns()
        product @ product
        found.append(time.perf_counter_ns() - begins)
    stage.say("took", different=len(set(found)))
