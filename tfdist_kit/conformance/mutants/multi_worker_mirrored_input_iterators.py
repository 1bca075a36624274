"""Ways to break make_dataset_iterator, make_input_fn_iterator and make_numpy_dataset."""

from __future__ import annotations

import json
import os
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant


@mutant("mwms.dataset-iterator.signature", name="iterators-of-datasets-have-options")
def _(patch: Patch) -> None:
    def make(found: Any) -> Any:
        return lambda self, dataset, options=None: found(self, dataset)

    _methods(patch, "make_dataset_iterator", make)


@mutant("mwms.input-fn-iterator.signature", name="iterators-of-functions-have-no-mode")
def _(patch: Patch) -> None:
    _methods(
        patch, "make_input_fn_iterator", lambda found: lambda self, input_fn: found(self, input_fn)
    )


def _methods(patch: Patch, name: str, make: Any) -> None:
    """Replace a method of both classes."""
    from tensorflow.python.distribute import distribute_lib

    patch(distribute_lib.StrategyBase, name, make)
    patch(distribute_lib.StrategyV1, name, make)


@mutant("mwms.dataset-iterator.spreads-evenly", name="iterators-do-not-split-eager-batches")
def _(patch: Patch) -> None:
    _never_split(patch, eagerly=True)


@mutant(
    "mwms.dataset-iterator.graph",
    name="iterators-do-not-split-batches-in-a-graph",
    also=("mwms.dataset-iterator.partial-last-batch",),
)
def _(patch: Patch) -> None:
    _never_split(patch, eagerly=False)


def _never_split(patch: Patch, *, eagerly: bool) -> None:
    from tensorflow.python.distribute.v1 import input_lib

    def make(found: Any) -> Any:
        def init(self: Any, *args: Any, num_replicas_in_sync: Any, **kwargs: Any) -> None:
            import tensorflow as tf

            split = None if tf.executing_eagerly() == eagerly else num_replicas_in_sync
            found(self, *args, num_replicas_in_sync=split, **kwargs)

        return init

    patch(input_lib.DatasetIterator, "__init__", make)


@mutant(
    "mwms.input-fn-iterator.example",
    name="eager-functions-are-given-the-global-batch-size",
    also=(
        "mwms.from-function.indivisible-batch-size",
        "mwms.from-function.per-replica-batch-size",
    ),
)
def _(patch: Patch) -> None:
    _not_divided(patch, eagerly=True)


@mutant(
    "mwms.input-fn-iterator.example-in-graph-mode",
    name="functions-are-given-the-global-batch-size-in-a-graph",
)
def _(patch: Patch) -> None:
    _not_divided(patch, eagerly=False)


def _not_divided(patch: Patch, *, eagerly: bool) -> None:
    from tensorflow.python.distribute import distribute_lib

    def make(found: Any) -> Any:
        def size(self: Any, global_batch_size: int) -> Any:
            import tensorflow as tf

            whole = tf.executing_eagerly() == eagerly
            return global_batch_size if whole else found(self, global_batch_size)

        return size

    patch(distribute_lib.InputContext, "get_per_replica_batch_size", make)


@mutant("mwms.input-fn-iterator.as-it-is", name="what-functions-return-is-sharded")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute.v1 import input_lib

    def make(found: Any) -> Any:
        def init(self: Any, function: Any, workers: Any, contexts: Any, strategy: Any) -> None:
            def sharded(context: Any) -> Any:
                made = function(context)
                return made if callable(made) else made.shard(2, context.input_pipeline_id)

            found(self, sharded, workers, contexts, strategy)

        return init

    patch(input_lib.InputFunctionIterator, "__init__", make)


# make_numpy_dataset


@mutant("mwms.numpy-dataset.signature", name="datasets-of-arrays-need-no-session")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    patch(
        distribute_lib.StrategyV1,
        "experimental_make_numpy_dataset",
        lambda found: lambda self, numpy_input: found(self, numpy_input),
    )


@mutant(
    "mwms.numpy-dataset.rows",
    name="an-array-is-one-row",
    also=("mwms.numpy-dataset.batched", "mwms.numpy-dataset.not-in-the-graph"),
)
def _(patch: Patch) -> None:
    _made_of(patch, "from_tensors")


@mutant("mwms.numpy-dataset.not-in-the-graph", name="an-array-is-a-constant")
def _(patch: Patch) -> None:
    _made_of(patch, "from_tensor_slices")


def _made_of(patch: Patch, method: str) -> None:
    """Have datasets of arrays made by a method of a dataset, from constants."""
    from tensorflow.python.distribute import numpy_dataset

    def one_host(numpy_input: Any, colocate_with: Any, session: Any) -> Any:
        import tensorflow as tf

        return getattr(tf.data.Dataset, method)(numpy_input)

    patch(numpy_dataset, "one_host_numpy_dataset", lambda found: one_host)


@mutant("mwms.numpy-dataset.batched", name="a-second-worker-reads-arrays-backwards")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import numpy_dataset

    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]

    def make(found: Any) -> Any:
        def one_host(numpy_input: Any, colocate_with: Any, session: Any) -> Any:
            return found(numpy_input[::-1] if index else numpy_input, colocate_with, session)

        return one_host

    patch(numpy_dataset, "one_host_numpy_dataset", make)
