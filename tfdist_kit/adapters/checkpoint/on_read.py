"""The values of variables that every replica has its own of, added up before anything is written.

    variables with VariableSynchronization.ON_READ -> one collective each, on all workers
        -> what a writer reads inside of `read_once` comes from there

Keras writes one variable and reads the next one in turn. A disk that is full in between would leave
the other workers in the collective of the next variable, where nobody can reach them any more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from tfdist_kit.adapters._private import private

_VALUES, _CLASS, _READ = (
    "tensorflow.python.distribute.values",
    "SyncOnReadVariable",
    "_get_cross_replica",
)


@contextlib.contextmanager
def read_once(variables: Iterable[Any]) -> Iterator[None]:
    """Read the variables that need a collective now, and answer later reads without one.

    Args:
        variables: TensorFlow's or Keras'; those that need no collective are left alone.
    """
    owner = private(_VALUES, _CLASS)
    read = private(_VALUES, _CLASS, _READ)
    own = [getattr(variable, "value", variable) for variable in variables]
    known = {id(each): read(each) for each in own if isinstance(each, owner)}
    if not known:
        yield
        return

    def answer(self: Any) -> Any:
        return known[id(self)] if id(self) in known else read(self)

    setattr(owner, _READ, answer)
    try:
        yield
    finally:
        setattr(owner, _READ, read)
