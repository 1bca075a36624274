"""Bringing the data of `fit` to where an interrupted training was.

    the epochs before: each is gone through without training
    the epoch that was interrupted: the batches that were seen are dropped

Where an epoch reads its dataset from the start, of the epochs before only the making of their
iterators is repeated, which costs next to nothing: each makes a shuffled dataset go on to its next
order. Where one iterator serves all epochs (``steps_per_epoch``), all their batches are read.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

from tfdist_kit._errors import UnsupportedVersionError
from tfdist_kit.adapters.keras import one_replica
from tfdist_kit.adapters.keras_callbacks.guard import require

_NEEDED = (
    "_get_iterator",
    "_enumerate_iterator",
    "_num_batches",
    "catch_stop_iteration",
    "steps_per_epoch",
)


class DataPosition:
    """The data of the call of `fit` that is going on.

    Args:
        model: The model that is fitted.

    Attributes:
        first_epoch: The epoch at which this training begins when it is not resumed.

    Raises:
        UnsupportedVersionError: Keras' internals are not as expected.
    """

    def __init__(self, model: Any) -> None:
        variables = _variables_of_fit(model)
        self._data = variables["epoch_iterator"]
        self.first_epoch = int(variables["initial_epoch"])
        for name in _NEEDED:
            require(self._data, name)

    @property
    def batch(self) -> Any:
        """The specs of one replica's batch; no data are read for it."""
        import tensorflow as tf

        return tf.nest.map_structure(one_replica, self._data._get_iterator().element_spec)

    def advance(self, epochs: int, batches: int) -> None:
        """Go on as if so many whole epochs, and batches of the next one, had been trained.

        Args:
            epochs: Whole epochs.
            batches: Batches of the epoch after them, which is about to begin.
        """
        for _ in range(epochs):
            self._replay()
        if batches:
            self._skip(batches)

    def _replay(self) -> None:
        """Go on by one epoch."""
        data = self._data
        if data.steps_per_epoch is not None:  # what comes next is what these leave
            with data.catch_stop_iteration():
                for steps in data:
                    _drop(steps)
        elif data._num_batches is not None:
            for _ in data:  # Keras itself makes iterators, here and there
                pass
        else:
            iter(data._get_iterator())

    def _skip(self, batches: int) -> None:
        begun = self._data._enumerate_iterator()
        for steps in begun:
            _drop(steps)
            if steps[1] + 1 >= batches:
                break
        self._data._enumerate_iterator = lambda: self._go_on(begun)

    def _go_on(self, begun: Iterator[Any]) -> Iterator[Any]:
        del self._data._enumerate_iterator  # the class's own serves the epochs after this
        return begun


def _drop(steps: tuple[int, int, Any]) -> None:
    """Read the batches of one execution."""
    begin, end, iterator = steps
    for _ in range(begin, end + 1):
        next(iterator)


def _variables_of_fit(model: Any) -> dict[str, Any]:
    """What the call of `fit` that called back keeps to itself."""
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        found = frame.f_locals
        if (
            frame.f_code.co_name == "fit"
            and found.get("self") is model
            and "epoch_iterator" in found
        ):
            return {name: found[name] for name in ("epoch_iterator", "initial_epoch")}
        frame = frame.f_back
    raise UnsupportedVersionError(
        "the data cannot be brought to where the training was: it is not Keras' own `fit` that "
        "calls this callback, or a version that is not known",
        hint="use Keras 3.10 to 3.15, or a loop of your own with "
        "tfdist_kit.preemption_checkpoint_handler",
    )
