"""One table's update: the summed gradients of a step, applied to the rows that were looked up.

gradients -> clipvalue -> the optimizer's formula, by TensorFlow's kernel where it has that formula
    -> clip_weight_min, clip_weight_max

The formulas are those of TensorFlow's ``optimization_parameters.proto`` and of its optimizers'
documentation: Adam corrects no bias, FTRL has the paper's beta. All is float32. What a TPU's own
arithmetic rounds differently is not modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tfdist_kit._errors import EmbeddingError
from tfdist_kit.adapters.tpu_embedding.unsupported import why_unsupported

__all__ = ["update_rows", "why_unsupported"]

Variables = Mapping[str, Any]

# A stand-in for a learning rate of zero in FTRL, where only beta / (2 rate) times the rate counts.
_ALMOST_NO_RATE = 1e-30


def update_rows(optimizer: Any, variables: Variables, ids: Any, gradients: Any) -> None:
    """Apply one step's gradients to a table and its slots, as the optimizer's parameters say.

    The learning rate, if it is a function, is called here. Rows that `ids` does not name stay as
    they are, but for Adam with ``lazy_adam=False``, where every row takes part.

    Args:
        optimizer: One of TensorFlow's optimizers for embeddings, which `why_unsupported` has let
            pass.
        variables: The table as "parameters" and each slot by its name; `tf.Variable` of shape
            ``[vocabulary, dim]``, each a component on one device.
        ids: The rows, int64 ``[n]``, each once.
        gradients: Their gradients, float32 ``[n, dim]``, summed over all lookups and replicas.

    Raises:
        EmbeddingError: There is no optimizer, or none whose formula is known.
    """
    rule = _rule(optimizer)
    clipped = _within(gradients, optimizer.clip_gradient_min, optimizer.clip_gradient_max)
    ids = rule(optimizer, _learning_rate(optimizer), variables, ids, clipped)
    _clip_weights(optimizer, variables["parameters"], ids)


def _rule(optimizer: Any) -> Callable[..., Any]:
    import tensorflow as tf

    kinds = tf.tpu.experimental.embedding
    for name, rule in _RULES.items():
        if type(optimizer) is getattr(kinds, name):
            return rule
    raise EmbeddingError(
        f"gradients cannot be applied with the optimizer {optimizer!r}",
        hint=f"give the embedding one of tf.tpu.experimental.embedding: {', '.join(_RULES)}",
    )


def _learning_rate(optimizer: Any) -> Any:
    import tensorflow as tf

    rate = optimizer.learning_rate
    return tf.cast(rate() if callable(rate) else rate, tf.float32)


def _within(values: Any, lower: float | None, upper: float | None) -> Any:
    import tensorflow as tf

    values = values if upper is None else tf.minimum(values, upper)
    return values if lower is None else tf.maximum(values, lower)


def _clip_weights(optimizer: Any, table: Any, ids: Any) -> None:
    import tensorflow as tf

    lower, upper = optimizer.clip_weight_min, optimizer.clip_weight_max
    if lower is not None or upper is not None:
        _write(table, ids, _within(tf.gather(table, ids), lower, upper))


def _write(variable: Any, ids: Any, rows: Any) -> None:
    import tensorflow as tf

    variable.scatter_update(tf.IndexedSlices(rows, ids))


def _subtract(variable: Any, ids: Any, rows: Any) -> None:
    """As ``scatter_sub`` of ids that come once, which takes three times as long."""
    import tensorflow as tf

    _write(variable, ids, tf.gather(variable, ids) - rows)


def _sgd(_: Any, rate: Any, variables: Variables, ids: Any, gradients: Any) -> Any:
    _subtract(variables["parameters"], ids, rate * gradients)
    return ids


def _adagrad(_: Any, rate: Any, variables: Variables, ids: Any, gradients: Any) -> Any:
    import tensorflow as tf

    tf.raw_ops.ResourceSparseApplyAdagradV2(
        var=variables["parameters"].handle,
        accum=variables["accumulators"].handle,
        lr=rate,
        epsilon=0.0,
        grad=gradients,
        indices=ids,
    )
    return ids


def _adagrad_momentum(
    optimizer: Any, rate: Any, variables: Variables, ids: Any, gradients: Any
) -> Any:
    import tensorflow as tf

    squares = tf.square(gradients)
    if optimizer.beta2 != 1.0:  # an average; with 1 it is a sum
        squares *= 1.0 - optimizer.beta2
    accumulated = optimizer.beta2 * tf.gather(variables["accumulators"], ids) + squares
    scaled = gradients * tf.pow(accumulated + optimizer.epsilon, -1.0 / optimizer.exponent)
    momenta = optimizer.momentum * tf.gather(variables["momenta"], ids) + scaled
    step = optimizer.momentum * momenta + scaled if optimizer.use_nesterov else momenta
    _write(variables["accumulators"], ids, accumulated)
    _write(variables["momenta"], ids, momenta)
    _subtract(variables["parameters"], ids, rate * step)
    return ids


def _ftrl(optimizer: Any, rate: Any, variables: Variables, ids: Any, gradients: Any) -> Any:
    """The kernel lacks beta, which equals an l2 of beta / (2 rate), as the proto's note says."""
    import tensorflow as tf

    l2 = optimizer.l2_regularization_strength
    if optimizer.beta:
        if optimizer.multiply_linear_by_learning_rate:  # made to allow a rate of zero
            rate = tf.maximum(rate, _ALMOST_NO_RATE)
        l2 += optimizer.beta / (2.0 * rate)
    tf.raw_ops.ResourceSparseApplyFtrlV2(
        var=variables["parameters"].handle,
        accum=variables["accumulators"].handle,
        linear=variables["linears"].handle,
        grad=gradients,
        indices=ids,
        lr=rate,
        l1=optimizer.l1_regularization_strength,
        l2=l2,
        l2_shrinkage=0.0,
        lr_power=optimizer.learning_rate_power,
        multiply_linear_by_lr=optimizer.multiply_linear_by_learning_rate,
    )
    return ids


def _adam(optimizer: Any, rate: Any, variables: Variables, ids: Any, gradients: Any) -> Any:
    """TensorFlow's kernel has neither lazy rows nor a sum inside the root.

    Where it has the formula, its ``1 - beta_2`` is float32, which for 0.999 is 1e-5 off.
    """
    import tensorflow as tf

    if not optimizer.lazy_adam:
        shape = tf.constant(variables["parameters"].shape.as_list(), tf.int64)
        gradients = tf.scatter_nd(ids[:, tf.newaxis], gradients, shape)
        ids = tf.range(shape[0])
    momenta = _averaged(variables["momenta"], ids, optimizer.beta_1, gradients)
    velocities = _averaged(variables["velocities"], ids, optimizer.beta_2, tf.square(gradients))
    if optimizer.sum_inside_sqrt:
        size = tf.sqrt(velocities + optimizer.epsilon**2)
    else:
        size = tf.sqrt(velocities) + optimizer.epsilon
    _subtract(variables["parameters"], ids, rate * momenta / size)
    return ids


def _averaged(variable: Any, ids: Any, beta: float, values: Any) -> Any:
    import tensorflow as tf

    rows = beta * tf.gather(variable, ids) + (1.0 - beta) * values
    _write(variable, ids, rows)
    return rows


_RULES: dict[str, Callable[..., Any]] = {
    "SGD": _sgd,
    "Adagrad": _adagrad,
    "AdagradMomentum": _adagrad_momentum,
    "FTRL": _ftrl,
    "Adam": _adam,
}
