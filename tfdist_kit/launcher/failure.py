"""A worker's failure as data: recorded by the worker that fails, read by the launcher.

The worker's uncaught exception -> ``record`` -> ``error.json`` -> ``read`` -> ``Failure``.

When one worker fails, the collectives of all the others fail a little later. ``is_aftermath``
tells such a consequence from a cause; it knows exceptions by name, so that neither side of this
module ever imports TensorFlow. ``is_fatal`` tells what no restart can cure.
"""

from __future__ import annotations

import json
import re
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

from tfdist_kit._errors import (
    ExchangeError,
    MissingDependencyError,
    TFConfigError,
    TooLateError,
    UnsupportedVersionError,
    UsageError,
    text_of,
)

_COLLECTIVE_AFTERMATH = re.compile(
    r"Collective ops is aborted by"
    r"|CoordinationService"
    r"|coordination service"
    r"|stopped sending heartbeats"
    r"|failed to connect to all addresses"
    r"|Connection reset by peer"
    r"|Socket closed"
    r"|could be from a previous operation. Restart your program"
    r"|tasks? .*(unhealthy|crashed)"
)
_AFTERMATH_TYPES = {"UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError"}
_FATAL_TYPES = (
    SyntaxError,
    ImportError,
    UsageError,
    TFConfigError,
    TooLateError,
    MissingDependencyError,
    UnsupportedVersionError,
)
_USAGE_EXIT = 2
_ABSL_USAGE = ("absl.app", "absl.flags")


@dataclass(frozen=True)
class Failure:
    """Why a worker's program ended badly.

    Attributes:
        kind: ``exception``, or ``exit`` for ``sys.exit`` with a code other than 0.
        type: Name of the exception's class, or ``SystemExit``.
        message: The exception's text.
        where: ``file:line`` of the last frame in the user's own code, or an empty string.
        traceback: The formatted traceback, without the launcher's own frames.
        exit_code: The code with which the worker leaves.
        aftermath: Whether this only says that another worker has gone.
        hint: What the worker knows of the reason beyond the exception itself.
        monotonic: When it happened, on the machine's monotonic clock, in seconds.
        fatal: Whether the same script would fail in the same way again, if nothing was done yet.
    """

    kind: str
    type: str
    message: str
    where: str
    traceback: str
    exit_code: int
    aftermath: bool
    monotonic: float
    hint: str = ""
    fatal: bool = False


def is_aftermath(error: BaseException) -> bool:
    """Tell whether `error` (or what it was raised from) only reports that a peer has gone."""
    seen: BaseException | None = error
    known_already: set[int] = set()
    while seen is not None and id(seen) not in known_already:
        known_already.add(id(seen))  # a cause may be its own cause
        if isinstance(seen, ExchangeError) and seen.aftermath:
            return True
        known = type(seen).__name__ in _AFTERMATH_TYPES
        if known and _COLLECTIVE_AFTERMATH.search(text_of(seen)):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def is_fatal(error: BaseException) -> bool:
    """Tell whether `error` lies in the script, its arguments or its surroundings themselves.

    Those are wrong usage as argparse (exit code 2) and absl report it, a script that cannot be
    compiled, a module that cannot be imported, and our own errors about what was asked for.
    """
    if isinstance(error, SystemExit):
        said_by = type(error.__context__).__module__
        return error.code == _USAGE_EXIT or said_by.startswith(_ABSL_USAGE)
    return isinstance(error, _FATAL_TYPES)


def describe(error: BaseException, *, exit_code: int, where: str, hint: str = "") -> Failure:
    """Turn an exception into a `Failure`, stamped now.

    Args:
        error: The exception that nobody caught.
        exit_code: The code with which the worker leaves.
        where: ``file:line`` in the user's own code.
        hint: What is known beyond the exception itself.
    """
    return Failure(
        kind="exit" if isinstance(error, SystemExit) else "exception",
        type=type(error).__name__,
        message=text_of(error),
        where=where,
        traceback="".join(traceback.format_exception(error)),
        exit_code=exit_code,
        aftermath=is_aftermath(error),
        monotonic=time.monotonic(),
        hint=hint,
        fatal=is_fatal(error),
    )


def record(path: Path, failure: Failure) -> None:
    """Write `failure` to `path` so that a reader sees all of it or nothing."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(failure), indent=1), encoding="utf-8")
    partial.replace(path)


def read(path: Path) -> Failure | None:
    """Read what `record` wrote; None when the worker left no record."""
    try:
        return Failure(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        return Failure(
            kind="exception",
            type="unreadable error file",
            message=f"{path}: {error}",
            where="",
            traceback="",
            exit_code=1,
            aftermath=False,
            monotonic=time.monotonic(),
        )
