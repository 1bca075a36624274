"""Run a function in TensorFlow workers on this machine, each in its own process.

A test module imports the fixture ``server`` and calls
``run_workers("tests.adapters.test_x:fn", workers=2, arg=1)``. The fixture starts one server
process that imports TensorFlow and Keras but runs no op; each cluster is forked from it, so
that TensorFlow is imported once and not once per worker. Results come back pickled over pipes in
rank order. Every worker is killed when all have answered, shortly after one has failed, or at the
deadline: TensorFlow swallows SIGTERM and waits for ever for a missing worker. The pytest process
never imports TensorFlow.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from typing import IO, Any, NamedTuple, NoReturn

import pytest

_server: subprocess.Popen[bytes] | None = None
_log: IO[bytes] | None = None


class Job(NamedTuple):
    """What one cluster runs: ``function`` is ``module:name``; each layout entry is one task."""

    function: str
    layout: tuple[str, ...]
    timeout: float
    kwargs: dict[str, Any]


def run_workers(
    function: str, *, workers: int = 2, timeout: float = 180, **kwargs: Any
) -> list[Any]:
    """Run ``function`` in each of ``workers`` workers; with 0, in one process without a cluster."""
    return run_cluster(function, ("worker",) * workers, timeout=timeout, **kwargs)


def run_cluster(
    function: str, layout: tuple[str, ...], *, timeout: float = 180, **kwargs: Any
) -> list[Any]:
    """Run ``function`` in one process for each task type in ``layout``; results in that order."""
    assert _server, "import the fixture `server` into the test module"
    assert _server.stdin
    assert _server.stdout
    pickle.dump(Job(function, layout, timeout, kwargs), _server.stdin)
    _server.stdin.flush()
    results: list[tuple[bool, Any]] = pickle.load(_server.stdout)
    failures = [f"rank {rank}: {value}" for rank, (ok, value) in enumerate(results) if not ok]
    if failures:
        raise AssertionError("\n".join([f"{function} failed", *failures, _log_tail()]))
    return [value for _, value in results]


@pytest.fixture(scope="session", autouse=True)
def server() -> Iterator[None]:
    """The process that workers are forked from, for as long as pytest runs."""
    global _server, _log
    if _server is not None:  # started for another test module that imports this fixture
        yield
        return
    with tempfile.TemporaryFile() as _log:
        _server = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=_log,
            env=_environment(),
        )
        yield
        try:
            _server.communicate(timeout=30)
        finally:
            _server.kill()
            _server = None


def _environment() -> dict[str, str]:
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "1", "CUDA_VISIBLE_DEVICES": ""}
    alike = {"KERAS_BACKEND": "tensorflow", "TF_ENABLE_ONEDNN_OPTS": "0"}
    return (
        {name: value for name, value in os.environ.items() if name != "TF_CONFIG"} | quiet | alike
    )


def _log_tail() -> str:
    assert _log
    size = os.fstat(_log.fileno()).st_size
    return os.pread(_log.fileno(), 3000, max(0, size - 3000)).decode(errors="replace")


def _serve() -> None:
    """Answer jobs from stdin until it closes."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what workers print belongs to the log, not to the replies
    for module in ("tensorflow", "keras", "tf_keras", "tensorflow_datasets"):
        importlib.import_module(module)
    while True:
        try:
            job: Job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(_run(job), replies)
        replies.flush()


def _run(job: Job) -> list[tuple[bool, Any]]:
    held = [_held_port() for _ in job.layout]
    cluster: dict[str, list[str]] = {}
    tasks = []
    for kind, port in zip(job.layout, held, strict=True):
        addresses = cluster.setdefault(kind, [])
        tasks.append({"type": kind, "index": len(addresses)})
        addresses.append(f"localhost:{port.getsockname()[1]}")
    configs = [json.dumps({"cluster": cluster, "task": task}) for task in tasks] or [""]
    workers = [_fork(job, config) for config in configs]
    try:
        return _collect([pipe for _, pipe in workers], time.monotonic() + job.timeout)
    finally:
        for pid, _ in workers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for port in held:
            port.close()


def _held_port() -> socket.socket:
    """A port that is ours until the cluster ends; gRPC may bind it too, for we do not listen."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("localhost", 0))
    return held


def _fork(job: Job, config: str) -> tuple[int, int]:
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(readable)
        _work(job, config, writable)
    os.close(writable)
    return pid, readable


def _work(job: Job, config: str, writable: int) -> NoReturn:
    try:
        if config:
            os.environ["TF_CONFIG"] = config
        module, name = job.function.split(":")
        answer = (True, getattr(importlib.import_module(module), name)(**job.kwargs))
    except BaseException:
        answer = (False, traceback.format_exc())
    with os.fdopen(writable, "wb") as pipe:
        pickle.dump(answer, pipe)
    while True:  # stay alive: a worker that leaves early breaks its peers' last collective
        signal.pause()


def _collect(pipes: list[int], deadline: float) -> list[tuple[bool, Any]]:
    """Read every worker's answer; peers of a failed worker get a short time to fail, too.

    Standard input closes when pytest is gone; nobody waits for an answer then.
    """
    received = dict.fromkeys(pipes, b"")
    with selectors.DefaultSelector() as selector:
        for pipe in (0, *pipes):
            selector.register(pipe, selectors.EVENT_READ)
        while len(selector.get_map()) > 1 and time.monotonic() < deadline:
            for key, _ in selector.select(max(0.0, deadline - time.monotonic())):
                if key.fd == 0:
                    raise EOFError("pytest has ended")
                chunk = os.read(key.fd, 1 << 16)
                received[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fd)
                    if not _answer(received[key.fd])[0]:
                        deadline = min(deadline, time.monotonic() + 2)
    for pipe in pipes:
        os.close(pipe)
    return [_answer(data) for data in received.values()]


def _answer(data: bytes) -> tuple[bool, Any]:
    try:
        answer: tuple[bool, Any] = pickle.loads(data)
    except (EOFError, pickle.UnpicklingError):
        return (False, "no answer: still running at the deadline, or died")
    return answer


if __name__ == "__main__":
    _serve()
