"""Variables that agree and that do not, given to `assert_replicas_agree` in each worker."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.testing.checked import Case, outcomes, rank_of, strategy_of
from tfdist_kit.testing import assert_replicas_agree


def in_worker(api: str, replicas: int) -> dict[str, str]:
    strategy = strategy_of(api, replicas)
    return outcomes(strategy, {**_plain(strategy), **_keras(strategy), **_unlike(strategy)})


def check(variables: Any, strategy: Any) -> None:
    assert_replicas_agree(variables, strategy=strategy)


def _plain(strategy: Any) -> dict[str, Case]:
    import tensorflow as tf

    rank = rank_of(strategy)
    first = tf.VariableAggregation.ONLY_FIRST_REPLICA
    with strategy.scope():
        right = [tf.Variable([1.0, 2.0], name="weight"), tf.Variable(3, name="count")]
        nan = tf.Variable([float("nan"), 0.0], name="nan")
        assigned = tf.Variable([0.0, 0.0], name="assigned")
        per_replica = tf.Variable(0.0, name="first", aggregation=first)
        on_read = tf.Variable(
            0.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
            name="summed",
        )
    outside = tf.Variable(float(rank), name="outside")
    part_nan = tf.Variable(float("nan") if rank else 1.0, name="part_nan")
    zero = tf.Variable(-0.0 if rank else 0.0, name="zero")
    assigned.assign([0.0, min(rank, 1) * 0.5])

    def assign_own() -> None:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        per_replica.assign(tf.cast(replica, tf.float32))
        on_read.assign(tf.cast(replica, tf.float32))

    strategy.run(assign_own)

    def in_scope(strategy: Any) -> None:
        with strategy.scope():
            assert_replicas_agree(right)

    return {
        "right": partial(check, [*right, {"nan": nan}]),
        "no strategy given": lambda _: assert_replicas_agree(right),
        "in scope": in_scope,
        "assigned": partial(check, [*right, assigned]),
        "outside": partial(check, [*right, outside]),
        "first replica": partial(check, [*right, per_replica]),
        "NaN on one": partial(check, part_nan),
        "-0": partial(check, zero),
        "ON_READ": partial(check, on_read),
        "ON_READ among others": partial(check, [*right, on_read]),
    }


def _keras(strategy: Any) -> dict[str, Case]:
    import keras
    import tf_keras

    with strategy.scope():
        three = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        adam = keras.optimizers.Adam()
        adam.build(three.trainable_variables)
        wrong = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="wrong")])
        two = tf_keras.Sequential([tf_keras.layers.Dense(2, input_shape=(3,))])
        two.compile("adam", "mse")
        two.optimizer.build(two.trainable_variables)
    wrong.layers[0].bias.assign([1.0, rank_of(strategy)])
    two.optimizer.iterations.assign(min(rank_of(strategy), 1))
    return {
        "Keras 3": partial(check, {"model": three, "optimizer": adam}),
        "Keras 3 assigned": partial(check, wrong),
        "tf_keras' optimizer": partial(check, two),
    }


def _unlike(strategy: Any) -> dict[str, Case]:
    import tensorflow as tf

    rank = rank_of(strategy)
    with strategy.scope():
        pair = [tf.Variable([1.0, 2.0], name="pair"), tf.Variable(3, name="single")]

    def by_replica(strategy: Any) -> None:
        strategy.run(partial(check, pair, strategy))

    return {
        "fewer": partial(check, pair[: min(rank, 1) + 1]),
        "another": partial(check, pair[min(rank, 1)]),
        "no variable on rank 0": partial(check, pair if rank else [1]),
        "nothing": partial(check, []),
        "by a replica": by_replica,
        "no strategy": lambda _: check(pair, "mirrored"),
        "afterwards": partial(check, pair),
    }


def in_worker_other_strategy(kind: str) -> dict[str, str]:
    import tensorflow as tf

    if kind == "mirrored":
        [cpu] = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    else:
        strategy = tf.distribute.get_strategy()
    with strategy.scope():
        variable = tf.Variable([1.0], name="v", aggregation=tf.VariableAggregation.SUM)
    cases: dict[str, Case] = {"right": partial(check, variable)}
    if kind == "mirrored":
        with strategy.scope():
            torn = tf.Variable([1.0], name="torn")
        strategy.experimental_local_results(torn)[1].assign([2.0])
        cases["torn"] = partial(check, torn)
    return outcomes(strategy, cases)
