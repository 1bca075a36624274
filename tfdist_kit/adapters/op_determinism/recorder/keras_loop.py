"""The training of one Keras model: its digests in the graph, and its rows in the trace.

    train_step, when traced: weights -> inputs -> (loss -> gradients -> reduced) -> slot
    the train function, after each execution: slot -> trace
    fit, at its end: the weights once more

The weights are digested at the start of a step, so that a change from outside, by a callback, is
seen between the two steps where it was made; what a step finds is written as the end of the one
before it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

from tfdist_kit.adapters.op_determinism.recorder import session
from tfdist_kit.adapters.op_determinism.recorder.collecting import (
    Collector,
    Part,
    named_parts,
    named_variables,
    unpacked,
)
from tfdist_kit.adapters.op_determinism.recorder.slot import Slot
from tfdist_kit.determinism.trace import Row

MARK = "tfdist_recorded"
"""An attribute of functions that are wrapped already."""

_tracing = threading.local()


def collector() -> Collector | None:
    """That of the step which is being traced in this thread, if one is."""
    return getattr(_tracing, "collector", None)


class Loop:
    """The training of one model.

    Args:
        model: The model.
        going_on: The recording.
    """

    NAME = "_tfdist_loop"

    def __init__(self, model: Any, going_on: session.Session) -> None:
        self._model, self._session = model, going_on
        self._number = going_on.next_loop()
        self._slots: list[tuple[Slot, list[Part], str, int]] = []
        self._steps: dict[int, int] = {}
        self._original = model.train_step
        self._initial: list[Row] | None = None
        self._rows = 1

    @classmethod
    def of(cls, model: Any, going_on: session.Session) -> Loop:
        """The model's loop in this recording; begins it if there is none."""
        loop = vars(model).get(cls.NAME)
        if isinstance(loop, cls) and loop._session is going_on:
            return loop
        if isinstance(loop, cls):
            object.__setattr__(model, "train_step", loop._original)
        loop = cls(model, going_on)
        object.__setattr__(model, cls.NAME, loop)  # past Keras, which would track and save it
        object.__setattr__(model, "train_step", loop._step)
        return loop

    def __deepcopy__(self, memo: Any) -> None:
        """A copy of the model has no loop."""

    def __reduce__(self) -> Any:
        return type(None), ()

    def read_after(self, function: Any) -> Any:
        """Have the trace written after each call of the train function."""
        self._rows = self._steps_per_execution()

        def train_function(iterator: Any) -> Any:
            if self._initial is None:
                self._begin()
            result = function(iterator)
            self._take()
            return result

        setattr(train_function, MARK, True)
        return train_function

    def _step(self, data: Any) -> Any:
        """The model's train_step, with the digests of what goes in and comes out."""
        import tensorflow as tf

        made = Collector()
        made.add("weight", named_variables(self._variables()))
        made.add("input", named_parts(data, "batch"), rows=True)
        _tracing.collector = made
        try:
            logs = self._original(data)
        finally:
            _tracing.collector = None
        if not made.has("loss") and isinstance(logs, dict) and "loss" in logs:
            made.add("loss", [("loss", logs["loss"])])
        self._leave(made, eager=tf.executing_eagerly())
        return logs

    def _leave(self, made: Collector, *, eager: bool) -> None:
        packed, parts = made.packed(), made.parts
        if eager:
            self._write(parts, packed.numpy(), made.method, 0)
            return
        known = [slot for slot in self._slots if slot[0].graph is made.graph]
        slot = Slot(self._rows, packed.shape[0], made.graph)
        self._slots.append((slot, parts, made.method, len(known)))
        slot.put(packed)

    def _steps_per_execution(self) -> int:
        given = getattr(self._model, "steps_per_execution", None)
        if given is None:
            given = getattr(self._model, "_steps_per_execution", 1) or 1
        return max(1, int(getattr(given, "numpy", lambda: given)()))

    def _take(self) -> None:
        for slot, parts, method, replica in self._slots:
            for numbers in slot.take():
                self._write(parts, numbers, method, replica)

    def _write(self, parts: list[Part], numbers: Any, method: str, replica: int) -> None:
        step = self._steps.get(replica, 0)
        self._steps[replica] = step + 1
        for row in unpacked(parts, numbers, method):
            before = row.phase == "weight"
            if not (before and step == 0 and self._initial):
                place = {"loop": self._number, "replica": replica}
                phase = "init" if before and step == 0 else row.phase
                self._session.write([row.at(phase)], step=step - before, **place)

    def _begin(self) -> None:
        """The start values of all that the model has by now; none, when it is built in its step."""
        self._initial = list(self._read(self._everything(), "init"))
        self._session.write(self._initial, loop=self._number, step=-1)

    def end(self) -> None:
        """What the last step left, once the model's `fit` has ended."""
        last = self._steps.get(0, 0) - 1
        if last >= 0:
            rows = self._read(self._variables(), "weight")
            self._session.write(rows, loop=self._number, step=last)
            self._session.flush()

    def _read(self, variables: Iterable[Any], phase: str) -> Iterator[Row]:
        made = Collector()
        made.add(phase, named_variables(variables))
        if made.parts:
            numbers = made.packed().numpy()
            yield from unpacked(made.parts, numbers, made.method)

    def _variables(self) -> list[Any]:
        return list(self._model.weights) if self._model.built else []

    def _everything(self) -> list[Any]:
        """Weights, states of seed generators, and what the optimizer has."""
        if not self._model.built:
            return []
        more = getattr(self._model, "non_trainable_variables", [])
        optimizer = getattr(self._model, "optimizer", None)
        slots = getattr(optimizer, "variables", [])
        slots = slots() if callable(slots) else slots
        metrics = {id(each) for each in getattr(self._model, "metrics_variables", [])}
        found = {id(each): each for each in (*self._variables(), *more, *slots)}
        return [each for each in found.values() if id(each) not in metrics]
