"""Runs that cannot come to a whole answer: wrong bindings, checks that cannot be read, an end."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.commands import Command
from tests.conformance.fakes import ENV, conformance, entry, suite

SMALL = entry("fake.ok.one") + entry("fake.ok.two")


@pytest.mark.parametrize("args", [(), ("-n", "2")], ids=["alone", "xdist"])
@pytest.mark.parametrize(
    ("checks", "told"),
    [
        ('@claim("fake.ok.tow")\ndef test_it(): pass\n', "did you mean fake.ok.two?"),
        ("def test_it(): pass\n", "is bound to no claim"),
        ('@claim("fake.no.way")\ndef test_it(): pass\n', "which the register calls untestable"),
    ],
)
def test_bindings_that_are_wrong(
    tmp_path: Path, checks: str, told: str, args: tuple[str, ...]
) -> None:
    register = SMALL + entry("fake.no.way", 'untestable = "x"')
    suite(tmp_path / "suite", register, checks)
    result = conformance(tmp_path, "run", "--suite", "suite", *args)
    assert result.code == 2, result
    assert result.err.count(told) == 1


def test_checks_that_cannot_be_imported_leave_the_run_incomplete(tmp_path: Path) -> None:
    suite(tmp_path / "suite", SMALL, "import nowhere_to_be_found\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "index.html").write_text("of an earlier run")
    result = conformance(tmp_path, "run", "--suite", "suite", "--report", "out")
    assert result.code == 3, result
    assert "nowhere_to_be_found" in result.err
    again = conformance(tmp_path, "report", "out")
    assert again.code == 2
    assert "is refused: its run is incomplete" in again.err
    assert not (tmp_path / "out" / "index.html").exists()


WAITS = (
    '@claim("fake.ok.one")\ndef test_one(tf_worker):\n'
    "    (HERE / f'here-{tf_worker.rank}').touch()\n    time.sleep(60)\n"
)


def test_nothing_lives_on_when_the_command_is_killed(tmp_path: Path) -> None:
    suite(tmp_path / "suite", SMALL, WAITS)
    with Command(("conformance", "run", "--suite", "suite"), tmp_path, ENV) as command:
        command.wait_for(tmp_path / "suite" / "checks" / "here-*", 2)
        command.process.kill()
        command.process.wait()
        command.assert_nothing_lives(within=10)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_is_incomplete(tmp_path: Path, signum: int) -> None:
    suite(tmp_path / "suite", SMALL, WAITS)
    args = ("conformance", "run", "--suite", "suite", "--report", "out")
    with Command(args, tmp_path, ENV) as command:
        command.wait_for(tmp_path / "suite" / "checks" / "here-*", 2)
        command.process.send_signal(signum)
        result = command.result()
        command.assert_nothing_lives()
    assert result.code == 3, result
    assert "incomplete: it was stopped" in result.err
    assert not json.loads((tmp_path / "out" / "report.json").read_text())["complete"]
