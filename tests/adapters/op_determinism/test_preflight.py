"""Workers that are not alike all raise the same error at once; workers that are go on."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from tests.adapters.cluster import run_workers
from tfdist_kit import UsageError
from tfdist_kit.adapters import op_determinism
from tfdist_kit.adapters._differing import differences

HERE = "tests.adapters.op_determinism.test_preflight"


# In the workers


def outcome(act: Any) -> str:
    import tensorflow as tf

    begin = time.monotonic()
    try:
        act()
    except (UsageError, tf.errors.OpError) as error:
        assert time.monotonic() - begin < 20
        return str(error)
    return "alike"


def check_faults() -> list[str]:
    """One fault on rank 1 after the other, and the workers alike before and after each."""
    import tensorflow as tf

    import tfdist_kit
    from tfdist_kit.adapters.op_determinism import disabled
    from tfdist_kit.adapters.op_determinism import facts as facts_of

    strategy = tfdist_kit.multi_worker_mirrored()
    is_odd = strategy.cluster_resolver.task_id == 1

    def compare() -> str:
        return outcome(lambda: op_determinism.preflight(strategy))

    def enable(seed: int) -> str:
        return outcome(lambda: tfdist_kit.enable_op_determinism(seed, strategy=strategy))

    found = [compare(), enable(1 + is_odd), enable(1), compare()]
    if is_odd:
        with disabled():
            found.append(compare())
        os.environ["XLA_FLAGS"] = "--xla_dump_to=/nowhere"
        tf.random.set_seed(5)
    else:
        found.append(compare())
    found.append(compare())
    os.environ.pop("XLA_FLAGS", None)
    with pytest.MonkeyPatch.context() as patch:
        if is_odd:
            patch.setattr(facts_of, "_version", lambda package: f"9.9 of {package}")
            patch.setattr(facts_of, "_processor", lambda: {"processor": "x" * 100})
        found.append(compare())
    tf.random.set_seed(1)
    found.append(compare())

    @tf.function  # type: ignore[untyped-decorator]
    def noise() -> Any:
        return tf.random.uniform([])

    tf.random.set_seed(None)
    with disabled():
        if is_odd:
            noise()
        found.append(enable(1))
        found.append(outcome(lambda: op_determinism.preflight(strategy, timeout=0)))
    if not is_odd:
        found.append(outcome(lambda: op_determinism.preflight(strategy, timeout=1)))
    return found


def check_settings() -> list[str]:
    """Rank 1 with another number of threads, and with oneDNN."""
    import tensorflow as tf

    import tfdist_kit

    is_odd = '"index": 1' in os.environ["TF_CONFIG"]
    tf.config.threading.set_intra_op_parallelism_threads(1 + is_odd)
    if is_odd:
        os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"
    tfdist_kit.enable_op_determinism(1)
    strategy = tfdist_kit.multi_worker_mirrored()
    return [outcome(lambda: op_determinism.preflight(strategy))]


def check_alone() -> list[Any]:
    import keras
    import tensorflow as tf

    import tfdist_kit
    from tests.adapters.op_determinism.hearing import hearing

    found: list[Any] = [outcome(lambda: op_determinism.preflight(tf.distribute.get_strategy()))]
    tfdist_kit.enable_op_determinism(1, strategy=tf.distribute.get_strategy())
    with hearing() as texts:
        found.append(outcome(lambda: op_determinism.preflight(None)))
        assert texts == []
        keras.src.backend.common.global_state.set_global_attribute("global_random_seed", None)
        op_determinism.preflight(None)
    return [*found, texts]


# In pytest

BEGIN = "TFD001: this is not one deterministic training: "


def test_each_fault_is_named_with_worker_and_key_on_all_workers() -> None:
    first, second = run_workers(f"{HERE}:check_faults")
    absent, both = first.pop(), first
    assert both == second
    lines = [text.splitlines()[0] for text in both]
    versions = lines.pop(6)
    assert lines == [
        f"{BEGIN}op determinism is off; TensorFlow has no seed",
        f"{BEGIN}seeds.tensorflow is 1 on worker:0, 2 on worker:1; "
        "seeds.keras is 1 on worker:0, 2 on worker:1",
        "alike",
        "alike",
        f"{BEGIN}switches.op_determinism is true on worker:0, false on worker:1",
        f"{BEGIN}seeds.tensorflow is 1 on worker:0, 5 on worker:1; "
        "environment.XLA_FLAGS is unset on worker:0, --xla_dump_to=/nowhere on worker:1",
        "alike",
        "TFD001: determinism was not enabled on worker:1: too late for all to be deterministic: "
        "the function noise was traced with RandomUniform",
        "TFD001: timeout is 0",
    ]
    for words in (
        "versions.tensorflow is 2.",
        "versions.numpy is ",
        "9.9 of numpy on worker:1",
        f", {'x' * 60}... on worker:1",
        "hardware.processor_features is ",
    ):
        assert words in versions
    assert absent.startswith("TFD001: worker:1 did not come to compare the workers within 1 s")


def test_threads_and_onednn_of_one_worker_are_named() -> None:
    [first], [second] = run_workers(f"{HERE}:check_settings")
    assert first == second
    assert "threads.intra_op is 1 on worker:0, 2 on worker:1" in first
    assert "environment.TF_ENABLE_ONEDNN_OPTS is 0 on worker:0, 1 on worker:1" in first


def test_one_process_alone_is_checked_for_the_switch_and_a_seed() -> None:
    [[off, on, warned]] = run_workers(f"{HERE}:check_alone", workers=0)
    assert off.startswith(f"{BEGIN}op determinism is off; TensorFlow has no seed")
    assert on == "alike"
    assert len(warned) == 1
    assert "Keras 3 draws weights and dropout from Python's random" in warned[0]


def test_all_that_differ_are_listed_with_the_workers_that_agree() -> None:
    told: dict[str, dict[str, Any]] = {
        "chief:0": {"seed": 1, "gpus": ["a"], "same": 0},
        "worker:0": {"seed": 1, "gpus": [], "same": 0},
        "worker:1": {"seed": 2, "same": 0},
    }
    assert differences(told) == [
        "seed is 1 on chief:0 and worker:0, 2 on worker:1",
        'gpus is ["a"] on chief:0, [] on worker:0, unset on worker:1',
    ]
    long = {f"worker:{rank}": {"names": "a" * 100 + str(rank)} for rank in (0, 1)}
    assert differences(long) == [f"names is {'a' * 60}... on worker:0, {'a' * 60}... on worker:1"]
    assert differences({"worker:0": {"seed": 1}}) == []
