"""Remembers which call initialised TensorFlow.

A MultiWorkerMirroredStrategy must come before the first operation, but TensorFlow's own error
("Collective ops must be configured at program startup") does not say what came before it. This
module wraps the one method through which TensorFlow initialises itself, until its first call,
notes who called, and takes the wrapper off again. It imports nothing of TensorFlow: when
TensorFlow is not loaded yet, it waits for its import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tfdist_kit import _frames, _on_import

_CONTEXT_MODULE = "tensorflow.python.eager.context"

_culprit: str | None = None
_anew = False
_context: ModuleType | None = None
_waiting: list[Callable[[ModuleType], None]] = []


def culprit() -> str | None:
    """Which of the user's calls initialised TensorFlow.

    Returns:
        Such as ``train.py:12: x = tf.constant(1.0)``; None when it is not known.
    """
    return _culprit


def watch() -> None:
    """Begin to watch; harmless when called twice, or with a TensorFlow that looks different."""
    _on_import.when_imported(_CONTEXT_MODULE, _wrap)


def with_context(act: Callable[[ModuleType], None]) -> None:
    """Call `act` with TensorFlow's context module: now if it is loaded, or once it is.

    A preloaded module counts as loaded, also while it is hidden from the program.
    """
    if _context is not None:
        act(_context)
    else:
        _waiting.append(act)


def watch_anew() -> None:
    """Watch for a first call as if TensorFlow, which has been initialised, had not been.

    For a process that runs one test after another: each is to fare as it would alone.
    """
    global _culprit, _anew
    if _CONTEXT_MODULE in sys.modules:
        _culprit, _anew = None, True
        _wrap(sys.modules[_CONTEXT_MODULE])


def came_before_the_strategy() -> bool:
    """Whether there was a call since `watch_anew`, and no strategy; the strategy is made now."""
    global _anew
    early, _anew = _anew and _culprit is not None, False
    return early


def _wrap(context_module: ModuleType) -> None:
    global _context
    _context = context_module
    while _waiting:
        _waiting.pop()(context_module)
    owner = getattr(context_module, "Context", None)
    original: Callable[[Any], None] | None = getattr(owner, "ensure_initialized", None)
    if owner is None or original is None or hasattr(original, "tfdist_original"):
        return

    def ensure_initialized(self: Any) -> None:
        global _culprit
        owner.ensure_initialized = original
        if _anew or getattr(self, "_context_handle", None) is None:
            _culprit = _frames.calling_line(sys._getframe(1))
        original(self)

    ensure_initialized.tfdist_original = original  # type: ignore[attr-defined]
    owner.ensure_initialized = ensure_initialized
