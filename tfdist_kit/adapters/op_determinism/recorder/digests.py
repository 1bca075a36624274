"""Digests of tensors, made in the graph: 64 bits for all bytes of a tensor; and a few elements.

    tensor -> Fingerprint (FarmHash64, on the CPU)         -> digest
           -> a mix of integers (under XLA, and on GPUs)   -> digest
           -> elements at fixed places                     -> samples

The Fingerprint op reads 12 GB/s on one core, but XLA and GPUs lack it. The two kinds of digest say
nothing about each other, so a trace names the kind that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from tfdist_kit.adapters._xla import in_xla

Method = Literal["farmhash64", "mix64"]
SAMPLES = 4
"""How many elements of each tensor are recorded as they are."""
_ODD = (-7046029254386353131, 7319936632422683443, -4417276706812531889)
_WORDS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "int64"}


def method() -> Method:
    """The kind of digest that can be made where this is called."""
    import tensorflow as tf

    return "mix64" if in_xla() or tf.config.list_logical_devices("GPU") else "farmhash64"


def digest(value: Any, kind: Method) -> Any:
    """A scalar of int64 for all bytes of a tensor, a variable, or a composite of tensors."""
    return as_numbers([digest_of(parts_of(value), kind)], kind)[0]


def digest_of(parts: Sequence[Any], kind: Method) -> Any:
    """One digest for all bytes of some tensors, for `as_numbers`."""
    import tensorflow as tf

    return _joined([_of_rows(tf.reshape(part, [1, -1]), kind) for part in parts], kind)


def digests_of_rows(parts: Sequence[Any], kind: Method) -> tuple[Any, Any]:
    """One digest as by `digest_of`, and a number that is the same whatever the order of the rows.

    The bytes are read once for both. Scalars have no rows, and count for nothing in the number.
    """
    import tensorflow as tf

    heads, total = [], tf.constant(0, tf.int64)
    for part in parts:
        rows = _of_rows(_as_rows(part), kind)
        heads.append(_of_rows(tf.reshape(rows, [1, -1]), kind))
        if part.shape.rank != 0:
            total += tf.reduce_sum(as_numbers([rows], kind))
    return _joined(heads, kind), total


def as_numbers(digests: Sequence[Any], kind: Method) -> Any:
    """Digests as one vector of int64; all at once, since an op each would cost more than these."""
    import tensorflow as tf

    together = tf.concat(digests, axis=0)
    return together if kind == "mix64" else tf.bitcast(together, tf.int64)


def samples(parts: Sequence[Any]) -> Any:
    """``[1, SAMPLES]`` elements as float32, spread from the first to the last; NaN for text."""
    import tensorflow as tf

    first = parts[0]
    missing = tf.constant(float("nan"), shape=[1, SAMPLES])
    if first.dtype == tf.string or first.shape.num_elements() == 0:
        return missing
    flat = tf.reshape(tf.math.real(first) if first.dtype.is_complex else first, [1, -1])
    places = _places(first)
    found = tf.cast(tf.gather(flat, places, axis=1), tf.float32)
    if first.shape.num_elements() is None:  # it may be empty, such as a batch that another has
        found = tf.concat([found, missing[:, tf.size(places) :]], axis=1)
    return found


def _places(tensor: Any) -> Any:
    import tensorflow as tf

    size = tensor.shape.num_elements()
    if size is not None:  # the graph is spared the arithmetic
        return [place * (size - 1) // (SAMPLES - 1) for place in range(SAMPLES)]
    size = tf.size(tensor, out_type=tf.int64)
    return tf.range(SAMPLES * tf.minimum(size, 1)) * (size - 1) // (SAMPLES - 1)


def parts_of(value: Any) -> list[Any]:
    """The tensors that a tensor, a variable or a composite is made of."""
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


def _joined(digests: list[Any], kind: Method) -> Any:
    """One digest for several."""
    import tensorflow as tf

    if len(digests) == 1:
        return digests[0]
    return _of_rows(tf.reshape(tf.concat(digests, axis=0), [1, -1]), kind)


def _as_rows(tensor: Any) -> Any:
    """``[n, m]``, also where n is 0."""
    import tensorflow as tf

    if tensor.shape.rank == 0:
        return tf.reshape(tensor, [1, 1])
    number = tf.shape(tensor)[0]
    return tf.reshape(tensor, [number, tf.size(tensor) // tf.maximum(number, 1)])


def _of_rows(rows: Any, kind: Method) -> Any:
    """A digest of each row of ``[n, m]``: ``[n]`` of int64, or ``[n, 8]`` bytes of it."""
    import tensorflow as tf

    if rows.dtype == tf.bool:
        rows = tf.cast(rows, tf.uint8)
    if kind == "mix64":
        return _mixed(_words(rows))
    return tf.raw_ops.Fingerprint(data=rows, method=kind)


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
