"""Runs ``tfdist`` as a user does, and finds every process that it leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MARK = "TFDIST_TEST_MARK"
DEADLINE = 120.0
TFDIST = (sys.executable, "-m", "tfdist_kit.cli")


@dataclass
class Result:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass
class Command:
    """A ``tfdist`` command in flight, in a folder of its own.

    Args:
        args: What follows ``tfdist``.
        folder: Its working directory, which also holds its temp folder.
        env: Variables on top of this process' own.
    """

    args: Sequence[str | Path]
    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def __enter__(self) -> Command:
        self.mark = uuid.uuid4().hex
        temp = self.folder / "tmp"
        temp.mkdir(exist_ok=True)
        own = {"TMPDIR": str(temp), "TFDS_DATA_DIR": str(temp), MARK: self.mark}
        clean = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
        self.process = self.start({**clean, **own, **self.env})
        return self

    def start(self, env: dict[str, str]) -> subprocess.Popen[str]:
        """Start the process."""
        return subprocess.Popen(
            [*TFDIST, *map(str, self.args)],
            cwd=self.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def __exit__(self, *_: object) -> None:
        for pid in self.living():
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.communicate()

    def result(self) -> Result:
        """Wait for the end."""
        out, err = self.process.communicate(timeout=DEADLINE)
        return Result(self.process.returncode, out, err)

    def living(self) -> list[int]:
        """Every process on this machine that descends from the command, zombies apart."""
        needle = f"{MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and needle in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def wait_for(self, path: Path, count: int = 1) -> None:
        """Wait until `count` files match the pattern `path`."""
        deadline = time.monotonic() + DEADLINE
        while len(list(path.parent.glob(path.name))) < count:
            assert time.monotonic() < deadline, f"{path} did not come"
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.01)

    def wait_for_processes(self, count: int) -> None:
        """Wait until that many live; a process that is just being executed cannot be seen."""
        deadline = time.monotonic() + DEADLINE
        while (living := self.living()) and len(living) != count:
            assert time.monotonic() < deadline, living
            time.sleep(0.01)
        assert living

    def assert_nothing_lives(self, within: float = 2.0) -> None:
        """Every process has ended."""
        deadline = time.monotonic() + within
        while (left := self.living()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not left


def tfdist(*args: str | Path, folder: Path, env: Mapping[str, str] | None = None) -> Result:
    """Run a command to its end, and check that it left no process."""
    with Command(args, folder, env or {}) as command:
        result = command.result()
        command.assert_nothing_lives()
        return result


def script(folder: Path, text: str, name: str = "train.py") -> str:
    """Write a script and return its name."""
    (folder / name).write_text(text, encoding="utf-8")
    return name
