"""Which trace this process writes to: that of ``TFDIST_RECORD``, or of a `recording` block.

    TFDIST_RECORD=FOLDER (verify sets it), or recording(FOLDER) -> FOLDER/rank_R.jsonl

The file is made when the first step is recorded: only then are threads, devices and switches known
as they are in the run.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tfdist_kit.adapters.op_determinism.recorder.manifest import manifest
from tfdist_kit.determinism.trace import Row
from tfdist_kit.determinism.writing import TraceWriter

VARIABLE = "TFDIST_RECORD"


class Session:
    """One recording of this process.

    Args:
        folder: The folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: TraceWriter | None = None
        self._loops = itertools.count()
        self._is_closed = False

    def next_loop(self) -> int:
        """A number for one more training loop."""
        return next(self._loops)

    def write(self, rows: Iterable[Row], **place: int) -> None:
        """Add rows, which are at `place`: loop, step and replica; nothing once this is closed."""
        if self._is_closed:  # a model that was recorded may be trained on
            return
        if self._writer is None:
            self._writer = TraceWriter(self._folder, rank(), manifest())
        for row in rows:
            self._writer.write(replace(row, **place))  # type: ignore[arg-type]

    def flush(self) -> None:
        """Have all that was written in the file."""
        if self._writer is not None and not self._is_closed:
            self._writer.flush()

    def close(self) -> None:
        """End the trace."""
        self._is_closed = True
        if self._writer is not None:
            self._writer.close()


_current: Session | None = None


def current() -> Session | None:
    """The recording that goes on; begins the one that the environment asks for."""
    global _current
    folder = os.environ.get(VARIABLE)
    if _current is None and folder:
        _current = Session(Path(folder))
        atexit.register(_current.close)
    return _current


@contextlib.contextmanager
def recording(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Record what this process trains in the block.

    Keras models are recorded by themselves, if Keras is imported before the block and their first
    step is in it; a loop of one's own calls `record` in its step. Each worker calls this, with the
    same folder or its own.

    Args:
        folder: Where the trace goes, as ``rank_R.jsonl``.
    """
    global _current
    from tfdist_kit.adapters.op_determinism.recorder import keras_models

    keras_models.hook_loaded()
    before, _current = _current, Session(Path(folder))
    try:
        yield
    finally:
        _current.close()
        _current = before


def rank() -> int:
    """This process' rank: the launcher's word, or else its place in TF_CONFIG."""
    told = os.environ.get("TFDIST_RANK", "")
    if told.isdigit():
        return int(told)
    try:
        config = json.loads(os.environ.get("TF_CONFIG", ""))
        jobs = {job: len(config["cluster"].get(job, ())) for job in ("chief", "worker")}
        task = config["task"]
        return int(task["index"]) + (jobs["chief"] if task["type"] == "worker" else 0)
    except (ValueError, KeyError, TypeError, AttributeError):
        return 0
