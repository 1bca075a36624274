"""What a step is traced with: specs in the place of data, of which none is read.

a function that makes a dataset -> the spec of the iterator over its distributed dataset
per_replica(spec)               -> the spec of one value for each core, also within a dict or tuple
anything else                   -> itself: TensorSpec, SparseTensorSpec, tensors, numbers
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters._private import private
from tfdist_kit.adapters.tpu_embedding.tracing.needs import INPUT


@dataclass(frozen=True)
class _PerReplica:
    spec: Any


def per_replica(spec: Any) -> Any:
    """Say that a step of `check_step` gets one value for each core.

    Args:
        spec: The spec of one core's value (``tf.TensorSpec``, ``tf.SparseTensorSpec``,
            ``tf.RaggedTensorSpec``), or any nesting of such.

    Returns:
        What stands for it in the ``inputs`` of `check_step`, or in a dict, list or tuple there.
    """
    return _PerReplica(spec)


def arguments(strategy: Any, inputs: Any) -> tuple[Any, ...]:
    """What the step is traced with, for the ``inputs`` of `check_step`."""
    is_plain = isinstance(inputs, tuple) and not hasattr(inputs, "_fields")
    return tuple(_argument(strategy, each) for each in (inputs if is_plain else (inputs,)))


def _argument(strategy: Any, given: Any) -> Any:
    import tensorflow as tf

    if any(isinstance(each, _PerReplica) for each in tf.nest.flatten(given)):
        return tf.nest.map_structure(lambda each: _distributed(strategy, each), given)
    if isinstance(given, tf.data.Dataset):
        raise UsageError(
            "inputs has a dataset",
            hint="give the function that makes it: def dataset_fn(input_context), as for "
            "strategy.distribute_datasets_from_function",
        )
    is_function = callable(given) and not isinstance(given, (tf.TypeSpec, tf.Tensor, tf.Variable))
    return _iterator_spec(strategy, given) if is_function else given


def _distributed(strategy: Any, given: Any) -> Any:
    if not isinstance(given, _PerReplica):
        return given
    return private(INPUT, "_create_distributed_tensor_spec")(strategy, given.spec)


def _iterator_spec(strategy: Any, dataset_fn: Callable[[Any], Any]) -> Any:
    """The spec of ``iter(strategy.distribute_datasets_from_function(dataset_fn, options))``.

    Of that iterator itself there is none, since it would have to be on hosts that are not there.
    """
    import tensorflow as tf

    options = tf.distribute.InputOptions(experimental_fetch_to_device=False)
    first = _dataset(strategy, dataset_fn)
    cardinality = first.cardinality().numpy()
    return private(INPUT, "DistributedIteratorSpec")(
        strategy.extended._get_input_workers(options),
        private(INPUT, "_create_distributed_tensor_spec")(strategy, first.element_spec),
        strategy,
        options,
        cardinality=cardinality,
        enable_get_next_as_optional=private(INPUT, "_enable_get_next_as_optional")(
            strategy, first, cardinality
        ),
        replica_order=strategy.extended._get_replica_order(),
    )


def _dataset(strategy: Any, dataset_fn: Callable[[Any], Any]) -> Any:
    """The first host's dataset; those of the others have to be of its kind."""
    import tensorflow as tf

    hosts = strategy.extended.num_hosts
    contexts = [
        tf.distribute.InputContext(hosts, host, strategy.num_replicas_in_sync)
        for host in range(hosts)
    ]
    first, *others = [dataset_fn(context) for context in contexts]
    if not isinstance(first, tf.data.Dataset):
        raise UsageError(
            f"inputs has a function that returned {type(first).__name__}",
            hint="a function there takes a tf.distribute.InputContext and returns a "
            "tf.data.Dataset",
        )
    for host, other in enumerate(others, start=1):
        if other.element_spec != first.element_spec:
            raise UsageError(
                f"the dataset of host {host} has the elements {other.element_spec}, that of host "
                f"0 {first.element_spec}",
                hint="make datasets of the same structure, types and shapes on all hosts",
            )
    return first
