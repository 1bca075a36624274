"""``tfdist run`` with real processes, seen from outside; the workers need no TensorFlow here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands import Command, script, tfdist

WHO_AM_I = """\
import json, os, pickle, sys, threading
class Mine: pass
main = sys.modules["__main__"]
print(json.dumps({
    "argv": sys.argv, "name": __name__, "file": __file__, "path": sys.path, "cwd": os.getcwd(),
    "package": __package__, "main": main.__dict__ is globals(), "doc": __doc__,
    "pickle": type(pickle.loads(pickle.dumps(Mine()))) is Mine,
    "threads": threading.active_count(), "flags": list(sys.flags),
}))
"""
SERVE = """\
import json, os, socket
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
address = config["cluster"][task["type"]][task["index"]]
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("", int(address.rpartition(":")[2])))
"""
"""The start of a script that stands for TensorFlow: it can listen on its own port."""


@pytest.mark.parametrize("way", [["train.py"], ["-m", "train"]], ids=["script", "module"])
def test_a_worker_sees_what_a_fresh_interpreter_shows(tmp_path: Path, way: list[str]) -> None:
    script(tmp_path, WHO_AM_I)
    bare = subprocess.run(
        [sys.executable, *way, "--x", "1"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    result = tfdist("run", "-n", "1", *way, "--x", "1", folder=tmp_path)
    assert result.code == 0, result.err
    assert json.loads(result.out.removeprefix("[rank 0] ")) == json.loads(bare.stdout)


def test_a_file_of_the_working_directory_does_not_hide_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('shadowed')")
    (tmp_path / "sub").mkdir()
    name = script(tmp_path, "import json; print(json.dumps(1))", "sub/train.py")
    result = subprocess.run(
        [sys.executable, "-c", _LAUNCH, name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "[rank 0] 1\n"), result.stderr


_LAUNCH = """\
import sys
sys.path.remove("")
from tfdist_kit.cli.main import main, parse
sys.exit(main(parse(["tfdist", "run", "-n", "1", *sys.argv[1:]])))
"""


@pytest.mark.parametrize(
    ("body", "code", "told"),
    [
        ("raise ValueError('bad row 17')", 1, r"rank 1 (worker:1) raised ValueError: bad row 17"),
        ("sys.exit(3)", 3, "rank 1 (worker:1) called sys.exit(3) at train.py:4"),
        ("sys.exit('no data')", 1, "called sys.exit(no data)"),
        ("os._exit(7)", 7, "left with exit code 7 without an exception"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was killed by SIGKILL"),
        ("os.abort()", 134, "was killed by SIGABRT"),
        ("import nonsense_module", 1, "raised ModuleNotFoundError: No module named"),
    ],
)
def test_one_worker_that_fails(tmp_path: Path, body: str, code: int, told: str) -> None:
    name = script(
        tmp_path,
        "import os, signal, sys, time\n"
        "if os.environ['TFDIST_RANK'] == '0': time.sleep(60)\n"
        "print('last words', flush=True)\n" + body,
    )
    result = tfdist("run", "--grace", "2", name, folder=tmp_path)
    assert result.code == code
    assert told in result.err
    if "Fatal Python error" not in result.err:  # that dump shows every frame there is
        assert "tfdist_kit" not in result.err


def test_a_script_that_cannot_be_compiled(tmp_path: Path) -> None:
    result = tfdist("run", "-n", "1", script(tmp_path, "x ="), folder=tmp_path)
    assert result.code == 1
    assert "raised SyntaxError" in result.err


def joined_script(folder: Path, body: str) -> str:
    """A script in which all workers have joined the cluster before `body` runs."""
    return script(folder, f"{SERVE}server.listen()\nimport time\ntime.sleep(0.5)\n{body}")


def test_the_first_failure_is_told_and_later_ones_are_consequences(tmp_path: Path) -> None:
    body = (
        "class UnavailableError(Exception): pass\n"
        "if os.environ['TFDIST_RANK'] == '1':\n"
        "    raise KeyError('the cause')\n"
        "try: time.sleep(0.5)\n"
        "finally: raise UnavailableError('Collective ops is aborted by: Socket closed')\n"
    )
    result = tfdist("run", joined_script(tmp_path, body), folder=tmp_path)
    assert result.code == 1
    assert "FAILED with exit code 1" in result.err
    assert "rank 1 (worker:1) raised KeyError: 'the cause'" in result.err
    assert "consequence: rank 0 (worker:0) raised UnavailableError" in result.err


def test_a_failed_worker_may_finish_its_own_exit(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import atexit, os, time\n"
        "if os.environ['TFDIST_RANK'] == '0': time.sleep(60)\n"
        "atexit.register(lambda: (time.sleep(0.5), open('cleaned-up', 'w').close()))\n"
        "raise ValueError\n",
    )
    assert tfdist("run", name, folder=tmp_path).code == 1
    assert (tmp_path / "cleaned-up").exists()


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
    for _ in range(12):
        assert tfdist("run", "-n", "1", name, folder=tmp_path).code == 0
    [parent] = (tmp_path / "tmp").iterdir()
    assert len(list(parent.iterdir())) == 10


def test_output_is_prefixed_and_can_be_filtered(tmp_path: Path) -> None:
    name = script(tmp_path, "import os; print('I am', os.environ['TFDIST_RANK'])")
    both = tfdist("run", name, folder=tmp_path)
    assert sorted(both.out.splitlines()) == ["[rank 0] I am 0", "[rank 1] I am 1"]
    one = tfdist("run", "--rank-filter", "1", name, folder=tmp_path)
    assert one.out == "[rank 1] I am 1\n"
    none = tfdist("run", "--no-tee", "--log-dir", "logs", name, folder=tmp_path)
    assert none.out == ""
    assert (tmp_path / "logs/attempt_0/rank_1/stdout.log").read_text() == "I am 1\n"


def test_no_line_is_lost_or_torn(tmp_path: Path) -> None:
    lines = 20_000
    name = script(
        tmp_path,
        "import os\n"
        f"for number in range({lines}): print(os.environ['TFDIST_RANK'], number, 'ü' * 30)\n",
    )
    result = tfdist("run", "-n", "3", "--log-dir", "logs", name, folder=tmp_path)
    shown = result.out.splitlines()
    for rank in range(3):
        expected = [f"{rank} {number} {'ü' * 30}" for number in range(lines)]
        prefix = f"[rank {rank}] "
        assert [line[len(prefix) :] for line in shown if line.startswith(prefix)] == expected
        log = tmp_path / f"logs/attempt_0/rank_{rank}/stdout.log"
        assert log.read_text(encoding="utf-8").splitlines() == expected
    assert len(shown) == 3 * lines


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


def test_the_time_limit(tmp_path: Path) -> None:
    name = script(tmp_path, "import time; print('still here', flush=True); time.sleep(60)")
    result = tfdist("run", "--timeout", "0.8", name, folder=tmp_path)
    assert result.code == 124
    assert "the time limit of 0.8 s was over (--timeout)" in result.err
    assert "still here" in result.err  # the last lines of the workers


def test_sigterm_that_is_swallowed_is_followed_by_sigkill(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)",
    )
    begin = time.monotonic()
    assert tfdist("run", "--timeout", "0.5", "--grace", "0.5", name, folder=tmp_path).code == 124
    assert time.monotonic() - begin < 20


def test_a_worker_that_does_not_join_is_named(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        SERVE + "if task['index'] == 0: server.listen()\nimport time; time.sleep(60)",
    )
    result = tfdist("run", "--start-timeout", "1", "--grace", "1", name, folder=tmp_path)
    assert result.code == 124
    assert "rank 1 (worker:1) did not join the cluster within 1 s" in result.err


def test_a_worker_that_ends_without_joining_is_named(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        SERVE + "if task['index'] == 0: server.listen(); import time; time.sleep(60)",
    )
    result = tfdist("run", "--grace", "1", name, folder=tmp_path)
    assert result.code == 1
    assert "rank 1 (worker:1) ended with exit code 0 without joining the cluster" in result.err


def test_the_ports_are_held_and_can_be_listened_on(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        SERVE + "server.listen(); print(address)\n"
        "other = socket.socket(); other.bind(('', 0))\n"
        "assert other.getsockname()[1] != server.getsockname()[1]\n"
        "import time; time.sleep(0.5)",
    )
    result = tfdist("run", "-n", "4", name, folder=tmp_path)
    assert result.code == 0, result.err
    assert len(set(result.out.split())) == 4 + 2 + 3  # four addresses, "[rank", and "0]" to "3]"


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
        assert len(command.living()) == 5
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


def test_roles_and_environment(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import json, os\n"
        "config = json.loads(os.environ['TF_CONFIG'])\n"
        "print(config['task']['type'], config['task']['index'], sorted(config['cluster']),\n"
        "      os.environ['COLOUR'])",
    )
    args = ["--chief", "--evaluator", "-n", "1", "--env", "COLOUR=blue"]
    result = tfdist("run", *args, name, folder=tmp_path)
    jobs = "['chief', 'evaluator', 'worker']"
    assert sorted(result.out.splitlines()) == [
        f"[rank 0] chief 0 {jobs} blue",
        f"[rank 1] worker 0 {jobs} blue",
        f"[rank 2] evaluator 0 {jobs} blue",
    ]


def test_proxies_are_kept_from_the_local_cluster(tmp_path: Path) -> None:
    name = script(tmp_path, "import os; print(os.environ['no_proxy'], os.environ['no_grpc_proxy'])")
    env = {"http_proxy": "http://127.0.0.1:9", "no_proxy": "a.example"}
    result = tfdist("run", "-n", "1", name, folder=tmp_path, env=env)
    assert result.out == "[rank 0] a.example a.example,localhost,127.0.0.1,::1\n"


def test_workers_have_no_input_and_no_inherited_files(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import os, sys\n"
        "print(repr(sys.stdin.read()))\n"
        "import subprocess\n"
        "print(subprocess.check_output('ls /proc/self/fd', shell=True).split())\n",
    )
    reader, writer = os.pipe()
    os.close(reader)
    result = tfdist("run", "-n", "1", name, folder=tmp_path)
    os.close(writer)
    assert result.out.splitlines() == ["[rank 0] ''", "[rank 0] [b'0', b'1', b'2', b'3']"]


def test_too_few_file_descriptors_are_one_clear_error(tmp_path: Path) -> None:
    name = script(tmp_path, "import time; time.sleep(60)")
    result = subprocess.run(
        [
            "bash",
            "-c",
            f"ulimit -n 40; exec {sys.executable} -m tfdist_kit.cli run -n 9 {name}",
        ],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 2
    assert "9 workers need some 104 file descriptors in the launcher, and 40 are" in result.stderr
    assert "Traceback" not in result.stderr


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


def test_a_script_is_not_compiled_with_our_own_future_imports(tmp_path: Path) -> None:
    name = script(tmp_path, "def f(x: float): ...\nprint(f.__annotations__['x']('0.5'))")
    assert tfdist("run", "-n", "1", name, folder=tmp_path).out == "[rank 0] 0.5\n"


@pytest.mark.parametrize("body", ["sys.exit(0)", "sys.exit(3)", "raise ValueError('child')"])
def test_a_fork_of_a_worker_does_not_speak_for_it(tmp_path: Path, body: str) -> None:
    fork = f"import os, sys\nif os.fork() == 0: {body}\nos.wait(); print('parent fine')"
    name = joined_script(tmp_path, fork)
    result = tfdist("run", name, folder=tmp_path)
    assert (result.code, result.out.count("parent fine")) == (0, 2), result.err


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            "os.mkdir('d'); os.chdir('d'); os.rmdir('../d'); raise ValueError('homeless')",
            "raised ValueError: homeless",
        ),
        ("raise type('Mute', (Exception,), {'__str__': None})", "raised Mute: <no text"),
        ("raise KeyboardInterrupt", "raised KeyboardInterrupt at train.py:2"),
    ],
)
def test_nothing_hides_a_failure(tmp_path: Path, body: str, told: str) -> None:
    name = script(tmp_path, f"import os\n{body}")
    result = tfdist("run", "-n", "1", name, folder=tmp_path)
    assert result.code == (130 if "Keyboard" in body else 1)
    assert told in result.err
    assert "tfdist_kit" not in result.err


@pytest.mark.parametrize("code", [-1, 255, 256, 2**70])
def test_exit_codes_are_cut_as_python_does(tmp_path: Path, code: int) -> None:
    name = script(tmp_path, f"import sys; sys.exit({code})")
    bare = subprocess.run([sys.executable, name], cwd=tmp_path, check=False).returncode
    assert tfdist("run", "-n", "1", name, folder=tmp_path).code == bare


def test_a_very_long_deadline(tmp_path: Path) -> None:
    name = joined_script(tmp_path, "")
    assert tfdist("run", "--timeout", "1e9", name, folder=tmp_path).code == 0


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
