"""However a run ends, and whoever is killed, nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands import Command, script, tfdist


def test_a_reader_that_leaves_does_not_end_the_run(tmp_path: Path) -> None:
    name = script(tmp_path, "for n in range(200_000): print(n)\nopen('ended', 'w').close()")
    with Command(["run", "-n", "1", "--log-dir", "logs", name], tmp_path) as command:
        assert command.process.stdout is not None
        command.process.stdout.readline()
        command.process.stdout.close()
        assert command.process.wait(60) == 0
    assert (tmp_path / "ended").exists()
    log = (tmp_path / "logs/attempt_0/rank_0/stdout.log").read_text()
    assert log.endswith("199999\n")


def test_sigterm_that_is_swallowed_is_followed_by_sigkill(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)",
    )
    begin = time.monotonic()
    assert tfdist("run", "--timeout", "0.5", "--grace", "0.5", name, folder=tmp_path).code == 124
    assert time.monotonic() - begin < 20


GIL_HOLDER = "import re; re.match(r'(a+)+$', 'a' * 60 + 'b')"


@pytest.mark.parametrize(
    "body",
    ["time.sleep(60)", GIL_HOLDER, "signal.pthread_sigmask(0, range(1, 65)); time.sleep(60)"],
    ids=["asleep", "holding the interpreter's lock", "blocking every signal"],
)
def test_sigkill_of_the_launcher_leaves_nothing(tmp_path: Path, body: str) -> None:
    name = script(
        tmp_path,
        "import os, signal, subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('up-' + os.environ['TFDIST_RANK'], 'w').close()\n" + body,
    )
    with Command(["run", name], tmp_path) as command:
        command.wait_for(tmp_path / "up-*", 2)
        command.wait_for_processes(5)
        command.process.kill()
        command.process.wait()
        command.assert_nothing_lives()


def test_a_worker_takes_its_own_children_with_it(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])",
    )
    assert tfdist("run", name, folder=tmp_path).code == 0


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_to_the_launcher(tmp_path: Path, signum: int, code: int) -> None:
    name = script(
        tmp_path,
        "import os, time\n"
        "open('up-' + os.environ['TFDIST_RANK'], 'w').close()\n"
        "try: time.sleep(60)\n"
        "finally: open('clean-' + os.environ['TFDIST_RANK'], 'w').close()\n",
    )
    with Command(["run", name], tmp_path) as command:
        command.wait_for(tmp_path / "up-*", 2)
        command.process.send_signal(signum)
        result = command.result()
        command.assert_nothing_lives()
    assert result.code == code
    assert "Traceback" not in result.err
    cleaned = len(list(tmp_path.glob("clean-*")))
    assert cleaned == (2 if signum == signal.SIGINT else 0)


def test_ctrl_c_before_the_workers_are_up(tmp_path: Path) -> None:
    name = script(tmp_path, "import time; time.sleep(60)")
    for delay in (0.05, 0.1, 0.15, 0.2, 0.3):
        with Command(["run", "--grace", "1", name], tmp_path) as command:
            time.sleep(delay)
            command.process.send_signal(signal.SIGINT)
            # 1: Python itself was still starting
            assert command.result().code in (130, -signal.SIGINT, 1)
            command.assert_nothing_lives()


def test_a_stalled_reader_does_not_keep_the_launcher_alive(tmp_path: Path) -> None:
    name = script(tmp_path, "while True: print('x' * 1000)")
    with Command(["run", "-n", "1", "--timeout", "1", name], tmp_path) as command:
        assert command.process.wait(30) == 124
        command.assert_nothing_lives()


def test_workers_with_their_files_closed_die_with_the_launcher(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import os, time\nopen('up-' + os.environ['TFDIST_RANK'], 'w').close()\n"
        "os.closerange(3, 256); time.sleep(60)",
    )
    with Command(["run", name], tmp_path) as command:
        command.wait_for(tmp_path / "up-*", 2)
        time.sleep(0.2)
        command.process.kill()
        command.process.wait()
        command.assert_nothing_lives()


def test_temp_files_of_workers_go_with_the_run(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import os, tempfile\n"
        "tempfile.mkstemp(); open('up', 'w').close()\n"
        "import time; time.sleep(60)",
    )
    home = tmp_path / "tmp" / f"tfdist-{os.getuid()}"
    assert tfdist("run", "-n", "1", "--timeout", "1", name, folder=tmp_path).code == 124
    assert not list(home.glob("tmp-*"))
    (tmp_path / "up").unlink()
    with Command(["run", "-n", "1", name], tmp_path) as command:
        command.wait_for(tmp_path / "up")
        command.process.kill()
    assert list(home.glob("tmp-*"))
    assert tfdist("run", "-n", "1", script(tmp_path, ""), folder=tmp_path).code == 0
    assert not list(home.glob("tmp-*"))


def test_a_parent_that_ignores_sigchld_does_no_harm(tmp_path: Path) -> None:
    name = script(tmp_path, "")
    done = subprocess.run(
        [sys.executable, "-c", _IGNORING, sys.executable, "-m", "tfdist_kit.cli", "run", name],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


_IGNORING = """\
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_ctrl_c_between_the_starts_of_many_workers(tmp_path: Path) -> None:
    name = script(tmp_path, "import time; time.sleep(60)")
    with Command(["run", "-n", "40", "--grace", "1", name], tmp_path) as command:
        while len(command.living()) < 5:
            time.sleep(0.01)
        command.process.send_signal(signal.SIGINT)
        result = command.result()
        command.assert_nothing_lives()
    assert result.code == 130, result.err
