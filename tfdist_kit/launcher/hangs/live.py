"""Finds the workers of a run that another process launches, by its run folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.launcher import temp
from tfdist_kit.launcher.hangs import stacks
from tfdist_kit.launcher.output import watch
from tfdist_kit.launcher.run_dir import read_plan


def targets(run_dir: Path) -> list[stacks.Target]:
    """The workers of the live run in a folder, in rank order.

    Args:
        run_dir: The run folder.

    Raises:
        UsageError: It is no run folder, or its run is over.
    """
    if read_plan(run_dir) is None:
        raise UsageError(
            f"{run_dir} is not the folder of a run",
            hint="name the folder given to --log-dir, or the one that `tfdist run` names when it "
            "ends, as the user who started the run",
        )
    if not _is_live(run_dir):
        raise UsageError(
            f"the run in {run_dir} is over",
            hint="stacks that were asked for while it went on are in its stacks.txt files",
        )
    found = [stacks.target_of(folder, status) for folder, status in _statuses(run_dir)]
    return sorted(found, key=lambda target: target.rank)


def _is_live(run_dir: Path) -> bool:
    """Whether a launcher holds the folder's lock."""
    try:
        return temp.is_locked(run_dir)
    except OSError as error:
        raise UsageError(f"the run folder {run_dir} cannot be read: {error}") from error


def _statuses(run_dir: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    newest = run_dir / f"attempt_{max(watch.attempts(run_dir), default=0)}"
    for path in newest.glob("rank_*/status.json"):
        status = watch.read_json(path)
        if {"rank", "task"} <= status.keys():
            yield path.parent, status
