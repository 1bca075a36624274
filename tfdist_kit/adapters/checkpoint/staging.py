"""A place to write what must appear all at once, and the sweeping of what killed writers left.

    .NAME.tfdist-XXXX/ beside the target: .lock, and what is written
        -> everything to the disk -> one rename onto the target -> the folder goes

The writer holds a lock on ``.lock`` while it lives, and the kernel lets go of it when the writer
dies, however that happens. So a sweeper takes only what nobody writes any more: not the folder of
another job that saves something else beside it, nor that of one that writes at this moment.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

Gate = Callable[[], None]
"""Where all workers meet when everything is written and nothing is visible yet."""
_LOCK, _OLD = ".lock", "old"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


class Staging:
    """A folder of this writer's own, beside the file or folder that is to appear.

    Args:
        target: What is to appear; its parent folder must exist.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        # Under a name that no sweeper knows, until the lock is held.
        new = Path(tempfile.mkdtemp(prefix=".tfdist-new-", dir=target.parent))
        try:
            self._lock = os.open(new / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _try_lock(self._lock)
            self._folder = target.with_name(
                f"{_prefix(target)}{new.name.removeprefix('.tfdist-new-')}"
            )
            new.rename(self._folder)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise

    @property
    def path(self) -> Path:
        """Where to write; it has the target's name, from whose end libraries read the format."""
        return self._folder / self._target.name

    def publish(self) -> None:
        """Put what was written in the target's place, at once.

        A folder takes the place of another by an exchange, where the file system can do that.
        Elsewhere there is a moment in which only the old one exists, under another name; should
        the process die in it, ``recover`` brings the old one back.
        """
        to_disk(self.path)
        if self.path.is_dir() and self._target.is_dir():
            self._replace_folder()
        else:
            self.path.replace(self._target)
        sync(self._target.parent)

    def _replace_folder(self) -> None:
        try:
            _exchange(self.path, self._target)
        except OSError as error:
            if error.errno not in _NO_EXCHANGE:
                raise
            old = self._folder / _OLD
            self._target.rename(old)
            try:
                self.path.rename(self._target)
            except OSError:
                old.rename(self._target)
                raise

    def remove(self) -> None:
        """Remove the folder and what is left in it."""
        shutil.rmtree(self._folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # closed already
            os.close(self._lock)


def private_target() -> Path:
    """What a worker writes whose copy is not kept."""
    return Path(tempfile.gettempdir(), "tfdist-save")


def recover(target: Path) -> None:
    """Remove what dead writers of `target` have left, and bring its last whole state back."""
    for folder in target.parent.glob(f"{_escape(_prefix(target))}*"):
        with _abandoned(folder) as is_abandoned:
            if not is_abandoned:
                continue
            old = folder / _OLD
            if old.exists() and not target.exists():
                old.rename(target)
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _abandoned(folder: Path) -> Iterator[bool]:
    """Whether the writer of `folder` is gone; if so, no other sweeper has it meanwhile."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # another sweeper was quicker
        yield False
        return
    try:
        yield _try_lock(lock)
    finally:
        os.close(lock)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process holds it, or the file system has no locks: then keep off
        return False
    return True


def to_disk(path: Path) -> None:
    """Wait until a file, or a folder and all in it, has reached the disk."""
    for folder, _, names in os.walk(path):
        for name in names:
            sync(Path(folder, name))
        sync(Path(folder))
    if path.is_file():
        sync(path)


def sync(path: Path) -> None:
    """Wait until one file, or the entries of one folder, have reached the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _exchange(one: Path, other: Path) -> None:
    """Exchange two names at once, which Python itself cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        raise OSError(errno.ENOSYS, "renameat2")
    names = os.fsencode(one), os.fsencode(other)
    if libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))


def _prefix(target: Path) -> str:
    return f".{target.name}.tfdist-"


def _escape(text: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in text)
