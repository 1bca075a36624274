"""Our own corner of the system's temp folder, and the locks that say which parts are in use.

Everything of this user's lies in one folder, mode 0700. Each part of it is locked by the run that
uses it; what nobody locks was left by a launcher that was killed, or has been kept for reading.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_RETRY = 0.01
_MOST_TRIES = 100


def home() -> Path:
    """Where this user's folders lie."""
    return Path(tempfile.gettempdir()) / f"tfdist-{os.getuid()}"


def new_folder(prefix: str) -> tuple[Path, int]:
    """Make a new folder of our own, and lock it.

    Returns:
        The folder, and the descriptor that holds the lock while it is open.

    Raises:
        OSError: It cannot be made.
    """
    for _ in range(_MOST_TRIES):
        folder = _make(prefix)
        with contextlib.suppress(FileNotFoundError):
            descriptor = lock(folder, tries=3)
            if descriptor is not None and _is_still(folder, descriptor):
                return folder, descriptor
            if descriptor is not None:
                os.close(descriptor)
    raise OSError(errno.EBUSY, "others remove each new folder at once", str(home()))


def _is_still(folder: Path, descriptor: int) -> bool:
    """Whether what was locked is there yet: `drop_unused` may have come before the lock."""
    try:
        return os.path.samestat(folder.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _make(prefix: str) -> Path:
    home().mkdir(mode=0o700, exist_ok=True)
    if not _is_ours(home()):  # somebody else was first
        return Path(tempfile.mkdtemp(prefix="tfdist-"))
    return Path(tempfile.mkdtemp(prefix=prefix, dir=home()))


def _is_ours(folder: Path) -> bool:
    """Whether this is a folder of this user's, and not a link to somewhere else."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def lock(folder: Path, *, tries: int = 1) -> int | None:
    """Lock a folder for as long as the returned descriptor is open; None if it is locked.

    Args:
        folder: The folder.
        tries: How often to try, for somebody may just be asking whether it `is_locked`.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for tried in range(tries):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        if tried + 1 < tries:
            time.sleep(_RETRY)
    os.close(descriptor)
    return None


def is_locked(folder: Path) -> bool:
    """Whether somebody has locked a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def folders(pattern: str) -> list[Path]:
    """The folders of ours whose names match, in the order of their names."""
    if not _is_ours(home()):
        return []
    return sorted(filter(_is_ours, home().glob(pattern)), key=lambda path: path.name)


def drop_unused(pattern: str, *, keep: int) -> None:
    """Remove the folders of ours that nobody uses, but for the newest `keep`."""
    found = folders(pattern)
    for folder in found[: max(0, len(found) - keep)]:
        with contextlib.suppress(OSError):
            descriptor = lock(folder)
            if descriptor is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(descriptor)


@contextlib.contextmanager
def scratch() -> Iterator[Path | None]:
    """A folder for the temp files of one run's workers, removed at its end whatever they left.

    What a launcher that was killed could not remove, the next one does.

    Yields:
        The folder, or None where none can be made.
    """
    try:
        drop_unused("tmp-*", keep=0)
        folder, descriptor = new_folder("tmp-")
    except OSError:
        yield None
        return
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)
