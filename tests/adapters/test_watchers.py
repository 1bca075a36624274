"""Watchers of notices: against a local server that answers in every way, and on real files."""

from __future__ import annotations

import itertools
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.cluster import run_workers
from tests.adapters.metadata_server import Reply, Request, Server, serving
from tfdist_kit import UsageError
from tfdist_kit.adapters.preemption_checkpoint import watchers
from tfdist_kit.adapters.preemption_checkpoint.watchers.metadata import LIMIT
from tfdist_kit.adapters.preemption_checkpoint.watchers.on_aws import aws_spot_watcher
from tfdist_kit.adapters.preemption_checkpoint.watchers.on_azure import azure_watcher
from tfdist_kit.adapters.preemption_checkpoint.watchers.on_file import file_watcher
from tfdist_kit.adapters.preemption_checkpoint.watchers.on_gce import gce_watcher
from tfdist_kit.adapters.preemption_checkpoint.watchers.on_slurm import slurm_watcher
from tfdist_kit.adapters.preemption_checkpoint.watchers.on_url import http_watcher

SECOND = 1.0
PATIENCE = 5.0
Watch = Callable[[], bool]
Script = dict[str, Reply]


class Metadata:
    """What a server answers, by the end of the path; anything else is 404."""

    def __init__(self, server: Server, pages: Script) -> None:
        self.server = server
        self.pages = pages

    def paths(self) -> list[str]:
        return [request.path for request in self.server.requests]


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    pages: Script = {}

    def answer(request: Request) -> Reply:
        for end, reply in pages.items():
            if request.path.partition("?")[0].endswith(end):
                return reply
        return Reply(status=404)

    with serving(answer) as server:
        yield Metadata(server, pages)


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    with caplog.at_level(logging.WARNING):
        yield lambda: [record.getMessage() for record in caplog.records]


def wait_for(done: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not done() and time.monotonic() < deadline:
        time.sleep(0.01)
    return done()


def watching_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tfdist-watcher"]


def timed(watch: Watch) -> tuple[bool, float]:
    start = time.monotonic()
    fired = watch()
    return fired, time.monotonic() - start


# Google Compute Engine

GOOGLE = {"Metadata-Flavor": "Google"}
BOTH = ("maintenance", "preempted")


def on_google(body: str) -> Reply:
    return Reply(body, headers=GOOGLE)


@pytest.fixture
def google(metadata: Metadata, monkeypatch: pytest.MonkeyPatch) -> Metadata:
    monkeypatch.setenv("GCE_METADATA_IP", metadata.server.host)
    metadata.pages["/maintenance-event"] = on_google("NONE")
    metadata.pages["/preempted"] = on_google("FALSE")
    return metadata


@pytest.mark.parametrize(
    ("page", "text", "fires"),
    [
        ("/maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE", True),
        ("/maintenance-event", "MIGRATE_ON_HOST_MAINTENANCE", False),
        ("/preempted", "TRUE\n", True),
        ("/preempted", "FALSE", False),
    ],
)
def test_gce_fires_at_its_notices(
    google: Metadata, page: str, text: str, fires: bool, warnings: Callable[[], list[str]]
) -> None:
    watch = gce_watcher(BOTH)
    assert watch() is False
    google.pages[page] = on_google(text)
    assert watch() is fires
    assert warnings() == []
    assert all(request.headers["Metadata-Flavor"] == "Google" for request in google.server.requests)
    assert google.paths()[:2] == [
        "/computeMetadata/v1/instance/maintenance-event",
        "/computeMetadata/v1/instance/preempted",
    ]


def test_gce_looks_only_at_what_was_chosen(google: Metadata) -> None:
    google.pages["/preempted"] = on_google("TRUE")
    assert gce_watcher(("maintenance",))() is False
    assert gce_watcher(("preempted",))() is True


def test_gce_believes_only_google(google: Metadata, warnings: Callable[[], list[str]]) -> None:
    google.pages["/preempted"] = Reply("TRUE")
    assert gce_watcher(BOTH)() is False
    assert "is no metadata server of Google" in warnings()[0]


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (on_google("vm.internal"), True),
        (Reply("it works"), False),
        (Reply("vm.internal", headers={"Metadata-Flavor": "other"}), False),
        (Reply("vm", headers=GOOGLE, fault="drip"), False),
        (Reply(fault="closed"), False),
    ],
)
def test_is_gce_goes_by_the_header_of_the_answer(
    google: Metadata, reply: Reply, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    google.pages["/hostname"] = reply
    found, seconds = timed(watchers.is_gce)
    assert (found, seconds < SECOND) == (told, True)


def test_no_proxy_is_asked(google: Metadata, monkeypatch: pytest.MonkeyPatch) -> None:
    google.pages["/preempted"] = google.pages["/hostname"] = on_google("TRUE")
    with serving(lambda request: on_google("TRUE")) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert gce_watcher(BOTH)()
        assert watchers.is_gce()
        monkeypatch.setenv("GCE_METADATA_IP", "127.0.0.1:1")
        assert not watchers.is_gce()
        assert proxy.requests == []


# Amazon EC2

ACTION = Reply(json.dumps({"action": "terminate", "time": "2030-01-01T00:00:00Z"}))
ADVICE = Reply(json.dumps({"noticeTime": "2030-01-01T00:00:00Z"}))


class Ec2:
    """A metadata server that gives tokens and wants them back."""

    def __init__(self, ttl: str = "21600") -> None:
        self.pages: Script = {}
        self.tokens: list[str] = []
        self.ttl = ttl

    def __call__(self, request: Request) -> Reply:
        if request.method == "PUT":
            assert request.path == "/latest/api/token"
            assert request.headers["X-aws-ec2-metadata-token-ttl-seconds"] == "21600"
            self.tokens.append(f"token-{len(self.tokens)}==")
            headers = {"X-aws-ec2-metadata-token-ttl-seconds": self.ttl}
            return Reply(self.tokens[-1], headers=headers)
        if not self.tokens or request.headers.get("X-aws-ec2-metadata-token") != self.tokens[-1]:
            return Reply(status=401)
        return self.pages.get(request.path, Reply(status=404))


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ec2]:
    answer = Ec2()
    with serving(answer) as server:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url + "/")
        yield answer


@pytest.mark.parametrize("rebalance", [False, True])
def test_aws_fires_at_an_interruption(
    ec2: Ec2, rebalance: bool, warnings: Callable[[], list[str]]
) -> None:
    watch = aws_spot_watcher(rebalance)
    assert watch() is False
    ec2.pages["/latest/meta-data/spot/instance-action"] = ACTION
    assert watch() is True
    assert (len(ec2.tokens), warnings()) == (1, [])


@pytest.mark.parametrize("rebalance", [False, True])
def test_aws_heeds_a_recommendation_by_choice(ec2: Ec2, rebalance: bool) -> None:
    ec2.pages["/latest/meta-data/events/recommendations/rebalance"] = ADVICE
    assert aws_spot_watcher(rebalance)() is rebalance


def test_aws_gets_a_new_token_when_the_old_one_is_refused(ec2: Ec2) -> None:
    watch = aws_spot_watcher(False)
    assert watch() is False
    ec2.tokens.append("changed meanwhile")
    ec2.pages["/latest/meta-data/spot/instance-action"] = ACTION
    assert watch() is True
    assert len(ec2.tokens) == 3


def test_aws_renews_its_token_before_it_has_run_out(ec2: Ec2) -> None:
    ec2.ttl = "0"
    watch = aws_spot_watcher(False)
    assert [watch(), watch(), len(ec2.tokens)] == [False, False, 2]
    ec2.ttl = "21600"
    assert [watch(), watch(), len(ec2.tokens)] == [False, False, 3]


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (Reply("it works"), "no JSON object"),
        (Reply('{"other": 1}'), "no action"),
        (Reply("[" * 60000), "no JSON object"),
        (Reply(status=403), "status 403"),
    ],
)
def test_aws_takes_nothing_else_for_a_notice(
    ec2: Ec2, reply: Reply, problem: str, warnings: Callable[[], list[str]]
) -> None:
    ec2.pages["/latest/meta-data/spot/instance-action"] = reply
    assert aws_spot_watcher(False)() is False
    assert problem in warnings()[0]


@pytest.mark.parametrize("reply", [Reply(status=403), Reply(""), Reply("a\r\nb"), Reply("tök")])
def test_aws_does_without_a_token_that_is_none(
    metadata: Metadata,
    reply: Reply,
    monkeypatch: pytest.MonkeyPatch,
    warnings: Callable[[], list[str]],
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.server.url)
    metadata.pages |= {"/token": reply, "/instance-action": ACTION}
    assert aws_spot_watcher(False)() is False
    assert len(warnings()) == 1
    metadata.pages["/token"] = Reply("token")
    assert aws_spot_watcher(False)() is True


# Azure

SPOT = ("Preempt", "Terminate")


def event(kind: str = "Preempt", *resources: str) -> dict[str, Any]:
    return {"EventId": "1", "EventType": kind, "Resources": list(resources or ["vm-1"])}


def events(*listed: object) -> Reply:
    return Reply(json.dumps({"DocumentIncarnation": 1, "Events": list(listed)}))


@pytest.mark.parametrize(
    ("listed", "chosen", "fires"),
    [
        ([], SPOT, False),
        ([event()], SPOT, True),
        ([event("Preempt", "vm-2")], SPOT, False),
        ([event("Preempt", "vm-2"), event("Terminate", "vm-2", "VM-1")], SPOT, True),
        ([event("Reboot")], SPOT, False),
        ([event("Reboot")], ("Reboot",), True),
        ([event("Freeze")], "Freeze", True),
        ([event("Preempt", "vm-10", "xvm-1")], SPOT, False),
        ([None, {}, {"EventType": "Preempt", "Resources": None}, event()], SPOT, True),
    ],
)
def test_azure_fires_at_events_that_name_this_machine(
    metadata: Metadata, listed: list[Any], chosen: tuple[str, ...], fires: bool
) -> None:
    metadata.pages |= {"/compute/name": Reply("vm-1\n"), "/scheduledevents": events(*listed)}
    watch = azure_watcher(chosen, None, metadata.server.url)
    assert watch() is fires
    assert azure_watcher(chosen, "vm-1", metadata.server.url)() is fires
    assert [path.partition("?")[0] for path in metadata.paths()] == [
        "/metadata/instance/compute/name",
        "/metadata/scheduledevents",
        "/metadata/scheduledevents",
    ]
    for request in metadata.server.requests:
        assert request.headers["Metadata"] == "true"
        assert "?api-version=" in request.path


def test_azure_asks_for_its_name_until_it_knows_it(
    metadata: Metadata, warnings: Callable[[], list[str]]
) -> None:
    metadata.pages["/scheduledevents"] = events(event())
    watch = azure_watcher(SPOT, None, metadata.server.url)
    assert [watch(), watch()] == [False, False]
    metadata.pages["/compute/name"] = Reply("")
    assert watch() is False
    metadata.pages["/compute/name"] = Reply("vm-1")
    assert watch() is True
    assert ["status 404" in warnings()[0], "no name" in warnings()[1]] == [True, True]


@pytest.mark.parametrize("reply", [Reply("{}"), Reply('{"Events": 1}'), Reply("[]"), Reply("")])
def test_azure_takes_nothing_else_for_events(
    metadata: Metadata, reply: Reply, warnings: Callable[[], list[str]]
) -> None:
    metadata.pages["/scheduledevents"] = reply
    assert azure_watcher(SPOT, "vm-1", metadata.server.url)() is False
    assert len(warnings()) == 1


# A file, a URL


def test_a_file_fires_when_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warnings: Callable[[], list[str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    watch, below = file_watcher("notice"), file_watcher(tmp_path / "notice" / "below")
    monkeypatch.chdir("/")
    assert [watch(), below()] == [False, False]
    (tmp_path / "notice").touch()
    assert [watch(), below()] == [True, False]
    assert warnings() == []


def test_a_file_that_cannot_be_looked_for_is_a_problem(
    tmp_path: Path, warnings: Callable[[], list[str]]
) -> None:
    watch = file_watcher(tmp_path / ("long" * 200))
    assert [watch(), watch()] == [False, False]
    [told] = warnings()
    assert "File name too long" in told


def test_a_disk_that_hangs_delays_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    back, looks, stat_at_once = threading.Event(), itertools.count(), os.stat
    notice = tmp_path / "notice"

    def stat(path: Any, **kwargs: Any) -> Any:
        if path != str(notice):
            return stat_at_once(path, **kwargs)
        next(looks)
        return back.wait(PATIENCE)

    watch = file_watcher(notice)
    monkeypatch.setattr(os, "stat", stat)
    fired, seconds = timed(watch)
    assert (fired, seconds < SECOND) == (False, True)
    fired, seconds = timed(watch)
    assert (fired, seconds < 0.1) == (False, True)
    assert next(looks) == 1
    back.set()
    assert wait_for(lambda: not watching_threads())
    assert watch() is True  # what was found late counts
    assert next(looks) == 2


@pytest.mark.parametrize(
    ("wish", "reply", "fires"),
    [
        ({}, Reply("anything"), True),
        ({}, Reply(status=404), False),
        ({}, Reply(status=204), False),
        ({}, Reply(fault="huge"), True),
        ({"text": "a.b"}, Reply("is a.b here"), True),
        ({"text": "a.b"}, Reply("is axb here"), False),
        ({"regex": "^stop (now|soon)$"}, Reply("stop soon\n"), True),
        ({"regex": "^stop (now|soon)$"}, Reply("do not stop soon"), False),
        ({"text": "stop"}, Reply("x" * LIMIT + "stop"), False),
        ({"text": "xx"}, Reply(fault="huge"), True),
        ({"text": "stop"}, Reply("stop" * 100, fault="cut"), True),
    ],
)
def test_a_url_fires_at_its_answer(
    metadata: Metadata, wish: dict[str, str], reply: Reply, fires: bool
) -> None:
    url = f"{metadata.server.url}/notice?for=me"
    watch = http_watcher(url, **wish, headers={"X-Token": "secret"})
    assert watch() is False
    metadata.pages["/notice"] = reply
    assert watch() is fires
    assert metadata.paths() == ["/notice?for=me"] * 2
    assert metadata.server.requests[0].headers["X-Token"] == "secret"


# What every watcher promises

TROUBLE = {
    "closed": (Reply(fault="closed"), "RemoteDisconnected|closed|reset"),
    "garbage": (Reply(fault="garbage"), "no HTTP"),
    "silent": (Reply(fault="silent"), "no answer within|timed out"),
    "drip": (Reply(fault="drip"), "no answer within|timed out"),
    "drip body": (Reply(fault="drip body"), "no answer within|timed out"),
    "continue": (Reply(fault="continue"), "no answer within|timed out"),
    "500": (Reply(status=500), "status 500"),
    "redirect": (Reply(status=302, headers={"Location": "/other"}), "status 302"),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_no_answer_raises_blocks_or_leaks(
    metadata: Metadata, name: str, warnings: Callable[[], list[str]]
) -> None:
    reply, problem = TROUBLE[name]
    metadata.pages |= {"/notice": reply, "/other": Reply("stop")}
    watch = http_watcher(f"{metadata.server.url}/notice", text="stop")
    for _ in range(2):
        fired, seconds = timed(watch)
        assert (fired, seconds < SECOND, len(watching_threads()) < 2) == (False, True, True)
    assert wait_for(lambda: not watching_threads())
    [told] = warnings()
    assert told.startswith(f"http {metadata.server.url}/notice: cannot tell")
    assert any(part in told for part in problem.split("|"))
    metadata.pages["/notice"] = Reply("stop")
    assert watch() is True


def test_an_answer_that_had_to_be_cut_off_is_no_notice(metadata: Metadata) -> None:
    metadata.pages["/notice"] = Reply(fault="drip")  # its status is 200
    watch = http_watcher(f"{metadata.server.url}/notice")
    assert watch() is False
    assert wait_for(lambda: not watching_threads())
    del metadata.pages["/notice"]
    assert watch() is False


def test_a_connection_that_is_never_answered_blocks_nobody() -> None:
    with socket.socket() as listening, socket.socket() as filling:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        filling.connect(listening.getsockname())
        filled = [socket.socket() for _ in range(4)]
        for one in filled:
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
        watch = http_watcher(f"http://127.0.0.1:{listening.getsockname()[1]}")
        fired, seconds = timed(watch)
        assert (fired, seconds < SECOND) == (False, True)
        for one in filled:
            one.close()
    assert wait_for(lambda: not watching_threads())


def test_a_name_that_is_looked_up_for_ever_blocks_nobody(
    metadata: Metadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    back, look_up, asked = threading.Event(), socket.getaddrinfo, itertools.count()

    def slow(*args: Any, **kwargs: Any) -> Any:
        next(asked)
        back.wait(PATIENCE)
        return look_up(*args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    metadata.pages["/notice"] = Reply()
    watch = http_watcher(f"{metadata.server.url}/notice")
    answers = [timed(watch) for _ in range(5)]
    assert [fired for fired, _ in answers] == [False] * 5
    assert sum(seconds for _, seconds in answers) < SECOND
    assert (len(watching_threads()), next(asked)) == (1, 1)
    back.set()
    assert wait_for(lambda: not watching_threads())
    assert metadata.server.requests == []  # nobody waits for that answer any more
    assert watch() is True


def test_a_request_without_time_left_is_not_made(metadata: Metadata) -> None:
    """The second of two requests of one look has only what the first has left."""
    metadata.pages |= {"/compute/name": Reply(fault="silent"), "/scheduledevents": events(event())}
    watch = azure_watcher(SPOT, None, metadata.server.url)
    assert timed(watch)[1] < SECOND
    assert wait_for(lambda: not watching_threads())
    assert len(metadata.server.requests) == 1


def test_once_fired_it_stays_fired_and_asks_no_more(metadata: Metadata) -> None:
    metadata.pages["/notice"] = Reply()
    watch = http_watcher(f"{metadata.server.url}/notice")
    assert watch() is True
    del metadata.pages["/notice"]
    assert watch() is True
    assert len(metadata.server.requests) == 1


def test_hundreds_of_calls_leave_no_thread_and_no_socket(metadata: Metadata) -> None:
    watch = http_watcher(f"{metadata.server.url}/notice")
    assert watch() is False
    before = len(os.listdir("/proc/self/fd"))
    assert not any(watch() for _ in range(300))
    assert watching_threads() == []
    assert wait_for(lambda: len(os.listdir("/proc/self/fd")) <= before)


def test_each_kind_of_problem_is_told_once(
    metadata: Metadata, warnings: Callable[[], list[str]]
) -> None:
    watch = http_watcher(f"{metadata.server.url}/notice?token=secret")
    for status in (500, 503, 500, 404, 503):
        metadata.pages["/notice"] = Reply(status=status)
        assert watch() is False
    metadata.pages["/notice"] = Reply(fault="garbage")  # another text each time
    assert [watch(), watch()] == [False, False]
    told = warnings()
    assert ["status 500" in told[0], "status 503" in told[1], len(told)] == [True, True, 3]
    assert "secret" not in "".join(told)


def test_two_callers_at_once_make_one_request(metadata: Metadata) -> None:
    metadata.pages["/notice"] = Reply(fault="silent")
    watch = http_watcher(f"{metadata.server.url}/notice")
    first = threading.Thread(target=watch)
    first.start()
    assert wait_for(lambda: len(metadata.server.requests) == 1)
    fired, seconds = timed(watch)
    assert (fired, seconds < 0.1, len(metadata.server.requests)) == (False, True, 1)
    first.join()


def test_a_thread_that_cannot_start_is_a_problem_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warnings: Callable[[], list[str]]
) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    (tmp_path / "notice").touch()
    watch = file_watcher(tmp_path / "notice")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        assert watch() is False
    assert "can't start new thread" in warnings()[0]
    assert watch() is True


# Slurm


def test_slurm_fires_before_the_job_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 1000))
    assert slurm_watcher(900)() is False
    watch = slurm_watcher(1100)
    assert watch() is True
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert watch() is True


# Arguments

WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "empty path": (lambda: watchers.file(" "), "path is ' '"),
    "path of bytes": (lambda: watchers.file(b"x"), "path is b'x'"),  # type: ignore[arg-type]
    "path with a zero": (lambda: watchers.file("a\0b"), "path is"),
    "empty notice file": (lambda: watchers.kubernetes(notice_file=""), "notice_file is ''"),
    "no scheme": (lambda: watchers.http("localhost:80/x"), "url is 'localhost:80/x'"),
    "other scheme": (lambda: watchers.http("ftp://host/"), "url is 'ftp://host/'"),
    "no host": (lambda: watchers.http("http:///x"), "url is"),
    "no text": (lambda: watchers.http(None), "url is None"),  # type: ignore[arg-type]
    "wrong port": (lambda: watchers.http("http://host:99999/"), "url is"),
    "white space": (lambda: watchers.http("http://host/a b"), "url is"),
    "line break": (lambda: watchers.http("http://host/a\r\nX: y"), "url is"),
    "password": (lambda: watchers.http("http://me:secret@host/"), "url is"),
    "bad bracket": (lambda: watchers.http("http://[::1/"), "url is"),
    "text and regex": (lambda: watchers.http("http://h", text="a", regex="b"), "both text"),
    "empty text": (lambda: watchers.http("http://h", text=""), "text is ''"),
    "bad regex": (lambda: watchers.http("http://h", regex="("), "which is none"),
    "bad header": (lambda: watchers.http("http://h", headers={"a": "b\nc"}), "headers has 'a'"),
    "bad header name": (lambda: watchers.http("http://h", headers={"a b": "c"}), "headers has"),
    "notices": (lambda: watchers.gce(notices=("spot",)), "notices is"),
    "no notices": (lambda: watchers.gce(notices=()), "notices is"),
    "events": (lambda: watchers.azure(events=("preempt",)), "events is"),
    "events of None": (lambda: watchers.azure(events=None), "events is"),  # type: ignore[arg-type]
    "name": (lambda: watchers.azure(name=" "), "name is ' '"),
    "endpoint": (lambda: watchers.azure(endpoint="169.254.169.254"), "endpoint is"),
    "no signals": (lambda: watchers.slurm(signals=()), "signals is"),
    "SIGKILL": (lambda: watchers.slurm(signals=(signal.SIGKILL,)), "signals is"),
    "signal of text": (lambda: watchers.slurm(signals="USR1"), "signals is"),  # type: ignore[arg-type]
    "one signal": (lambda: watchers.slurm(signals=signal.SIGUSR1), "signals is"),  # type: ignore[arg-type]
    "no job": (lambda: watchers.slurm(before_end=60), "SLURM_JOB_END_TIME is ''"),
    "before_end": (lambda: watchers.slurm(before_end=-60), "before_end is -60"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused_by_the_factory(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_END_TIME", raising=False)
    make, message = WRONG[case]
    with pytest.raises(UsageError, match=r"hint: ") as caught:
        make()
    assert message in caught.value.args[0]


@pytest.mark.parametrize(
    ("variable", "value", "make"),
    [
        ("GCE_METADATA_IP", "http://host", watchers.gce),
        ("GCE_METADATA_IP", "host:port", watchers.is_gce),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "localhost", watchers.aws_spot),
        ("SLURM_JOB_END_TIME", "soon", lambda: watchers.slurm(before_end=60)),
    ],
)
def test_wrong_variables_are_refused_by_the_factory(
    variable: str, value: str, make: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=variable):
        make()


# What TensorFlow gets


def configurations(path: str) -> dict[str, Any]:
    import tensorflow as tf

    def leave() -> None:
        sys.exit(7)

    def save() -> None:
        pass

    os.environ["SLURM_JOB_END_TIME"] = "0"
    passed: dict[str, Any] = {"exit_fn": leave, "grace_period": 7, "save_fn": save}
    made = {
        "gce": watchers.gce(**passed),
        "aws_spot": watchers.aws_spot(**passed),
        "azure": watchers.azure(**passed),
        "kubernetes": watchers.kubernetes(**passed),
        "kubernetes file": watchers.kubernetes(notice_file=path, **passed),
        "slurm": watchers.slurm(**passed),
        "slurm end": watchers.slurm(signals=[signal.SIGUSR2], before_end=60, **passed),
        "file": watchers.file(path, **passed),
        "http": watchers.http("http://127.0.0.1:1", **passed),
    }
    kind = tf.distribute.experimental.TerminationConfig
    expected = (leave, 7, save)
    return {
        name: (
            isinstance(config, kind),
            (config.exit_fn, config.grace_period, config.save_fn) == expected,
            callable(config.termination_watcher_fn),
            getattr(config, "signals", None),
        )
        for name, config in made.items()
    }


def preempted_by_a_file(folder: str) -> tuple[int, bool, str]:
    """TensorFlow's own handler, with a watcher of the kit's."""
    import tensorflow as tf

    left: list[int] = []
    path = Path(folder, "notice")
    config = watchers.file(path, exit_fn=lambda: left.append(1))
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(step=step)
    saved = str(Path(folder, "saved"))
    handler = tf.distribute.experimental.PreemptionCheckpointHandler(
        strategy.cluster_resolver, checkpoint, saved, termination_config=config
    )
    deadline = time.monotonic() + 30
    while not left and time.monotonic() < deadline:
        handler.run(lambda: step.assign_add(1))
        if step == 3:
            path.touch()
        time.sleep(0.02)
    return len(left), int(step.numpy()) > 3, tf.train.latest_checkpoint(saved) or ""


def test_each_platform_has_a_configuration_for_tensorflow(tmp_path: Path) -> None:
    [made] = run_workers(
        "tests.adapters.test_watchers:configurations", workers=1, path=str(tmp_path / "notice")
    )
    both = (signal.SIGUSR1, signal.SIGTERM)
    sigterm = (signal.SIGTERM,)
    plain = (True, True, True, sigterm)
    assert made == {
        **dict.fromkeys(["gce", "aws_spot", "azure", "kubernetes file", "file", "http"], plain),
        "kubernetes": (True, True, False, sigterm),
        "slurm": (True, True, False, both),
        "slurm end": (True, True, True, (signal.SIGUSR2,)),
    }


def test_tensorflows_own_handler_saves_when_a_watcher_fires(tmp_path: Path) -> None:
    [(left, trained, saved)] = run_workers(
        "tests.adapters.test_watchers:preempted_by_a_file", workers=1, folder=str(tmp_path)
    )
    assert (left, trained) == (1, True)
    assert saved.startswith(str(tmp_path / "saved"))
