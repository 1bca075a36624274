"""Where two runs part, from traces: every phase, ranks, the order of inputs, and broken files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.determinism.traces import NAMES, PLAIN, rows, written
from tfdist_kit import UsageError
from tfdist_kit.determinism import compare, drift, explain, read_run
from tfdist_kit.determinism.explaining import explain_workers

OTHER = "f" * 16


def test_a_trace_reads_as_it_was_written(tmp_path: Path) -> None:
    run = written(tmp_path, rows())
    assert list(run.traces[0].rows) == rows()
    assert run.traces[0].manifest["threads"] == PLAIN["threads"]
    assert run.traces[0].is_whole
    assert run.steps == 4


def test_runs_that_are_the_same(tmp_path: Path) -> None:
    first, second = (written(tmp_path / name, rows(), rows()) for name in "ab")
    assert compare(first, second) is None
    assert explain(first, second) == []


@pytest.mark.parametrize(
    ("phase", "step", "kind"),
    [
        ("init", -1, "init"),
        ("input", 2, "input values"),
        ("loss", 2, "forward"),
        ("grad", 0, "gradient"),
        ("reduced", 3, "reduction"),
        ("weight", 1, "update"),
    ],
)
def test_the_first_difference_is_named(tmp_path: Path, phase: str, step: int, kind: str) -> None:
    later = {("weight", 3): {0: OTHER, 1: OTHER}}
    first = written(tmp_path / "a", rows())
    changed = rows(changed={**later, (phase, step): {1: OTHER}}, sets=[100, 101, 7, 103])
    second = written(tmp_path / "b", changed)
    found = compare(first, second)
    assert found is not None
    assert (found.kind, found.step) == (kind, step)
    assert found.tensors == (NAMES[1],)
    assert found.total == 2
    told = str(found)
    assert told.startswith("a and b part ")
    assert f"{kind}\n  tensors: dense/bias (1 of 2)\n  ranks: 0\n  cause: " in told


@pytest.mark.parametrize(
    ("sets", "kind"),
    [
        (None, "input order"),  # other rows first, in the same batch
        ([100, 102, 101, 103], "input order"),  # two batches trade rows
        ([100, 110, 102, 103], "input values"),
    ],
)
def test_the_order_of_inputs_is_told_from_their_values(
    tmp_path: Path, sets: list[int] | None, kind: str
) -> None:
    first = written(tmp_path / "a", rows())
    second = written(tmp_path / "b", rows(changed={("input", 1): {0: OTHER}}, sets=sets))
    found = compare(first, second)
    assert found is not None
    assert found.kind == kind


def test_the_rank_is_named_that_differs_first(tmp_path: Path) -> None:
    first = written(tmp_path / "a", rows(), rows())
    second = written(
        tmp_path / "b",
        rows(changed={("reduced", 1): {0: OTHER}}),
        rows(changed={("grad", 1): {0: OTHER}, ("reduced", 1): {0: OTHER}}),
    )
    found = compare(first, second)
    assert found is not None
    assert (found.kind, found.step, found.ranks) == ("gradient", 1, (1,))


def test_names_of_layers_that_keras_has_numbered_on_are_no_difference(tmp_path: Path) -> None:
    first = written(tmp_path / "a", rows())
    second = written(tmp_path / "b", rows(names=("dense_1/kernel", "dense_1/bias")))
    assert compare(first, second) is None


def test_a_run_that_stops_early(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a", rows()), written(tmp_path / "b", rows(steps=2))
    found = compare(first, second)
    assert found is not None
    assert (found.kind, found.step) == ("length", 2)


def test_without_start_values_an_initializer_is_not_excluded(tmp_path: Path) -> None:
    first = written(tmp_path / "a", rows()[1:])
    second = written(tmp_path / "b", rows(changed={("loss", 0): {0: OTHER}})[1:])
    found = compare(first, second)
    assert found is not None
    assert "initializer" in found.cause


def test_a_generator_that_was_not_seeded_is_told(tmp_path: Path) -> None:
    other = {**PLAIN, "drawn": {"python": "cc", "numpy": "bb"}}
    first = written(tmp_path / "a", rows())
    changed = rows(changed={("init", -1): {0: OTHER}})
    second = written(tmp_path / "b", changed, manifests=[other])
    found = compare(first, second)
    assert found is not None
    assert "the state of Python's random numbers differed" in found.cause
    assert explain(first, second) == []  # it is a cause, and no reason not to compare


def test_digests_of_different_kinds_are_not_compared(tmp_path: Path) -> None:
    first = written(tmp_path / "a", rows())
    second = written(tmp_path / "b", rows(method="mix64"))
    with pytest.raises(UsageError, match="farmhash64 and mix64"):
        compare(first, second)


def test_manifests_that_differ_are_explained(tmp_path: Path) -> None:
    other: dict[str, Any] = {
        **PLAIN,
        "threads": {"intra_op": 1, "inter_op": 2},
        "environment": {"TF_ENABLE_ONEDNN_OPTS": "0"},
    }
    first = written(tmp_path / "a", rows(), rows())
    second = written(tmp_path / "b", rows(), rows(), manifests=[PLAIN, other])
    told = {each.key: each for each in explain(first, second)}
    assert set(told) == {"threads.intra_op", "environment.TF_ENABLE_ONEDNN_OPTS"}
    assert told["threads.intra_op"].ranks == (1,)
    assert str(told["environment.TF_ENABLE_ONEDNN_OPTS"]).startswith(
        "environment.TF_ENABLE_ONEDNN_OPTS on rank 1: not set and 0: oneDNN's"
    )
    assert [each.key for each in explain_workers(second)] == sorted(told)


def test_another_number_of_processes_is_explained(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a", rows()), written(tmp_path / "b", rows(), rows())
    [told] = explain(first, second)
    assert (told.key, told.first, told.second) == ("cluster.processes", 1, 2)


def test_workers_of_one_run_that_drift_apart(tmp_path: Path) -> None:
    own_inputs = {("input", 0): {0: OTHER}, ("loss", 0): {0: OTHER}}
    together = written(tmp_path / "a", rows(), rows(changed=own_inputs))
    assert drift(together) is None
    apart = rows(changed={("weight", 2): {0: OTHER}, ("weight", 3): {0: OTHER}})
    found = drift(written(tmp_path / "b", rows(), rows(), apart))
    assert found is not None
    assert (found.step, found.phase, found.ranks) == (2, "weight", (2,))
    assert "rank 2 differs in weight: dense/kernel" in str(found)


def test_processes_that_do_not_train_together_may_differ(tmp_path: Path) -> None:
    alone = [
        [row for row in rows(changed=changed) if row.phase != "reduced"]
        for changed in ({}, {("weight", 2): {0: OTHER}})
    ]
    assert drift(written(tmp_path, *alone)) is None


def test_a_trace_that_breaks_off_is_read_to_where_it_does(tmp_path: Path) -> None:
    written(tmp_path, rows())
    path = tmp_path / "rank_0.jsonl"
    *whole, end = path.read_text().splitlines()
    assert end == '{"end":true}'
    path.write_text("\n".join(whole[:-1]) + "\n" + whole[-1][:20])
    trace = read_run(tmp_path).traces[0]
    assert not trace.is_whole
    assert len(trace.rows) == len(rows()) - 1


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[]", '{"trace": 2}', '{"trace": 1, "rank": 0}', "{}\n\n{}"]
)
def test_what_is_no_trace(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rank_0.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match="is not a trace"):
        read_run(path)


def test_a_row_with_names_that_were_never_told(tmp_path: Path) -> None:
    head = {"trace": 1, "rank": 0, "manifest": {}}
    row = {"loop": 0, "step": 0, "phase": "loss", "names": 7, "digests": [], "samples": ""}
    path = tmp_path / "rank_0.jsonl"
    path.write_text(f"{json.dumps(head)}\n{json.dumps(row)}\n")
    with pytest.raises(UsageError, match="is not a trace"):
        read_run(path)


def test_no_trace_at_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no trace in"):
        read_run(tmp_path)
