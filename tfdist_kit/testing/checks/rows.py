"""Rows of data, known by their digests.

    batch (nest of arrays) -> each row's digest over all components, and a short text of it

Rows are counted, and their order is kept. The sum of all digests tells two multisets apart at a
fixed size, in whatever order and by how many workers the rows were read.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from tfdist_kit._errors import UsageError

Digest = bytes
Signature = tuple[tuple[str, int], ...]
DIGEST_BYTES = 16
VALUES_SHOWN = 3


@dataclasses.dataclass
class Rows:
    """The rows of one pass over some data, in their order.

    Attributes:
        order: The digest of each row.
        texts: What each different row looks like, in short.
        signature: Data type and number of dimensions of each component of a batch.
    """

    order: list[Digest] = dataclasses.field(default_factory=list)
    texts: dict[Digest, str] = dataclasses.field(default_factory=dict)
    signature: Signature | None = None

    def add(self, batch: Any) -> None:
        """Count the rows of a batch: a nest of tensors or arrays, the first dimension is rows."""
        columns = [_column(leaf) for leaf in _flatten(batch)]
        sizes = {len(values) for _, values in columns}
        if len(sizes) != 1:
            raise UsageError(
                f"the components of a batch have {sorted(sizes)} rows",
                hint="the first dimension of each component is the rows of the batch",
            )
        signature = tuple(kind for kind, _ in columns)
        if self.signature is None or sizes != {0}:
            self.signature = signature
        for row in zip(*(values for _, values in columns), strict=True):
            self._add_row(row)

    def _add_row(self, row: tuple[Any, ...]) -> None:
        hashed = hashlib.blake2b(digest_size=DIGEST_BYTES)
        for value in row:
            data = _bytes(value)
            hashed.update(len(data).to_bytes(8, "little") + data)
        digest = hashed.digest()
        self.order.append(digest)
        if digest not in self.texts:
            self.texts[digest] = ", ".join(_text(value) for value in row)

    @property
    def counts(self) -> Counter[Digest]:
        """How often each row occurs."""
        return Counter(self.order)

    @property
    def total(self) -> tuple[int, int]:
        """Number of rows and sum of their digests: can be added up over workers."""
        return len(self.order), sum(int.from_bytes(each, "little") for each in self.order)


def add_totals(totals: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The total of all rows together."""
    numbers, sums = zip(*totals, strict=True)
    return sum(numbers), sum(sums)


def _flatten(batch: Any) -> list[Any]:
    import tensorflow as tf

    return list(tf.nest.flatten(batch))


def _column(leaf: Any) -> tuple[tuple[str, int], list[Any]]:
    """The rows of one component, with its data type and number of dimensions."""
    import tensorflow as tf

    if isinstance(leaf, tf.SparseTensor):
        leaf = tf.sparse.to_dense(leaf)
    if isinstance(leaf, tf.RaggedTensor):
        return (leaf.dtype.name, leaf.shape.rank), leaf.to_list()
    array = np.asarray(leaf)
    if array.ndim == 0:
        raise UsageError(
            f"a batch has the component {array!r}, which has no rows",
            hint="batch the dataset with the global batch size",
        )
    return (_type_name(array), array.ndim), list(array)


def _type_name(array: Any) -> str:
    return "string" if array.dtype.kind in "OSU" else str(array.dtype)


def _bytes(value: Any) -> bytes:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "OSU":
        return f"{value.dtype} {value.shape} ".encode() + value.tobytes()
    return repr(_plain(value)).encode()


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _text(value: Any) -> str:
    if isinstance(value, list):
        shown = f"{value[:VALUES_SHOWN]}"
        return shown if len(value) <= VALUES_SHOWN else f"{shown[:-1]}, ...]"
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return _number(_plain(value))
    first = ", ".join(_number(_plain(each)) for each in value.flat[:VALUES_SHOWN])
    return f"[{first}{', ...' if value.size > VALUES_SHOWN else ''}]"


def _number(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else f"{value!r}"[:40]
