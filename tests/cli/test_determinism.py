"""``tfdist determinism``: verdicts and exit codes, on programs that write traces of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import Result, script, tfdist
from tests.determinism.traces import PLAIN, rows, written

# What the recorder would write; the number of the run is in the name of its folder.
# A plain import would have the launcher import TensorFlow ahead of the program.
PROGRAM = """\
import importlib, os, sys
from pathlib import Path
Row = importlib.import_module("tfdist_kit.determinism.trace").Row
TraceWriter = importlib.import_module("tfdist_kit.determinism.writing").TraceWriter
folder = Path(os.environ["TFDIST_RECORD"])
number, rank = int(folder.name[-1]), int(os.environ["TFDIST_RANK"])
if f"fail{number}" in sys.argv:
    sys.exit(7)
manifest = {"seeds": {"tensorflow": number if "unlike" in sys.argv else 0}}
writer = TraceWriter(folder, rank, manifest)
for step in range(3):
    for phase in ("loss", "grad", "reduced"):
        odd = "part" in sys.argv and (number, rank, step, phase) == (1, 0, 1, "grad")
        odd = odd or "drift" in sys.argv and (rank, step, phase) == (1, 2, "reduced")
        digest = f"{step}{odd:d}{'' if phase == 'reduced' else rank}".ljust(16, "0")
        writer.write(Row(phase, (phase,), (digest,), samples=((1.0,),), step=step, method="x"))
writer.close()
print("environment:", sorted(name for name in os.environ if name.startswith("TFDIST_")))
"""


def verify(folder: Path, *args: str, options: tuple[str, ...] = ("--runs", "2")) -> Result:
    name = script(folder, PROGRAM)
    return tfdist("determinism", "verify", *options, "--", "python", name, *args, folder=folder)


def test_runs_that_are_the_same(tmp_path: Path) -> None:
    result = verify(tmp_path, options=("--runs", "3"))
    assert result.code == 0, result.err
    assert result.out.startswith("identical over 3 runs, 3 steps on 1 rank\n  shown: every digest")
    assert "not shown: " in result.out
    assert "tfdist: run 2: done in " in result.err
    assert not list((tmp_path / "tmp").glob("tfdist-determinism-*"))


def test_runs_that_part(tmp_path: Path) -> None:
    options = ("--runs", "2", "-n", "2", "--traces", "traces", "--html", "page.html")
    result = verify(tmp_path, "part", options=options)
    assert result.code == 1
    assert result.out.startswith("run 0 and run 1 part at step 1: gradient\n  tensors: grad")
    assert "  ranks: 0\n" in result.out
    assert "Diverged at step 1: gradient" in (tmp_path / "page.html").read_text()
    assert (tmp_path / "traces" / "run_1" / "rank_1.jsonl").exists()
    again = tfdist("determinism", "verify", *options, "--", "train.py", folder=tmp_path)
    assert again.code == 2
    assert "already holds recorded runs" in again.err


def test_workers_that_drift_apart_in_the_same_way_each_time(tmp_path: Path) -> None:
    result = verify(tmp_path, "drift", options=("--runs", "2", "-n", "2"))
    assert result.code == 1
    assert "the workers do not agree from step 2 on: rank 1 differs in reduced" in result.out


def test_a_run_that_fails(tmp_path: Path) -> None:
    result = verify(tmp_path, "fail1", options=("--runs", "3", "--json"))
    assert result.code == 3
    assert json.loads(result.out)["failed"] == [1, 7]
    assert "run 1: FAILED with exit code 7" in result.err


def test_manifests_that_differ_are_told_though_the_bits_are_the_same(tmp_path: Path) -> None:
    result = verify(tmp_path, "unlike", options=("--runs", "2", "--json"))
    told = json.loads(result.out)
    assert result.code == 0
    assert not told["comparable"]
    assert [each["key"] for each in told["differences"]] == ["seeds.tensorflow"]


def test_under_stress_every_second_run_has_company(tmp_path: Path) -> None:
    result = verify(tmp_path, options=("--stress",))
    assert result.code == 0, result.err
    assert "identical over 5 runs" in result.out
    busy = [line for line in result.err.splitlines() if line.endswith(", on busy processors")]
    assert [line.split()[2] for line in busy] == ["1:", "3:"]


def test_a_program_that_records_nothing(tmp_path: Path) -> None:
    name = script(tmp_path, "print('hello')")
    result = tfdist("determinism", "verify", "--output", "--", name, folder=tmp_path)
    assert result.code == 2
    assert "hello" in result.out
    assert "the program has recorded nothing" in result.err


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["verify"], "names no program"),
        (["verify", "--", "python"], "names no program"),
        (["verify", "--", "python", "-c", "pass"], "begins with -c"),
        (["verify", "--runs", "1", "--", "train.py"], "the number of runs is 1"),
        (["verify", "--", "absent.py"], "does not exist"),
        (["verify", "--env", "X", "--", "train.py"], "--env was given 'X'"),
        (["compare", "absent", "absent"], "there is no trace in absent"),
        (["explain", "absent", "absent"], "there is no trace in absent"),
        (["manifest", "absent"], "there is no trace in absent"),
        (["nonsense"], "invalid choice"),
    ],
)
def test_what_cannot_be_done(tmp_path: Path, args: list[str], told: str) -> None:
    script(tmp_path, "")
    result = tfdist("determinism", *args, folder=tmp_path)
    assert result.code == 2
    assert told in result.err


def test_two_recorded_runs(tmp_path: Path) -> None:
    written(tmp_path / "a", rows())
    written(tmp_path / "b", rows(changed={("loss", 1): {0: "f" * 16}}))
    written(tmp_path / "c", rows(samples={("weight", 2): 1.01}), manifests=[{**PLAIN, "x": 1}])

    def run(*args: str) -> Result:
        return tfdist("determinism", *args, folder=tmp_path)

    assert run("compare", "a", "a").code == 0
    parted = run("compare", "a", "b/rank_0.jsonl")
    assert parted.code == 1
    assert "part at step 1: forward" in parted.out
    assert run("compare", "a", "b", "--rtol", "1e-3").code == 0
    far = run("compare", "a", "c", "--rtol", "1e-3", "--html", "page.html")
    assert far.code == 1
    assert "beyond the tolerance at step 2: weight of dense/kernel" in far.out
    assert "<polyline" in (tmp_path / "page.html").read_text()
    explained = run("explain", "a", "c")
    assert explained.code == 1
    assert "  x on rank 0: not set and 1" in explained.out
    assert run("explain", "a", "b").code == 0
    manifest = json.loads(run("manifest", "a").out)
    assert manifest["0"]["threads"] == PLAIN["threads"]
