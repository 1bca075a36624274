"""The variables of whatever holds variables, with their names and this worker's copies.

    variable | list | dict | tf.Module | Keras model, layer or optimizer -> Named, Named, ...

A Keras model stands for its weights and its optimizer's variables: not for metrics and for the
state of random generators, in which replicas differ by design.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tfdist_kit._errors import UsageError


@dataclasses.dataclass(frozen=True)
class Named:
    """A variable of TensorFlow (not Keras' wrapper of it), and what to call it."""

    name: str
    variable: Any

    @property
    def is_on_read(self) -> bool:
        """Whether it is summed up when it is read, so that its copies are meant to differ."""
        synchronization = getattr(self.variable, "synchronization", None)
        return getattr(synchronization, "name", "") == "ON_READ"

    @property
    def is_distributed(self) -> bool:
        """Whether a strategy keeps its copies together: it was made in a strategy's scope."""
        import tensorflow as tf

        return isinstance(self.variable, tf.distribute.DistributedValues)

    @property
    def is_floating(self) -> bool:
        """Whether it has numbers with a fraction."""
        return bool(self.variable.dtype.is_floating)

    def copies(self, strategy: Any) -> list[Any]:
        """The value of each local replica, as NumPy arrays."""
        return [
            np.asarray(copy.numpy()) for copy in strategy.experimental_local_results(self.variable)
        ]


def named_variables(state: Any, *, strict: bool = True) -> list[Named]:
    """All variables in `state`, each once, with different names.

    Args:
        state: What holds them.
        strict: Whether a thing without variables in it is an error, or is passed over.

    Raises:
        UsageError: There is no variable, or something else.
    """
    found: dict[int, Named] = {}
    for named in _walk(state, "", strict):
        found.setdefault(id(named.variable), named)
    if not found:
        raise UsageError(
            f"there is no variable in {_short(state)}",
            hint="give variables, or a model or optimizer that has been built",
        )
    return _distinct(list(found.values()))


def _walk(value: Any, path: str, strict: bool) -> Iterator[Named]:
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from _walk(value[key], f"{path}[{key!r}]", strict)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _walk(item, f"{path}[{index}]", strict)
    elif hasattr(value, "assign_add") and hasattr(value, "shape"):  # Keras optimizers have one
        yield _named(value, path)
    elif hasattr(value, "variables"):
        for variable in _members(value):
            yield _named(variable, path)
    elif strict:
        raise UsageError(
            f"{path + ' is ' if path else 'got '}{_short(value)}, which has no variables",
            hint="give a variable, a list or dict of them, a tf.Module, or a Keras model or "
            "optimizer",
        )


def _members(holder: Any) -> list[Any]:
    if not hasattr(holder, "trainable_weights"):  # an optimizer, a metric or a tf.Module
        variables = holder.variables
        return list(variables() if callable(variables) else variables)
    optimizer = getattr(holder, "optimizer", None)
    return [*holder.weights, *(_members(optimizer) if hasattr(optimizer, "variables") else [])]


def _named(variable: Any, path: str) -> Named:
    inner = getattr(variable, "value", None)
    if inner is not None and not callable(inner):  # Keras 3 wraps TensorFlow's variable
        return Named(_join(path, variable.path), inner)
    return Named(_join(path, variable.name.removesuffix(":0")), variable)


def _join(path: str, name: str) -> str:
    return f"{path} {name}" if path else name


def _distinct(variables: list[Named]) -> list[Named]:
    seen: dict[str, int] = {}
    result = []
    for named in variables:
        number = seen[named.name] = seen.get(named.name, 0) + 1
        name = f"{named.name} #{number}" if number > 1 else named.name
        result.append(dataclasses.replace(named, name=name))
    return result


def digest(value: Any) -> str:
    """Equal for equal values: NaN is like NaN, and 0 like -0."""
    if value.dtype == object:
        data = repr(value.tolist()).encode()
    elif value.dtype.kind in "iub":
        data = value.tobytes()
    else:
        nan = value != value
        data = np.where(nan, np.zeros_like(value), value + 0).tobytes() + nan.tobytes()
    return hashlib.sha256(f"{value.dtype} {value.shape} ".encode() + data).hexdigest()


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
