"""The host mode: TensorFlow's TPUEmbedding, whose step also runs where there is no TPU.

build -> TensorFlow's own tables and slots, in the strategy's scope; the layout; the queues
enqueue -> lookups (lookups.py) -> a queue of the replica (queues.py)
dequeue -> its oldest batch -> activations; a batch to train is kept for apply_gradients
apply_gradients -> row gradients -> summed over replicas and workers (reducing.py)
    -> each table's rows, by its optimizer's formula (updates.py)

Checkpoints, configs and shapes stay TensorFlow's: nothing here is part of the object graph.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tensorflow as tf
from tensorflow.python.util import nest

from tfdist_kit._errors import EmbeddingError, UsageError
from tfdist_kit.adapters.tpu_embedding import lookups, replicas
from tfdist_kit.adapters.tpu_embedding.alike import check_alike
from tfdist_kit.adapters.tpu_embedding.applying import apply_to_tables, checked_gradients
from tfdist_kit.adapters.tpu_embedding.calling import check_training, refuse_graphs, refuse_xla
from tfdist_kit.adapters.tpu_embedding.configs import copied
from tfdist_kit.adapters.tpu_embedding.state import State, Tables
from tfdist_kit.adapters.tpu_embedding.structures import flattened
from tfdist_kit.adapters.tpu_embedding.updates import why_unsupported

_log = logging.getLogger(__name__)

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _not_converted(method: _Method) -> _Method:
    converted: _Method = tf.autograph.experimental.do_not_convert(method)
    return converted


class HostTPUEmbedding(tf.tpu.experimental.embedding.TPUEmbedding):  # type: ignore[misc]
    """A `TPUEmbedding` whose `enqueue`, `dequeue` and `apply_gradients` need no TPU.

    `tfdist_kit.tpu_embedding` makes it. It works on one process, under a `MirroredStrategy`, a
    `OneDeviceStrategy` and a `MultiWorkerMirroredStrategy`; the strategy is the one in whose scope
    it is made. Every replica has the whole of each table.

    Args:
        feature_config: As for `tfdist_kit.tpu_embedding`; it is copied.
        optimizer: The same.
        pipeline_execution_with_tensor_core: Has no effect here, of which a warning tells.

    Raises:
        UsageError: A config is wrong, or asks for what is not modelled.
        UnsupportedStrategyError: The strategy is not one of those above.
    """

    def __init__(
        self,
        feature_config: Any,
        optimizer: Any,
        pipeline_execution_with_tensor_core: bool = False,
    ) -> None:
        replicas.check_strategy(tf.distribute.get_strategy())
        configs = copied(feature_config, optimizer)
        super().__init__(configs.features, configs.optimizer, pipeline_execution_with_tensor_core)
        if pipeline_execution_with_tensor_core:
            _log.warning(
                "pipeline_execution_with_tensor_core has no effect without a TPU: activations are "
                "never one step old"
            )
        for table in self._table_config:
            if reason := why_unsupported(table):
                raise UsageError(reason, hint="host mode refuses what it cannot compute as a TPU")
        # No trackable object: nothing of it becomes part of a checkpoint.
        self._host = State(self, configs.originals)

    @property
    def embedding_tables(self) -> Any:
        """The tables by `TableConfig`: the caller's own, or the copies in ``feature_config``."""
        return Tables(super().embedding_tables, self._host.originals)

    @property
    def embedding_table(self) -> Any:
        """A slip of TensorFlow's documentation, which gets an answer."""
        raise AttributeError(
            "TPUEmbedding has no attribute 'embedding_table', though its documentation says so: "
            "it is embedding_tables"
        )

    @_not_converted
    def build(
        self,
        per_replica_input_shapes: Any = None,
        per_replica_batch_size: Any = None,
        **stale: Any,
    ) -> None:
        """Make the tables, and with known output shapes all that a step needs.

        Args:
            per_replica_input_shapes: The input shapes of one replica, built like
                ``feature_config``: `tf.TensorShape` or lists of sizes.
            per_replica_batch_size: Instead of them the batch size of one replica.
            stale: Nothing; TensorFlow's documentation names an argument that does not exist.

        Raises:
            UsageError: A shape conflicts with an ``output_shape``; says which.
            EmbeddingError: The workers' embeddings differ; or some worker builds none.
        """
        if stale:
            raise UsageError(
                f"build() has no argument {next(iter(stale))!r}",
                hint="give per_replica_input_shapes: output shapes are made of them",
            )
        if not self._host.groups:
            self._host.shapes.from_build(per_replica_input_shapes, per_replica_batch_size)
        if self._host.is_to_compare(self._built):
            check_alike(self)
        if not self._built:
            with tf.init_scope(), replicas.scope_of(self._strategy):
                super().build()
        self._host.complete()

    @_not_converted
    def enqueue(
        self,
        features: Any,
        weights: Any = None,
        training: Any = True,
        name: str | None = None,
        device: str | None = None,
    ) -> None:
        """Let a batch of ids wait for `dequeue`.

        Args:
            features: Ids, built like ``feature_config``: `tf.Tensor`, `tf.SparseTensor` or
                `tf.RaggedTensor` of whole numbers; outside of ``strategy.run`` those of all
                replicas.
            weights: Weights of the ids, of the same kinds and structure; None for all or some.
            training: Whether `apply_gradients` will follow.
            name: No effect.
            device: The one device whose replica gets the batch.

        Raises:
            UsageError: A feature's structure, kind, type or shape is wrong, or `training`.
            TypeError: A part of the structure is of another type.
            EmbeddingError: Too many batches wait, or values are wrong; in a graph it is
                TensorFlow's `InvalidArgumentError` with the same text. Or XLA compiles the step.
        """
        del name
        refuse_xla("enqueue")
        check_training(training)
        if training is not False:
            self._check_optimizers("a batch is to train")
        flat = flattened(self._feature_config, features, "features")
        flat_weights = [None] * len(flat)
        if weights is not None:
            flat_weights = flattened(self._feature_config, weights, "weights")
        flat = self._host.shapes.tensors_of(flat)
        in_replica = replicas.in_replica(self._strategy)
        self._take_shapes(flat, device, in_replica)
        for replica in replicas.meant(self._strategy, device, in_replica):
            whole = in_replica or device is not None
            mine = (
                [flat, flat_weights]
                if whole
                else replicas.select(self._strategy, replica, flat, flat_weights)
            )
            with tf.device("/device:CPU:0"):
                found = lookups.lookups_of(self._host.groups, *mine)
                tensors = [tensor for each in found for tensor in each.tensors()]
                self._host.batches[replica].put(training, tensors)

    @_not_converted
    def dequeue(self, name: str | None = None) -> Any:
        """The activations of the oldest batch, within ``strategy.run``.

        Args:
            name: No effect.

        Returns:
            Built like ``feature_config``, float32 ``[*output_shape, dim]``.

        Raises:
            EmbeddingError: It is not built, or in no replica; no batch waits, or one that trains
                has had no `apply_gradients` (in a graph TensorFlow's `InvalidArgumentError`).
        """
        del name
        replica = self._replica("dequeue")
        tensors = self._host.batches[replica].take()
        found: dict[int, Any] = {}
        for group, each in zip(self._host.groups, self._host.unpacked(tensors), strict=True):
            found |= lookups.activations(group, each, self._tables(group.tables, replica))
        flat = [found[index] for index in range(len(found))]
        return nest.pack_sequence_as(self._feature_config, flat)

    @_not_converted
    def apply_gradients(self, gradients: Any, name: str | None = None) -> None:
        """Update the tables with the gradients of the batch that was dequeued last.

        The gradients of all replicas and workers are summed.

        Args:
            gradients: Of the activations, built like ``feature_config``; None is a gradient of
                zero.
            name: No effect.

        Raises:
            UsageError: A gradient is no tensor, or has a wrong shape or structure.
            TypeError: A part of the structure is of another type.
            EmbeddingError: As in `dequeue`; no batch was dequeued that trains; or a table has no
                optimizer.
        """
        del name
        replica = self._replica("apply_gradients")
        self._check_optimizers("gradients are to be applied")
        flat = flattened(self._feature_config, gradients, "gradients")
        flat = checked_gradients(self._host, flat)
        tensors = self._host.batches[replica].take_trained()
        apply_to_tables(self._host, self._host.unpacked(tensors), flat)

    def unfinished(self) -> list[str]:
        """What calls of `enqueue` or `dequeue` have left over; empty after whole steps.

        Raises:
            EmbeddingError: It is called in a `tf.function`.
        """
        refuse_graphs("unfinished")
        return self._host.unfinished()

    def discard_batches(self) -> None:
        """Drop all batches that are left over, as after a step that failed.

        Raises:
            EmbeddingError: It is called in a `tf.function`.
        """
        refuse_graphs("discard_batches")
        for batches in self._host.batches:
            batches.discard()

    def _check_optimizers(self, what: str) -> None:
        without = [table.name for table in self._table_config if table.optimizer is None]
        if without:
            raise EmbeddingError(
                f"{what}, but table {without[0]!r} has no optimizer",
                hint="give the embedding an optimizer, or enqueue with training=False and leave "
                "apply_gradients() out",
            )

    def _take_shapes(self, flat: Sequence[Any], device: str | None, in_replica: bool) -> None:
        packed = nest.pack_sequence_as(self._feature_config, list(flat))
        self._host.shapes.from_enqueue(packed, device, in_replica)
        if not self._host.groups:
            replicas.outside(self._strategy, in_replica, self.build)

    def _replica(self, what: str) -> int:
        refuse_xla(what)
        replica = replicas.current(self._strategy, what)
        if not self._host.groups:
            raise EmbeddingError(
                f"{what}() is called before the embedding is built",
                hint="call enqueue() first, or build() with the input shapes of one replica",
            )
        return replica

    def _tables(self, tables: Sequence[Any], replica: int) -> list[Any]:
        """This replica's own variables: a lookup in a mirrored one would copy the whole table."""
        mirrored = [self._variables[table.name]["parameters"] for table in tables]
        return [self._strategy.experimental_local_results(each)[replica] for each in mirrored]
