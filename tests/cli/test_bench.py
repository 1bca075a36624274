"""``tfdist bench``: that its figures are measured, not how large they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import tfdist
from tfdist_kit.bench import death, embedding, preemption, startup
from tfdist_kit.bench.contest import Contest, run


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["nonsense"], "cannot measure nonsense"),
        (["--rounds", "0"], "--rounds is below 1"),
        (["--workers", "1,x"], "'1,x' is not a list of sizes"),
        (["--workers", "0"], "'0' is not a list of sizes"),
    ],
)
def test_what_cannot_be_measured(tmp_path: Path, args: list[str], told: str) -> None:
    result = tfdist("bench", *args, folder=tmp_path)
    assert result.code == 2
    assert told in result.err


def test_ways_are_taken_in_turn_and_ratios_are_of_rounds() -> None:
    taken: list[str] = []
    times = iter([9.0, 2.0, 4.0, 30.0])

    def slow() -> float:
        taken.append("slow")
        return next(times)

    def base() -> float:
        taken.append("base")
        return 2.0

    rows = Contest("work", {"slow": slow, "base": base}, "base").measure(3).rows()
    assert taken == ["slow", "base"] * 4
    assert rows == [
        "| work | slow | 4.000 s | 2.00 |",
        "| work | base | 2.000 s | 1.00 |",
    ]


def test_a_way_that_fails_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="left with 1"):
        run("false")
    script = tmp_path / "fails.py"
    script.write_text("raise SystemExit(3)")
    with pytest.raises(RuntimeError, match="the plain launch failed with"):
        startup.plain_launch(script, 2)
    with pytest.raises(RuntimeError, match="left with 3"):
        startup.tfdist_run(script, 1)


def test_a_killed_worker_is_noticed_before_its_group_is_reaped(tmp_path: Path) -> None:
    script = tmp_path / "dies.py"
    script.write_text(
        "import os, time\n"
        "if os.environ['TFDIST_RANK'] == '1':\n"
        "    with open(os.environ['KILLED_AT'], 'w') as file: file.write(repr(time.time()))\n"
        "    os.kill(os.getpid(), 9)\n"
        "time.sleep(60)\n"
    )
    noticed, reaped = death.time_to_notice(tmp_path, script)
    assert 0 <= round(noticed, 3) <= round(reaped, 3) < 30


@pytest.mark.parametrize("code", [42, 43])
def test_the_time_from_a_notice_to_the_last_end(tmp_path: Path, code: int) -> None:
    script = tmp_path / "leaves.py"
    script.write_text(
        "import os, signal, time\n"
        f"def leave(*_): raise SystemExit({code})\n"
        "signal.signal(signal.SIGTERM, leave)\n"
        "print(os.environ['CHECKPOINTS'])\n"
        "if os.environ['TFDIST_RANK'] == '1':\n"
        "    with open(os.environ['KILLED_AT'], 'w') as file: file.write(repr(time.time()))\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "time.sleep(60)\n"
    )
    if code == 42:
        assert 0 < preemption.time_to_leave(tmp_path, script) < 30
    else:
        with pytest.raises(RuntimeError, match="left with 43, not with 42"):
            preemption.time_to_leave(tmp_path, script)


def test_what_a_handler_adds_is_told_by_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(*command: object) -> None:
        pairs = [(0.020, 0.021), (0.040, 0.042), (0.010, 0.030)]
        (tmp_path / "pairs.json").write_text(json.dumps(pairs))

    monkeypatch.setattr(preemption, "run", measured)
    assert preemption.overhead(tmp_path) == [
        "| a step of 20 ms on 2 workers | alone | 20.00 ms | 1.000 |",
        "| a step of 20 ms on 2 workers | in handler.run | 30.00 ms | 1.050 |",
    ]


def test_host_mode_and_keras_layers_learn_the_same(tmp_path: Path) -> None:
    told = embedding.steps(tmp_path, 2, 100, "Adagrad", pairs=2)
    assert len(told["pairs"]) == 2
    assert all(seconds > 0 for pair in told["pairs"] for times in pair for seconds in times)
    first, _, last = told["losses"]
    assert last[1] < first[1]
