"""What host mode of an embedding costs: time against Keras' own layers, memory, two workers.

The model: 26 tables, of each the mean of 10 rows for each of 128 examples, and two dense layers. It
is made twice in one process: with `tfdist_kit.tpu_embedding`, and with `keras.layers.Embedding` for
each table, with the same weights, data and kind of optimizer. Both must tell the same losses; then
they make their steps in turn; processor time is that of all threads of the process. The memory is
how much the process's peak grows from before the tables are made to after the steps. In two workers
with one large table, host mode is held against Keras' layer with the gradient of the whole table
added up.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tfdist_kit.bench.contest import TFDIST_RUN, run

PAIRS = 30
FEW_PAIRS = 5
LARGE = 1_000_000
_DIM = 16
_BOTH = """\
import json, os, resource, sys, time
import keras, numpy as np, tensorflow as tf
import tfdist_kit
RESULT, (TABLES, ROWS, OPTIMIZER, PAIRS) = sys.argv[1], json.loads(sys.argv[2])
DIM, BATCH, IDS, STEPS = 16, 128, 10, 10
tpu = tf.tpu.experimental.embedding
keras.utils.set_random_seed(1)
def dense_part():
    inputs = [keras.Input([DIM]) for _ in range(TABLES)]
    joined = keras.layers.Concatenate()(inputs) if TABLES > 1 else inputs[0]
    hidden = keras.layers.Dense(64, activation="relu")(joined)
    return keras.Model(inputs, keras.layers.Dense(1)(hidden))
def optimizer_of(model):
    optimizer = getattr(keras.optimizers, OPTIMIZER)(0.1)
    optimizer.build(model.trainable_variables)
    return optimizer
def loss_of(labels, outputs):
    return tf.nn.compute_average_loss((outputs[:, 0] - labels) ** 2)
def batches(strategy, as_feature):
    def both(ids, labels):
        return tuple(as_feature(ids[:, table]) for table in range(TABLES)), labels
    def of_worker(context):
        random = np.random.RandomState(context.input_pipeline_id)
        ids = random.randint(0, ROWS, [STEPS, BATCH, TABLES, IDS])
        labels = random.rand(STEPS, BATCH).astype("float32")
        return tf.data.Dataset.from_tensor_slices((ids, labels)).map(both).cache().repeat()
    options = tf.distribute.InputOptions(experimental_fetch_to_device=False)
    return iter(strategy.distribute_datasets_from_function(of_worker, options))
def with_host_mode(strategy):
    with strategy.scope():
        model = dense_part()
        optimizer = optimizer_of(model)
        tables = [tpu.TableConfig(ROWS, DIM, combiner="mean", name=f"t{n}") for n in range(TABLES)]
        features = tuple(tpu.FeatureConfig(table, output_shape=[BATCH]) for table in tables)
        embedding = tfdist_kit.tpu_embedding(features, getattr(tpu, OPTIMIZER)(0.1))
        embedding.build()
    def on_replica(labels):
        with tf.GradientTape(persistent=True) as tape:
            activations = embedding.dequeue()
            tape.watch(activations)
            loss = loss_of(labels, model(list(activations), training=True))
        embedding.apply_gradients(tape.gradient(loss, activations))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss
    @tf.function
    def steps(iterator):
        loss = 0.0
        for _ in tf.range(STEPS):
            features, labels = next(iterator)
            embedding.enqueue(features, training=True)
            loss = strategy.reduce("SUM", strategy.run(on_replica, args=(labels,)), axis=None)
        return loss
    iterator = batches(strategy, tf.RaggedTensor.from_tensor)
    return lambda: float(steps(iterator)), model, embedding
def with_layers(strategy, change=lambda gradient: gradient):
    with strategy.scope():
        features = [keras.Input([IDS], dtype="int64") for _ in range(TABLES)]
        layers = [keras.layers.Embedding(ROWS, DIM) for _ in range(TABLES)]
        means = [keras.ops.mean(layer(ids), axis=1) for layer, ids in zip(layers, features)]
        top = dense_part()
        model = keras.Model(features, top(means))
        optimizer = optimizer_of(model)
    def on_replica(features, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(list(features), training=True))
        gradients = map(change, tape.gradient(loss, model.trainable_variables))
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss
    @tf.function
    def steps(iterator):
        loss = 0.0
        for _ in tf.range(STEPS):
            losses = strategy.run(on_replica, args=next(iterator))
            loss = strategy.reduce("SUM", losses, axis=None)
        return loss
    iterator = batches(strategy, tf.identity)
    return lambda: float(steps(iterator)), top, layers
def seconds(act):
    begin, used = time.perf_counter(), time.process_time()
    act()
    return (time.perf_counter() - begin) / STEPS, (time.process_time() - used) / STEPS
def in_turn(*acts):
    for _ in range(2):
        for act in acts:
            act()
    return [[seconds(act) for act in acts] for _ in range(PAIRS)]
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
def tell(**values):
    if os.environ.get("TFDIST_RANK", "0") == "0":
        with open(RESULT, "w") as file:
            json.dump(values, file)
"""
_STEPS = """\
strategy = tf.distribute.get_strategy()
host, host_top, embedding = with_host_mode(strategy)
plain, plain_top, layers = with_layers(strategy)
plain_top.set_weights(host_top.get_weights())
tables = {config.name: table for config, table in embedding.embedding_tables.items()}
for number, layer in enumerate(layers):
    layer.embeddings.assign(tables[f"t{number}"])
losses = [(plain(), host()) for _ in range(3)]
np.testing.assert_allclose(*np.transpose(losses), rtol=1e-3)
tell(pairs=in_turn(plain, host), losses=losses)
"""
_MEMORY = """\
before = peak()
host, *_ = with_host_mode(tf.distribute.get_strategy())
in_turn(host)
tell(grown=peak() - before)
"""
_WORKERS = """\
strategy = tfdist_kit.multi_worker_mirrored()
before = peak()
host, *_ = with_host_mode(strategy)
host(), host()
grown = peak() - before
dense, *_ = with_layers(strategy, change=tf.convert_to_tensor)
tell(grown=grown, pairs=in_turn(dense, host))
"""


def rows(folder: Path) -> Iterable[str]:
    """The rows of a Markdown table; ratios are of pairs."""
    for optimizer in ("SGD", "Adagrad"):
        told = steps(folder, 26, 10_000, optimizer)
        name = f"a step of 26 tables of 10,000 rows, {optimizer}"
        yield from _pairs(name, "keras.layers.Embedding", told["pairs"])
    for count in (50_000, 200_000):
        told = _measure(folder, _MEMORY, 26, count, "Adagrad", 1)
        yield from _memory(f"26 tables of {count:,} rows, Adagrad", 26 * count, told["grown"])
    told = _measure(folder, _WORKERS, 1, LARGE, "Adagrad", FEW_PAIRS, workers=2)
    name = f"a table of {LARGE:,} rows on 2 workers"
    yield from _pairs(f"a step of {name}", "the whole gradient added up", told["pairs"])
    yield from _memory(name, LARGE, told["grown"])


def steps(
    folder: Path, tables: int, count: int, optimizer: str, pairs: int = PAIRS
) -> dict[str, Any]:
    """Time steps of both models, which must tell the same losses.

    Args:
        folder: Where files may be left.
        tables: How many.
        count: The rows of each.
        optimizer: A name that Keras and TensorFlow's embeddings both know.
        pairs: How many.

    Returns:
        ``pairs``: of a step of Keras' layers and of one of host mode, seconds and seconds of
        processor time; ``losses``: of the first steps, pairs too.
    """
    return _measure(folder, _STEPS, tables, count, optimizer, pairs)


def _measure(
    folder: Path,
    body: str,
    tables: int,
    count: int,
    optimizer: str,
    pairs: int,
    *,
    workers: int = 0,
) -> dict[str, Any]:
    script, result = folder / "embedding.py", folder / "embedding.json"
    script.write_text(_BOTH + body)
    launch = [*TFDIST_RUN, "-n", str(workers)] if workers else [sys.executable]
    run(*launch, script, result, json.dumps([tables, count, optimizer, pairs]))
    told: dict[str, Any] = json.loads(result.read_text())
    return told


def _pairs(name: str, other: str, pairs: list[Any]) -> Iterable[str]:
    for kind, what in enumerate((name, f"{name}, processor time")):
        times = [(plain[kind], host[kind]) for plain, host in pairs]
        ratio = statistics.median(host / plain for plain, host in times)
        plain, host = (statistics.median(each) for each in zip(*times, strict=True))
        yield f"| {what} | {other} | {plain * 1000:.2f} ms | 1.00 |"
        yield f"| {what} | host mode | {host * 1000:.2f} ms | {ratio:.2f} |"


def _memory(name: str, count: int, grown: float) -> Iterable[str]:
    tables = count * _DIM * 4 * 2 / 2**20  # float32, parameters and one slot
    yield f"| memory, {name} | tables and slots alone | {tables:.0f} MiB | 1.00 |"
    yield f"| memory, {name} | a process's peak grows by | {grown:.0f} MiB | {grown / tables:.2f} |"
