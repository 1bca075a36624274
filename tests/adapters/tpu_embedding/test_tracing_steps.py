"""`check_step` on whole programs: the document's, in host mode too, and many features."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import tfdist_kit
from tests.adapters.cluster import run_workers

HERE = "tests.adapters.tpu_embedding.test_tracing_steps"


def _many_features(strategy: Any) -> Any:
    import tensorflow as tf

    from tests.adapters.tpu_embedding.steps import E

    with strategy.scope():
        features = {
            f"f{number:02}": E.FeatureConfig(table=E.TableConfig(10**9, 4, name=f"t{number:02}"))
            for number in range(26)
        }
        own = tfdist_kit.tpu_embedding(features, E.Adagrad(0.1))

    @tf.function  # type: ignore[untyped-decorator]
    def step(ids: Any) -> None:
        def core_step() -> None:
            with tf.GradientTape() as tape:
                activations = own.dequeue()
                tape.watch(activations)
                loss = tf.add_n([tf.reduce_sum(each**2) for each in activations.values()])
            own.apply_gradients(tape.gradient(loss, activations))

        own.enqueue(ids)
        strategy.run(core_step)

    return step


def _by_name(zero: str = "") -> Any:
    """A step that gets the features by name; its gradients may be zero by their values alone."""
    from tests.adapters.tpu_embedding import steps

    return steps.bare(_stepping, zero=zero)


def _stepping(strategy: Any, own: Any, core_step: Any) -> Any:
    def step(features: Any) -> None:
        own.enqueue(features)
        strategy.run(core_step)

    return step


def _report(report: Any) -> dict[str, Any]:
    return {
        "counts": {
            step.name: (step.enqueues, step.dequeues, step.applied) for step in report.steps
        },
        "codes": [finding.code for finding in report.findings],
        "shapes": dict(report.features),
        "tables": [(table.name, table.rows, table.dim, table.optimizer) for table in report.tables],
        "text": str(report),
    }


def in_worker_programs() -> dict[str, Any]:
    import tensorflow as tf

    from tests.adapters.tpu_embedding import steps
    from tfdist_kit.adapters.tpu_embedding import check_step, per_replica

    data = (steps.dataset_fn, steps.STEPS)
    specs = {f"f{number:02}": tf.SparseTensorSpec([16, 9], tf.int64) for number in range(26)}
    told: dict[str, Any] = {
        f"documented {hosts}": _report(
            check_step(steps.documented, data, hosts=hosts, cores_per_host=2)
        )
        for hosts in (1, 2)
    }
    told["many"] = _report(check_step(_many_features, per_replica(specs)))
    one = tf.SparseTensorSpec([4, 3], tf.int64)
    nested = {name: per_replica(one) for name in "ab"}
    for name, given in {
        "whole": per_replica({"a": one, "b": one}),
        "in a dict": nested,
        "in a tuple": (nested,),
        "with others": ({**nested, "a": one},),
    }.items():
        told[f"per replica {name}"] = _report(check_step(_by_name(), given, cores_per_host=2))
    for zero in steps.ZEROS:
        told[f"zero {zero}"] = _report(check_step(_by_name(zero), nested, cores_per_host=2))
    told["ends"] = _report(
        check_step(
            steps.planned(),
            (lambda context: steps.dataset_fn(context, whole=False).take(2), steps.STEPS),
            hosts=2,
            cores_per_host=1,
        )
    )
    own_inputs = {"training": data, "evaluation": (steps.dataset_fn, 3)}
    told["inputs by name"] = _report(check_step(steps.documented, own_inputs, cores_per_host=1))
    told["flag"] = steps.with_a_flag()
    told["host mode"] = steps.documented_in_host_mode()
    return told


def in_worker_manners() -> dict[str, Any]:
    import tensorflow as tf

    from tests.adapters.tpu_embedding import steps
    from tfdist_kit.adapters.tpu_embedding import check_step
    from tfdist_kit.testing import assert_tpu_step
    from tfdist_kit.testing.state import left_behind, snapshot

    data = (steps.dataset_fn, steps.STEPS)
    wrong = steps.planned(watched=False, training=False)
    build, before, alive = steps.E.TPUEmbedding.build, snapshot(), []

    def remembered(strategy: Any) -> Any:
        alive.append(weakref.ref(strategy))
        return steps.planned()(strategy)

    report = check_step(wrong, data, cores_per_host=1)
    told: dict[str, Any] = {
        "raised": _error(report.raise_for_findings),
        "allowed": _error(lambda: report.raise_for_findings(allow=["EMB003", "EMB009"])),
        "allowed in part": _error(lambda: report.raise_for_findings(allow=["EMB003"])),
        "no such code": _error(lambda: report.raise_for_findings(allow=["EMB999"])),
        "one string": _error(lambda: report.raise_for_findings(allow="EMB003")),
        "asserted": _error(lambda: assert_tpu_step(wrong, data, cores_per_host=1)),
        "assertion passes": str(assert_tpu_step(remembered, data, cores_per_host=1)),
        "assertion allows": _error(
            lambda: assert_tpu_step(wrong, data, cores_per_host=1, allow=["EMB003", "EMB009"])
        ),
        "a dataset": _error(lambda: check_step(wrong, (steps.dataset_fn(), 1))),
        "no dataset": _error(lambda: check_step(wrong, (lambda _context: 3, 1))),
        "unlike hosts": _error(lambda: check_step(wrong, (_unlike, 1), hosts=2)),
        "no make": _error(lambda: check_step(3)),  # type: ignore[arg-type]
        "no step": _error(lambda: check_step(lambda strategy: strategy)),
        "no host": _error(lambda: check_step(wrong, data, hosts=0)),
        "in a function": _error(tf.function(lambda: str(check_step(wrong, data)), autograph=False)),
    }
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        told["in a scope"] = _error(lambda: check_step(wrong, data))
    tf.config.set_soft_device_placement(False)
    told["no soft placement"] = _error(lambda: check_step(wrong, data))
    tf.config.set_soft_device_placement(True)
    tf.config.run_functions_eagerly(True)
    told["eagerly"] = _error(lambda: check_step(wrong, data))
    tf.config.run_functions_eagerly(False)
    gc.collect()
    told["left behind"] = left_behind(before)
    told["restored"] = steps.E.TPUEmbedding.build is build
    told["strategy is gone"] = alive[0]() is None
    return told


def _unlike(context: Any) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.range(4).batch(1 + context.input_pipeline_id, drop_remainder=True)


def _error(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def test_whole_programs_pass_and_train_in_host_mode() -> None:
    [told] = run_workers(f"{HERE}:in_worker_programs", workers=1)
    for hosts in (1, 2):
        report, cores = told[f"documented {hosts}"], 2 * hosts
        assert report["codes"] == []
        assert report["counts"] == {"training": (cores, 1, 1), "evaluation": (cores, 1, 0)}
        assert report["shapes"] == {"a": (4, 2), "b": (4, 2)}
        assert report["tables"] == [("table_a", 8, 2, "Adam"), ("table_b", 8, 2, "Adam")]
    assert told["documented 2"]["text"].splitlines() == READ
    assert told["flag"] == [-1.0, -1.0, -2.0]
    before, after = told["host mode"]
    assert 0 <= after < before / 2
    many = told["many"]
    assert (many["codes"], many["counts"]) == ([], {"step": (8, 1, 1)})
    assert len(many["shapes"]) == len(many["tables"]) == 26
    assert many["tables"][0] == ("t00", 10**9, 4, "Adagrad")
    assert many["shapes"]["f25"] == (16, 4)
    for name in ("whole", "in a dict", "in a tuple", "with others"):
        report = told[f"per replica {name}"]
        assert (report["codes"], report["counts"]) == ([], {"step": (2, 1, 1)})
        assert report["shapes"] == {"a": (4, 2), "b": (4, 2)}
    for zero in ("product", "condition"):  # as the page says
        assert told[f"zero {zero}"]["codes"] == []
    assert told["ends"]["codes"] == ["EMB053"]
    assert "step: could not be traced" in told["ends"]["text"]
    assert told["inputs by name"]["codes"] == []
    assert list(told["inputs by name"]["counts"]) == ["training", "evaluation"]


READ = [
    "traced for a TPU of 2 hosts with 2 cores each; nothing found",
    "training: 4 enqueue, 1 dequeue, 1 apply_gradients",
    "evaluation: 4 enqueue, 1 dequeue, 0 apply_gradients",
    "feature a: [4, 2]",
    "feature b: [4, 2]",
    "table table_a: 8 x 2, Adam",
    "table table_b: 8 x 2, Adam",
]
# How what is raised begins; empty where nothing is.
RAISED = {
    "raised": "EmbeddingError: TFD080: traced for a TPU of 1 host with 1 core; 2 findings",
    "allowed": "",
    "allowed in part": "EmbeddingError: TFD080",
    "no such code": "UsageError: TFD001: allow is ['EMB999']",
    "one string": "UsageError: TFD001: allow is 'EMB003'",
    "asserted": "AssertionError: traced for a TPU of 1 host with 1 core; 2 findings",
    "assertion allows": "",
    "a dataset": "UsageError: TFD001: inputs has a dataset",
    "no dataset": "UsageError: TFD001: inputs has a function that returned int",
    "unlike hosts": "UsageError: TFD001: the dataset of host 1 has the elements",
    "no make": "UsageError: TFD001: make is 3",
    "no step": "UsageError: TFD001: make returned",
    "no host": "UsageError: TFD001: hosts is 0",
    "in a function": "UsageError: TFD001: check_step is called inside",
    "in a scope": "UsageError: TFD001: check_step is called inside",
    "no soft placement": "UsageError: TFD001: soft device placement is switched off",
    "eagerly": "UsageError: TFD001: functions run eagerly",
}


def test_what_is_raised_and_that_nothing_is_left_behind() -> None:
    [told] = run_workers(f"{HERE}:in_worker_manners", workers=1)
    for case, begin in RAISED.items():
        assert told[case].startswith(begin), case
        assert bool(told[case]) == bool(begin), case
    assert told["assertion passes"].startswith("traced for a TPU of 1 host with 1 core; nothing")
    assert "EMB003: apply_gradients after enqueue with training=False" in told["asserted"]
    assert "EMB009: apply_gradients gets nothing but zeros" in told["asserted"]
    assert told["left behind"] == ""
    assert told["restored"]
    assert told["strategy is gone"]
