"""Remembers which datasets were read while op determinism was off.

    an iterator is made -> is the switch off? -> the dataset, weakly, and the user's line

TensorFlow prepares a dataset when it is read for the first time, and reads it the same way ever
after: one that was read before the switch stays unordered, and nothing of TensorFlow's tells which
those are. This module wraps the method that makes an eager iterator. It imports nothing of
TensorFlow, and is silent with one that looks different.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tfdist_kit import _frames, _on_import

_MODULE = "tensorflow.python.data.ops.iterator_ops"
_CONTEXT = "tensorflow.python.eager.context"
_SWITCH = "tensorflow.python.util._pywrap_determinism"

_lines: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_knows_all = False


def watch() -> None:
    """Begin to watch; harmless when called twice, or with a TensorFlow that looks different."""
    _on_import.when_imported(_MODULE, _wrap)


def knows_all() -> bool:
    """Whether a dataset without a first line was not read.

    It may have been if the watch began when TensorFlow was in use already, or could not begin.
    """
    return _knows_all


def first_line(dataset: Any) -> str | None:
    """Where `dataset` was first read while the switch was off; None where it was not."""
    return _lines.get(dataset)


def _wrap(module: ModuleType) -> None:
    global _knows_all
    owner = getattr(module, "OwnedIterator", None)
    original: Callable[[Any, Any], None] | None = getattr(owner, "_create_iterator", None)
    if owner is None or original is None or hasattr(original, "tfdist_original"):
        return

    def _create_iterator(self: Any, dataset: Any) -> None:
        original(self, dataset)
        if dataset not in _lines and not _is_on():
            _lines[dataset] = _frames.calling_line(sys._getframe(1)) or "a line that is not known"

    _create_iterator.tfdist_original = original  # type: ignore[attr-defined]
    owner._create_iterator = _create_iterator
    _knows_all = not _is_in_use()


def _is_in_use() -> bool:
    context = getattr(sys.modules.get(_CONTEXT), "_context", None)
    return getattr(context, "_context_handle", None) is not None


def _is_on() -> bool:
    ask = getattr(sys.modules.get(_SWITCH), "is_enabled", None)
    return bool(ask and ask())
