"""The private names of TensorFlow that this room uses, all checked before anything is made up."""

from __future__ import annotations

from typing import Final

from tfdist_kit.adapters._private import private

SESSION = "tensorflow.python.client.session"
INPUT = "tensorflow.python.distribute.input_lib"
STRATEGY = "tensorflow.python.distribute.tpu_strategy"
VALUES = "tensorflow.python.distribute.values"
OPS = "tensorflow.python.framework.ops"
EMBEDDING = "tensorflow.python.tpu.tpu_embedding_v2"
NEST = "tensorflow.python.util.nest"

NEEDED: Final = (
    (SESSION, "_DeviceAttributes"),
    (INPUT, "DistributedIteratorSpec"),
    (INPUT, "_create_distributed_tensor_spec"),
    (INPUT, "_enable_get_next_as_optional"),
    (STRATEGY, "TPUExtended", "_check_spec"),
    (STRATEGY, "TPUExtended", "_get_input_workers"),
    (STRATEGY, "TPUExtended", "_get_replica_order"),
    (VALUES, "PerReplicaSpec"),
    (OPS, "Graph", "_get_function"),
    (EMBEDDING, "TPUEmbedding", "_create_config_proto"),
    (EMBEDDING, "TPUEmbedding", "_get_and_update_output_shapes_from_input"),
    (NEST, "flatten_with_joined_string_paths"),
)
"""Each module, and the path of a name in it."""

OF_EMBEDDINGS: Final = ("_built", "_feature_config", "_output_shapes", "_strategy", "_table_config")
"""What each embedding has besides; checked when one is built."""


def check_needed() -> None:
    """Refuse a TensorFlow that lacks one of the names.

    Raises:
        UnsupportedVersionError: Says which.
    """
    for each in NEEDED:
        private(*each)


def check_embedding(embedding: object) -> None:
    """Likewise, for an embedding."""
    for name in OF_EMBEDDINGS:
        if not hasattr(embedding, name):
            private(EMBEDDING, "TPUEmbedding", name)
