"""The run folder: where a run leaves its output, its errors, its plan and its events.

    RUN_DIR/plan.json  events.jsonl  attempt_0/rank_0/{stdout.log,stderr.log,error.json,status.json}

A folder belongs to one live run at a time (a lock on the folder itself, so that no lock file is
left). Without ``--log-dir`` the folders lie under the system's temp folder, and the newest
`KEPT_RUNS` of them are kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tfdist_kit._errors import UsageError

KEPT_RUNS = 10
_CONTENTS = ("attempt_*", "plan.json", "events.jsonl")


class RunDir:
    """An open run folder, locked until ``close``.

    Attributes:
        trouble: Why something could not be written, if so; a run goes on without its records.

    Args:
        wish: The folder to use, made if need be; None for a new one under the temp folder.

    Raises:
        UsageError: It cannot be written, or another run uses it.
    """

    def __init__(self, wish: Path | None) -> None:
        try:
            self.path = (wish or _new_temp_folder()).absolute()
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise UsageError(
                f"the run folder {wish or tempfile.gettempdir()} cannot be used: {error}",
                hint="name a folder that can be written with --log-dir",
            ) from error
        self._take()
        self.trouble: OSError | None = None

    def _take(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.chmod(self.path, 0o700)
            self._set_earlier_run_aside()
            (self.path / "attempt_0").mkdir()
        except BlockingIOError as error:
            os.close(self._lock)
            raise UsageError(
                f"the run folder {self.path} is in use by another run",
                hint="give each run a --log-dir of its own",
            ) from error
        except OSError as error:
            os.close(self._lock)
            raise UsageError(
                f"the run folder {self.path} cannot be written: {error}",
                hint="name a folder that can be written with --log-dir",
            ) from error

    def _set_earlier_run_aside(self) -> None:
        """Move what an earlier run left into ``earlier_N``: nothing is lost or mixed up."""
        left = [path for pattern in _CONTENTS for path in self.path.glob(pattern)]
        if left:
            number = 1 + len(list(self.path.glob("earlier_*")))
            aside = self.path / f"earlier_{number}"
            aside.mkdir()
            for path in left:
                path.rename(aside / path.name)

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Keep the plan."""
        text = json.dumps(plan, indent=1) + "\n"
        (self.path / "plan.json").write_text(text, encoding="utf-8")

    def write_status(self, folder: Path, status: Mapping[str, Any]) -> None:
        """Replace a worker's ``status.json`` as a whole."""
        partial = folder / "status.partial"
        with self._writing():
            partial.write_text(json.dumps(status) + "\n", encoding="utf-8")
            partial.replace(folder / "status.json")

    def event(self, kind: str, **fields: Any) -> None:
        """Append one event, stamped with the wall clock in seconds."""
        record = {"time": round(time.time(), 3), "event": kind, **fields}
        with self._writing(), (self.path / "events.jsonl").open("a", encoding="utf-8") as events:
            events.write(json.dumps(record) + "\n")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Note the first failure to write instead of letting it end the run."""
        try:
            yield
        except OSError as error:
            self.trouble = self.trouble or error

    def __enter__(self) -> RunDir:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        """Release the folder; its contents stay."""
        os.close(self._lock)


def _new_temp_folder() -> Path:
    parent = Path(tempfile.gettempdir()) / f"tfdist-{os.getuid()}"
    parent.mkdir(mode=0o700, exist_ok=True)
    if parent.stat().st_uid != os.getuid() or parent.is_symlink():
        return Path(tempfile.mkdtemp(prefix="tfdist-"))
    _drop_old_runs(parent)
    return Path(tempfile.mkdtemp(prefix=time.strftime("run-%Y%m%d-%H%M%S-"), dir=parent))


def _drop_old_runs(parent: Path) -> None:
    runs = sorted(parent.glob("run-*"), key=lambda path: path.name)
    for path in runs[: 1 - KEPT_RUNS]:
        with contextlib.suppress(OSError):
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(folder)
