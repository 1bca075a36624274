"""Digests of tensors, made in the graph: 64 bits for all bytes of a tensor; and a few elements.

    tensor -> Fingerprint (FarmHash64, on the CPU)         -> digest
           -> a mix of integers (under XLA, and on GPUs)   -> digest
           -> elements at fixed places                     -> samples

The Fingerprint op reads 12 GB/s on one core, but XLA and GPUs lack it. The two kinds of digest say
nothing about each other, so a trace names the kind that it has.
"""

from __future__ import annotations

from typing import Any, Literal

from tfdist_kit.adapters._private import private

Method = Literal["farmhash64", "mix64"]
SAMPLES = 4
"""How many elements of each tensor are recorded as they are."""
_ODD = (-7046029254386353131, 7319936632422683443, -4417276706812531889)
_WORDS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "int64"}


def method() -> Method:
    """The kind of digest that can be made where this is called."""
    import tensorflow as tf

    return "mix64" if in_xla() or tf.config.list_logical_devices("GPU") else "farmhash64"


def in_xla() -> bool:
    """Whether the graph that is being made is XLA's to compile."""
    import tensorflow as tf

    if tf.executing_eagerly():
        return False
    inside = private("tensorflow.python.ops.control_flow_util", "GraphOrParentsInXlaContext")
    return bool(inside(tf.compat.v1.get_default_graph()))


def digest(value: Any, kind: Method) -> Any:
    """A scalar of int64 for all bytes of a tensor, a variable, or a composite of tensors."""
    import tensorflow as tf

    parts = [_flat(part, kind) for part in _parts(value)]
    total = parts[0]
    for number, part in enumerate(parts[1:], start=1):
        total += tf.constant(2 * number + 1, tf.int64) * part
    return total


def digest_of_rows(value: Any, kind: Method) -> Any:
    """A scalar of int64 that is the same whatever the order of the rows; 0 for a scalar."""
    import tensorflow as tf

    total = tf.constant(0, tf.int64)
    for part in _parts(value):
        if part.shape.rank != 0:
            rows = tf.reshape(part, [tf.shape(part)[0], -1])
            total += tf.reduce_sum(_of_rows(rows, kind))
    return total


def samples(value: Any) -> Any:
    """``[SAMPLES]`` elements as float32, spread evenly from the first to the last; NaN for text."""
    import tensorflow as tf

    first = _parts(value)[0]
    if first.dtype == tf.string or first.shape.num_elements() == 0:
        return tf.fill([SAMPLES], float("nan"))
    flat = tf.reshape(tf.math.real(first) if first.dtype.is_complex else first, [-1])
    last = tf.maximum(tf.cast(tf.size(flat), tf.int64) - 1, 0)
    places = tf.range(SAMPLES, dtype=tf.int64) * last // (SAMPLES - 1)
    return tf.cast(tf.gather(flat, places), tf.float32)


def _parts(value: Any) -> list[Any]:
    import tensorflow as tf

    inner = getattr(value, "value", None)  # Keras 3 wraps TensorFlow's variable
    if inner is not None and not callable(inner):
        value = inner
    if hasattr(value, "assign_add"):  # a variable is a composite, too, of its handle
        return [tf.convert_to_tensor(value)]
    if isinstance(value, tf.IndexedSlices):  # its shape may be a plain list
        value = (value.values, value.indices)
    parts = tf.nest.flatten(value, expand_composites=True)
    return [tf.convert_to_tensor(part) for part in parts if part is not None]


def _flat(tensor: Any, kind: Method) -> Any:
    import tensorflow as tf

    return _of_rows(tf.reshape(tensor, [1, -1]), kind)[0]


def _of_rows(rows: Any, kind: Method) -> Any:
    """A digest of each row of ``[n, m]``, as int64 ``[n]``."""
    import tensorflow as tf

    if rows.dtype == tf.bool:
        rows = tf.cast(rows, tf.uint8)
    if kind == "mix64":
        return _mixed(_words(rows))
    return tf.bitcast(tf.raw_ops.Fingerprint(data=rows, method=kind), tf.int64)


def _words(rows: Any) -> Any:
    import tensorflow as tf

    if rows.dtype.is_complex:
        rows = tf.concat([tf.math.real(rows), tf.math.imag(rows)], axis=1)
    word = tf.as_dtype(_WORDS[rows.dtype.size])
    return tf.cast(rows if rows.dtype == word else tf.bitcast(rows, word), tf.int64)


def _mixed(words: Any) -> Any:
    """Multiply, shift and add: one changed word, or two that trade places, change the sum."""
    import tensorflow as tf

    first, second, third = (tf.constant(odd, tf.int64) for odd in _ODD)
    places = tf.range(1, tf.shape(words, out_type=tf.int64)[1] + 1, dtype=tf.int64) * second
    mixed = (words + places) * first
    mixed = tf.bitwise.bitwise_xor(mixed, tf.bitwise.right_shift(mixed, tf.constant(29, tf.int64)))
    mixed *= third
    mixed = tf.bitwise.bitwise_xor(mixed, tf.bitwise.right_shift(mixed, tf.constant(32, tf.int64)))
    return tf.reduce_sum(mixed * first, axis=1)
