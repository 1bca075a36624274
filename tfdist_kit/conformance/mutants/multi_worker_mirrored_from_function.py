"""Ways to break what distribute_datasets_from_function does."""

from __future__ import annotations

from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant


@mutant("mwms.from-function.signature", name="datasets-from-functions-lose-their-options")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    patch(
        distribute_lib.StrategyBase,
        "distribute_datasets_from_function",
        lambda found: lambda self, dataset_fn: found(self, dataset_fn),
    )


@mutant(
    "mwms.from-function.input-context",
    name="an-input-pipeline-more-than-workers",
    also=("mwms.from-function.own-sharding",),
)
def _(patch: Patch) -> None:
    def told_of_more(dataset_fn: Any, context: Any) -> Any:
        pipelines = context.num_input_pipelines + 1
        other = type(context)(pipelines, context.input_pipeline_id, context.num_replicas_in_sync)
        return dataset_fn(other)

    _called(patch, told_of_more)


@mutant("mwms.from-function.per-replica-batch-size", name="a-batch-size-for-each-worker")
def _(patch: Patch) -> None:
    def make(found: Any) -> Any:
        def size(self: Any, global_batch_size: int) -> Any:
            local_replicas = self._num_replicas_in_sync // self._num_input_pipelines
            return found(self, global_batch_size) * local_replicas

        return size

    _batch_size(patch, make)


@mutant("mwms.from-function.indivisible-batch-size", name="a-batch-size-is-rounded")
def _(patch: Patch) -> None:
    def make(found: Any) -> Any:
        return lambda self, size: found(self, size - size % self._num_replicas_in_sync)

    _batch_size(patch, make)


def _batch_size(patch: Patch, make: Any) -> None:
    from tensorflow.python.distribute import distribute_lib

    patch(distribute_lib.InputContext, "get_per_replica_batch_size", make)


@mutant("mwms.from-function.own-sharding", name="every-shard-is-the-first")
def _(patch: Patch) -> None:
    from tensorflow.python.data.ops import dataset_ops

    def make(found: Any) -> Any:  # below 0 there is the hint where to shard
        return lambda self, shards, index, name=None: found(self, shards, min(index, 0))

    patch(dataset_ops.DatasetV2, "shard", make)


@mutant(
    "mwms.from-function.neither-batches-nor-shards",
    name="datasets-from-functions-are-sharded",
    also=(
        "mwms.from-function.batch-for-each-replica",
        "mwms.from-function.element-spec",
        "mwms.from-function.own-sharding",
        "mwms.from-function.uneven-workers",
    ),
)
def _(patch: Patch) -> None:
    def sharded(dataset_fn: Any, context: Any) -> Any:
        return dataset_fn(context).shard(context.num_input_pipelines, context.input_pipeline_id)

    _called(patch, sharded)


@mutant("mwms.from-function.called-on-the-cpu", name="dataset_fn-is-called-twice")
def _(patch: Patch) -> None:
    def twice(dataset_fn: Any, context: Any) -> Any:
        dataset_fn(context)
        return dataset_fn(context)

    _called(patch, twice)


def _called(patch: Patch, call: Any) -> None:
    """Have `call` call every dataset_fn."""
    from tensorflow.python.distribute import input_lib

    def make(found: Any) -> Any:
        return lambda contexts, workers, function: found(
            contexts, workers, lambda context: call(function, context)
        )

    patch(input_lib, "_create_datasets_from_function_with_input_context", make)


@mutant(
    "mwms.from-function.batch-for-each-replica",
    name="all-replicas-of-a-worker-take-one-batch",
    also=(
        "mwms.distribute-dataset.example-two-devices",
        "mwms.distribute-dataset.shards-within-a-worker",
    ),
)
def _(patch: Patch) -> None:
    from tensorflow.python.data.ops import multi_device_iterator_ops

    def make(found: Any) -> Any:
        return lambda self: [found(self)[0]] * len(self._devices)

    patch(multi_device_iterator_ops.OwnedMultiDeviceIterator, "get_next_as_optional", make)


@mutant("mwms.from-function.own-seeds", name="all-seeds-are-one")
def _(patch: Patch) -> None:
    from tensorflow.python.data.util import random_seed

    patch(random_seed, "get_seed", lambda found: lambda seed: found(1))


@mutant("mwms.from-function.element-spec", name="element_spec-has-the-size-of-the-first-batch")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import input_lib, values
    from tensorflow.python.framework import dtypes, tensor

    other = property(lambda self: values.PerReplicaSpec(tensor.TensorSpec([2], dtypes.int64)))
    patch(input_lib.DistributedDatasetsFromFunction, "element_spec", lambda found: other)


@mutant(
    "mwms.from-function.uneven-workers",
    name="a-worker-that-has-ended-makes-up-batches",
    also=(
        "mwms.distribute-dataset.ends-together",
        "mwms.distribute-dataset.uneven-files",
    ),
)
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import input_lib

    def made_up(structure: Any) -> Any:
        import tensorflow as tf

        return tf.nest.map_structure(lambda spec: tf.ones([2], spec.dtype), structure)

    patch(input_lib, "_dummy_tensor_fn", lambda found: made_up)
