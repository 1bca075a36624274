"""A worker that leaves fast loses nothing that the interpreter's own teardown would have saved."""

from __future__ import annotations

import gzip
import os
import signal
from pathlib import Path

import pytest

from tests.commands import Command, script, tfdist
from tests.launcher.histories import History
from tests.launcher.test_run import SERVE
from tfdist_kit.launcher.messages import Exited, Release, Said
from tfdist_kit.launcher.supervisor import LEAVE_WAIT

LEAVES_THINGS_OPEN = """\
import atexit, csv, gzip, io, threading, time, weakref, zipfile
text = open("text", "w"); text.write("kept")
inside = {"file": open("inside", "wb")}; inside["file"].write(b"kept")
packed = gzip.open("packed.gz", "wt"); packed.write("kept")
archive = zipfile.ZipFile("archive.zip", "w"); archive.writestr("a", "kept")
def uses(): return archive, packed, text
import held
held.file = open("held", "w"); held.file.write("kept")
def forever():
    file = open("generated", "w"); file.write("kept")
    yield file
kept = forever(); next(kept)
import json
class Noted:
    def __init__(self, number): self.number = number
    def __del__(self): print(f"finalized: {json.dumps(self.number)}", flush=True)
noted = Noted(1)
cycle = Noted(2); cycle.itself = cycle
weakref.finalize(forever, print, "weakly finalized")
atexit.register(print, "registered first")
atexit.register(print, "registered last")
def late():
    time.sleep(0.2)
    print("the thread has ended")
threading.Thread(target=late).start()
print("no newline", end="")
"""
BUSY_THREAD = """
state = {"n": 0}
def busy():
    from os import _exit
    while True:
        try: state["n"] += 1; time.sleep(0.0001)
        except BaseException: _exit(7)
threading.Thread(target=busy, daemon=True).start()
"""
FILES = ("text", "inside", "held", "generated")


@pytest.mark.parametrize(
    ("way", "more"),
    [("--fast-exit", ""), ("--fast-exit", BUSY_THREAD), ("--no-fast-exit", "")],
    ids=["fast", "fast, beside a busy thread", "as Python does"],
)
def test_what_is_left_open_is_not_lost(tmp_path: Path, way: str, more: str) -> None:
    (tmp_path / "held.py").touch()
    name = script(tmp_path, LEAVES_THINGS_OPEN + more)
    result = tfdist("run", "-n", "1", way, name, folder=tmp_path)
    assert result.code == 0, result.err
    assert "Traceback" not in result.err
    assert {name: (tmp_path / name).read_text() for name in FILES} == dict.fromkeys(FILES, "kept")
    assert gzip.decompress((tmp_path / "packed.gz").read_bytes()) == b"kept"
    assert more or (tmp_path / "archive.zip").stat().st_size > 50
    lines = [line.removeprefix("[rank 0] ") for line in result.out.splitlines()]
    first = ["no newlinethe thread has ended", "registered last", "registered first"]
    assert [line for line in lines if line != "weakly finalized"][:3] == first
    assert "weakly finalized" in lines
    assert more or sorted(lines)[0:2] == ["finalized: 1", "finalized: 2"]


def test_summaries_are_written_as_by_a_full_teardown(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import os, tensorflow as tf\n"
        "tf.summary.create_file_writer(os.environ['WAY']).set_as_default()\n"
        "tf.summary.write('a', 1.0, step=0)\n",
    )
    sizes = []
    for way in ("--fast-exit", "--no-fast-exit"):
        assert tfdist("run", "-n", "1", "--env", f"WAY={way}", way, name, folder=tmp_path).code == 0
        [events] = (tmp_path / way).iterdir()
        sizes.append(events.stat().st_size)
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("way", ["--fast-exit", "--no-fast-exit"])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("sys.exit('no data')", 1),
        ("raise ValueError", 1),
        ("raise KeyboardInterrupt", 130),
        ("os.close(1); print('x', end='')", 120),
        ("sys.stdout = None", 0),
    ],
)
def test_the_exit_code_is_pythons_own(tmp_path: Path, way: str, body: str, code: int) -> None:
    name = script(tmp_path, "import os, sys\n" + body)
    buffered = {"PYTHONUNBUFFERED": ""}
    assert tfdist("run", "-n", "1", way, name, folder=tmp_path, env=buffered).code == code


def test_a_worker_waits_for_its_peers_before_it_leaves(tmp_path: Path) -> None:
    body = (
        f"{SERVE}server.listen()\nimport atexit, time\n"
        "atexit.register(lambda: print('left at', time.monotonic()))\n"
        "if os.environ['TFDIST_RANK'] == '1': time.sleep(1)\n"
        "print('ended at', time.monotonic())\n"
    )
    result = tfdist("run", script(tmp_path, body), folder=tmp_path)
    assert result.code == 0, result.err
    at = {line[:15]: float(line.split()[-1]) for line in result.out.splitlines()}
    assert at["[rank 0] left a"] >= at["[rank 1] ended "]


def test_a_waiting_worker_is_let_go_when_its_peer_dies(tmp_path: Path) -> None:
    body = (
        f"{SERVE}server.listen()\nimport time\n"
        "if os.environ['TFDIST_RANK'] == '1':\n"
        "    open('pid-' + str(os.getpid()), 'w').close(); time.sleep(60)\n"
    )
    args = ["run", "--log-dir", "logs", "--grace", "60", script(tmp_path, body)]
    with Command(args, tmp_path) as command:
        command.wait_for(tmp_path / "pid-*")
        [pid] = tmp_path.glob("pid-*")
        os.kill(int(pid.name.removeprefix("pid-")), signal.SIGKILL)
        assert command.result().code == 137


def releases(history: History) -> list[tuple[float, int]]:
    return [(now, act.rank) for now, act in history.actions if isinstance(act, Release)]


def test_the_finished_leave_together() -> None:
    history = History().all_join(1).at(2, Said(0, "finished")).at(3, Said(1, "finished"))
    assert releases(history) == [(3, 0), (3, 1)]


@pytest.mark.parametrize("end", [Said(1, "failed"), Exited(1, 0), Exited(1, -9)])
def test_the_finished_do_not_wait_for_who_is_gone(end: Said | Exited) -> None:
    history = History().all_join(1).at(2, Said(0, "finished")).at(3, end)
    assert releases(history) == [(3, 0)]


def test_the_finished_do_not_wait_for_the_evaluator() -> None:
    history = History(("worker:0", "evaluator:0")).at(1, Said(0, "joined"), Said(1, "running"))
    assert releases(history.at(2, Said(0, "finished"))) == [(2, 0)]


def test_the_finished_wait_only_so_long_for_a_peer_that_runs_on_alone() -> None:
    history = History().all_join(1).at(2, Said(0, "finished")).at(100)
    assert releases(history) == [(2 + LEAVE_WAIT, 0)]


def test_the_finished_are_let_go_when_the_rest_is_ended() -> None:
    tasks = ("worker:0", "worker:1", "worker:2")
    history = History(tasks).all_join(1).at(2, Said(0, "finished")).at(2.5, Exited(1, -9)).at(60)
    assert releases(history) == [(2 + LEAVE_WAIT, 0)]
