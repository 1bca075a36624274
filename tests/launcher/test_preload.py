"""A worker that is forked from a preloaded process is what a fresh interpreter would be."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Command, Result, script, tfdist
from tfdist_kit.launcher.start import preload
from tfdist_kit.launcher.start.spawn import Birth

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}
PRELOAD = ("run", "--start-method", "preload")
WHO_AM_I = """\
'''What this process is.'''
import atexit, faulthandler, gc, json, locale, multiprocessing, os, pickle, random, resource, signal
import sys, tempfile, threading, warnings
class Mine: pass
main = sys.modules["__main__"]
seen = {
    "argv": sys.argv, "name": __name__, "file": __file__, "path": sys.path, "cwd": os.getcwd(),
    "package": __package__, "main": main.__dict__ is globals(), "doc": __doc__,
    "mp_main": sys.modules.get("__mp_main__", main) is main,
    "pickle": type(pickle.loads(pickle.dumps(Mine()))) is Mine,
    "threads": [thread.name for thread in threading.enumerate()],
    "flags": list(sys.flags), "umask": os.umask(0o22), "stdin": sys.stdin.read(),
    "signals": {s.name: str(signal.getsignal(s)) for s in signal.valid_signals()
                if isinstance(s, signal.Signals)},
    "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "gc": [gc.isenabled(), gc.get_threshold()],
    "limits": resource.getrlimit(resource.RLIMIT_NOFILE),
    "out": [type(sys.stdout).__name__, sys.stdout.encoding, sys.stdout.errors],
    "err": [type(sys.stderr).__name__, sys.stderr.encoding, sys.stderr.errors],
    "recursion": sys.getrecursionlimit(), "locale": locale.setlocale(locale.LC_ALL),
    "hidden": [n for n in ("numpy", "numpy.linalg", "keras", "tensorflow") if n in sys.modules],
    "tempdir": tempfile.tempdir, "parent": multiprocessing.parent_process(),
    "warnings": [str(entry) for entry in warnings.filters],
    "environ": {n: v for n, v in os.environ.items() if n not in %r},
    "children": len(open("/proc/self/task/%%d/children" %% os.getpid()).read().split()),
}
print("SEEN", json.dumps(seen))
"""
OURS = ("TF_CONFIG", "TFDIST_RANK", "TFDIST_RUN_DIR", "TMPDIR", "_", "LC_CTYPE", "TFDIST_TEST_MARK")
AFTER = """\
import tensorflow as tf
import numpy as np
print("MORE", json.dumps({
    "os.environ": sorted(os.environ.keys() - {n for n in %r}),
    "same": tf is sys.modules["tensorflow"] and np is sys.modules["numpy"],
    "specs": [tf.__spec__.name, tf.__spec__.origin, np.__spec__.origin],
    "loader": type(tf.__loader__).__name__,
    "context": tf.executing_eagerly(),
    "hooks": len(sys.meta_path),
}))
"""
DRAWS = """\
import random, tempfile, uuid, multiprocessing
import numpy as np
import tensorflow as tf
if __name__ == "__main__":
    print("DRAWN", random.random())
    print("DRAWN", np.random.rand())
    print("DRAWN", np.random.default_rng().random())
    print("DRAWN", float(tf.random.uniform([])))
    print("DRAWN", uuid.uuid4())
    print("DRAWN", tempfile.mktemp())
    print("DRAWN", multiprocessing.current_process().authkey.hex())
"""


def told(result: Result, word: str) -> list[str]:
    return re.findall(rf"^\[rank \d+\] {word} (.*)$", result.out, re.MULTILINE)


def was_forked(folder: Path) -> bool:
    """Whether the only run in `folder` was made of forked workers to its end."""
    events = [json.loads(line) for line in (folder / "logs/events.jsonl").read_text().splitlines()]
    log = folder / "logs/preload.log"
    return log.exists() and not [event for event in events if event["event"] == "afresh"]


@pytest.mark.parametrize("way", [["train.py"], ["-m", "train"]], ids=["script", "module"])
def test_a_forked_worker_sees_what_a_fresh_interpreter_shows(
    tmp_path: Path, way: list[str]
) -> None:
    is_script = way == ["train.py"]  # what TensorFlow's import leads to is the same for both
    script(tmp_path, (WHO_AM_I + AFTER) % (OURS, OURS) if is_script else WHO_AM_I % (OURS,))
    env = QUIET if is_script else {**QUIET, **imitation(tmp_path)}
    seen: list[list[Any]] = []
    for method in ("fresh", "preload"):
        logs = f"{method}-logs"
        result = tfdist(
            "run", "-n", "1", "--log-dir", logs, "--start-method", method, *way, "--x", "1",
            folder=tmp_path, env=env,
        )  # fmt: skip
        assert result.code == 0, result.err
        assert (tmp_path / logs / "preload.log").exists() == (method == "preload")
        words = ("SEEN", "MORE") if is_script else ("SEEN",)
        seen.append([json.loads(*told(result, word)) for word in words])
    fresh, forked = seen
    for in_a_fork, in_a_fresh_one in zip(forked, fresh, strict=True):
        assert in_a_fork == in_a_fresh_one
    assert forked[0]["hidden"] == []


def test_every_worker_draws_its_own_random_numbers(tmp_path: Path) -> None:
    name = script(tmp_path, DRAWS)
    result = tfdist(*PRELOAD, "--log-dir", "logs", name, folder=tmp_path, env=QUIET)
    assert result.code == 0, result.err
    drawn = told(result, "DRAWN")
    assert len(set(drawn)) == len(drawn) == 14
    assert was_forked(tmp_path)


PROCESSES = """\
import multiprocessing, concurrent.futures, os, sys
def square(n): return n * n
if __name__ == "__main__":  # what is spawned reads this file anew, and need not import TensorFlow
    import tensorflow as tf
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.map(square, [3]))
    with concurrent.futures.ThreadPoolExecutor() as threads:
        print("threads", list(threads.map(square, [4])))
"""


def test_multiprocessing_works_in_a_forked_worker(tmp_path: Path) -> None:
    args = [*PRELOAD, "-n", "1", "--log-dir", "logs", script(tmp_path, PROCESSES)]
    result = tfdist(*args, folder=tmp_path, env=QUIET)
    assert result.code == 0, result.err
    assert [line.removeprefix("[rank 0] ") for line in result.out.splitlines()] == [
        "fork [9]",
        "spawn [9]",
        "threads [16]",
    ]
    assert was_forked(tmp_path)


FAILURES = [
    ("sys.exit(3)", 3, "called sys.exit(3) at train.py:3"),
    ("raise ValueError('bad row')", 1, "raised ValueError: bad row at train.py:3"),
    ("os._exit(7)", 7, "left with exit code 7"),
    ("os.kill(os.getpid(), 11)", 139, "was killed by SIGSEGV"),
    ("os.abort()", 134, "was killed by SIGABRT (native code gave up"),
]


def test_a_forked_worker_fails_as_any_other(tmp_path: Path) -> None:
    """Each attempt in another way; all are forked from the same process."""
    chosen = "exec(compile('\\n\\n' + ways[int(os.environ['TFDIST_ATTEMPT'])], __file__, 'exec'))"
    ways = [body for body, _, _ in FAILURES]
    name = script(tmp_path, f"import os, sys\nways = {ways}\nif 0: import tensorflow\n{chosen}\n")
    args = ["-n", "1", "--max-restarts", "4", "--restart-delay", "0", "--log-dir", "logs", name]
    result = tfdist(*PRELOAD, *args, folder=tmp_path)
    codes = [code for _, code, _ in FAILURES]
    assert result.code == codes[-1]
    events = map(json.loads, (tmp_path / "logs/events.jsonl").read_text().splitlines())
    assert [event["exit_code"] for event in events if event["event"] == "verdict"] == codes
    *lines, end = re.split(r"^tfdist: (?=attempt|FAILED)", result.err, flags=re.MULTILINE)[-5:]
    for told, (_, _, said) in zip([*lines, end], FAILURES, strict=True):
        assert said in told
    assert "Fatal Python error: Aborted" in result.err
    assert was_forked(tmp_path)


LOGS = """\
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s")
import tensorflow as tf
tf.get_logger().warning("once")
"""
SETS_UP_LOGGING = """\
import importlib.util, logging.config, sys
logging.config.dictConfig({
    "version": 1, "root": {"handlers": ["out"]},
    "handlers": {"out": {"class": "logging.StreamHandler", "stream": sys.stdout},
                 "file": {"class": "logging.FileHandler", "filename": "tf.log"}},
    "loggers": {"tensorflow": {"handlers": ["file"]}},
})
spec = importlib.util.find_spec("tensorflow")
print("SPEC", spec.origin == spec.loader.get_filename("tensorflow"), spec.has_location)
import tensorflow as tf
print("HANDLERS", [type(handler).__name__ for handler in tf.get_logger().handlers])
print("DISABLED", logging.getLogger("absl").disabled, logging.getLogger("h5py").disabled)
"""


def test_logging_that_is_set_up_before_the_import(tmp_path: Path) -> None:
    """By rank 0 in brief, and not doubled then; by rank 1 in full."""
    (tmp_path / "logs_0.py").write_text(LOGS)
    (tmp_path / "logs_1.py").write_text(SETS_UP_LOGGING)
    name = script(
        tmp_path,
        "import importlib, os\nimportlib.import_module(f\"logs_{os.environ['TFDIST_RANK']}\")\n",
    )
    result = tfdist(*PRELOAD, "--log-dir", "logs", name, folder=tmp_path, env=QUIET)
    assert result.code == 0, result.err
    assert (result.out.count("once"), result.err.count("once")) == (1, 0)
    assert told(result, "HANDLERS") == ["['FileHandler']"]
    assert told(result, "DISABLED") == ["False False"]
    assert told(result, "SPEC") == ["True True"]
    assert was_forked(tmp_path)


# When a fresh interpreter would import something else


SAYS_HOW = "print('FRESH', b'inside.worker' in open('/proc/self/cmdline', 'rb').read())\n"


def test_a_variable_set_by_the_script_itself(tmp_path: Path) -> None:
    body = (
        "import os\nos.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'\n"
        f"if 'GIVEN' in os.environ: import tensorflow\n{SAYS_HOW}"
    )
    result = tfdist("run", script(tmp_path, body), folder=tmp_path)
    assert result.code == 0, result.err
    assert told(result, "FRESH") == ["True", "True"]
    reason = "workers start in fresh interpreters: train.py:2 sets TF_CPP_MIN_LOG_LEVEL"
    assert result.err.count(reason) == 1
    env = ["--env", "TF_CPP_MIN_LOG_LEVEL=3", "--env", "GIVEN=1"]
    given = tfdist("run", *env, "--log-dir", "logs", "train.py", folder=tmp_path)
    assert told(given, "FRESH") == ["False", "False"]
    assert "fresh" not in given.err


DIFFERENCES = [
    ("os.environ['KERAS_MAX_EPOCHS'] = '9'", "the program sets KERAS_MAX_EPOCHS, which keras"),
    ("os.environ['KERAS_MAX_EPOCHS'] = '9'", "the program sets KERAS_MAX_EPOCHS, which keras"),
    ("del os.environ['TF_CPP_MIN_LOG_LEVEL']", "the program takes out TF_CPP_MIN_LOG_LEVEL"),
    (
        "import numpy\nos.environ['OMP_NUM_THREADS'] = '1'",
        "the program sets OMP_NUM_THREADS, which keras reads",
    ),
    ("import sys; sys.path.insert(0, 'vendored')", "search path gives keras as"),
    ("os.environ['HOME'] = os.getcwd()", "the program sets HOME, which keras reads"),
]
IMPORTS_KERAS = f"""\
import settings
if settings.rank in (0, 4) or not settings.is_fresh:
    import keras
    print("HAS", settings.rank, keras.config)
{SAYS_HOW}"""


def test_a_difference_that_shows_only_when_the_program_runs(tmp_path: Path) -> None:
    """Each rank makes another one, but for the first two; two of them import what they then see."""
    (tmp_path / "vendored/keras").mkdir(parents=True)
    (tmp_path / "vendored/keras/__init__.py").write_text("config = __file__")
    (tmp_path / "settings.py").write_text(
        "import os\nrank = int(os.environ['TFDIST_RANK'])\n"
        "is_fresh = b'inside.worker' in open('/proc/self/cmdline', 'rb').read()\n"
        f"exec({[body for body, _ in DIFFERENCES]}[rank])\n"
    )
    name = script(tmp_path, IMPORTS_KERAS)
    args = [*PRELOAD, "-n", str(len(DIFFERENCES)), "--log-dir", "logs", name]
    result = tfdist(*args, folder=tmp_path, env=QUIET)
    assert result.code == 0, result.err
    assert told(result, "FRESH") == ["True"] * len(DIFFERENCES)
    assert result.err.count("begin again in interpreters of their own: ") == 5
    for _, reason in DIFFERENCES:
        assert result.err.count(reason) == 1
    assert not was_forked(tmp_path)
    has = dict(line.split(maxsplit=1) for line in told(result, "HAS"))
    assert {rank: "vendored" in config for rank, config in has.items()} == {"0": False, "4": True}


def test_a_variable_set_after_the_import_changes_nothing(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import os\nimport numpy\nimport tensorflow\nos.environ['TF_CPP_MIN_LOG_LEVEL'] = '0'\n"
        f"import keras, numpy\n{SAYS_HOW}",
    )
    result = tfdist("run", "-n", "1", "--log-dir", "logs", name, folder=tmp_path, env=QUIET)
    assert told(result, "FRESH") == ["False"]
    assert result.err.count("tfdist: ") == 1


@pytest.mark.parametrize("hidden", ["fractions", "absl"])
def test_a_module_of_the_programs_own_that_hides_another(tmp_path: Path, hidden: str) -> None:
    (tmp_path / "src/requests").mkdir(parents=True)  # without an __init__.py it hides nothing
    (tmp_path / f"src/{hidden}.py").write_text("MINE = 1\n")
    text = f"if 0: import tensorflow\nimport {hidden}\n{hidden}.MINE\n{SAYS_HOW}"
    name = script(tmp_path, text, "src/train.py")
    args = [*PRELOAD, "-n", "1", "--log-dir", "logs", name]
    result = tfdist(*args, folder=tmp_path, env=imitation(tmp_path))
    assert result.code == 0, result.err
    assert told(result, "FRESH") == ["True"]
    assert f"has a module of its own called {hidden}" in result.err


def test_a_program_without_tensorflow_is_not_preloaded(tmp_path: Path) -> None:
    result = tfdist("run", "--log-dir", "logs", script(tmp_path, "import json"), folder=tmp_path)
    assert result.code == 0
    assert not (tmp_path / "logs/preload.log").exists()
    assert result.err.count("tfdist: ") == 1


def test_tensorflow_is_seen_behind_the_programs_own_modules(tmp_path: Path) -> None:
    (tmp_path / "lib/deep").mkdir(parents=True)
    (tmp_path / "lib/__init__.py").touch()
    (tmp_path / "lib/deep/model.py").write_text("import tensorflow as tf\n")
    name = script(tmp_path, f"from lib.deep import model\n{SAYS_HOW}")
    result = tfdist("run", "-n", "1", name, folder=tmp_path, env=QUIET)
    assert told(result, "FRESH") == ["False"]


# When something goes wrong


def test_a_tensorflow_that_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/tensorflow.py").write_text("raise ImportError('no such library')")
    name = script(tmp_path, "print('first')\nimport tensorflow\n")
    env = {"PYTHONPATH": f"{tmp_path / 'broken'}:{os.environ.get('PYTHONPATH', '')}"}
    result = tfdist("run", "-n", "1", name, folder=tmp_path, env=env)
    assert result.code == 1
    assert "fresh interpreters: preloading failed: ImportError: no such library" in result.err
    assert "rank 0 (worker:0) raised ImportError: no such library" in result.err
    assert result.out == "[rank 0] first\n"


def zygote(command: Command) -> int:
    ours = f"PPid:\t{command.process.pid}\n"  # its workers have the same command line
    for pid in command.living():
        proc = Path(f"/proc/{pid}")
        is_one = b"start.zygote" in (proc / "cmdline").read_bytes()
        if is_one and ours in (proc / "status").read_text():
            return pid
    raise AssertionError("there is no preloading process")


def wait_for_zygote(command: Command) -> int:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            return zygote(command)
        except (AssertionError, OSError):
            time.sleep(0.005)
    return zygote(command)


def imitation(folder: Path) -> dict[str, str]:
    """Variables with which TensorFlow is a small module, where only the processes matter."""
    (folder / "imitated").mkdir()
    (folder / "imitated/tensorflow.py").write_text("import absl, fractions\n")
    return {"PYTHONPATH": f"{folder / 'imitated'}:{os.environ.get('PYTHONPATH', '')}"}


SLEEPER = """\
import os, time
if 0: import tensorflow
open(f"up-{os.environ['TFDIST_RANK']}", "w").close()
time.sleep(float(os.environ.get("NAP", "60")))
"""


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_tensorflow_is_being_imported(
    tmp_path: Path, signum: int, code: int
) -> None:
    with Command([*PRELOAD, script(tmp_path, SLEEPER)], tmp_path) as command:
        wait_for_zygote(command)
        begin = time.monotonic()
        command.process.send_signal(signum)
        assert command.result().code == code
        assert time.monotonic() - begin < 2
        command.assert_nothing_lives()


@pytest.mark.parametrize("when", ["importing", "running"])
def test_sigkill_of_the_launcher_ends_the_preloading_process_too(tmp_path: Path, when: str) -> None:
    env = imitation(tmp_path) if when == "running" else {}
    with Command([*PRELOAD, script(tmp_path, SLEEPER)], tmp_path, env) as command:
        wait_for_zygote(command)
        if when == "running":
            command.wait_for(tmp_path / "up-*", 2)
        command.process.kill()
        command.process.wait()
        command.assert_nothing_lives()


def test_death_of_the_preloading_process_during_the_import(tmp_path: Path) -> None:
    args = ["run", "--start-method", "preload", "--env", "NAP=0", script(tmp_path, SLEEPER)]
    with Command(args, tmp_path) as command:
        os.kill(wait_for_zygote(command), signal.SIGKILL)
        result = command.result()
    assert result.code == 0, result.err
    assert "fresh interpreters: the preloading process has died" in result.err


def test_death_of_the_preloading_process_beside_its_workers(tmp_path: Path) -> None:
    args = [*PRELOAD, "--env", "NAP=1", script(tmp_path, SLEEPER)]
    with Command(args, tmp_path, imitation(tmp_path)) as command:
        command.wait_for(tmp_path / "up-*", 2)
        os.kill(zygote(command), signal.SIGKILL)
        result = command.result()
        command.assert_nothing_lives()
    assert result.code == 137
    assert "the preloading process has died beside its workers" in result.err


def test_a_preloading_process_that_is_stuck_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preload, "_ANSWER_SECONDS", 0.3)
    with (tmp_path / "log").open("wb") as log:
        preloaded = preload.Preloaded(["json"], dict(os.environ), log.fileno())
    with contextlib.closing(preloaded):
        assert preloaded.is_ready(20)
        os.kill(preloaded._process.pid, signal.SIGSTOP)
        orders = {"folder": str(tmp_path), "kind": "script", "target": os.devnull}
        birth = Birth(0, "rank 0", (os.devnull,), os.environ, {**orders, "fast_exit": True})
        worker = preloaded.spawn(birth)
        worker.release()
        deadline = time.monotonic() + 20
        while worker.returncode() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        worker.close()
    assert worker.returncode() == 0
    assert preloaded.trouble == "the preloading process has died"


def test_a_worker_that_dies_is_noticed_and_its_group_ended(tmp_path: Path) -> None:
    body = (
        "import os, subprocess, sys, time\nif 0: import tensorflow\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "if os.environ['TFDIST_RANK'] == '1': os.kill(os.getpid(), 9)\ntime.sleep(60)\n"
    )
    args = [*PRELOAD, "--log-dir", "logs", script(tmp_path, body)]
    result = tfdist(*args, folder=tmp_path, env=imitation(tmp_path))
    assert result.code == 137
    assert was_forked(tmp_path)
    assert "rank 1 (worker:1) was killed by SIGKILL" in result.err


def test_the_choice_is_in_the_plan(tmp_path: Path) -> None:
    name = script(tmp_path, "import keras, tensorflow_datasets\n")
    plan = json.loads(tfdist("run", "--dry-run", name, folder=tmp_path).out)
    assert plan["start"]["preload"] == ["tensorflow", "tensorflow_datasets"]
    done = subprocess.run(
        [sys.executable, "-c", _CHOOSE], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "there is a GPU (/dev/null), where preloading has not been proven safe\n"


_CHOOSE = """\
from tfdist_kit.launcher.start import start_method
print(start_method.choose("auto", "train.py", is_module=False, environ={}, gpus=["/dev/null"]).why)
"""
