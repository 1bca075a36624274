"""The numbers of a step in host mode: features of every kind, on each strategy, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.adapters.cluster import run_workers
from tests.adapters.tpu_embedding import model

HERE = "tests.adapters.tpu_embedding.test_host"
STEPS = 5


# In one process


def trained() -> dict[str, Any]:
    """What each strategy makes of the same steps."""
    import tensorflow as tf

    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return {
        "default": _loop(tf.distribute.get_strategy(), [0]),
        "one": _loop(tf.distribute.OneDeviceStrategy("/cpu:0"), [0]),
        "mirrored": _loop(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), [0, 1]),
        "eager": _eager(),
        "inside": _inside(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])),
        "device": _by_device(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])),
        "frozen": _frozen(),
    }


def _loop(strategy: Any, replicas: list[int]) -> dict[str, Any]:
    import tensorflow as tf

    from tests.adapters.tpu_embedding import training

    embedding, tables = training.made(strategy)
    first = training.components(tables, embedding)  # outside of the scope
    iterator = training.batches(strategy, replicas)
    train = training.loop_of(strategy, embedding)
    train(iterator, tf.constant(2))
    train(iterator, tf.constant(STEPS - 2))
    last = training.components(tables, embedding)
    return {"first": first, "last": last, "left": embedding.unfinished()}


def _eager() -> dict[str, Any]:
    import tensorflow as tf

    from tests.adapters.tpu_embedding import training

    strategy = tf.distribute.get_strategy()
    embedding, tables = training.made(strategy)
    step = training.step_of(embedding)
    first = training.components(tables, embedding)
    shown = []
    for number in range(STEPS):
        embedding.enqueue(*model.tensors(model.batch(number, 0)))
        shown.append(strategy.run(step))
    activations = {name: each.numpy() for name, each in model.flat(shown[0]).items()}
    last = training.components(tables, embedding)
    return {"first": first, "last": last, "activations": activations}


def _inside(strategy: Any) -> dict[str, Any]:
    """enqueue() in the replicas, which builds; calls in functions of their own."""
    import tensorflow as tf

    from tests.adapters.tpu_embedding import training

    embedding, tables = training.made(strategy)
    step = training.step_of(embedding)
    features = [model.tensors(model.batch(0, replica)) for replica in (0, 1)]

    def enqueue() -> None:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        embedding.enqueue(*features[int(tf.get_static_value(replica))])

    tf.function(lambda: strategy.run(enqueue))()
    first = training.components(tables, embedding)
    tf.function(lambda: strategy.run(step))()
    return {"first": first, "last": training.components(tables, embedding)}


def _by_device(strategy: Any) -> dict[str, Any]:
    """The documented per-core form, with the replicas' batches the other way round."""
    import tensorflow as tf

    from tests.adapters.tpu_embedding import training

    embedding, _ = training.made(strategy)

    def enqueue(context: Any) -> Any:
        core = context.replica_id_in_sync_group
        device = strategy.extended.worker_devices[core]
        given = model.tensors(model.batch(0, 1 - core))
        embedding.enqueue(*given, training=False, device=device)
        return tf.constant(0)

    strategy.experimental_distribute_values_from_function(enqueue)
    shown = tf.function(lambda: strategy.run(lambda: embedding.dequeue()["user"]["one"]))()
    tables = embedding.embedding_tables
    [mean] = [np.array(table) for config, table in tables.items() if config.name == "mean"]
    return {"mean": mean, "one": [x.numpy() for x in strategy.experimental_local_results(shown)]}


def _frozen() -> dict[str, Any]:
    """Evaluation changes nothing; a None gradient is zero; a dynamic rate is asked each time."""
    import tensorflow as tf

    from tests.adapters.tpu_embedding import training

    rate = tf.Variable(0.0)
    asked = []

    def learning_rate() -> Any:
        asked.append(1)
        return rate.read_value()

    strategy = tf.distribute.get_strategy()
    optimizer = tf.tpu.experimental.embedding.SGD(learning_rate)
    embedding, tables = training.made(strategy, optimizer)
    first = training.components(tables, embedding)
    given = model.tensors(model.batch(0, 0))
    embedding.enqueue(*given, training=False)
    embedding.dequeue()
    evaluated = training.components(tables, embedding)

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def only(names: tuple[str, ...]) -> None:
        embedding.enqueue(*given)
        shown = model.flat(embedding.dequeue())
        embedding.apply_gradients(
            model.nested(lambda name: tf.ones_like(shown[name]) if name in names else None)
        )

    only(("one",))
    at_rest = training.components(tables, embedding)
    rate.assign(0.5)
    only(("one",))
    moved = training.components(tables, embedding)
    return {
        "first": first,
        "evaluated": evaluated,
        "at_rest": at_rest,
        "moved": moved,
        "asked": len(asked),
    }


# On what they return


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    [results] = run_workers(f"{HERE}:trained", workers=0)
    return dict(results)


def firsts(result: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: parts[0] for name, parts in result.items()}


def assert_trained(result: dict[str, Any], *, steps: int, replicas: int) -> None:
    expected = model.trained(firsts(result["first"]), steps, replicas)
    for name, parts in result["last"].items():
        for part in parts:
            np.testing.assert_allclose(part, expected[name], atol=2e-6, err_msg=name)
            assert np.array_equal(part, parts[0])
        assert abs(parts[0] - result["first"][name][0]).max() > 1e-3


@pytest.mark.parametrize("strategy", ["default", "one", "eager"])
def test_one_replica_trains_as_numpy_does(results: dict[str, Any], strategy: str) -> None:
    assert_trained(results[strategy], steps=STEPS, replicas=1)


def test_two_replicas_sum_their_gradients_and_stay_alike(results: dict[str, Any]) -> None:
    assert {len(parts) for parts in results["mirrored"]["first"].values()} == {2}
    assert_trained(results["mirrored"], steps=STEPS, replicas=2)


def test_enqueue_within_the_replicas_builds_and_trains(results: dict[str, Any]) -> None:
    assert_trained(results["inside"], steps=1, replicas=2)


def test_whole_steps_leave_nothing_over(results: dict[str, Any]) -> None:
    assert [results[name]["left"] for name in ("default", "one", "mirrored")] == [[], [], []]


def test_activations_have_their_output_shapes_and_values(results: dict[str, Any]) -> None:
    result = results["eager"]
    expected = model.looked_up(firsts(result["first"]), model.batch(0, 0))
    for name, shown in result["activations"].items():
        _, table, inner, _ = model.FEATURES[name]
        assert shown.shape == (model.SIZE, *inner, model.TABLES[table][1])
        np.testing.assert_allclose(shown.reshape(expected[name].shape), expected[name], atol=1e-6)


def test_a_batch_for_one_device_reaches_its_replica(results: dict[str, Any]) -> None:
    for core, shown in enumerate(results["device"]["one"]):
        ids = [cell[0][0] for cell in model.batch(0, 1 - core)["one"]]
        np.testing.assert_array_equal(shown, results["device"]["mean"][ids])


def test_only_what_has_a_gradient_and_a_rate_is_moved(results: dict[str, Any]) -> None:
    result = results["frozen"]
    first, moved = firsts(result["first"]), firsts(result["moved"])
    for name, before in first.items():
        assert np.array_equal(before, result["evaluated"][name][0])
        assert np.array_equal(before, result["at_rest"][name][0])
        assert np.array_equal(before, moved[name]) == (name != "mean")
    expected = first["mean"].astype(np.float64)
    for [(number, _)] in model.batch(0, 0)["one"]:
        expected[number] -= 0.5
    np.testing.assert_allclose(moved["mean"], expected, atol=1e-6)
    assert result["asked"] == 1  # for five tables, when the one function was traced
