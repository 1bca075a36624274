"""Embeddings that are built without hardware, as long as a made-up TPU is open.

`without_hardware` puts one method in the place of ``TPUEmbedding.build``. For an embedding of a
made-up TPU it takes TensorFlow's own steps up to the engine's configuration, and stops; for any
other it is TensorFlow's method. The last one that closes puts TensorFlow's method back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tfdist_kit.adapters._private import private
from tfdist_kit.adapters.tpu_embedding.tracing.needs import EMBEDDING, check_embedding

ANOTHER = (
    "TPU is already initialized for embeddings. This may be caused by using multiple TPUEmbedding "
    "instances in a TPU scope which is unsupported"
)
"""TensorFlow's words, from ``TPUEmbedding.build``."""
PACKING = "low_dimensional_packing_status"
"""The enum field of the configuration to which TensorFlow assigns a bool."""


@dataclass
class Builds:
    """What was built for one made-up TPU.

    Attributes:
        goes_on: Whether a build goes on where only the installed protobuf stops it.
        embedding: The embedding that was built; None before.
        fault: protobuf's error, where a build has gone on in spite of it.
    """

    goes_on: bool = False
    embedding: Any = None
    fault: Exception | None = field(default=None, repr=False)


_lock = threading.RLock()
_open: dict[int, Builds] = {}
"""By the id of each open strategy's ``extended``."""
_original: list[Any] = []


@contextmanager
def without_hardware(strategy: Any, *, goes_on: bool = False) -> Iterator[Builds]:
    """Build embeddings of `strategy` without hardware, while this is open."""
    builds, key = Builds(goes_on), id(strategy.extended)
    with _lock:
        _install()
        _open[key] = builds
    try:
        yield builds
    finally:
        with _lock:
            del _open[key]
            _restore()


def _install() -> None:
    if _open:
        return
    embedding = private(EMBEDDING, "TPUEmbedding")
    _original[:] = [embedding.build]
    embedding.build = _build


def _restore() -> None:
    if not _open:
        private(EMBEDDING, "TPUEmbedding").build = _original.pop()


def _build(
    self: Any, per_replica_input_shapes: Any = None, per_replica_batch_size: Any = None
) -> None:
    """As ``TPUEmbedding.build``; see `without_hardware`."""
    builds = _open.get(id(self._strategy.extended))
    if builds is None:
        _original[0](self, per_replica_input_shapes, per_replica_batch_size)
        return
    check_embedding(self)
    if not self._built:
        if builds.embedding is not None:
            raise RuntimeError(ANOTHER)
        self._get_and_update_output_shapes_from_input(
            per_replica_input_shapes, per_replica_batch_size
        )
        self._config_proto = _configuration(self, builds)
        self._variables = {}
        self._built = True
        builds.embedding = self


def _configuration(embedding: Any, builds: Builds) -> Any:
    try:
        return embedding._create_config_proto()
    except TypeError as error:
        if not builds.goes_on or PACKING not in str(error):
            raise
        builds.fault = error
    with _as_protobuf_wants(embedding):
        return embedding._create_config_proto()


@contextmanager
def _as_protobuf_wants(embedding: Any) -> Iterator[None]:
    """The packing status of all optimizers as a number; afterwards as it was."""
    optimizers = [table.optimizer for table in embedding._table_config]
    before = [getattr(optimizer, PACKING) for optimizer in optimizers]
    try:
        for optimizer, status in zip(optimizers, before, strict=True):
            setattr(optimizer, PACKING, int(status))
        yield
    finally:
        for optimizer, status in zip(optimizers, before, strict=True):
            setattr(optimizer, PACKING, status)
