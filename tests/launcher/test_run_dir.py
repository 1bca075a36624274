"""The run folder: what it holds, whose it is, and for how long."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests.commands import Command, script, tfdist
from tfdist_kit.launcher import temp


def test_the_run_folder(tmp_path: Path) -> None:
    name = script(tmp_path, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(4)")
    result = tfdist("run", "-n", "1", "--log-dir", "logs", name, folder=tmp_path)
    assert result.code == 4
    logs = tmp_path / "logs"
    rank = logs / "attempt_0" / "rank_0"
    assert (rank / "stdout.log").read_text() == "out\n"
    assert (rank / "stderr.log").read_text() == "err\n"
    assert json.loads((rank / "error.json").read_text())["exit_code"] == 4
    assert json.loads((rank / "status.json").read_text())["state"] == "exited"
    assert json.loads((logs / "plan.json").read_text())["target"] == name
    events = [json.loads(line) for line in (logs / "events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == [
        "started",
        "running",
        "failed",
        "exited",
        "verdict",
        "over",
    ]
    assert logs.stat().st_mode & 0o777 == 0o700


def test_an_earlier_run_in_the_same_folder_is_set_aside(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        name = script(tmp_path, f"print({number})")
        assert tfdist("run", "-n", "1", "--log-dir", "logs", name, folder=tmp_path).code == 0
    outputs = {
        folder: (tmp_path / "logs" / folder / "attempt_0/rank_0/stdout.log").read_text()
        for folder in ("earlier_1", "earlier_2", ".")
    }
    assert outputs == {"earlier_1": "1\n", "earlier_2": "2\n", ".": "3\n"}


def test_a_run_folder_in_use_is_refused(tmp_path: Path) -> None:
    name = script(tmp_path, "import time; open('up', 'w').close(); time.sleep(60)")
    args = ["run", "-n", "1", "--log-dir", "logs", name]
    with Command(args, tmp_path) as first:
        first.wait_for(tmp_path / "up")
        second = tfdist(*args, folder=tmp_path)
    assert second.code == 2
    assert "is in use by another run" in second.err


def test_only_the_newest_runs_are_kept_in_the_temp_folder(tmp_path: Path) -> None:
    name = script(tmp_path, "")
    assert tfdist("run", "-n", "1", name, folder=tmp_path).code == 0
    [parent] = (tmp_path / "tmp").iterdir()
    [newest] = parent.iterdir()
    older = [parent / f"run-20000101-0000{number}-abcdef" for number in range(10, 21)]
    for folder in older:
        shutil.copytree(newest, folder)
    assert tfdist("run", "-n", "1", name, folder=tmp_path).code == 0
    left = set(parent.iterdir())
    assert len(left) == 10
    assert left > {newest, *older[-8:]}


def test_a_folder_with_somebody_elses_files_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir(mode=0o755)
    (folder / "plan.json").write_text("[]")
    (folder / "attempt_at_poetry").write_text("mine")
    result = tfdist("run", "-n", "1", "--log-dir", "logs", script(tmp_path, ""), folder=tmp_path)
    assert result.code == 2
    assert "that are not a run's: attempt_at_poetry, plan.json" in result.err
    assert {path.name for path in folder.iterdir()} == {"plan.json", "attempt_at_poetry"}
    assert folder.stat().st_mode & 0o777 == 0o755


def test_the_next_earlier_folder_has_the_next_number(tmp_path: Path) -> None:
    args = ["run", "-n", "1", "--log-dir", "logs", script(tmp_path, "")]
    for _ in range(3):
        assert tfdist(*args, folder=tmp_path).code == 0
    shutil.rmtree(tmp_path / "logs" / "earlier_1")
    assert tfdist(*args, folder=tmp_path).code == 0
    assert sorted(path.name for path in (tmp_path / "logs").glob("earlier_*")) == [
        "earlier_2",
        "earlier_3",
    ]


def test_a_start_that_a_full_disk_prevented_can_be_repeated(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "plan.partial").symlink_to("/dev/full")
    args = ["run", "-n", "1", "--log-dir", "logs", script(tmp_path, "")]
    first = tfdist(*args, folder=tmp_path)
    assert first.code == 2
    assert "No space left on device" in first.err
    assert not list(logs.iterdir())
    assert tfdist(*args, folder=tmp_path).code == 0


@pytest.mark.parametrize("what", ["folder", "log"])
def test_a_disk_that_is_full_when_the_workers_start(tmp_path: Path, what: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(_FULL[what] + _FAILS)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    args = ["run", "--log-dir", "logs", script(tmp_path, "import time; time.sleep(60)")]
    result = tfdist(*args, folder=tmp_path, env={"PYTHONPATH": path})
    assert result.code == 2
    assert "TFD001: the run folder" in result.err
    assert "No space left on device" in result.err
    assert "Traceback" not in result.err


_FULL = {
    "folder": "from pathlib import Path as Owner\nname, ends = 'mkdir', 'rank_1'\n",
    "log": "from pathlib import Path as Owner\nname, ends = 'open', 'rank_1/stdout.log'\n",
}
_FAILS = """\
import os
original = getattr(Owner, name)
def full(path, *args, **named):
    if str(path).endswith(ends): raise OSError(28, os.strerror(28), str(path))
    return original(path, *args, **named)
if "TFDIST_RANK" not in os.environ: setattr(Owner, name, full)
"""


def test_a_failure_that_cannot_be_recorded(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import os, pathlib\n"
        "ranks = pathlib.Path(os.environ['TFDIST_RUN_DIR'], 'attempt_0')\n"
        "(ranks / 'rank_0' / 'error.partial').symlink_to('/dev/full')\n"
        "raise ValueError('bad row')\n",
    )
    result = tfdist("run", "-n", "1", name, folder=tmp_path)
    assert result.code == 1
    told = [line for line in result.err.splitlines() if line.startswith("tfdist: ")]
    assert "rank 0 (worker:0) failed with exit code 1, and could not write error.json" in told[0]
    assert "tfdist: ValueError: bad row" in told


def test_a_new_folder_is_never_removed_as_unused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    over = threading.Event()

    def drop() -> None:
        while not over.is_set():
            temp.drop_unused("tmp-*", keep=0)

    dropper = threading.Thread(target=drop)
    dropper.start()
    try:
        for _ in range(300):
            with temp.scratch() as scratch:
                assert scratch is not None
                time.sleep(0.0005)
                assert scratch.is_dir()
    finally:
        over.set()
        dropper.join()


def test_nothing_is_removed_behind_a_link_that_stands_for_our_folder(tmp_path: Path) -> None:
    """Somebody else may have made it, and may own what it leads to."""
    theirs = tmp_path / "theirs"
    for name in ("tmp-a", *(f"run-{number}" for number in range(12))):
        (theirs / name).mkdir(parents=True)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / f"tfdist-{os.getuid()}").symlink_to(theirs)
    assert tfdist("run", "-n", "1", script(tmp_path, ""), folder=tmp_path).code == 0
    assert len(list(theirs.iterdir())) == 13
