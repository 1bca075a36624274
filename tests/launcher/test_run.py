"""``tfdist run`` with real processes, seen from outside; the workers need no TensorFlow here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import script, tfdist

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


def test_the_time_limit(tmp_path: Path) -> None:
    name = script(tmp_path, "import time; print('still here', flush=True); time.sleep(60)")
    result = tfdist("run", "--timeout", "0.8", name, folder=tmp_path)
    assert result.code == 124
    assert "the time limit of 0.8 s was over (--timeout)" in result.err
    assert "still here" in result.err  # the last lines of the workers


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
