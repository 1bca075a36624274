"""That trainings survive a few blows, and that one which did not would be found out."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.chaos import __main__ as command
from tests.chaos import leftovers, report
from tests.chaos.games import Games
from tests.chaos.judging import Departure, Reference, judge
from tests.chaos.plans import DELAYS, FAMILIES, Plan, draw, from_record
from tests.chaos.playing import Played

GOOD = "0" * 64
STEPS = 4
SEED = 91
PLANS = ("kill-0", "slow-0")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_gives_the_same_plans_again(family: str) -> None:
    names = [f"{family}-{number}" for number in range(30)]
    plans = [draw(1, name, 200) for name in names]
    assert plans == [draw(1, name, 200) for name in names]
    assert plans != [draw(2, name, 200) for name in names]
    assert len({plan.told() for plan in plans}) > 10
    for plan in plans:
        assert from_record(json.loads(json.dumps(dataclasses.asdict(plan)))) == plan
        blows = [blow for blows in plan.rounds for blow in blows]
        assert all(blow.rank < plan.workers and blow.phase in DELAYS for blow in blows)


def rows(*steps: int, wrong: int = -1) -> list[str]:
    return [f"{step} {'beef' if step == wrong else step * 7:04}" for step in steps]


WANTED = Reference(GOOD, {"replica_0": rows(*range(STEPS)), "replica_1": rows(*range(STEPS))})


def played(
    folder: Path,
    *starts: list[str],
    weights: str = GOOD,
    codes: tuple[int, ...] = (0,),
    hung: bool = False,
    left: tuple[str, ...] = (),
    family: str = "term",
    plan: Plan | None = None,
) -> Played:
    """A plan whose workers have written these rows, one list for each start of all of them."""
    (folder / "rows").mkdir()
    for number, lines in enumerate(starts):
        for replica in range(2):
            path = folder / "rows" / f"replica_{replica}-{number}.txt"
            path.write_text("".join(f"{line}\n" for line in lines))
    (folder / "output_0.txt").write_text(
        f"[rank 0] weights        {GOOD}\n[rank 1] weights        {weights}\n"
    )
    plan = plan or Plan(f"{family}-0", 2, "steps", STEPS, 2, [[]])
    return Played(plan, folder, codes, len(starts), 1.0, hung, left)


def test_a_training_that_went_on_where_it_was(tmp_path: Path) -> None:
    verdict = judge(played(tmp_path, rows(0, 1), rows(2, 3)), WANTED)
    assert (verdict.troubles, verdict.identical) == ((), True)
    assert (verdict.lost, verdict.redone, verdict.restarts) == (0, 0, 1)


def test_steps_that_were_redone_count_against_a_notice_and_not_against_a_kill(
    tmp_path: Path,
) -> None:
    for family, troubles in (("term", ("2 steps redone, and 0 are allowed",)), ("kill", ())):
        folder = tmp_path / family
        folder.mkdir()
        verdict = judge(played(folder, rows(0, 1), rows(0, 1, 2, 3), family=family), WANTED)
        assert (verdict.redone, verdict.lost, verdict.troubles) == (2, 0, troubles)


def test_more_steps_than_since_the_last_save_are_too_many(tmp_path: Path) -> None:
    verdict = judge(played(tmp_path, rows(0, 1, 2), rows(0, 1, 2, 3), family="kill"), WANTED)
    assert verdict.troubles == ("3 steps redone, and 2 are allowed",)


@pytest.mark.parametrize(
    ("starts", "lost"),
    [
        ([rows(0, 1, 3)], 1),
        ([rows(0, 1), rows(3)], 1),
        ([rows(0, 1, 2, 3, wrong=2)], 1),
        ([rows(0, 1, 2, 3, 4)], 1),
        ([], 4),
    ],
    ids=["skipped", "skipped by a restart", "other examples", "one too many", "none"],
)
def test_rows_that_differ_are_lost(tmp_path: Path, starts: list[list[str]], lost: int) -> None:
    verdict = judge(played(tmp_path, *starts), WANTED)
    assert verdict.troubles == (f"{lost} steps with other examples",)


def test_everything_else_that_can_be_wrong(tmp_path: Path) -> None:
    wrong = played(
        tmp_path, rows(*range(STEPS)), weights="f" * 64, codes=(42, 1), hung=True, left=("a port",)
    )
    assert judge(wrong, WANTED).troubles == (
        "it hung",
        "the launcher left with 1",
        "the weights differ",
        "left behind: a port",
    )


def test_the_time_from_a_notice_to_the_end_without_the_save(tmp_path: Path) -> None:
    notes = [
        {"what": "struck", "time": 100.0, "rank": 1, "kind": "term", "phase": "step"},
        {"what": "save begins", "time": 100.1, "rank": 0},
        {"what": "save begins", "time": 100.1, "rank": 1},
        {"what": "save ends", "time": 100.2, "rank": 1},
        {"what": "save ends", "time": 100.4, "rank": 0},
    ]
    text = "".join(json.dumps({**note, "incarnation": 0}) + "\n" for note in notes)
    (tmp_path / "notes.jsonl").write_text(text)
    (tmp_path / "run_0" / "attempt_0").mkdir(parents=True)
    ends = [
        {"event": "exited", "attempt": 0, "rank": rank, "time": time, "returncode": code}
        for rank, time, code in ((0, 100.5, 42), (1, 100.6, 1))
    ]
    (tmp_path / "run_0" / "events.jsonl").write_text("\n".join(map(json.dumps, ends)))
    verdict = judge(played(tmp_path, rows(0, 1), rows(2, 3)), WANTED)
    assert verdict.troubles == ("rank 1 left with 1 after a notice, start 0",)
    assert verdict.departures == (Departure("step", 0.6, 0.3),)
    assert list(report.table([verdict]))[-1].endswith("| 0.30 s, 0.30 s |")


def test_what_is_left_behind_is_seen(tmp_path: Path) -> None:
    job, temp = tmp_path / "job" / "checkpoints", tmp_path / "tmp"
    for folder in (job / "ckpt-3_temp", tmp_path / "job" / "workertemp_1", temp / "tfdist-0" / "x"):
        folder.mkdir(parents=True)
    for name in ("probe_1", "ckpt-1.index", "ckpt-2.index", "checkpoint"):
        (job / name).touch()
    (temp / "file").touch()
    attempt = tmp_path / "run_0" / "attempt_0"
    attempt.mkdir(parents=True)
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
        (attempt / "plan.json").write_text(json.dumps({"workers": [{"port": port}]}))
        found = leftovers.of_plan(tmp_path, "nobody has this mark")
    assert found == [
        f"port {port}",
        "file checkpoints/ckpt-3_temp",
        "file checkpoints/probe_1",
        "file workertemp_1",
        "2 checkpoints",
        "temp file tfdist-0/x",
        "temp file file",
    ]


def test_a_process_that_is_left_behind_is_seen_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "_PATIENCE", 0.1)
    (tmp_path / "tmp").mkdir()
    environ = {**os.environ, leftovers.MARK: "left behind"}
    with subprocess.Popen(["sleep", "60"], env=environ) as sleeper:
        while not leftovers.living("left behind"):  # its environment is there a moment later
            assert sleeper.poll() is None
        [found] = leftovers.of_plan(tmp_path, "left behind")
        leftovers.end("left behind")
    assert found == f"process {sleeper.pid}: sleep 60 "
    assert leftovers.of_plan(tmp_path, "left behind") == []


def test_a_plan_that_failed_is_kept_and_can_be_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def play(plan: Plan, folder: Path, _: Path) -> Played:
        folder.mkdir()
        weights = "f" * 64 if plan.name == "kill-1" else GOOD
        lines = [f"[rank {rank}] weights        {weights}\n" for rank in range(plan.workers)]
        result = played(folder, rows(*range(STEPS)), plan=plan)
        (folder / "output_0.txt").write_text("".join(lines))
        return result

    monkeypatch.setattr("tests.chaos.games.play", play)
    monkeypatch.setattr(command, "BUILD", tmp_path)
    assert command.main(["--seed", "5", "--counts", "term=2,kill=1"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
    assert command.main(["--seed", "5", "--steps", "9", "--counts", "kill=3", "--jobs", "2"]) == 1
    out = capsys.readouterr().out
    assert "python -m tests.chaos --seed 5 --steps 9 --plan kill-1" in out
    assert "| kill | 2/3 | 2 | 0 | 0 | 0 | 0 | 0 | - |" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kill-1-5", "report.json"]
    told = json.loads((tmp_path / "report.json").read_text())["plans"]
    assert [one["troubles"] for one in told] == [[], ["the weights differ"], []]


def test_a_family_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--counts", "term=1,flood=2"])
    assert "no family of plans is called flood" in capsys.readouterr().err


def test_trainings_that_are_struck_end_as_if_they_were_not() -> None:
    """A short `make chaos`."""
    plans = [draw(SEED, name, 40) for name in PLANS]
    assert {(plan.workers, plan.data) for plan in plans} == {(2, "steps"), (2, "iterator")}
    with Games(SEED, keep=None) as games:
        verdicts = games.verdicts(plans, jobs=2)
    for (_, data, steps), run in games.references.items():
        examples = [
            text for lines in run.rows.values() for line in lines for text in line.split()[1:]
        ]
        assert len(examples) == len(set(examples)) == steps * 24, f"{data}: not each example once"
    assert [verdict.troubles for verdict in verdicts] == [()] * len(plans)
    assert all(verdict.struck for verdict in verdicts)
