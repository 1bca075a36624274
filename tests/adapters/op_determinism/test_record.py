"""The recorder on live trainings: repeats are the same, and every fault is named where it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.cluster import cluster, run_workers
from tests.adapters.op_determinism import recorded
from tfdist_kit import LocalCluster
from tfdist_kit.adapters.op_determinism.recorder import digests
from tfdist_kit.determinism import Run, compare, drift, explain, read_run
from tfdist_kit.determinism.explaining import explain_workers
from tfdist_kit.determinism.telling import text
from tfdist_kit.determinism.verifying import judge

HERE = "tests.adapters.op_determinism.recorded"
REPEATS = 6


def runs(folder: Path) -> list[Run]:
    return [read_run(path, path.name) for path in sorted(folder.iterdir())]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bool]]:
    folder = tmp_path_factory.mktemp("clean")
    [unchanged] = run_workers(f"{HERE}:clean", workers=0, folder=str(folder), repeats=REPEATS)
    return folder, unchanged


@pytest.mark.parametrize("way", recorded.WAYS)
def test_a_training_is_recorded_whole(clean: tuple[Path, dict[str, bool]], way: str) -> None:
    run = read_run(clean[0] / way / "0")
    assert run.steps == 4
    trace = run.traces[0]
    assert trace.is_whole
    phases = [row.phase for row in trace.rows if row.step == 2]
    assert phases == ["input", "loss", "grad", "weight"]
    methods = {row.method for row in trace.rows if row.phase == "grad"}
    assert methods == {"mix64" if way.endswith("xla") else "farmhash64"}
    assert (trace.rows[0].phase == "init") == (way != "keras_eagerly")


def test_repeats_are_the_same_however_many_steps_are_in_one_execution(
    clean: tuple[Path, dict[str, bool]],
) -> None:
    first, second = runs(clean[0] / "keras")
    assert compare(first, second) is None
    assert compare(first, read_run(clean[0] / "keras_several_steps" / "0")) is None


def test_repeats_of_a_loop_raise_no_false_alarm(clean: tuple[Path, dict[str, bool]]) -> None:
    first, *others = runs(clean[0] / "loop")
    assert len(others) == REPEATS - 1
    assert [compare(first, other) for other in others] == [None] * len(others)
    assert first.steps == 5


def test_recording_leaves_the_bits_as_they_are(clean: tuple[Path, dict[str, bool]]) -> None:
    assert clean[1] == {"keras": True, "tf_keras": True}


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    run_workers(f"{HERE}:alone", workers=0, folder=str(folder))
    return folder


@pytest.mark.parametrize(
    ("fault", "kind", "step", "tensor", "told"),
    [
        ("unseeded", "init", -1, "kernel", "Python"),
        ("without_order", "input order", 0, "batch", "deterministic=False"),
        ("shared_state", "input values", 0, "batch", "stateless"),
        ("bincount", "forward", None, "loss", "bincount"),
        ("crop", "gradient", None, "Variable", "crop_and_resize"),
        ("scatter", "update", None, "Variable", "duplicate"),
    ],
)
def test_a_fault_is_named_where_it_is(
    faults: Path, fault: str, kind: str, step: int | None, tensor: str, told: str
) -> None:
    first, second = runs(faults / fault)
    found = compare(first, second)
    assert found is not None
    assert found.kind == kind
    assert step is None or found.step == step
    assert tensor in found.tensors[0]
    assert told in f"{found.cause} {found.cure}"
    assert explain(first, second) == []


@pytest.fixture(scope="module")
def otherwise(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, str]]]:
    """Runs with one thread, with two, and with oneDNN; and what the first step of each gave."""
    folder = tmp_path_factory.mktemp("otherwise")
    call = f"{HERE}:set_up_otherwise"
    names = ("plain", "two_threads")
    plain, threads = run_workers(call, folder=str(folder), names=names)
    with cluster(1, env={"TF_ENABLE_ONEDNN_OPTS": "1"}) as workers:  # read at import
        [one_dnn] = workers.run(recorded.set_up_otherwise, str(folder), ("one_dnn",))
    return folder, {"plain": plain, "two_threads": threads, "one_dnn": one_dnn}


@pytest.mark.parametrize(
    ("name", "key", "values"),
    [
        ("two_threads", "threads.intra_op", (1, 2)),
        ("one_dnn", "switches.one_dnn", (False, True)),
    ],
)
def test_a_setting_that_differs_is_the_cause(
    otherwise: tuple[Path, dict[str, dict[str, str]]], name: str, key: str, values: tuple[Any, Any]
) -> None:
    folder, gave = otherwise
    plain, other = (read_run(folder / each) for each in ("plain", name))
    *_, difference = explain(plain, other)  # before it, the variable that switches it
    assert (difference.key, difference.first, difference.second) == (key, *values)
    found = compare(plain, other)
    assert found is not None
    unlike = [phase for phase, value in gave["plain"].items() if value != gave[name][phase]]
    assert (found.kind, found.step) == (unlike[0], 0)
    assert found.cause.startswith("the runs are not set up alike (")
    assert f"{key})" in found.cause
    assert key in text(judge([plain, other]))


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    folder = tmp_path_factory.mktemp("together")
    return folder, run_workers(f"{HERE}:together", folder=str(folder))


def test_workers_agree_in_every_step(together: tuple[Path, list[Any]]) -> None:
    run = read_run(together[0] / "clean")  # what repeats it does so until it is changed: see below
    assert drift(run) is None
    assert sorted(run.traces) == [0, 1]
    assert run.steps == 20
    phases = [row.phase for row in run.traces[1].rows if row.step == 2]
    assert phases == ["input", "loss", "grad", "reduced", "weight"]


def test_the_ring_sums_in_the_same_order_each_time(tmp_path: Path) -> None:
    run_workers(f"{HERE}:around_the_ring", workers=4, folder=str(tmp_path))
    first, *others = runs(tmp_path)
    assert sorted(first.traces) == [0, 1, 2, 3]
    for other in others:
        assert compare(first, other) is None
    assert drift(first) is None
    steps = [row.digests for row in first.traces[3].rows if row.phase == "reduced"]
    assert len(steps) == 3
    assert len(set(steps)) == 1
    own = {rank: trace.rows[0].digests for rank, trace in first.traces.items()}
    assert len(set(own.values())) == 4


def test_workers_repeat_bit_by_bit_until_one_element_is_changed_on_one_of_them(
    together: tuple[Path, list[Any]],
) -> None:
    folder, told = together
    clean = read_run(folder / "clean")
    changed = read_run(folder / "changed")
    found = compare(clean, changed)
    assert found is not None
    assert (found.kind, found.step, found.ranks) == ("update", recorded.CHANGED_STEP, (1,))
    assert len(found.tensors) == 1
    assert "kernel" in found.tensors[0]
    apart = drift(changed)
    assert apart is not None
    assert (apart.step, apart.phase, apart.ranks) == (recorded.CHANGED_STEP, "weight", (1,))
    for calls in told:
        assert calls[0] == ""
        assert "1 of 2 variables differ between replicas" in calls[1]
        assert "(worker:1)" in calls[1]
    assert len({calls[1] for calls in told}) == 1


def test_another_seed_on_one_worker_is_found(together: tuple[Path, list[Any]]) -> None:
    clean, other = runs(together[0] / "seed")
    found = compare(clean, other)
    assert found is not None
    assert (found.kind, found.step, found.ranks) == ("input order", 0, (1,))
    keys = "seeds.keras", "seeds.tensorflow"
    told = [(each.key, each.first, each.second, each.ranks) for each in explain(clean, other)]
    assert told == [(key, 1, 2, (1,)) for key in keys]
    assert [(each.key, each.ranks) for each in explain_workers(other)] == [
        (key, (1,)) for key in keys
    ]
    assert explain_workers(clean) == []


def misuses() -> dict[str, str]:
    """What is said to wrong calls, in a worker."""
    import tensorflow as tf

    from tfdist_kit.adapters.op_determinism import check_replicas, record, recording

    def in_xla() -> None:
        tf.function(lambda: record(loss=tf.constant(1.0)), jit_compile=True)()

    def in_graph() -> None:
        tf.function(lambda: check_replicas(tf.distribute.get_strategy(), []))()

    told: dict[str, str] = {}
    calls: dict[str, Callable[[], Any]] = {
        "nothing": record,
        "xla": in_xla,
        "graph": in_graph,
        "no variable": lambda: check_replicas(tf.distribute.get_strategy(), []),
    }
    record()  # nothing is recorded, so that it does nothing
    with recording(os.environ["TMPDIR"]):
        for name, call in calls.items():
            try:
                call()
            except Exception as error:  # AutoGraph makes its own of one that is raised in a graph
                told[name] = str(error)
    return told


def digested(kind: digests.Method) -> dict[str, tuple[int, int]]:
    """Batches that differ in a little, in a worker: their digests, and those of their rows."""
    import numpy as np
    import tensorflow as tf

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def both(batch: Any) -> Any:
        head, rows = digests.digests_of_rows([batch], kind)
        return digests.as_numbers([head], kind)[0], rows, digests.samples([batch])

    batch = np.random.RandomState(0).rand(64, 3).astype("float32")
    cases = {"same": batch.copy(), "one bit": batch.copy(), "other order": batch[::-1].copy()}
    cases["one bit"][40, 1] = np.nextafter(batch[40, 1], 2, dtype="float32")
    cases["two signs"] = batch.copy()
    cases["two signs"][7, :2] *= -1
    cases["traded within a row"] = batch.copy()
    cases["traded within a row"][9, :2] = batch[9, 1::-1]
    cases["nothing"] = batch[:0]
    found = {name: both(tf.constant(case)) for name, case in {"": batch, **cases}.items()}
    return {name: (int(head), int(rows)) for name, (head, rows, _) in found.items()}


@pytest.mark.parametrize("kind", ["farmhash64", "mix64"])
def test_digests_tell_values_and_their_order(single: LocalCluster, kind: digests.Method) -> None:
    [found] = single.run(digested, kind)
    whole, rows = found.pop("")
    assert found.pop("same") == (whole, rows)
    reordered = found.pop("other order")
    assert reordered[0] != whole
    assert reordered[1] == rows
    assert found.pop("nothing")[1] == 0
    assert len(found) == 3
    assert all(head != whole and own != rows for head, own in found.values())


@pytest.fixture(scope="module")
def single() -> Iterator[LocalCluster]:
    with cluster(1) as workers:
        yield workers


def test_calls_that_cannot_be_answered(single: LocalCluster) -> None:
    [told] = single.run(misuses)
    assert "was given nothing" in told["nothing"]
    assert "jit_compile=True" in told["xla"]
    assert "in a graph" in told["graph"]
    assert "no variable" in told["no variable"]
