"""Ways to break what experimental_distribute_dataset does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant

OFF, DATA, FILE = "OFF", "DATA", "FILE"


@mutant("mwms.distribute-dataset.signature", name="distributed-datasets-lose-their-options")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    patch(
        distribute_lib.StrategyBase,
        "experimental_distribute_dataset",
        lambda found: lambda self, dataset: found(self, dataset),
    )


@mutant(
    "mwms.distribute-dataset.is-iterated",
    name="a-distributed-dataset-goes-on-where-it-ended",
    also=("mwms.distribute-dataset.ends-together",),
)
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import input_lib

    patch(input_lib.DistributedDataset, "__iter__", functools.cache)


@mutant("mwms.distribute-dataset.no-transformations", name="a-distributed-dataset-can-be-mapped")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import input_lib

    def make(found: Any) -> Any:
        def build(self: Any, *args: Any) -> Any:
            self.map = self.reduce
            return found(self, *args)

        return build

    patch(input_lib.DistributedDataset, "build", make)


@mutant("mwms.distribute-dataset.element-spec", name="element_spec-has-another-type")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import input_lib, values
    from tensorflow.python.framework import dtypes, tensor

    spec = tensor.TensorSpec([None, 3], dtypes.float32)
    other = property(lambda self: values.PerReplicaSpec(spec))
    patch(input_lib.DistributedDataset, "element_spec", lambda found: other)


@mutant(
    "mwms.distribute-dataset.example",
    name="run-skips-a-function-with-arguments",
    also=("mwms.distribute-dataset.example-two-devices",),
)
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib
    from tensorflow.python.eager.polymorphic_function import polymorphic_function

    def make(found: Any) -> Any:
        def run(self: Any, fn: Any, args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
            if isinstance(fn, polymorphic_function.Function) and args:
                return args[0]
            return found(self, fn, args, kwargs, options)

        return run

    patch(distribute_lib.StrategyBase, "run", make)


@mutant(
    "mwms.distribute-dataset.example-two-devices",
    name="the-devices-come-in-reverse",
    also=("mwms.from-function.batch-for-each-replica",),
)
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import input_lib

    def make(found: Any) -> Any:
        return lambda replicas, strategy: found(list(reversed(replicas)), strategy)

    patch(input_lib, "_create_per_replica", make)


@mutant(
    "mwms.distribute-dataset.yields-distributed-values",
    name="one-part-comes-unwrapped",
    also=("mwms.distribute-dataset.element-spec", "mwms.from-function.element-spec"),
)
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import input_lib

    def make(found: Any) -> Any:
        def create(replicas: Any, strategy: Any) -> Any:
            return found(replicas, strategy) if len(replicas) > 1 else replicas[0]

        return create

    patch(input_lib, "_create_per_replica", make)


@mutant(
    "mwms.distribute-dataset.prefetches",
    name="nothing-is-prefetched",
    also=("mwms.distribute-dataset.prefetch-size",),
)
def _(patch: Patch) -> None:
    from tensorflow.python.data.ops import dataset_ops

    patch(dataset_ops.DatasetV2, "prefetch", lambda found: lambda self, *args, **kwargs: self)


@mutant("mwms.distribute-dataset.nested-elements", name="ragged-parts-come-empty")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import input_lib

    def make(found: Any) -> Any:
        def values(*args: Any, **kwargs: Any) -> Any:
            whole = found(*args, **kwargs)
            return [_without_ragged(each) for each in whole]

        return values

    patch(input_lib, "_get_value_or_dummy", make)


def _without_ragged(value: Any) -> Any:
    return {**value, "y": value["y"][:0]} if isinstance(value, dict) else value


@mutant(
    "mwms.distribute-dataset.ends-together",
    name="each-worker-ends-for-itself",
    also=("mwms.distribute-dataset.uneven-files", "mwms.from-function.uneven-workers"),
)
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import input_lib

    patch(input_lib, "_calculate_replicas_with_values", lambda found: _own_values)


def _own_values(strategy: Any, input_workers: Any, optionals: Any) -> Any:
    """How many replicas of this worker have a value; the others are not asked."""
    import tensorflow as tf

    has = [tf.cast(each.has_value(), tf.int64) for worker in optionals for each in worker]
    return tf.reduce_sum(has)


@mutant("mwms.distribute-dataset.in-a-function", name="functions-cannot-iterate")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import input_lib

    def make(found: Any) -> Any:
        def iterate(self: Any) -> Any:
            import tensorflow as tf

            if tf.inside_function():
                raise RuntimeError("__iter__() is only supported when eager execution is enabled")
            return found(self)

        return iterate

    patch(input_lib.DistributedDataset, "__iter__", make)


# How batches are split


@mutant("mwms.distribute-dataset.rebatches", name="batches-are-split-over-workers-alone")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import input_ops

    def make(found: Any) -> Any:
        return lambda dataset, workers, index, replicas: found(dataset, workers, index, workers)

    patch(input_ops, "auto_shard_dataset", make)


@mutant(
    "mwms.distribute-dataset.indivisible-batch",
    name="what-cannot-be-divided-is-dropped",
    also=(
        "mwms.distribute-dataset.ends-together",
        "mwms.distribute-dataset.partial-last-batch",
        "mwms.dataset-iterator.partial-last-batch",
    ),
)
def _(patch: Patch) -> None:
    def divisible(batch: Any) -> Any:
        import tensorflow as tf

        return batch[: tf.shape(batch)[0] // 2 * 2]

    _before_splitting(patch, lambda dataset: dataset.map(divisible))


@mutant(
    "mwms.distribute-dataset.partial-last-batch",
    name="the-last-smaller-batch-is-dropped",
    also=(
        "mwms.distribute-dataset.ends-together",
        "mwms.dataset-iterator.partial-last-batch",
    ),
)
def _(patch: Patch) -> None:
    def whole(dataset: Any) -> Any:
        import tensorflow as tf
        from tensorflow.python.data.experimental.ops import distribute

        size = distribute.compute_batch_size(dataset)
        return dataset.filter(lambda batch: tf.shape(batch, tf.int64)[0] == size)

    _before_splitting(patch, whole)


def _before_splitting(patch: Patch, change: Callable[[Any], Any]) -> None:
    """Change datasets whose elements are a single tensor, before their batches are split."""
    from tensorflow.python.distribute import input_lib

    def make(found: Any) -> Any:
        def create(self: Any, dataset: Any, *args: Any) -> Any:
            import tensorflow as tf

            spec = dataset.element_spec
            is_batched = isinstance(spec, tf.TensorSpec) and spec.shape.rank == 1
            return found(self, change(dataset) if is_batched else dataset, *args)

        return create

    patch(input_lib.DistributedDataset, "_create_cloned_datasets_from_dataset", make)


@mutant(
    "mwms.distribute-dataset.shards-within-a-worker",
    name="all-devices-get-the-first-part",
    also=(
        "mwms.distribute-dataset.example-two-devices",
        "mwms.from-function.batch-for-each-replica",
    ),
)
def _(patch: Patch) -> None:
    from tensorflow.python.data.ops import multi_device_iterator_ops

    def make(found: Any) -> Any:
        return lambda self: [found(self)[0]] * len(self._devices)

    patch(multi_device_iterator_ops.OwnedMultiDeviceIterator, "get_next_as_optional", make)


# How elements are given to workers


@mutant("mwms.distribute-dataset.shards-over-workers", name="a-third-worker-gets-the-second-shard")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    second = property(lambda self: min(self._input_pipeline_id, 1))
    patch(distribute_lib.InputContext, "input_pipeline_id", lambda found: second)


@mutant("mwms.distribute-dataset.shuffled-with-a-seed", name="shuffling-ignores-the-seed")
def _(patch: Patch) -> None:
    from tensorflow.python.data.util import random_seed

    def without(seed: Any) -> Any:
        import tensorflow as tf

        return tf.constant(0, tf.int64), tf.constant(0, tf.int64)

    patch(random_seed, "get_seed", lambda found: without)


@mutant("mwms.distribute-dataset.auto-is-the-default", name="the-policy-is-data-unless-said")
def _(patch: Patch) -> None:
    from tensorflow.python.data.ops import options

    def make(found: Any) -> Any:
        def policy(self: Any) -> Any:
            said = self._options.get("auto_shard_policy")
            return options.AutoShardPolicy.DATA if said is None else said

        return property(policy, found.fset)

    patch(options.DistributeOptions, "auto_shard_policy", make)


@mutant(
    "mwms.distribute-dataset.auto-shards-by-file",
    name="auto-never-shards-by-file",
    also=(
        "mwms.distribute-dataset.ends-together",
        "mwms.distribute-dataset.too-few-files",
        "mwms.distribute-dataset.uneven-files",
    ),
)
def _(patch: Patch) -> None:
    _take(patch, "AUTO", DATA)


@mutant("mwms.distribute-dataset.too-few-files", name="auto-never-shards-what-is-repeated")
def _(patch: Patch) -> None:
    _take(patch, "AUTO", OFF, where=lambda dataset: _is_made_by(dataset, "Repeat"))


@mutant("mwms.distribute-dataset.auto-shards-by-data", name="auto-does-not-shard-generators")
def _(patch: Patch) -> None:
    _take(patch, "AUTO", OFF, where=lambda dataset: _is_made_by(dataset, "FlatMap"))


def _is_made_by(dataset: Any, name: str) -> bool:
    """Whether a transformation is among those that led to a dataset."""
    inputs = dataset._inputs()
    return name in type(dataset).__name__ or any(_is_made_by(each, name) for each in inputs)


@mutant("mwms.distribute-dataset.policy-off", name="off-shards-by-element")
def _(patch: Patch) -> None:
    _take(patch, OFF, DATA)


@mutant("mwms.distribute-dataset.policy-data", name="data-does-not-shard")
def _(patch: Patch) -> None:
    _take(patch, DATA, OFF)


@mutant("mwms.distribute-dataset.policy-file-without-files", name="file-shards-by-element")
def _(patch: Patch) -> None:
    _take(patch, FILE, DATA)


@mutant("mwms.distribute-dataset.policy-hint", name="hint-shards-by-element")
def _(patch: Patch) -> None:
    _take(patch, "HINT", DATA)


def _take(
    patch: Patch, asked: str, taken: str, where: Callable[[Any], bool] = lambda dataset: True
) -> None:
    """Have one auto-shard policy taken for another, for some datasets."""
    from tensorflow.python.distribute import input_ops

    def make(found: Any) -> Any:
        def shard(dataset: Any, *args: Any) -> Any:
            import tensorflow as tf

            name = dataset.options().experimental_distribute.auto_shard_policy.name
            if name != asked or not where(dataset):
                return found(dataset, *args)
            options = tf.data.Options()
            policy = tf.data.experimental.AutoShardPolicy[taken]
            options.experimental_distribute.auto_shard_policy = policy
            return found(dataset.with_options(options), *args)

        return shard

    patch(input_ops, "auto_shard_dataset", make)
