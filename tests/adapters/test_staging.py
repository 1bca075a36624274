"""What appears at once, what a dead writer leaves, and who may remove it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tfdist_kit.adapters.checkpoint import staging
from tfdist_kit.adapters.checkpoint.staging import Staging, recover


def written(target: Path, text: str, *, as_folder: bool) -> Staging:
    place = Staging(target)
    file = place.path / "part" if as_folder else place.path
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return place


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def killed_writer(target: Path) -> Path:
    """The folder of a process that was killed while it wrote."""
    code = (
        "import os, pathlib, signal, sys\n"
        "from tfdist_kit.adapters.checkpoint.staging import Staging\n"
        "Staging(pathlib.Path(sys.argv[1])).path.write_text('half')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, target], check=False)
    assert done.returncode == -signal.SIGKILL
    [folder] = target.parent.glob(f".{target.name}.tfdist-*")
    return folder


@pytest.mark.parametrize("as_folder", [False, True])
@pytest.mark.parametrize("can_exchange", [False, True])
def test_what_was_written_takes_the_place_of_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_folder: bool, can_exchange: bool
) -> None:
    if not can_exchange:
        monkeypatch.setattr(staging, "_exchange", refuse)
    target = tmp_path / "it[1].keras"
    for text in ("one", "two"):
        place = written(target, text, as_folder=as_folder)
        assert place.path.name == target.name
        before = target.exists()
        place.publish()
        place.remove()
        assert before == (text == "two")
        assert (target / "part" if as_folder else target).read_text() == text
    assert names(tmp_path) == {target.name}


def refuse(one: Path, other: Path) -> None:
    raise OSError(errno.EINVAL, "no exchange here")


def test_a_folder_is_exchanged_without_a_moment_in_which_neither_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "it"
    first = written(target, "one", as_folder=True)
    first.publish()
    first.remove()
    place = written(target, "two", as_folder=True)
    monkeypatch.setattr(Path, "rename", refuse)  # which would need two steps
    place.publish()
    place.remove()
    assert (target / "part").read_text() == "two"


def test_a_failed_exchange_keeps_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "it"
    first = written(target, "one", as_folder=True)
    first.publish()
    first.remove()
    place = written(target, "two", as_folder=True)
    monkeypatch.setattr(staging, "_exchange", refuse)
    shutil.rmtree(place.path)
    place.path.mkdir()
    real = Path.rename

    def rename(self: Path, to: Path) -> Path:
        if self == place.path:
            raise OSError(errno.EIO, "gone")
        return real(self, to)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match="gone"):
        place.publish()
    place.remove()
    assert (target / "part").read_text() == "one"


def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    target, sibling = tmp_path / "it", tmp_path / "it.keras"
    dead, other_dead = killed_writer(target), killed_writer(sibling)
    living = written(target, "now", as_folder=False)
    recover(target)
    assert not dead.exists()
    assert other_dead.exists()  # its own job removes it
    living.publish()
    living.remove()
    assert target.read_text() == "now"
    recover(sibling)
    assert names(tmp_path) == {"it"}


def test_a_writer_killed_between_two_renames_loses_nothing(tmp_path: Path) -> None:
    target = tmp_path / "it"
    dead = killed_writer(target)
    (dead / "old").mkdir()
    (dead / "old" / "part").write_text("one")
    recover(target)
    assert (target / "part").read_text() == "one"
    assert names(tmp_path) == {"it"}


def test_without_locks_nothing_is_taken_for_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "it"
    dead = killed_writer(target)

    def no_locks(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    recover(target)
    assert dead.exists()
