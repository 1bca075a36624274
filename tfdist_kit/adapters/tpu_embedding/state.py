"""What a host embedding holds besides TensorFlow's own attributes, out of the object graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfdist_kit.adapters.tpu_embedding import replicas
from tfdist_kit.adapters.tpu_embedding.layout import Bundle, Group, bundled, grouped
from tfdist_kit.adapters.tpu_embedding.lookups import DTYPES, Lookups
from tfdist_kit.adapters.tpu_embedding.queues import Batches
from tfdist_kit.adapters.tpu_embedding.shapes import Shapes
from tfdist_kit.adapters.tpu_embedding.structures import named_features


class State:
    """The state of one embedding.

    Args:
        embedding: The `HostTPUEmbedding`.
        originals: Each copied `TableConfig` with the caller's own.

    Attributes:
        shapes: Its features' output shapes.
        groups: How features and tables are packed; none until it is built with shapes.
        bundles: The groups by dim; the same.
        batches: The queues of each local replica.
        warned: Whether it was told that no gradient was passed at all.
    """

    def __init__(self, embedding: Any, originals: Sequence[tuple[Any, Any]]) -> None:
        self.embedding = embedding
        self.originals = list(originals)
        self.shapes = Shapes(embedding)
        self.groups: tuple[Group, ...] = ()
        self.bundles: tuple[Bundle, ...] = ()
        self.batches: list[Batches] = []
        self.warned = False

    def is_to_compare(self, has_tables: bool) -> bool:
        """Whether tables or shapes are new, so that workers have to compare them."""
        return not has_tables or (not self.groups and self.shapes.known is not None)

    def complete(self) -> None:
        """Make layout and queues, as soon as all shapes are known."""
        if self.groups or self.shapes.known is None:
            return
        config = self.embedding._feature_config
        features = named_features(config)
        self.groups = grouped(features, self.embedding._table_config, self.shapes.known)
        self.bundles = bundled(self.groups)
        devices = replicas.devices(self.embedding._strategy)
        dtypes = DTYPES * len(self.groups)
        self.batches = [Batches(dtypes, replica) for replica in range(len(devices))]

    def unpacked(self, tensors: Sequence[Any]) -> list[Lookups]:
        """The lookups of each group, from what a queue held."""
        size = len(DTYPES)
        return [Lookups(*tensors[i : i + size]) for i in range(0, len(tensors), size)]

    def unfinished(self) -> list[str]:
        """Each replica's batches that are left over, in words."""
        texts = []
        for replica, batches in enumerate(self.batches):
            waiting, in_training = batches.left()
            if waiting:
                texts.append(f"replica {replica}: {waiting} batches were never dequeued")
            if in_training:
                texts.append(
                    f"replica {replica}: a batch enqueued with training=True never got "
                    "apply_gradients()"
                )
        return texts


class Tables(dict[Any, Any]):
    """Tables by the caller's own `TableConfig`, and by the embedding's copy of it.

    Args:
        by_copy: The tables by the copies.
        originals: Each copy with the caller's own.
    """

    def __init__(self, by_copy: Mapping[Any, Any], originals: Sequence[tuple[Any, Any]]) -> None:
        super().__init__({original: by_copy[copy] for copy, original in originals})
        self._original = dict(originals)

    def __missing__(self, config: Any) -> Any:
        if config not in self._original:
            raise KeyError(config)
        return self[self._original[config]]
