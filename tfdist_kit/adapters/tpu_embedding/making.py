"""One call for an embedding that trains on a TPU, or anywhere else with the same step.

configs -> checked, copied -> TPUStrategy: TensorFlow's own class (real.py)
                           -> any other that can be modelled: the host mode (host.py)
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from tfdist_kit._errors import UnsupportedStrategyError, UsageError

Mode = Literal["auto", "tpu", "host"]

_STALE = {
    "batch_size": "the batch size comes from build(), from enqueue(), or from output_shape",
    "initialize_tpu_embedding": "TensorFlow has no such argument: one embedding for each "
    "initialize_tpu_system() on a TPU; in host mode there can be many",
    "per_replica_batch_size": "it is an argument of build()",
    "per_replica_input_shapes": "it is an argument of build()",
}


def tpu_embedding(
    feature_config: Any,
    optimizer: Any,
    mode: Mode = "auto",
    *,
    pipeline_execution_with_tensor_core: bool = False,
    **stale: Any,
) -> Any:
    """Make a `TPUEmbedding` for the strategy in whose scope this is called.

    Under a `TPUStrategy` it is TensorFlow's own object. Anywhere else it is a `HostTPUEmbedding`,
    a subclass whose `enqueue`, `dequeue` and `apply_gradients` work without a TPU, so that one
    training step can be written once and run on both. It is no simulator of a TPU: how a TPU
    rounds, and when it computes, is not modelled.

    The configs are copied: they can be used again, also with another optimizer.

    Args:
        feature_config: A `tf.tpu.experimental.embedding.FeatureConfig`, or a nested structure of
            them.
        optimizer: One of `tf.tpu.experimental.embedding`, for the tables that have none of their
            own. None, for tables that are only looked up, only outside of a TPU.
        mode: ``"auto"`` as above; ``"tpu"`` and ``"host"`` insist on one of the two.
        pipeline_execution_with_tensor_core: TensorFlow's argument; host mode warns that its
            activations are never one step old.
        stale: Nothing; arguments of TensorFlow's documentation that do not exist get an answer.

    Returns:
        An instance of `tf.tpu.experimental.embedding.TPUEmbedding`.

    Raises:
        UsageError: A config or argument is wrong, or `mode` does not fit the strategy.
        UnsupportedStrategyError: Neither a TPU nor the host mode has this strategy.

    Source: https://www.tensorflow.org/api_docs/python/tf/tpu/experimental/embedding/TPUEmbedding
    """
    import tensorflow as tf

    from tfdist_kit.adapters.tpu_embedding.configs import copied
    from tfdist_kit.adapters.tpu_embedding.host import HostTPUEmbedding
    from tfdist_kit.adapters.tpu_embedding.real import real_embedding

    _check_arguments(mode, stale)
    on_tpu = isinstance(
        tf.distribute.get_strategy(),
        (tf.distribute.TPUStrategy, tf.distribute.experimental.TPUStrategy),
    )
    _check_mode(mode, on_tpu)
    if on_tpu:
        return real_embedding(
            copied(feature_config, optimizer), pipeline_execution_with_tensor_core
        )
    return HostTPUEmbedding(feature_config, optimizer, pipeline_execution_with_tensor_core)


def _check_arguments(mode: str, stale: dict[str, Any]) -> None:
    if mode not in get_args(Mode):
        raise UsageError(f"mode is {mode!r}", hint=f"give one of {', '.join(get_args(Mode))}")
    for name in stale:
        raise UsageError(
            f"tpu_embedding() has no argument {name!r}",
            hint=_STALE.get(
                name, "give feature_config, optimizer, mode, pipeline_execution_with_tensor_core"
            ),
        )


def _check_mode(mode: str, on_tpu: bool) -> None:
    if mode == "tpu" and not on_tpu:
        raise UnsupportedStrategyError(
            "mode is 'tpu', but the call is not in the scope of a TPUStrategy",
            hint="call it within `with strategy.scope():`, or give mode='auto'",
        )
    if mode == "host" and on_tpu:
        raise UnsupportedStrategyError(
            "mode is 'host', but the call is in the scope of a TPUStrategy",
            hint="leave the scope, or give mode='auto'",
        )
