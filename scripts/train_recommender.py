"""Recommend films with a step as it is written for a TPU: two workers here, or alone.

tfdist run -n 2 scripts/train_recommender.py
python scripts/train_recommender.py
python scripts/train_recommender.py --check

A model in the manner of DLRM says whether a person will like a film. It looks up eight features in
six tables: person, film, occupation, year, the words and the genres of the film, and the films that
the person liked and disliked before, which share the table of the films. It is held against what
the averages of film and person say, on the last ten ratings of each person. With `--check` nothing
is trained: the same step is traced as it would run on a TPU. The data are MovieLens 100K; see
`movielens.py` for what they are and where they come from.
"""

import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import movielens
import numpy as np
import tensorflow as tf
from absl import app, flags, logging

import tfdist_kit
from tfdist_kit.adapters.checkpoint import restore, save
from tfdist_kit.adapters.tpu_embedding import check_step, serving_lookup

_EPOCHS = flags.DEFINE_integer("epochs", 3, "Passes over the training data.", lower_bound=1)
_BATCH = flags.DEFINE_integer("global_batch", 512, "Ratings per step, over all workers.")
_STEPS = flags.DEFINE_integer("steps", None, "Steps of an epoch; default: all ratings.")
_RATE = flags.DEFINE_float("learning_rate", 0.003, "Of both optimizers, which are Adam.")
_DIM = flags.DEFINE_integer("dim", 16, "Numbers in a row of a table.")
_SEED = flags.DEFINE_integer("seed", 1, "Seed of weights and of the order of ratings.")
_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Checkpoints; default: the run folder.")
_CHECK = flags.DEFINE_bool("check", False, "Trace the step as on a TPU instead of training.")

BINS = 1000
TABLE = {  # of each feature
    "user": "user",
    "movie": "movie",
    "liked_before": "movie",
    "disliked_before": "movie",
    "occupation": "occupation",
    "year": "year",
    "genres": "genres",
    "words": "words",
}
MANY = ("liked_before", "disliked_before", "genres", "words")  # of these, any number of ids
Pipeline = Callable[[tf.distribute.InputContext], tf.data.Dataset]


def feature_config() -> dict[str, Any]:
    sizes, tpu = movielens.load().sizes, tf.tpu.experimental.embedding
    start = tf.initializers.TruncatedNormal(stddev=0.05, seed=_SEED.value)
    tables = {
        name: tpu.TableConfig(sizes[name], _DIM.value, start, combiner="mean", name=name)
        for name in dict.fromkeys(TABLE.values())
    }
    return {name: tpu.FeatureConfig(tables[table], name=name) for name, table in TABLE.items()}


def build_model() -> keras.Model:
    """From what was looked up, and four numbers, to one logit."""
    activations = {name: keras.Input([_DIM.value], name=name) for name in TABLE}
    numbers = keras.Input([4], name="numbers")
    bottom = keras.layers.Dense(_DIM.value, activation="relu")(numbers)
    vectors = keras.ops.stack([bottom, *activations.values()], axis=1)
    products = keras.ops.matmul(vectors, keras.ops.transpose(vectors, [0, 2, 1]))
    above = np.flatnonzero(np.triu(np.ones([len(TABLE) + 1] * 2), 1))
    pairs = keras.ops.take(keras.layers.Flatten()(products), above, axis=1)
    top = keras.layers.Concatenate()([pairs, keras.layers.Flatten()(vectors)])
    top = keras.layers.Dense(32, activation="relu")(top)
    return keras.Model({**activations, "numbers": numbers}, keras.layers.Dense(1)(top))


@dataclass(frozen=True)
class Recommender:
    """What is trained, and its two steps, each a loop over a number of batches.

    Attributes:
        train: (iterator, steps) -> mean loss of them.
        count: (iterator, steps) -> int32 [2, BINS]: how often each chance of being liked was told,
            of films that were not liked, and of those that were.
    """

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    embedding: tf.tpu.experimental.embedding.TPUEmbedding
    train: Callable[[Iterator[Any], tf.Tensor], tf.Tensor]
    count: Callable[[Iterator[Any], tf.Tensor], tf.Tensor]


def build(strategy: tf.distribute.Strategy) -> Recommender:
    with strategy.scope():
        model = build_model()
        optimizer = keras.optimizers.Adam(_RATE.value)
        optimizer.build(model.trainable_variables)
        embedding = tfdist_kit.tpu_embedding(
            feature_config(), tf.tpu.experimental.embedding.Adam(_RATE.value)
        )
        # Now, so that the tables are there when a checkpoint is restored.
        size = _BATCH.value // strategy.num_replicas_in_sync
        embedding.build(
            {name: tf.TensorShape([size, None if name in MANY else 1]) for name in TABLE}
        )
    train = make_train(strategy, model, optimizer, embedding)
    return Recommender(model, optimizer, embedding, train, make_count(strategy, model, embedding))


def make_train(
    strategy: tf.distribute.Strategy,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    embedding: tf.tpu.experimental.embedding.TPUEmbedding,
) -> Callable[[Iterator[Any], tf.Tensor], tf.Tensor]:
    def on_replica(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        with tf.GradientTape(persistent=True) as tape:
            activations = embedding.dequeue()
            tape.watch(activations)
            logits = model({**activations, "numbers": inputs["numbers"]}, training=True)[:, 0]
            losses = tf.nn.sigmoid_cross_entropy_with_logits(inputs["liked"], logits)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=_BATCH.value)
        embedding.apply_gradients(tape.gradient(loss, activations))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def train(iterator: Iterator[Any], steps: tf.Tensor) -> tf.Tensor:
        total = 0.0
        for _ in tf.range(steps):
            features, inputs = next(iterator)
            embedding.enqueue(features, training=True)
            total += strategy.reduce("SUM", strategy.run(on_replica, args=(inputs,)), axis=None)
        return total / tf.cast(steps, tf.float32)

    return train


def make_count(
    strategy: tf.distribute.Strategy,
    model: keras.Model,
    embedding: tf.tpu.experimental.embedding.TPUEmbedding,
) -> Callable[[Iterator[Any], tf.Tensor], tf.Tensor]:
    def on_replica(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        chance = tf.sigmoid(model({**embedding.dequeue(), "numbers": inputs["numbers"]})[:, 0])
        place = tf.cast(chance * (BINS - 1) + 0.5, tf.int32)
        place += BINS * tf.cast(inputs["liked"], tf.int32)
        place = tf.where(inputs["filled_up"], 2 * BINS, place)  # which is no place
        return tf.math.unsorted_segment_sum(tf.ones_like(place), place, 2 * BINS + 1)

    @tf.function
    def count(iterator: Iterator[Any], steps: tf.Tensor) -> tf.Tensor:
        total = tf.zeros([2 * BINS + 1], tf.int32)
        for _ in tf.range(steps):
            features, inputs = next(iterator)
            embedding.enqueue(features, training=False)
            total += strategy.reduce("SUM", strategy.run(on_replica, args=(inputs,)), axis=None)
        return tf.reshape(total[:-1], [2, BINS])

    return count


def pipeline(rows: np.ndarray, seed: int | None = None) -> Pipeline:
    """Batches of ratings without an end, of one shape; in a random order if a seed is given."""
    rows = np.concatenate([rows, np.full(-len(rows) % _BATCH.value, -1)])
    look_up = make_look_up(movielens.load())

    def of_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
        mine = tf.data.Dataset.from_tensor_slices(rows)
        if seed is not None:
            mine = mine.shuffle(len(rows), seed=seed)
        mine = mine.repeat().shard(context.num_input_pipelines, context.input_pipeline_id)
        size = context.get_per_replica_batch_size(_BATCH.value)
        return mine.batch(size, drop_remainder=True).map(look_up).prefetch(2)

    return of_worker


def batches(strategy: tf.distribute.Strategy, of_worker: Pipeline) -> Iterator[Any]:
    options = tf.distribute.InputOptions(experimental_fetch_to_device=False)
    return iter(strategy.distribute_datasets_from_function(of_worker, options))


def make_look_up(data: movielens.MovieLens) -> Callable[[tf.Tensor], Any]:
    """From the numbers of ratings, -1 for none, to what is looked up and what goes to the model."""
    one = {name: getattr(data, name) for name in ("user", "movie", "occupation", "year")}
    many = {
        name: tf.RaggedTensor.from_row_lengths(*vars(getattr(data, name)).values()) for name in MANY
    }

    def look_up(rows: tf.Tensor) -> Any:
        filled_up, rows = rows < 0, tf.maximum(rows, 0)
        movie = tf.gather(data.movie, rows)
        features = {name: tf.gather(column, rows)[:, tf.newaxis] for name, column in one.items()}
        for name, lists in many.items():
            of_film = name in ("genres", "words")
            features[name] = tf.gather(lists, movie if of_film else rows)
        liked, numbers = tf.gather(data.liked, rows), tf.gather(data.numbers, rows)
        return features, {"numbers": numbers, "liked": liked, "filled_up": filled_up}

    return look_up


def auc(counts: np.ndarray) -> float:
    """How often a film that was liked stands above one that was not, of all such pairs."""
    other, liked = counts
    below = np.cumsum(other) - other / 2  # ties count half
    return float((below * liked).sum() / (other.sum() * liked.sum()))


def auc_of_averages(data: movielens.MovieLens) -> float:
    """The same of the averages of film and person, drawn to that of all; without a model."""
    known = ~data.held_out
    mean = data.liked[known].mean()
    guess = np.zeros(len(data.liked))
    for ids in (data.movie, data.user):
        times = np.bincount(ids[known], minlength=ids.max() + 1)
        excess = np.bincount(ids[known], data.liked[known] - mean, minlength=ids.max() + 1)
        guess += (excess / (times + 5))[ids]
    order = np.unique(guess[data.held_out], return_inverse=True)[1]
    liked = data.liked[data.held_out] > 0
    return auc(
        np.stack([np.bincount(order[are], minlength=order.max() + 1) for are in (~liked, liked)])
    )


def model_dir() -> pathlib.Path:
    base = os.environ.get("TFDIST_RUN_DIR") or tempfile.mkdtemp(prefix="recommender-")
    return pathlib.Path(_MODEL_DIR.value or base)


def train(strategy: tf.distribute.Strategy) -> None:
    data, it, folder = movielens.load(), build(strategy), model_dir()
    train_rows, test_rows = np.flatnonzero(~data.held_out), np.flatnonzero(data.held_out)
    steps = tf.constant(_STEPS.value or len(train_rows) // _BATCH.value)
    test, test_steps = pipeline(test_rows), tf.constant(-(-len(test_rows) // _BATCH.value))
    epoch = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(
        model=it.model, optimizer=it.optimizer, embedding=it.embedding, epoch=epoch
    )
    manager = tf.train.CheckpointManager(checkpoint, folder / "checkpoints", max_to_keep=2)
    tell = print if strategy.extended.should_checkpoint else lambda _: None
    if restore(strategy, manager):
        tell(f"goes on after epoch {epoch.numpy()}")
    tell(f"averages alone: AUC {auc_of_averages(data):.4f}")
    while epoch.numpy() < _EPOCHS.value:
        order, begin = pipeline(train_rows, seed=_SEED.value + int(epoch)), time.perf_counter()
        loss = float(it.train(batches(strategy, order), steps))
        rate = int(steps) * _BATCH.value / (time.perf_counter() - begin)
        reached = auc(it.count(batches(strategy, test), test_steps).numpy())
        epoch.assign_add(1)
        save(strategy, manager)
        tell(f"epoch {int(epoch)}: loss {loss:.4f}, AUC {reached:.4f}, {rate:,.0f} ratings/s")
    save(strategy, servable(it), str(folder / "servable"))
    tell(f"checkpoints and servable model in {folder}")


def servable(it: Recommender) -> tf.Module:
    """What `tf.saved_model.load` gives back: `chance` of being liked, of each rating in a batch."""
    module = tf.Module()
    module.model, module.tables = it.model, list(it.embedding.embedding_tables.values())
    one, many = tf.TensorSpec([None, 1], tf.int64), tf.RaggedTensorSpec([None, None], tf.int64)
    features = {name: many if name in MANY else one for name in TABLE}

    @tf.function(input_signature=[features, tf.TensorSpec([None, 4])])
    def chance(features: dict[str, Any], numbers: tf.Tensor) -> tf.Tensor:
        activations = serving_lookup(it.embedding, features)
        return tf.sigmoid(it.model({**activations, "numbers": numbers})[:, 0])

    module.chance = chance
    return module


def check(cores: int = 8) -> None:
    """Trace both steps as on a TPU of so many cores; nothing is trained, and no TPU is needed."""
    rows = np.flatnonzero(movielens.load().held_out)
    inputs = (pipeline(rows), tf.constant(1))

    def steps(strategy: tf.distribute.Strategy) -> dict[str, Any]:
        it = build(strategy)
        return {"train": it.train, "count": it.count}

    report = check_step(steps, {"train": inputs, "count": inputs}, cores_per_host=cores)
    print(report)
    report.raise_for_findings()


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.WARNING)
    tf.get_logger().setLevel("WARNING")
    keras.utils.set_random_seed(_SEED.value)
    if _CHECK.value:
        check()
    else:
        train(tfdist_kit.multi_worker_mirrored())


if __name__ == "__main__":
    app.run(main)
