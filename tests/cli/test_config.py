from __future__ import annotations

import argparse
import io
import json
import shlex
import socket
from pathlib import Path
from typing import Any

import pytest

from tfdist_kit import UsageError
from tfdist_kit.cli import config

TEXT = '{"cluster": {"worker": ["localhost:4001", "localhost:4002"]}, "task": %s}'
FIRST = TEXT % '{"type": "worker", "index": 0}'
SECOND = TEXT % '{"type": "worker", "index": 1}'


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TF_CONFIG", "http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.delenv(name, raising=False)


def tfdist(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog="tfdist", allow_abbrev=False)
    config.add_parser(parser.add_subparsers(required=True))
    args = parser.parse_args(["config", *arguments])
    code: int = args.run(args)
    return code


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_lint_of_a_sound_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TF_CONFIG", FIRST)
    assert tfdist("lint", "--no-network") == 0
    assert lines(capsys) == ["errors: 0, warnings: 0"]


def test_lint_of_an_unset_variable_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert tfdist("lint") == 1
    out = lines(capsys)
    assert out[0] == "TFC001 warning: TF_CONFIG is not set"
    assert out[-1] == "errors: 0, warnings: 1"


def test_lint_writes_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert tfdist("lint", "--json") == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["code"], finding["severity"]) == ("TFC005", "error")
    monkeypatch.setenv("TF_CONFIG", FIRST)
    assert tfdist("lint", "--json", "--no-network") == 0
    assert json.loads(capsys.readouterr().out) == {"findings": []}


def test_lint_asks_this_machine_for_its_port_unless_told_not_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = f"localhost:{server.getsockname()[1]}"
        own = {"cluster": {"worker": [taken]}, "task": {"type": "worker", "index": 0}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(own))
        assert tfdist("lint") == 1
        assert lines(capsys)[0].startswith("TFC072 error: this task cannot listen")
        assert tfdist("lint", "--no-network") == 0


def test_lint_looks_hosts_up_unless_told_not_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(config, "resolves", lambda host: f"{host} is unknown")
    file = tmp_path / "config.json"
    file.write_text(FIRST)
    assert tfdist("lint", str(file)) == 1
    out = lines(capsys)
    assert out[0].startswith("TFC071")
    assert out[1] == f"  where: {file}: cluster.worker[0]"
    assert tfdist("lint", "--no-network", str(file)) == 0


def test_lint_checks_files_against_each_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(FIRST)
    second.write_text(SECOND)
    assert tfdist("lint", "--no-network", str(first), str(second)) == 0
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.StringIO(FIRST))
    assert tfdist("lint", "--no-network", str(first), "-") == 1
    out = lines(capsys)
    assert out[0] == "TFC081 error: two processes are the same task"
    assert out[1] == "  where: standard input: task"


@pytest.mark.parametrize("command", ["lint", "show"])
def test_a_file_that_cannot_be_read(command: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere cannot be read: .*No such file"):
        tfdist(command, str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match=r"cannot be read: .*directory"):
        tfdist(command, str(tmp_path))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"binary cannot be read: .*codec"):
        tfdist(command, str(tmp_path / "binary"))


def test_a_file_given_twice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the file - was given twice"):
        tfdist("lint", "-", "-")


def test_show_tells_what_it_means(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = {"evaluator": ["e:1"], "worker": ["a:1", "b:2"], "chief": ["c:1"]}
    given = {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(given))
    assert tfdist("show") == 0
    assert lines(capsys) == [
        "this task:      worker:1",
        "chief:          chief:0",
        "training tasks: 3 of 4",
        "  rank 0  chief:0      c:1",
        "  rank 1  worker:0     a:1",
        "* rank 2  worker:1     b:2",
        "  rank 3  evaluator:0  e:1",
    ]
    assert tfdist("show", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["task"], told["chief"], told["training_tasks"]) == ("worker:1", "chief:0", 3)
    assert told["tasks"][3] == {
        "rank": 3,
        "task": "evaluator:0",
        "address": "e:1",
        "trains": False,
    }


def test_show_of_a_lone_evaluator(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"cluster": {"evaluator": ["e:1"]}, "task": {"type": "evaluator", "index": 0}}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(given)))
    assert tfdist("show", "-") == 0
    assert "chief:          none" in lines(capsys)


@pytest.mark.parametrize(("text", "code"), [(None, "TFC001"), ("{}", "TFC005"), ("", "TFC002")])
def test_show_of_what_has_no_meaning(
    text: str | None,
    code: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if text is not None:
        monkeypatch.setenv("TF_CONFIG", text)
    assert tfdist("show") == 1
    assert lines(capsys)[0].startswith(code)
    assert tfdist("show", "--json") == 1
    assert [each["code"] for each in json.loads(capsys.readouterr().out)["findings"]] == [code]


def test_show_of_a_warning_tells_both(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TF_CONFIG", FIRST.replace('"index": 0', '"index": 0.0'))
    assert tfdist("show") == 1
    out = lines(capsys)
    assert out[0] == "this task:      worker:0"
    assert any(line.startswith("TFC066 warning") for line in out)


def built(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Any]:
    assert tfdist("build", *arguments) == 0
    return [json.loads(line) for line in lines(capsys)]


def test_build_writes_one_line_per_task(capsys: pytest.CaptureFixture[str]) -> None:
    configs = built(capsys, "--workers", "2", "--chief", "--evaluator")
    assert [each["task"] for each in configs] == [
        {"type": "chief", "index": 0},
        {"type": "worker", "index": 0},
        {"type": "worker", "index": 1},
        {"type": "evaluator", "index": 0},
    ]
    assert (
        configs[0]["cluster"]
        == configs[3]["cluster"]
        == {
            "chief": ["localhost:2222"],
            "worker": ["localhost:2223", "localhost:2224"],
            "evaluator": ["localhost:2225"],
        }
    )


@pytest.mark.parametrize(
    ("arguments", "addresses"),
    [
        (["--port", "5"], ["localhost:5", "localhost:6"]),
        (["--ports", "7,3"], ["localhost:7", "localhost:3"]),
        (["--host", "::1"], ["[::1]:2222", "[::1]:2223"]),
        (["--host", "a", "--host", "b"], ["a:2222", "b:2222"]),
        (["--host", "a", "--host", "b", "--port", "9"], ["a:9", "b:9"]),
        (["--host", "a", "--host", "b", "--ports", "1,2"], ["a:1", "b:2"]),
    ],
)
def test_build_of_hosts_and_ports(
    arguments: list[str], addresses: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (only,) = built(capsys, "--workers", "2", "--task", "worker:1", *arguments)
    assert only == {
        "cluster": {"worker": addresses},
        "task": {"type": "worker", "index": 1},
    }


def test_build_writes_a_json_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert tfdist("build", "--workers", "2", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["task"]["index"] for each in told] == [0, 1]


def test_build_writes_what_a_shell_understands(capsys: pytest.CaptureFixture[str]) -> None:
    assert tfdist("build", "--workers", "1", "--host", "it's", "--export") == 0
    command, assignment = shlex.split(capsys.readouterr().out)
    name, _, value = assignment.partition("=")
    assert (command, name) == ("export", "TF_CONFIG")
    assert json.loads(value)["cluster"] == {"worker": ["it's:2222"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "two"], "--workers is 'two', which is not a whole number"),
        (["--workers", "0"], "the number of workers is 0"),
        (["--workers", "-1"], "the number of workers is -1"),
        (["--workers", "2", "--port", "x"], "--port is 'x'"),
        (["--workers", "2", "--port", "65535"], "localhost:65536"),
        (["--workers", "2", "--ports", "1,"], "--ports is ''"),
        (["--workers", "2", "--ports", "1"], "--ports 1 names 1 ports for 2 tasks"),
        (["--workers", "2", "--ports", "1,1"], "TFC043"),
        (["--workers", "3", "--host", "a", "--host", "b"], "--host was given 2 times for 3 tasks"),
        (["--workers", "1", "--host", "a b"], "a b:2222"),
        (["--workers", "1", "--task", "worker:1"], "worker:1 is not in the cluster"),
        (["--workers", "1", "--task", "Worker:0"], "the task type 'Worker'"),
        (["--workers", "1", "--task", "worker"], "'worker' is not written as type:index"),
    ],
)
def test_build_names_the_value_that_is_wrong(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tfdist("build", *arguments)


def test_what_build_writes_lint_accepts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tfdist("build", "--workers", "3", "--chief", "--evaluator")
    for line in lines(capsys):
        monkeypatch.setenv("TF_CONFIG", line)
        assert tfdist("lint", "--no-network") == 0
