"""What the lint says of a dataset, and what then happens when it is read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.cluster import run_workers

HERE = "tests.adapters.op_determinism.test_lint"


# In the worker


def look(folder: str) -> dict[str, Any]:
    """For each dataset: the codes that are found, and how many of its elements ran at once."""
    import tensorflow as tf

    import tfdist_kit

    tfdist_kit.enable_op_determinism(1)
    from tests.adapters.op_determinism import pipelines
    from tfdist_kit.adapters.op_determinism import lint_dataset

    files = f"{folder}/rows"
    rows = [str(10**number) for number in range(pipelines.ELEMENTS)]
    Path(f"{files}.txt").write_text("\n".join(rows))
    with tf.io.TFRecordWriter(f"{files}.tfrecord") as writer:
        for row in rows:
            writer.write(row)

    def both(make: Any) -> tuple[list[str], int]:
        dataset = make()
        return [finding.code for finding in lint_dataset(dataset)], pipelines.most_at_once(dataset)

    cases = pipelines.cases()
    return {
        "slow": {name: (case.code, *both(case.slow)) for name, case in cases.items()},
        "rewritten": {
            f"{name}, {number}": both(make)
            for name, case in cases.items()
            for number, make in enumerate(case.rewrites)
        },
        "harmless": {name: both(make) for name, make in pipelines.harmless(files).items()},
        "measured": [
            [
                finding.slowdown
                for finding in lint_dataset(pipelines.on_four(make()), measure=True, elements=8)
            ]
            for make in (cases["a Generator"].slow, cases["a Generator"].rewrites[0])
        ],
        "told": str(lint_dataset(cases["random in tf.cond"].slow())[0]),
        "a layer": lint_dataset(cases["StringLookup in a map of its own"].slow())[0].stage,
        "costs": lint_dataset(cases["a Generator"].slow().batch(2).prefetch(1))[0].cost,
        "nothing to lose": len(lint_dataset(pipelines.numbers().map(tf.Variable(1.0).__add__))),
        "refused": [refusal(value) for value in (3, [1, 2])]
        + [refusal(tf.data.Dataset.range(1), elements=0)],
    }


def refusal(dataset: Any, **options: Any) -> str:
    from tfdist_kit import UsageError
    from tfdist_kit.adapters.op_determinism import lint_dataset

    with pytest.raises(UsageError) as error:
        lint_dataset(dataset, **options)
    return str(error.value)


def look_at_old_ones() -> dict[str, Any]:
    """Datasets that were made or read before the switch: the codes, and what they then give."""
    import tensorflow as tf

    import tfdist_kit
    from tests.adapters.op_determinism import pipelines
    from tfdist_kit.adapters.op_determinism import lint_dataset

    def waiting(x: Any) -> Any:
        import time

        time.sleep(0.02 if x % 4 == 0 else 0.0)
        return x

    def sloppy(deterministic: bool | None = False) -> Any:
        return pipelines.numbers().map(
            lambda x: tf.numpy_function(waiting, [x], tf.float32, stateful=False),
            num_parallel_calls=4,
            deterministic=deterministic,
        )

    by_option = tf.data.Options()
    by_option.deterministic = False
    made = {
        "read": sloppy(),
        "read by an option": sloppy(None).with_options(by_option),
        "not read": sloppy(),
        "in order": sloppy(None),
        "random": pipelines.numbers().map(
            lambda x: x + tf.random.uniform([]), num_parallel_calls=2
        ),
        "shuffled": pipelines.numbers().shuffle(8),
        "shuffled with a seed": pipelines.numbers().shuffle(8, seed=1),
    }
    for name in ("read", "read by an option", "in order"):
        list(made[name])
    list(made["random"])
    assert lint_dataset(made["read"]) == lint_dataset(made["shuffled"]) == []
    with pytest.raises(tfdist_kit.UsageError) as error:
        tfdist_kit.enable_op_determinism(1)
    tfdist_kit.enable_op_determinism(1, on_late="warn")
    derived = made["read"].take(-1)
    return {
        "refusal": str(error.value),
        "codes": {
            name: [finding.code for finding in lint_dataset(dataset)]
            for name, dataset in {**made, "derived": derived, "anew": sloppy()}.items()
        },
        "orders": {
            name: len({tuple(float(x) for x in dataset) for _ in range(6)})
            for name, dataset in {**made, "derived": derived}.items()
            if name in ("read", "not read", "in order", "derived", "shuffled")
        },
    }


# In pytest


def test_what_is_found_is_what_happens_when_the_dataset_is_read(tmp_path: Path) -> None:
    [seen] = run_workers(f"{HERE}:look", workers=0, folder=str(tmp_path))
    slow = seen["slow"]
    assert {name: (codes, most) for name, (_, codes, most) in slow.items()} == {
        name: ([code], 1) for name, (code, *_) in slow.items()
    }
    assert len({code for code, *_ in slow.values()}) == 9
    for kind in ("rewritten", "harmless"):
        assert {name: codes for name, (codes, _) in seen[kind].items() if codes} == {}
        assert {name: most for name, (_, most) in seen[kind].items() if most < 2} == {}
    assert seen["nothing to lose"] == 0
    [[times], rewritten] = seen["measured"]
    assert times > 1.2
    assert rewritten == []
    assert_told(seen)


def assert_told(seen: Any) -> None:
    """A finding names stage, line, op, cost and rewrite; what is no dataset is refused."""
    assert re.match(
        r"DET001: map\(branch\) at tests/adapters/op_determinism/pipelines.py:\d+ draws random "
        r"numbers within a branch, a loop or a tf.function \[RandomUniform\]: it runs one element "
        r"at a time, whatever its num_parallel_calls\n  rewrite: draw with tf.random.stateless_",
        seen["told"],
    )
    assert seen["a layer"] == "map(StringLookup)"
    assert re.search(
        r"nothing ahead: map\(lambda\) at .*pipelines.py:\d+, prefetch$", seen["costs"]
    )
    assert [text.splitlines()[0] for text in seen["refused"]] == [
        "TFD001: dataset is int",
        "TFD001: dataset is list",
        "TFD001: elements is 0",
    ]


def test_datasets_that_are_older_than_the_switch() -> None:
    [found] = run_workers(f"{HERE}:look_at_old_ones", workers=0)
    assert found["codes"] == {
        "read": ["DET021"],
        "read by an option": ["DET021"],
        "not read": [],
        "in order": [],
        "random": ["DET020", "DET021"],
        "shuffled": ["DET020"],
        "shuffled with a seed": [],
        "derived": [],
        "anew": [],
    }
    orders = found["orders"]
    assert orders["read"] > 1
    assert orders["shuffled"] > 1
    assert [orders[name] for name in ("not read", "in order", "derived")] == [1, 1, 1]
    told = found["refusal"]
    assert "TFD001: too late for all to be deterministic: the " in told
    for words in (
        r"the dataset map\(lambda\) at \S+ was read before determinism was on, by \S+test_lint",
        r"the dataset shuffle was made without a seed",
        r"the function map_lambda was traced with RandomUniform",
    ):
        assert re.search(words, told), told
