"""One line in the step of a loop of one's own has it recorded.

    record(inputs=..., loss=..., gradients=..., weights=...) -> digests, in the graph of the step
        -> a call of Python, each time the step runs -> trace

Where nothing is recorded the line adds nothing to the graph, so it may stay in the program.
"""

from __future__ import annotations

import weakref
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters._xla import in_xla
from tfdist_kit.adapters.op_determinism.recorder import session
from tfdist_kit.adapters.op_determinism.recorder.collecting import (
    Collector,
    Part,
    named_parts,
    named_variables,
    unpacked,
)


class _Loop:
    """The steps that one recording has been given by `record`."""

    def __init__(self, going_on: session.Session) -> None:
        self._session = going_on
        self._number = going_on.next_loop()
        self._steps: dict[int, int] = {}
        self._traced: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def next_replica(self, graph: Any) -> int:
        """The replicas of a process are traced one after the other into the same graph."""
        if graph is None:
            return 0
        self._traced[graph] = self._traced.get(graph, -1) + 1
        return self._traced[graph]

    def write(self, parts: list[Part], method: str, replica: int, numbers: Any) -> None:
        """Write one step."""
        step = self._steps.get(replica, 0)
        self._steps[replica] = step + 1
        rows = unpacked(parts, numbers, method)
        self._session.write(rows, loop=self._number, step=step, replica=replica)


_loops: weakref.WeakKeyDictionary[session.Session, _Loop] = weakref.WeakKeyDictionary()


def record(
    *,
    inputs: Any = None,
    loss: Any = None,
    gradients: Any = None,
    reduced: Any = None,
    weights: Any = None,
) -> None:
    """Record a step, from within it: one line at its end, in a `tf.function` or eagerly.

    Under a strategy call it in the replica's step, which is given to ``strategy.run``. Digests are
    made where this stands; the weights are read there. Whatever is left out is not compared.

    Args:
        inputs: The batch: a tensor, or a structure of them. Rows are along the first axis.
        loss: The loss; a scalar, or one for each example.
        gradients: The gradients before they are reduced, in the order of `weights`.
        reduced: The gradients after they are reduced, likewise.
        weights: The variables, after the update.

    Raises:
        UsageError: Nothing was given, or the step is compiled by XLA, which cannot call Python.
    """
    import tensorflow as tf

    # AutoGraph would convert all that this calls, and warn of what it cannot.
    act = tf.autograph.experimental.do_not_convert(_record)
    act(inputs, loss, gradients, reduced, weights)


def _record(inputs: Any, loss: Any, gradients: Any, reduced: Any, weights: Any) -> None:
    going_on = session.current()
    if going_on is None:
        return
    if in_xla():
        raise UsageError(
            "record() is called in a step that XLA compiles (jit_compile=True)",
            hint="return what is to be recorded from it, and call record() in the function around",
        )
    collector = Collector()
    weights = list(weights) if weights is not None else []
    collector.add("input", named_parts(inputs, "batch"), rows=True)
    collector.add("loss", [("loss", loss)])
    collector.add("grad", _named(gradients, weights))
    collector.add("reduced", _named(reduced, weights))
    collector.add("weight", named_variables(weights))
    if not collector.parts:
        raise UsageError("record() was given nothing", hint="give inputs, loss, gradients, weights")
    if going_on not in _loops:
        _loops[going_on] = _Loop(going_on)
    _emit(_loops[going_on], collector)


def _named(values: Any, weights: list[Any]) -> list[tuple[str, Any]]:
    """Gradients by the names of their variables, or by their places."""
    if values is None:
        return []
    values = list(values)
    names = [name for name, _ in named_variables(weights)]
    if len(names) != len(values):
        names = [f"gradient {place}" for place in range(len(values))]
    return list(zip(names, values, strict=True))


def _emit(loop: _Loop, collector: Collector) -> None:
    import tensorflow as tf

    packed, parts, method = collector.packed(), list(collector.parts), collector.method
    replica = loop.next_replica(collector.graph)
    if tf.executing_eagerly():
        loop.write(parts, method, replica, packed.numpy())
        return

    def write(numbers: Any) -> None:
        loop.write(parts, method, replica, numbers)

    tf.numpy_function(write, [packed], [])
