"""A run as its folder shows it, from outside and at any time: nothing here changes anything.

run folder (plan.json, attempt_K/rank_R/{status.json,*.log}, its lock), /proc
    -> look -> Run (live or over, newest attempt) -> one Worker per rank
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.launcher import quantities, temp
from tfdist_kit.launcher.output.board import exit_word, state_word
from tfdist_kit.launcher.run_dir import read_plan

STREAMS = ("stdout", "stderr")


@dataclass(frozen=True)
class Worker:
    """One rank of the newest attempt.

    Attributes:
        rank: The rank.
        task: ``type:index`` in the cluster.
        state: In a word or two; ``gone`` if the launcher was killed before it ended.
        pid: Its process; None once it has ended.
        last_output: How long ago it last wrote something, in seconds; None if it never did.
        rss: Its resident memory in bytes, if it lives.
        step: The last step that it reported, if any.
    """

    rank: int
    task: str
    state: str
    pid: int | None
    last_output: float | None
    rss: int | None
    step: int | None


@dataclass(frozen=True)
class Run:
    """A run.

    Attributes:
        run_dir: Its folder.
        live: Whether it goes on.
        target: The script or module.
        attempt: The number of the newest attempt.
        workers: All ranks.
    """

    run_dir: str
    live: bool
    target: str
    attempt: int
    workers: tuple[Worker, ...]


def runs() -> list[Path]:
    """The run folders under the system's temp folder, the newest last."""
    return [folder for folder in temp.folders("run-*") if read_plan(folder) is not None]


def live_runs() -> list[Path]:
    """Those of them whose runs go on."""
    return [folder for folder in runs() if is_live(folder)]


def newest_run() -> Path:
    """The newest of them.

    Raises:
        UsageError: There is none.
    """
    found = runs()
    if not found:
        raise UsageError(
            f"there is no run under {temp.home()}",
            hint="name the run folder that was given to --log-dir",
        )
    return found[-1]


def plan_of(folder: Path) -> dict[str, Any]:
    """The plan in a run folder.

    Raises:
        UsageError: It is none.
    """
    plan = read_plan(folder)
    if plan is None:
        raise UsageError(
            f"{folder} {_why_no_run(folder)}",
            hint="name the folder that tfdist run tells at its end, or that was given to --log-dir",
        )
    return plan


def _why_no_run(folder: Path) -> str:
    if not os.path.lexists(folder):
        return "does not exist"
    if not folder.is_dir():
        return "is not a folder"
    if not os.access(folder, os.R_OK | os.X_OK):
        return "cannot be read: permission denied"
    return "is not a run folder"


def is_live(folder: Path) -> bool:
    """Whether the run in this folder goes on."""
    with contextlib.suppress(OSError):
        return temp.is_locked(folder)
    return False


def attempts(folder: Path) -> list[int]:
    """The numbers of its attempts, in order.

    Raises:
        UsageError: What one of them left cannot be read.
    """
    names = (path.name.removeprefix("attempt_") for path in folder.glob("attempt_*"))
    found = sorted(int(name) for name in names if name.isdecimal())
    for attempt in found:
        _check_readable(folder / f"attempt_{attempt}")
    return found


def _check_readable(attempt: Path) -> None:
    """Refuse what would look as if nothing had been started."""
    for folder in (attempt, *(path for path in attempt.glob("rank_*") if path.is_dir())):
        if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
            raise UsageError(
                f"{folder} cannot be read: permission denied",
                hint="ask as the user who started the run",
            )


def look(folder: Path) -> Run:
    """Read where a run stands.

    Raises:
        UsageError: `folder` is no run folder.
    """
    plan, live = plan_of(folder), is_live(folder)
    attempt = max(attempts(folder), default=0)
    return Run(
        run_dir=str(folder.absolute()),
        live=live,
        target=plan.get("target", ""),
        attempt=attempt,
        workers=tuple(
            _look_at(folder / f"attempt_{attempt}" / f"rank_{rank}", rank, task, live)
            for rank, task in enumerate(worker["task"] for worker in plan["workers"])
        ),
    )


def _look_at(folder: Path, rank: int, task: str, live: bool) -> Worker:
    status = read_json(folder / "status.json")
    state, code = status.get("state"), status.get("returncode")
    has_ended = not live or state is None or code is not None
    pid = None if has_ended else status.get("pid")
    return Worker(
        rank=rank,
        task=task,
        state=_word(state, code, live),
        pid=pid,
        last_output=_last_output(folder),
        rss=None if pid is None else quantities.resident(pid),
        step=status.get("step"),
    )


def _word(state: str | None, code: int | None, live: bool) -> str:
    if code is not None:
        return exit_word(code)
    if not live:
        return "gone" if state else "not started"
    return state_word(state or "waiting")


def _last_output(folder: Path) -> float | None:
    newest = None
    for stream in STREAMS:
        with contextlib.suppress(OSError):
            status = (folder / f"{stream}.log").stat()
            if status.st_size:
                newest = max(newest or 0.0, status.st_mtime)
    return None if newest is None else round(max(0.0, time.time() - newest), 1)


def read_json(path: Path) -> dict[str, Any]:
    """A file's JSON object; an empty one if there is none to be read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
