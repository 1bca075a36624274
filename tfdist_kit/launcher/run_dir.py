"""The run folder: where a run leaves its output, its errors, its plan and its events.

    RUN_DIR/plan.json  events.jsonl  attempt_0/plan.json
    RUN_DIR/attempt_0/rank_0/{stdout.log,stderr.log,error.json,status.json}

``plan.json`` is that of the newest attempt; each attempt keeps its own as well.

A folder belongs to one live run at a time (a lock on the folder itself, so that no lock file is
left). Without ``--log-dir`` the folders lie under the system's temp folder, and the newest
`KEPT_RUNS` of them are kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.launcher import temp

KEPT_RUNS = 10
_CONTENTS = ("attempt_*", "plan.json", "events.jsonl", "preload.log")


class RunDir:
    """An open run folder, locked for one run.

    Attributes:
        path: The folder.
        trouble: Why something could not be written, if so; a run goes on without its records.

    Args:
        wish: The folder to use, made if need be; None for a new one under the temp folder.

    Raises:
        UsageError: It cannot be written, or another run uses it.
    """

    def __init__(self, wish: Path | None) -> None:
        self.trouble: OSError | None = None
        self._attempt = 0
        with usable(wish or temp.home()):
            path, lock = _new_folder() if wish is None else _locked(wish)
            self.path = path.absolute()
        if lock is None:
            raise UsageError(
                f"the run folder {self.path} is in use by another run",
                hint="give each run a --log-dir of its own",
            )
        self._lock = lock
        try:
            with usable(self.path):
                self._set_earlier_run_aside()
        except UsageError:
            os.close(self._lock)
            raise

    def _set_earlier_run_aside(self) -> None:
        """Move what an earlier run left into ``earlier_N``: nothing is lost or mixed up."""
        left = [path for pattern in _CONTENTS for path in self.path.glob(pattern)]
        if not left:
            return
        if read_plan(self.path) is None:
            names = ", ".join(sorted(path.name for path in left))
            raise UsageError(
                f"the folder {self.path} has files of the same names as a run's that are not a "
                f"run's: {names}",
                hint="name another folder with --log-dir",
            )
        aside = self.path / f"earlier_{1 + max([0, *_earlier_numbers(self.path)])}"
        aside.mkdir(mode=0o700)
        for path in left:
            path.rename(aside / path.name)

    def begin(self, attempt: int, plan: Mapping[str, Any]) -> None:
        """Make the attempt's folder, and keep its plan: by it a run's folder is known.

        Raises:
            UsageError: Not even that can be written.
        """
        with usable(self.path):
            text = json.dumps(plan, indent=1) + "\n"
            _write_whole(self.path / "plan.json", text)
            folder = self.path / f"attempt_{attempt}"
            folder.mkdir(mode=0o700)
            _write_whole(folder / "plan.json", text)
        self._attempt = attempt

    def write_status(self, folder: Path, status: Mapping[str, Any]) -> None:
        """Replace a worker's ``status.json`` as a whole."""
        partial = folder / "status.partial"
        with self._writing():
            record = {"attempt": self._attempt, **status}
            partial.write_text(json.dumps(record) + "\n", encoding="utf-8")
            partial.replace(folder / "status.json")

    def event(self, kind: str, **fields: Any) -> None:
        """Append one event, stamped with the wall clock in seconds and the newest attempt."""
        stamp = {"time": round(time.time(), 3), "attempt": self._attempt}
        record = {**stamp, "event": kind, **fields}
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

    def __exit__(self, *_: object) -> None:
        """Release the folder; its contents stay."""
        os.close(self._lock)


def _write_whole(path: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    partial = path.with_suffix(".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def usable(folder: Path) -> Iterator[None]:
    """Turn what the system says against the run folder into a usage error.

    Args:
        folder: The run folder.

    Raises:
        UsageError: An `OSError` was raised.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"the run folder {folder} cannot be used: {error}",
            hint="name a folder that can be written, with room in it, by --log-dir",
        ) from error


def read_plan(folder: Path) -> dict[str, Any] | None:
    """The plan in a run folder; None if `folder` is no run folder, or the plan not one of ours."""
    try:
        plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return plan if _is_plan(plan) else None


def _is_plan(data: Any) -> bool:
    """Whether this has what readers of a plan rely on."""
    if not isinstance(data, dict) or not isinstance(data.get("run_dir"), str):
        return False
    workers = data.get("workers")
    if not isinstance(workers, list) or not isinstance(data.get("target", ""), str):
        return False
    return all(isinstance(each, dict) and isinstance(each.get("task"), str) for each in workers)


def _earlier_numbers(folder: Path) -> list[int]:
    names = (path.name.removeprefix("earlier_") for path in folder.glob("earlier_*"))
    return [int(name) for name in names if name.isdecimal()]


def _locked(folder: Path) -> tuple[Path, int | None]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder, temp.lock(folder, tries=3)


def _new_folder() -> tuple[Path, int | None]:
    temp.drop_unused("run-*", keep=KEPT_RUNS - 1)
    return temp.new_folder(time.strftime("run-%Y%m%d-%H%M%S-"))
