"""One worker's input pipeline, from a TFDS split to the batches of its replicas.

    split -> this worker's part -> shuffle, one order for each epoch -> map_fn -> batch -> prefetch

TFDS reads, tf.data does the work, ``Share`` has the numbers, and TensorFlow deals the batches to
the replicas. No data is sharded by TensorFlow a second time, and no seed is left to chance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tfdist_kit._errors import DatasetError, UnsupportedVersionError
from tfdist_kit.adapters.datasets.share import Share
from tfdist_kit.adapters.datasets.source import count_examples, prepare

SHUFFLE_BUFFER = 10_000


@dataclasses.dataclass(frozen=True)
class Wish:
    """What ``load`` was asked for, whoever reads it; see there for the meaning."""

    split: Any
    global_batch: int
    seed: int
    shuffle: bool | int
    drop_remainder: bool
    repeat: bool
    same_batches: bool
    as_supervised: bool
    map_fn: Callable[..., Any] | None
    cache: bool
    prefetch: bool

    def __post_init__(self) -> None:
        wants = {
            "split": (
                "one split's name, or a slice of it",
                self.split is not None and not isinstance(self.split, list | tuple | dict),
            ),
            "seed": ("a whole number, the same on all workers", _is_whole(self.seed)),
            "shuffle": (
                "True, False or the size of the buffer",
                isinstance(self.shuffle, bool) or (_is_whole(self.shuffle) and self.shuffle > 0),
            ),
        }
        for name, (wanted, fits) in wants.items():
            if not fits:
                raise DatasetError(f"{name} is {getattr(self, name)!r}", hint=f"give {wanted}")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def load(
    source: Any,
    *,
    split: Any,
    global_batch: int,
    strategy: Any = None,
    worker: Any = None,
    seed: int = 0,
    shuffle: bool | int = True,
    drop_remainder: bool = False,
    repeat: bool = False,
    same_batches: bool = False,
    as_supervised: bool = True,
    map_fn: Callable[..., Any] | None = None,
    cache: bool = False,
    prefetch: bool = True,
    data_dir: str | None = None,
) -> Any:
    """Feed every worker its share of a split: each example once per epoch over all workers.

    Call it in every worker with the same arguments, after the strategy was created. In an
    evaluator, whose strategy is its own, it reads the whole split.

    Args:
        source: Name of a data set that TFDS knows (``uci_digits`` is one), or a TFDS builder.
        split: Split or slice of one, such as ``train`` or ``train[:80%]``.
        global_batch: Examples per step over all replicas; it must divide by their number.
        strategy: The ``tf.distribute.Strategy`` to feed.
        worker: Instead of a strategy: this worker as ``(index, count)``, or a
            ``tf.distribute.InputContext``.
        seed: Seed of the order of examples; an int that is the same in all workers.
        shuffle: Whether to shuffle anew in each epoch, with a buffer of up to 10,000 examples;
            an int is the size of the buffer.
        drop_remainder: Leave the last, partial batch out. Else it is spread over the workers.
        repeat: Go on for ever; TensorFlow then need not ask all workers for the end of the data
            at every step. Needs ``steps_per_epoch`` in Keras, and full batches.
        same_batches: Give every step the examples that it would have on one worker, whatever
            the number of workers, at the price that each worker reads the whole split. Else
            each worker reads a part of its own.
        as_supervised: Whether examples are ``(input, label)`` or a dict of all features.
        map_fn: Applied to each example, as in ``tf.data.Dataset.map``, after shuffling.
        cache: Keep what this worker has read in memory.
        prefetch: Prepare the next batches while the present one is used.
        data_dir: Folder that holds data sets; None for TFDS' default.

    Returns:
        With ``strategy``, what ``strategy.distribute_datasets_from_function`` returns, for
        ``model.fit`` and for ``for batch in dataset`` alike; its ``cardinality`` is the number
        of steps. With ``worker``, a ``tf.data.Dataset`` of this worker's batches.

    Raises:
        DatasetError: Unknown data set or split, or numbers that do not fit together.
        MissingDependencyError: TFDS, or a package that the data set needs, is not installed.
    """
    wish = Wish(
        split,
        global_batch,
        seed,
        shuffle,
        drop_remainder,
        repeat,
        same_batches,
        as_supervised,
        map_fn,
        cache,
        prefetch,
    )
    if (strategy is None) == (worker is None):
        raise DatasetError(
            "load() needs to know who reads: give either strategy= or worker=",
            hint="strategy=strategy in a training program; worker=(index, count) without one",
        )
    builder = prepare(source, data_dir=data_dir)
    if strategy is None:
        return _worker_dataset(builder, wish, _context(worker))
    share = _share(builder, wish, replicas=strategy.num_replicas_in_sync)
    dataset = strategy.distribute_datasets_from_function(
        lambda context: _worker_dataset(builder, wish, context)
    )
    if not repeat:
        _set_steps(dataset, share.steps)
    return dataset


def steps_per_epoch(
    source: Any,
    *,
    split: Any,
    global_batch: int,
    drop_remainder: bool = False,
    data_dir: str | None = None,
) -> int:
    """Number of steps in an epoch, which is the same on every worker; arguments as in ``load``."""
    examples = count_examples(prepare(source, data_dir=data_dir), split)
    return Share(str(split), examples, global_batch, drop_remainder).steps


def _context(worker: Any) -> Any:
    if hasattr(worker, "num_input_pipelines"):
        return worker
    if not (isinstance(worker, tuple) and len(worker) == 2 and all(map(_is_whole, worker))):
        raise DatasetError(
            f"worker is {worker!r}", hint="give (index, count), or a tf.distribute.InputContext"
        )
    import tensorflow as tf

    index, count = worker
    return tf.distribute.InputContext(count, index, num_replicas_in_sync=count)


def _share(builder: Any, wish: Wish, **cluster: int) -> Share:
    share = Share(
        str(wish.split),
        count_examples(builder, wish.split),
        wish.global_batch,
        wish.drop_remainder,
        same_batches=wish.same_batches,
        **cluster,
    )
    if wish.repeat and share.remainder:
        raise DatasetError(
            f"split {share.split!r} has {share.examples} examples, which do not divide by "
            f"global_batch {wish.global_batch}; repeated, its epochs would run into each other",
            hint="use drop_remainder=True (each epoch leaves others out) or repeat=False",
        )
    return share


def _worker_dataset(builder: Any, wish: Wish, context: Any) -> Any:
    import tensorflow as tf

    share = _share(
        builder,
        wish,
        replicas=context.num_replicas_in_sync,
        workers=context.num_input_pipelines,
        index=context.input_pipeline_id,
    )
    data = _own_examples(_read(builder, wish, share), wish, share)
    if wish.map_fn:
        data = data.map(wish.map_fn, num_parallel_calls=tf.data.AUTOTUNE)
    data = _batch(data, share)
    if wish.repeat:
        data = data.repeat()
    if wish.prefetch:
        data = data.prefetch(tf.data.AUTOTUNE)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return data.with_options(options)


def _read(builder: Any, wish: Wish, share: Share) -> Any:
    """The examples of this worker's part, or of the whole split, in the order of this epoch."""
    import tensorflow_datasets as tfds

    split = wish.split
    if not wish.same_batches and share.workers > 1:
        split = tfds.even_splits(split, share.workers)[share.index]
    data = builder.as_dataset(
        split=split,
        shuffle_files=bool(wish.shuffle),
        as_supervised=wish.as_supervised,
        read_config=tfds.ReadConfig(shuffle_seed=wish.seed),
    )
    if wish.cache:
        data = data.cache()
    if wish.shuffle:
        buffer = SHUFFLE_BUFFER if wish.shuffle is True else wish.shuffle
        data = data.shuffle(min(buffer, share.examples), seed=wish.seed)
    return data


def _own_examples(data: Any, wish: Wish, share: Share) -> Any:
    import tensorflow as tf

    takes_turns = wish.same_batches and share.workers > 1
    if share.used < share.examples:
        data = data.take(share.used if takes_turns else share.own)
    if not takes_turns:
        return data

    def is_own(position: Any, _: Any) -> Any:
        place = position % share.global_batch
        size = tf.minimum(tf.cast(share.global_batch, tf.int64), share.used - position + place)
        number = ((place + 1) * share.replicas - 1) // size  # of the slice that holds it
        return number % share.workers == share.index

    data = data.enumerate().filter(is_own).map(lambda _, example: example)
    return data.apply(tf.data.experimental.assert_cardinality(share.own))


def _batch(data: Any, share: Share) -> Any:
    data = data.batch(share.replica_batch)
    if len(share.last_batches) == 1 or not share.remainder:
        return data
    full = share.used // share.global_batch * len(share.last_batches)
    return data.rebatch([share.replica_batch] * full + share.last_batches)


def _set_steps(dataset: Any, steps: int) -> None:
    """Make ``cardinality`` the number of steps.

    TensorFlow takes it from this worker's own pipeline, where it counts each replica's batches
    and where a worker may have one less; Keras on that worker would stop a step early.
    """
    import tensorflow as tf

    if isinstance(dataset, tf.data.Dataset):
        return
    if not hasattr(dataset, "_cardinality"):
        raise UnsupportedVersionError(
            f"TensorFlow {tf.__version__} has no {type(dataset).__name__}._cardinality",
            hint="use TensorFlow 2.18 to 2.21",
        )
    dataset._cardinality = steps
