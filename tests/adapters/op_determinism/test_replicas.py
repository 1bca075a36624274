"""Each replica has noise of its own, in every run the same, and the weights stay alike."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.cluster import run_workers

HERE = "tests.adapters.op_determinism.test_replicas"


# In the workers


def draw_masks() -> dict[str, Any]:
    """What each kind of dropout drops on this worker, with and without a seed of its own."""
    import keras
    import tensorflow as tf
    import tf_keras

    import tfdist_kit
    from tfdist_kit import UsageError
    from tfdist_kit.adapters.op_determinism import replica_seed, separate_replicas

    tfdist_kit.enable_op_determinism(1)
    strategy = tfdist_kit.multi_worker_mirrored()
    ones = tf.ones([64])

    def on_replica(function: Any) -> list[int]:
        dropped = strategy.run(tf.function(function))
        [own] = strategy.experimental_local_results(dropped)
        return [int(value > 0) for value in own.numpy().ravel()]

    def model() -> Any:
        keras.utils.set_random_seed(1)
        with strategy.scope():
            inner = keras.Sequential([keras.layers.Dropout(0.5, seed=3)])
            made = keras.Sequential([keras.Input((64,)), inner, keras.layers.Dense(1)])
            made.compile("sgd", "mse")
        return made

    def trained(made: Any) -> list[float]:
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = (
            tf.data.experimental.AutoShardPolicy.DATA
        )
        data = tf.data.Dataset.from_tensors((tf.ones([64]), tf.ones([1]))).repeat(8).batch(4)
        made.fit(data.with_options(options), verbose=0)
        return [float(value) for weight in made.get_weights() for value in weight.ravel()]

    shared, own, again = model(), model(), model()
    for made in (own, again, again):  # twice is once
        separate_replicas(made)
    with strategy.scope():
        made_in_scope = replica_seed(3)
    with pytest.raises(UsageError) as error:
        separate_replicas(tf_keras.Sequential())
    row = ones[None]
    legacy = tf_keras.layers.Dropout(0.5, seed=replica_seed(3, strategy))
    return {
        "shared": on_replica(lambda: shared.layers[0](row, training=True)),
        "own": on_replica(lambda: own.layers[0](row, training=True)),
        "own, next": on_replica(lambda: own.layers[0](row, training=True)),
        "own, in another run": on_replica(lambda: again.layers[0](row, training=True)),
        "stateless": on_replica(
            lambda: tf.nn.experimental.stateless_dropout(ones, 0.5, seed=replica_seed(3))
        ),
        "tf_keras": on_replica(lambda: legacy(row, training=True)),
        "seeds": [made_in_scope, replica_seed(3, strategy), replica_seed(4, strategy)],
        "alone": replica_seed(3, tf.distribute.get_strategy()),
        "trained": trained(own),
        "trained again": trained(again),
        "trained shared": trained(shared),
        "refused": str(error.value),
    }


def ask_with_two_replicas() -> Any:
    import tensorflow as tf

    from tfdist_kit import UsageError
    from tfdist_kit.adapters.op_determinism import replica_seed

    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with pytest.raises(UsageError) as error:
        replica_seed(3, strategy)
    own = strategy.experimental_local_results(strategy.run(lambda: replica_seed(3)))
    alone = tf.distribute.OneDeviceStrategy("CPU:0")
    return {
        "refused": str(error.value),
        "seeds": [seed.numpy().tolist() for seed in own],
        "one": alone.run(lambda: replica_seed(3)).numpy().tolist(),
    }


# In pytest


def test_each_replica_draws_its_own_and_the_weights_stay_alike() -> None:
    first, second = run_workers(f"{HERE}:draw_masks")
    assert first["shared"] == second["shared"]
    for name in ("own", "own, next", "stateless", "tf_keras"):
        assert first[name] != second[name], name
        assert 10 < sum(first[name]) < 54, name
    for found in (first, second):
        assert found["own"] == found["own, in another run"] != found["own, next"]
        assert found["seeds"][0] == found["seeds"][1] != found["seeds"][2]
        assert found["alone"] == 3
    assert first["seeds"][0] != second["seeds"][0]
    assert first["trained"] == second["trained"]
    assert first["trained again"] == second["trained again"]
    assert first["trained"] != first["trained shared"]
    assert "give a keras.Model; a tf_keras layer takes seed=replica_seed(seed)" in first["refused"]


def test_several_replicas_of_a_worker_have_their_seeds_in_run_alone() -> None:
    [found] = run_workers(f"{HERE}:ask_with_two_replicas", workers=0)
    assert found["refused"].startswith("TFD001: this worker has 2 replicas, which one int cannot")
    one, two = found["seeds"]
    assert one != two
    assert found["one"] == [3, 0]
