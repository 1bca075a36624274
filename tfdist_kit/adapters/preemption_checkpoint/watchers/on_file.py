"""A file as the notice: whoever can write a file can announce the end."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters.preemption_checkpoint.watchers.config import termination_config
from tfdist_kit.adapters.preemption_checkpoint.watchers.metadata import Client
from tfdist_kit.adapters.preemption_checkpoint.watchers.polling import Watcher


def file(
    path: str | os.PathLike[str],
    **termination: Any,
) -> Any:
    """A `TerminationConfig` whose notice is that a file exists.

    The file is never removed: a run that is started again while it is there ends at once.

    Args:
        path: The file, or whatever else may be there. Not the empty text.
        termination: What else `Termination` takes: ``exit_fn=``, ``grace_period=``, ...

    Returns:
        A `Termination`.

    Raises:
        UsageError: An argument cannot be used.
    """
    return termination_config(file_watcher(path), termination)


def file_watcher(path: str | os.PathLike[str], what: str = "path") -> Callable[[], bool]:
    """The watcher of `file`.

    Args:
        path: As for `file`.
        what: The argument's name, for the message.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise UsageError(f"{what} is {path!r}", hint="give the path of a file")
    whole = os.path.abspath(text)  # the program may change its folder

    def look(client: Client) -> bool:
        try:
            os.stat(whole)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    return Watcher(f"file {whole}", look)
