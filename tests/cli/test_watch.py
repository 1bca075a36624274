"""``tfdist ps`` and ``tfdist logs``: a run seen from elsewhere, while it lasts and afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands import DEADLINE, Command, Result, script, tfdist
from tfdist_kit import UsageError
from tfdist_kit.launcher import temp
from tfdist_kit.launcher.hangs import live
from tfdist_kit.launcher.output import watch
from tfdist_kit.launcher.run_dir import RunDir

WAIT = """\
import os, sys, time
rank = os.environ["TFDIST_RANK"]
print("out", rank)
print("err", rank, file=sys.stderr)
open("up" + rank, "w").close()
while not os.path.exists("go"): time.sleep(0.01)
print("bye", rank)
"""


def ps(folder: Path, *args: str | Path) -> list[dict[str, Any]]:
    result = tfdist("ps", "--json", *args, folder=folder)
    assert result.code == 0, result.err
    runs: list[dict[str, Any]] = json.loads(result.out)
    return runs


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_live_run_is_found_and_shown(tmp_path: Path) -> None:
    with Command(["run", script(tmp_path, WAIT)], tmp_path) as command:
        command.wait_for(tmp_path / "up*", 2)
        [run] = ps(tmp_path)
        shown = tfdist("ps", folder=tmp_path).out
        (tmp_path / "go").touch()
        assert command.result().code == 0
    assert (run["live"], run["target"], run["attempt"]) == (True, "train.py", 0)
    for rank, worker in enumerate(run["workers"]):
        assert (worker["rank"], worker["task"]) == (rank, f"worker:{rank}")
        assert worker["state"] == "running"
        assert worker["pid"] > 1
        assert worker["rss"] > 1_000_000
        assert 0 <= worker["last_output"] < DEADLINE
        assert worker["step"] is None
    title, head, *rows = shown.splitlines()
    assert title == f"train.py (live)  {run['run_dir']}"
    assert head.split() == ["RANK", "TASK", "PID", "STATE", "STEP", "LAST", "OUTPUT", "RSS"]
    assert [row.split()[:2] for row in rows] == [["0", "worker:0"], ["1", "worker:1"]]
    after = tfdist("ps", folder=tmp_path)
    assert (after.code, after.out, after.err) == (0, "", "tfdist: no run goes on\n")
    assert ps(tmp_path) == []


def test_a_run_that_is_over(tmp_path: Path) -> None:
    name = script(tmp_path, "import os; os._exit(3) if os.environ['TFDIST_RANK'] == '1' else 0")
    assert tfdist("run", "--log-dir", "logs", name, folder=tmp_path).code == 3
    [run] = ps(tmp_path, "logs")
    assert run["live"] is False
    assert [worker["state"] for worker in run["workers"]][1] == "exit 3"
    assert {worker["pid"] for worker in run["workers"]} == {None}
    assert run["workers"][1]["last_output"] is None


def test_a_run_whose_launcher_was_killed(tmp_path: Path) -> None:
    args = ["run", "--log-dir", "logs", script(tmp_path, WAIT)]
    with Command(args, tmp_path) as command:
        logs = (tmp_path / "logs").glob
        wait_until(lambda: sum(path.stat().st_size > 0 for path in logs("*/*/*.log")) == 4)
        os.kill(command.process.pid, signal.SIGKILL)
        command.assert_nothing_lives()
    [run] = ps(tmp_path, "logs")
    assert run["live"] is False
    assert [worker["state"] for worker in run["workers"]] == ["gone", "gone"]
    assert tfdist("logs", "-f", "logs", folder=tmp_path).out.count("out") == 2


def test_a_step_in_the_status_file_is_shown(tmp_path: Path) -> None:
    folder = made_up_run(tmp_path, workers=1)
    rank = worker_folder(folder, 0)
    (rank / "status.json").write_text('{"state": "listening", "step": 12}')
    [run] = ps(tmp_path, folder)
    assert run["workers"][0]["step"] == 12


@pytest.mark.parametrize("command", ["ps", "logs"])
@pytest.mark.parametrize(
    ("folder", "told"),
    [
        ("absent", "absent does not exist"),
        ("empty", "empty is not a run folder"),
        ("train.py", "train.py is not a folder"),
    ],
)
def test_a_folder_that_is_no_run_folder(
    tmp_path: Path, command: str, folder: str, told: str
) -> None:
    (tmp_path / "empty").mkdir()
    script(tmp_path, "")
    result = tfdist(command, folder, folder=tmp_path)
    assert (result.code, result.out) == (2, "")
    assert f"TFD001: {told}" in result.err


@pytest.mark.parametrize(
    "plan",
    [
        [],
        {"run_dir": "x", "workers": 3},
        {"run_dir": "x", "workers": [1, 2]},
        {"run_dir": "x", "workers": [{}]},
        {"run_dir": 1, "workers": []},
        {"run_dir": "x", "workers": [], "target": 1},
    ],
    ids=str,
)
def test_a_plan_of_somebody_elses(tmp_path: Path, plan: object) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/plan.json").write_text(json.dumps(plan))
    for asked in (watch.plan_of, watch.look, live.targets):
        with pytest.raises(UsageError, match=r"is not (a run folder|the folder of a run)"):
            asked(tmp_path / "theirs")
    with pytest.raises(UsageError, match=r"that are not a run's: plan\.json"):
        RunDir(tmp_path / "theirs")
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["plan.json"]


@pytest.mark.parametrize("closed", ["attempt_0", "attempt_0/rank_0"])
def test_a_folder_that_cannot_be_read(tmp_path: Path, closed: str) -> None:
    worker_folder(made_up_run(tmp_path, workers=1), 0)
    (tmp_path / "logs" / closed).chmod(0)
    tmp_path.chmod(0o755)
    nobody = 65534
    user = str(nobody if os.geteuid() == 0 else os.geteuid())
    done = subprocess.run(
        [sys.executable, "-c", _LOOK_AS, user],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    (tmp_path / "logs" / closed).chmod(0o700)
    assert done.stdout.count(f"logs/{closed} cannot be read") == 3


_LOOK_AS = """\
import os, sys
from pathlib import Path
from tfdist_kit import UsageError
from tfdist_kit.launcher import temp
from tfdist_kit.launcher.hangs import live
from tfdist_kit.launcher.output import follow, watch
folder = Path("logs")
lock = temp.lock(folder)
os.setuid(int(sys.argv[1]))
follower = follow.Follower(folder, follow.Wish(), print)
for act in (lambda: watch.look(folder), follower.write_all, lambda: live.targets(folder)):
    try: act()
    except UsageError as error: print(error)
"""


def test_there_is_no_newest_run(tmp_path: Path) -> None:
    result = tfdist("logs", folder=tmp_path)
    assert result.code == 2
    assert "there is no run under" in result.err


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A folder in which two workers have run."""
    (tmp_path / "go").touch()
    assert tfdist("run", script(tmp_path, WAIT), folder=tmp_path).code == 0
    return tmp_path


@pytest.mark.parametrize(
    ("args", "printed"),
    [
        ([], ["0 out 0", "0 bye 0", "0 err 0", "1 out 1", "1 bye 1", "1 err 1"]),
        (["-f"], ["0 out 0", "0 bye 0", "0 err 0", "1 out 1", "1 bye 1", "1 err 1"]),
        (["--stdout"], ["0 out 0", "0 bye 0", "1 out 1", "1 bye 1"]),
        (["--stderr"], ["0 err 0", "1 err 1"]),
        (["--stderr", "--rank-filter", "1"], ["1 err 1"]),
        (["--stdout", "--stderr", "--rank-filter", "1"], ["1 out 1", "1 bye 1", "1 err 1"]),
    ],
)
def test_the_newest_runs_logs(finished: Path, args: list[str], printed: list[str]) -> None:
    result = tfdist("logs", *args, folder=finished)
    assert result.code == 0, result.err
    assert result.out.splitlines() == [f"[rank {line[0]}]{line[1:]}" for line in printed]


def test_a_rank_that_there_is_not(finished: Path) -> None:
    result = tfdist("logs", "--rank-filter", "2", folder=finished)
    assert result.code == 2
    assert "the ranks of" in result.err
    assert "are 0 to 1" in result.err


def test_following_a_real_run_to_its_end(tmp_path: Path) -> None:
    with Command(["run", "--log-dir", "logs", script(tmp_path, WAIT)], tmp_path) as run:
        run.wait_for(tmp_path / "up*", 2)
        with Command(["logs", "-f", "logs"], tmp_path) as logs:
            assert logs.process.stdout is not None
            first = [logs.process.stdout.readline() for _ in range(4)]
            assert logs.process.poll() is None
            (tmp_path / "go").touch()
            result = logs.result()
        assert run.result().code == 0
    assert sorted(first) == [f"[rank {r}] {s} {r}\n" for r in "01" for s in ("err", "out")]
    assert sorted(result.out.splitlines()) == ["[rank 0] bye 0", "[rank 1] bye 1"]
    assert result.code == 0


def made_up_run(parent: Path, workers: int) -> Path:
    folder = parent / "logs"
    folder.mkdir()
    tasks = [{"task": f"worker:{index}"} for index in range(workers)]
    (folder / "plan.json").write_text(json.dumps({"run_dir": str(folder), "workers": tasks}))
    return folder


def worker_folder(folder: Path, attempt: int, rank: int = 0) -> Path:
    made = folder / f"attempt_{attempt}" / f"rank_{rank}"
    made.mkdir(parents=True)
    return made


def test_following_over_restarts(tmp_path: Path) -> None:
    folder = made_up_run(tmp_path, workers=1)
    lock = temp.lock(folder)
    assert lock is not None
    with Command(["logs", "-f", "logs"], tmp_path) as logs:
        assert logs.process.stdout is not None
        for attempt in (0, 1, 2, 10):
            with (worker_folder(folder, attempt) / "stdout.log").open("w") as log:
                for text in ("begins\nstill ", "goes on\n", "no end"):
                    log.write(text)
                    log.flush()
                    if text.endswith("\n"):
                        lines = [
                            logs.process.stdout.readline() for _ in range(2 + 2 * (attempt > 0))
                        ]
                        assert lines[-1] == "[rank 0] still goes on\n"
        os.close(lock)
        result = logs.result()
    assert result == Result(0, "[rank 0] no end\n", "")


def test_following_a_real_run_over_its_restarts(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import os, time\n"
        "attempt = os.environ['TFDIST_ATTEMPT']\n"
        "print('attempt', attempt)\n"
        "open('up' + attempt, 'w').close()\n"
        "while not os.path.exists('go' + attempt): time.sleep(0.01)\n"
        "raise SystemExit(attempt != '2')\n",
    )
    args = ["-n", "1", "--max-restarts", "2", "--restart-delay", "0", "--log-dir", "logs", name]
    with Command(["run", *args], tmp_path) as run:
        run.wait_for(tmp_path / "up0")
        with Command(["logs", "-f", "logs"], tmp_path) as logs:
            assert logs.process.stdout is not None
            for attempt in range(3):
                while logs.process.stdout.readline() != f"[rank 0] attempt {attempt}\n":
                    assert logs.process.poll() is None, "the following ended too soon"
                (tmp_path / f"go{attempt}").touch()
            assert logs.result().code == 0
        assert run.result().code == 0


def test_following_ends_when_another_run_takes_the_folder(tmp_path: Path) -> None:
    with Command(["run", "--log-dir", "logs", script(tmp_path, WAIT)], tmp_path) as run:
        run.wait_for(tmp_path / "up*", 2)
        with Command(["logs", "-f", "logs"], tmp_path) as logs:
            assert logs.process.stdout is not None
            logs.process.stdout.readline()
            os.kill(logs.process.pid, signal.SIGSTOP)  # so that it misses the first run's end
            (tmp_path / "go").touch()
            assert run.result().code == 0
            (tmp_path / "go").unlink()
            for path in tmp_path.glob("up*"):
                path.unlink()
            with Command(["run", "--log-dir", "logs", "train.py"], tmp_path) as second:
                second.wait_for(tmp_path / "up*", 2)
                os.kill(logs.process.pid, signal.SIGCONT)
                assert "bye 1" in logs.result().out


def test_ctrl_c_ends_following_quietly(tmp_path: Path) -> None:
    folder = made_up_run(tmp_path, workers=1)
    (worker_folder(folder, 0) / "stdout.log").write_text("hello\n")
    lock = temp.lock(folder)
    assert lock is not None
    with Command(["logs", "-f", "logs"], tmp_path) as logs:
        assert logs.process.stdout is not None
        first = logs.process.stdout.readline()
        os.kill(logs.process.pid, signal.SIGINT)
        os.close(lock)
        assert first == "[rank 0] hello\n"
        assert logs.result() == Result(-signal.SIGINT, "", "")


def test_asking_whether_a_run_is_live_does_not_keep_a_run_from_starting(tmp_path: Path) -> None:
    folder = made_up_run(tmp_path, workers=1)
    assert not temp.is_locked(folder)
    lock = temp.lock(folder)
    assert lock is not None
    assert temp.is_locked(folder)
    assert temp.lock(folder, tries=3) is None
    os.close(lock)
    assert not temp.is_locked(folder)


def test_bytes_that_are_not_utf_8_and_lines_that_are_redrawn(tmp_path: Path) -> None:
    folder = made_up_run(tmp_path, workers=1)
    (worker_folder(folder, 0) / "stdout.log").write_bytes(b"bad \xff byte\n10%\r100%\n")
    result = tfdist("logs", "logs", folder=tmp_path)
    assert result.out == "[rank 0] bad \ufffd byte\n[rank 0] 100%\n"


def test_noise_can_be_left_out(tmp_path: Path) -> None:
    folder = made_up_run(tmp_path, workers=1)
    noise = "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
    (worker_folder(folder, 0) / "stderr.log").write_text(f"{noise}\nhello\n")
    assert tfdist("logs", "--quiet-tf", "logs", folder=tmp_path).out == "[rank 0] hello\n"
    assert len(tfdist("logs", "logs", folder=tmp_path).out.splitlines()) == 2


def test_a_reader_that_leaves_early(tmp_path: Path) -> None:
    folder = made_up_run(tmp_path, workers=1)
    (worker_folder(folder, 0) / "stdout.log").write_text("hello\n" * 100_000)
    with Command(["logs", "logs"], tmp_path) as logs:
        assert logs.process.stdout is not None
        assert logs.process.stdout.readline() == "[rank 0] hello\n"
        logs.process.stdout.close()
        assert logs.process.wait(DEADLINE) == 1
        assert logs.process.stderr is not None
        assert "Traceback" not in logs.process.stderr.read()
