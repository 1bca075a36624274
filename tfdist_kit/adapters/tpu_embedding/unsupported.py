"""Which tables cannot be modelled faithfully away from a TPU, and why.

a TableConfig -> each reason in turn -> the first that holds, as a sentence; "" for none
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

_KNOWN = ("SGD", "Adagrad", "AdagradMomentum", "FTRL", "Adam")


def why_unsupported(table_config: Any) -> str:
    """Why this table cannot be trained faithfully without a TPU.

    Of the optimizers' parameters only ``low_dimensional_packing_status`` (how rows lie in memory)
    and ``allow_zero_accumulator`` (a formula that rounds less near zero) have no effect here.

    Args:
        table_config: A `tf.tpu.experimental.embedding.TableConfig`, with the optimizer that it is
            going to have. None as optimizer is right: such a table has lookups only.

    Returns:
        The reason, with the table's name and what to do; "" when the table is supported.
    """
    reasons = [*_of_table(table_config), *_of_optimizer(table_config.optimizer)]
    return f"table {table_config.name!r}: {reasons[0]}" if reasons else ""


def why_impossible(table_config: Any) -> str:
    """Why this table trains nowhere, not on a TPU either; as `why_unsupported` says it."""
    import tensorflow as tf

    optimizer = table_config.optimizer
    reasons = [*_of_table(table_config)]
    if isinstance(optimizer, tf.tpu.experimental.embedding.CustomOptimizer):
        reasons.append("a CustomOptimizer belongs to TPUEmbeddingV2; give another optimizer")
    elif optimizer is not None:
        if isinstance(optimizer.learning_rate, (int, float)):
            reasons += _of_learning_rate(optimizer.learning_rate)
        reasons += _of_limits(optimizer)
    if isinstance(optimizer, tf.tpu.experimental.embedding.FTRL):
        reasons += _of_ftrl(optimizer)
    if optimizer is not None:
        reasons += _of_numbers(optimizer)
    return f"table {table_config.name!r}: {reasons[0]}" if reasons else ""


def _of_table(table: Any) -> Iterator[str]:
    import tensorflow as tf

    if not isinstance(table.combiner, str):
        yield "a CustomCombiner belongs to TPUEmbeddingV2; give combiner='mean', 'sum' or 'sqrtn'"
    if table.layout is not None:
        yield "a layout belongs to TPUEmbeddingV2; leave layout out"
    if table.dtype != tf.float32:
        yield (
            f"TPUEmbedding makes every table float32, whatever its dtype, which is "
            f"{table.dtype.name}; leave dtype out"
        )
    yield from _of_quantization(table.quantization_config)


def _of_quantization(config: Any) -> Iterator[str]:
    if config is not None and not -math.inf < config.lower < config.upper < math.inf:
        yield (
            f"quantization_config has the limits {config.lower} and {config.upper}, but the lower "
            "one must be below the upper one, and both finite"
        )


def _of_optimizer(optimizer: Any) -> Iterator[str]:
    import tensorflow as tf

    kinds = tf.tpu.experimental.embedding
    if optimizer is None:
        return
    if type(optimizer) not in [getattr(kinds, name) for name in _KNOWN]:
        yield (
            f"the formula of the optimizer {type(optimizer).__name__} is not known; give one of "
            f"tf.tpu.experimental.embedding: {', '.join(_KNOWN)}"
        )
        return
    yield from _of_learning_rate(optimizer.learning_rate)
    yield from _of_all(optimizer)
    yield from _of_accumulation(optimizer)
    if isinstance(optimizer, kinds.FTRL):
        yield from _of_ftrl(optimizer)
    yield from _of_numbers(optimizer)


def _of_numbers(optimizer: Any) -> Iterator[str]:
    """What TensorFlow's comparisons let pass, since none holds for nan."""
    for name, value in vars(optimizer).items():
        is_limit = name.startswith("clip_")  # infinity is no limit
        if isinstance(value, float) and not (math.isfinite(value) or (is_limit and value == value)):
            yield f"{name} is {value}, but must be a {'' if is_limit else 'finite '}number"


def _of_learning_rate(rate: Any) -> Iterator[str]:
    if not callable(rate):
        if isinstance(rate, bool) or not hasattr(rate, "__float__") or hasattr(rate, "assign"):
            yield (
                f"learning_rate is a {type(rate).__name__}, which a TPU cannot take; give a number,"
                " or for a rate that changes a function without arguments"
            )
        elif not 0 <= _number(rate) < math.inf:
            yield f"learning_rate is {rate}, but must be one finite number, 0 or more"
        return
    try:
        inspect.signature(rate).bind()
    except TypeError:
        yield (
            f"learning_rate ({type(rate).__name__}) needs arguments, but is called without any; "
            "give lambda: schedule(step)"
        )
    except ValueError:  # a built-in function, which does not tell its arguments
        return


def _number(rate: Any) -> float:
    try:
        return float(rate)
    except (TypeError, ValueError):  # several numbers
        return math.nan


def _of_all(optimizer: Any) -> Iterator[str]:
    if optimizer.weight_decay_factor:
        yield (
            "weight_decay_factor has two descriptions that contradict each other (its argument's "
            "and the proto's) and no kernel outside a TPU; leave it out"
        )
    yield from _of_limits(optimizer)


def _of_limits(optimizer: Any) -> Iterator[str]:
    for what, lower, upper in (
        ("clipvalue", optimizer.clip_gradient_min, optimizer.clip_gradient_max),
        ("clip_weight", optimizer.clip_weight_min, optimizer.clip_weight_max),
    ):
        if lower is not None and upper is not None and lower > upper:
            yield f"{what} has the lower limit {lower} above the upper limit {upper}; swap them"


def _of_accumulation(optimizer: Any) -> Iterator[str]:
    if optimizer.use_gradient_accumulation:
        return
    clips = optimizer.clip_weight_min is not None or optimizer.clip_weight_max is not None
    if type(optimizer).__name__ != "SGD" or clips:
        yield (
            "with use_gradient_accumulation=False a TPU applies an id that comes twice in an order "
            "that is not specified, and here the order matters; leave it at True"
        )


def _of_ftrl(optimizer: Any) -> Iterator[str]:
    limits: dict[str, tuple[str, Callable[[float], bool]]] = {
        "learning_rate_power": ("0 or less", lambda value: value <= 0),
        "l1_regularization_strength": ("0 or more", lambda value: value >= 0),
        "l2_regularization_strength": ("0 or more", lambda value: value >= 0),
        "beta": ("0 or more", lambda value: value >= 0),
    }
    for name, (allowed, holds) in limits.items():
        value = getattr(optimizer, name)
        if not (math.isfinite(value) and holds(value)):
            yield f"{name} is {value}, but must be {allowed}, which TensorFlow does not check"
