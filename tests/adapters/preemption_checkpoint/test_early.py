"""Notices before there is a handler: the process leaves at once, with a code that stays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.adapters.cluster import cluster
from tfdist_kit import WorkerLostError

PROMPT = 10.0
"""Far below what waiting for a peer, or the interpreter's teardown, could take."""


@contextmanager
def program(text: str, *prefix: str) -> Iterator[subprocess.Popen[str]]:
    """A program that has printed a line; it is killed if the test does not end it."""
    command = (*prefix, sys.executable, "-c", textwrap.dedent(text))
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    assert process.stdout is not None
    rest = process.stdout.read()
    return process.wait(PROMPT), rest


WATCHES = """
    import atexit, signal, sys, time
    import tfdist_kit
    tfdist_kit.watch_preemption({arguments})
    atexit.register(print, "at exit")
    try:
        print("ready", flush=True)
        {act}
    finally:
        print("unwound")
"""


@pytest.mark.parametrize(
    ("arguments", "signum", "code"),
    [("", signal.SIGTERM, 42), ("(signal.SIGUSR1,), 7", signal.SIGUSR1, 7)],
)
def test_the_program_unwinds_and_the_code_stays(arguments: str, signum: int, code: int) -> None:
    with program(WATCHES.format(arguments=arguments, act="time.sleep(60)")) as process:
        process.send_signal(signum)
        assert ended(process) == (code, "unwound\nat exit\n")


@pytest.mark.parametrize(
    "act",
    [
        "exec('while True:\\n try: time.sleep(60)\\n except SystemExit: pass')",
        "signal.pthread_sigmask(signal.SIG_BLOCK, [10]); signal.sigwait([10])",
    ],
    ids=["swallows SystemExit", "is stuck in native code"],
)
def test_a_program_that_does_not_unwind_is_ended(act: str) -> None:
    with program(WATCHES.format(arguments="", act=act)) as process:
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 42


@pytest.mark.parametrize(
    "act",
    [
        "signal.set_wakeup_fd(-1); signal.raise_signal(signal.SIGTERM); time.sleep(5)",
        "import asyncio; loop = asyncio.new_event_loop(); "
        "loop.add_signal_handler(signal.SIGUSR2, print); "
        "loop.call_soon(signal.raise_signal, signal.SIGTERM); "
        "loop.run_until_complete(asyncio.sleep(5))",
    ],
    ids=["none is left", "asyncio's own"],
)
def test_a_notice_is_heard_without_the_wake_up_descriptor(act: str) -> None:
    with program(WATCHES.format(arguments="", act=act)) as process:
        assert ended(process) == (42, "unwound\nat exit\n")


def test_what_a_forked_child_is_told_is_not_told_to_its_parent() -> None:
    act = (
        "import multiprocessing; child = multiprocessing.get_context('fork')"
        ".Process(target=time.sleep, args=(60,)); child.start(); child.terminate(); child.join(); "
        "time.sleep(0.3); print(child.exitcode); sys.exit(3)"
    )
    with program(WATCHES.format(arguments="", act=act)) as process:
        assert ended(process) == (3, "-15\nunwound\nat exit\n")


def test_as_the_first_process_of_a_container() -> None:
    """It has no default action for SIGTERM."""
    unshare = ("unshare", "--pid", "--fork", "--kill-child", "--map-root-user", "--mount-proc")
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"]).returncode:
        pytest.skip("this machine allows no pid namespace")
    with program(WATCHES.format(arguments="", act="time.sleep(60)"), *unshare) as process:
        pid = int(_only_child(process.pid))
        os.kill(pid, signal.SIGTERM)
        assert ended(process) == (42, "unwound\nat exit\n")


def _only_child(pid: int) -> str:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        [child] = file.read().split()
    return child


def joins_alone(watches: bool) -> None:
    """Wait for a peer that does not come, and be told to go."""
    import tfdist_kit

    if watches:
        tfdist_kit.watch_preemption()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    tfdist_kit.multi_worker_mirrored(join_timeout=60, keras=False)


@pytest.mark.parametrize(("watches", "code"), [(False, -signal.SIGTERM), (True, 42)])
def test_a_worker_that_waits_for_its_peers_can_be_told_to_go(watches: bool, code: int) -> None:
    """TensorFlow holds the interpreter's lock there, and swallows the signal."""
    with cluster(2) as workers:
        [told] = workers.run_each(joins_alone, watches, ranks=[0], timeout=30).ranks
    assert isinstance(told.lost, WorkerLostError)
    assert told.lost.returncode == code
