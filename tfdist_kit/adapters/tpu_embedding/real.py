"""TensorFlow's own TPUEmbedding, under a TPUStrategy, with the cure of a fault that stops it.

With protobuf 7, TensorFlow's ``build`` fails: it writes the optimizer's
``low_dimensional_packing_status``, a bool, into an enum, which takes only whole numbers since.
"""

from __future__ import annotations

from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters.tpu_embedding.configs import Configs
from tfdist_kit.adapters.tpu_embedding.unsupported import why_impossible


def real_embedding(configs: Configs, pipeline_execution_with_tensor_core: bool) -> Any:
    """TensorFlow's object, made of copied configs.

    Raises:
        UsageError: A table has no optimizer, or one that trains nowhere.
    """
    import tensorflow as tf

    for number, (table, _) in enumerate(configs.originals):
        table.optimizer = table.optimizer or configs.optimizer
        _check(f"table_{number}" if table.name is None else table.name, table)
        _cure(table.optimizer)
    return tf.tpu.experimental.embedding.TPUEmbedding(
        feature_config=configs.features,
        optimizer=configs.optimizer,
        pipeline_execution_with_tensor_core=pipeline_execution_with_tensor_core,
    )


def _check(name: str, table: Any) -> None:
    if table.optimizer is None:
        raise UsageError(
            f"table {name!r} has no optimizer, and none is given for all",
            hint="under a TPUStrategy each table needs one; None is for tables on a host",
        )
    if reason := why_impossible(table):
        raise UsageError(reason, hint="TensorFlow's TPUEmbedding does not check this")


def _cure(optimizer: Any) -> None:
    optimizer.low_dimensional_packing_status = int(optimizer.low_dimensional_packing_status)
