"""Each worker gets its share of real data: nothing twice, nothing lost, no step too many.

The functions in the first part run in the workers; they read the digits with ``load``.
"""

from __future__ import annotations

import functools
import itertools
import os
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.cluster import run_cluster, run_workers
from tests.adapters.test_keras import assert_close
from tfdist_kit import DatasetError
from tfdist_kit.adapters import datasets
from tfdist_kit.adapters.datasets.share import Share

HERE = "tests.adapters.test_datasets"
DIGITS = "uci_digits"
Step = list[list[int]]  # what each local replica gets, as checksums of images


# In the workers


def give_replicas(count: int) -> None:
    """Have several replicas on this worker's CPU, which TensorFlow only offers on GPUs."""
    import tensorflow as tf
    from tensorflow.python.distribute import collective_all_reduce_strategy

    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * count
    tf.config.set_logical_device_configuration(cpu, logical)
    devices = tuple(f"/device:CPU:{number}" for number in range(count))
    extended = collective_all_reduce_strategy.CollectiveAllReduceExtended
    extended._initialize_local_devices = lambda *_, **__: (devices, "CPU")


def read(folder: str, loads: list[dict[str, Any]], replicas: int = 1) -> list[Any]:
    """The steps of two epochs of each dataset, and the number of steps that Keras is told."""
    import tensorflow as tf

    from tfdist_kit.adapters import datasets

    if replicas > 1:
        give_replicas(replicas)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    read = []
    for options in loads:
        dataset = datasets.load(DIGITS, strategy=strategy, data_dir=folder, **options)
        steps = int(dataset.cardinality)
        epochs = [[_checksums(strategy, batch) for batch in dataset] for _ in range(2)]
        read.append((steps, epochs))
    return read


def read_repeated(folder: str) -> list[Step]:
    import tensorflow as tf

    from tfdist_kit.adapters import datasets

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    options: dict[str, Any] = {"split": "train[:50]", "global_batch": 12, "drop_remainder": True}
    steps = datasets.steps_per_epoch(DIGITS, data_dir=folder, **options)
    assert steps == 4
    dataset = datasets.load(DIGITS, strategy=strategy, data_dir=folder, repeat=True, **options)
    return [_checksums(strategy, batch) for batch in itertools.islice(dataset, 2 * steps)]


def _checksums(strategy: Any, batch: Any) -> Step:
    images, _ = batch
    local = strategy.experimental_local_results(images)
    return [[zlib.crc32(image.tobytes()) for image in replica.numpy()] for replica in local]


def read_features(folder: str) -> Any:
    """One process without a strategy, as a share of two."""
    import tensorflow as tf

    from tfdist_kit.adapters import datasets

    builder = datasets.prepare(DIGITS, data_dir=folder)
    labels = [int(label) for _, label in builder.as_dataset(split="test", as_supervised=True)]
    context = tf.distribute.InputContext(2, 1, num_replicas_in_sync=2)
    load: dict[str, Any] = {"split": "test", "global_batch": 40, "as_supervised": False}
    dataset = datasets.load(
        builder,
        worker=context,
        map_fn=lambda example: {**example, "image": tf.cast(example["image"], tf.float32) / 16},
        cache=True,
        prefetch=False,
        **load,
    )
    batches = list(dataset)
    twin = datasets.load(builder, worker=(1, 2), **load)
    assert [batch["label"].numpy().tolist() for batch in batches] == [
        batch["label"].numpy().tolist() for batch in twin
    ]
    return {
        "labels": Counter(labels),
        "examples": {name: split.num_examples for name, split in builder.info.splits.items()},
        "batches": [int(dataset.cardinality()), len(batches), batches[0]["image"].shape.as_list()],
        "most": max(float(tf.reduce_max(batch["image"])) for batch in batches),
    }


def prepare(folder: str) -> int:
    from tfdist_kit.adapters import datasets

    return int(datasets.prepare(DIGITS, data_dir=folder).info.splits["train"].num_examples)


def refuse(folder: str) -> list[str]:
    """What is said about requests that cannot be met."""
    import tensorflow as tf

    from tfdist_kit import TfdistError
    from tfdist_kit.adapters import datasets

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    good: dict[str, Any] = {
        "source": DIGITS,
        "split": "test",
        "global_batch": 4,
        "strategy": strategy,
    }
    texts = []
    bad: dict[str, Any]
    for bad in (
        {"source": "uci_digit"},
        {"source": "uci_digits:9.9.9"},
        {"split": "validation"},
        {"global_batch": 5},
        {"split": "test[:1]"},
        {"split": "test[:10]", "repeat": True},
        {"strategy": None},
    ):
        with pytest.raises(TfdistError) as error:
            datasets.load(**{"data_dir": folder, **good, **bad})
        texts.append(str(error.value))
    return texts


def refuse_without_packages(folder: str) -> list[str]:
    import sys

    from tfdist_kit import MissingDependencyError
    from tfdist_kit.adapters import datasets

    texts = []
    for package in ("sklearn.datasets", "tensorflow_datasets"):
        sys.modules[package] = None  # type: ignore[assignment]
        with pytest.raises(MissingDependencyError) as error:
            datasets.prepare(DIGITS, data_dir=folder)
        texts.append(str(error.value))
    return texts


def train(folder: str, replicas: int = 1) -> Any:
    import keras
    import tensorflow as tf

    from tfdist_kit.adapters import datasets
    from tfdist_kit.adapters.keras import enable_multi_worker

    enable_multi_worker()
    if replicas > 1:
        give_replicas(replicas)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    keras.utils.set_random_seed(1)
    with strategy.scope():
        layers = [keras.layers.Rescaling(1 / 16), keras.layers.Flatten(), keras.layers.Dense(10)]
        model = keras.Sequential(layers)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    common: dict[str, Any] = {"strategy": strategy, "data_dir": folder, "same_batches": True}
    train = datasets.load(DIGITS, split="train[:40]", global_batch=16, seed=1, **common)
    test = datasets.load(DIGITS, split="test[:25]", global_batch=16, shuffle=False, **common)
    fitted = model.fit(train, epochs=2, verbose=0, validation_data=test)
    return {"history": fitted.history, "predict": model.predict(test, verbose=0).tolist()}


# In pytest


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the digits are; all pytest-xdist workers share it, as training workers would."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return str(shared / "digits")


LOADS: list[dict[str, Any]] = [
    {"split": "train[:41]", "global_batch": 12},
    {"split": "train[:41]", "global_batch": 12, "same_batches": True},
    {"split": "train[:41]", "global_batch": 12, "drop_remainder": True},
    {"split": "train[:25]", "global_batch": 12, "shuffle": False, "same_batches": True},
]


@functools.cache
def alone(function: str, folder: str) -> list[Any]:
    """What one process without a cluster gets."""
    loads: dict[str, Any] = {"loads": LOADS} if function == "read" else {}
    return run_workers(f"{HERE}:{function}", workers=0, folder=folder, **loads)


def epochs_of(results: list[Any], number: int) -> list[list[list[int]]]:
    """Each epoch of one dataset as steps, with the examples of all workers' replicas together.

    Replicas come in TensorFlow's order: the first of each worker, then the second of each.
    """
    (steps,) = {worker[number][0] for worker in results}
    epochs = []
    for epoch in range(2):
        by_worker = [worker[number][1][epoch] for worker in results]
        assert {len(worker) for worker in by_worker} == {steps}
        epochs.append(
            [
                [image for replica in zip(*step, strict=True) for part in replica for image in part]
                for step in zip(*by_worker, strict=True)
            ]
        )
    return epochs


@pytest.mark.parametrize(("workers", "replicas"), [(1, 1), (2, 1), (3, 1), (4, 1), (2, 2)])
def test_every_example_once_per_epoch(folder: str, workers: int, replicas: int) -> None:
    results = run_workers(
        f"{HERE}:read", workers=workers, folder=folder, loads=LOADS, replicas=replicas
    )
    by_part, alike, dropped, unshuffled = (epochs_of(results, number) for number in range(4))
    for epochs, count in ((by_part, 41), (alike, 41), (dropped, 36), (unshuffled, 25)):
        for epoch in epochs:
            images = list(itertools.chain.from_iterable(epoch))
            assert len(images) == len(set(images)) == count
            assert all(len(step) == 12 for step in epoch[:-1])
    assert by_part[0] != by_part[1]
    assert set(itertools.chain.from_iterable(by_part[0])) == set(
        itertools.chain.from_iterable(by_part[1])
    )
    assert alike == epochs_of(alone("read", folder), 1)
    assert unshuffled == epochs_of(alone("read", folder), 3)
    if workers > 1:
        last = [len(part) for worker in results for part in worker[0][1][0][-1]]
        assert max(last) - min(last) <= 1


def test_chief_and_worker_share_and_an_evaluator_reads_all(folder: str) -> None:
    loads = [{"split": "train[:20]", "global_batch": 4}]
    chief, worker, evaluator = run_cluster(
        f"{HERE}:read", ("chief", "worker", "evaluator"), folder=folder, loads=loads
    )
    shared, read_alone = epochs_of([chief, worker], 0), epochs_of([evaluator], 0)
    assert sorted(itertools.chain.from_iterable(shared[0])) == sorted(
        itertools.chain.from_iterable(read_alone[0])
    )


def test_the_same_seed_gives_the_same_order_again(folder: str) -> None:
    loads = [{"split": "train[:30]", "global_batch": 6, "seed": seed} for seed in (1, 1, 2)]
    results = run_workers(f"{HERE}:read", folder=folder, loads=loads)
    first, again, other = (epochs_of(results, number) for number in range(3))
    assert first == again != other


def test_a_repeated_dataset_goes_on_with_the_next_epoch(folder: str) -> None:
    results = run_workers(f"{HERE}:read_repeated", folder=folder)
    for steps in (slice(0, 4), slice(4, 8)):
        images = [image for worker in results for [part] in worker[steps] for image in part]
        assert len(images) == len(set(images)) == 48


def test_the_digits(folder: str) -> None:
    [found] = run_workers(f"{HERE}:read_features", workers=0, folder=folder)
    assert found["examples"] == {"train": 1437, "test": 360}
    assert sorted(found["labels"]) == list(range(10))
    assert set(found["labels"].values()) <= {35, 36, 37}
    assert found["batches"] == [9, 9, [20, 8, 8, 1]]
    assert found["most"] == 1.0


def test_several_processes_prepare_at_once(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    assert run_workers(f"{HERE}:prepare", workers=3, folder=folder) == [1437] * 3


@pytest.mark.parametrize("replicas", [1, 2])
def test_keras_gets_the_numbers_and_the_order_of_one_process(folder: str, replicas: int) -> None:
    [reference] = alone("train", folder)
    for result in run_workers(f"{HERE}:train", workers=2, folder=folder, replicas=replicas):
        assert_close(result, reference, 1e-5)


def test_what_cannot_be_loaded_is_said_before_anything_hangs(folder: str) -> None:
    for texts in run_workers(f"{HERE}:refuse", folder=folder):
        name, version, split, batch, small, repeated, nobody = texts
        assert "knows no data set 'uci_digit'" in name
        assert "did you mean uci_digits?" in name
        assert "TFDS cannot make 'uci_digits:9.9.9'" in version
        assert "'uci_digits' has no split 'validation'" in split
        assert "its splits are train, test" in split
        assert "global_batch 5 does not divide by 2 replicas" in batch
        assert "use 4 or 6" in batch
        assert "split 'test[:1]' has 1 examples for 2 workers" in small
        assert "10 examples, which do not divide by global_batch 4" in repeated
        assert "give either strategy= or worker=" in nobody


def test_missing_packages_are_named(tmp_path: Path) -> None:
    [[sklearn, tfds]] = run_workers(
        f"{HERE}:refuse_without_packages", workers=0, folder=str(tmp_path)
    )
    assert "preparing 'uci_digits' needs the package 'sklearn.datasets'" in sklearn
    assert "TensorFlow Datasets cannot be imported" in tfds
    assert all("pip install 'tfdist-kit[datasets]'" in text for text in (sklearn, tfds))


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ({"global_batch": 0}, "global_batch is 0"),
        ({"global_batch": 3, "replicas": 8, "workers": 8}, "use 8, so that"),
        ({"index": 2, "workers": 2}, "worker 2 of 2 does not exist"),
        ({"examples": 7, "drop_remainder": True}, "not one full batch of 8"),
    ],
    ids=str,
)
def test_numbers_that_do_not_fit_are_refused(numbers: dict[str, Any], text: str) -> None:
    with pytest.raises(DatasetError, match=text):
        Share(**{"split": "train", "examples": 100, "global_batch": 8, **numbers})


@pytest.mark.parametrize(
    "wrong",
    [
        {"split": None},
        {"split": ["train"]},
        {"seed": None},
        {"seed": 1.5},
        {"shuffle": 0.5},
        {"shuffle": -5},
        {"shuffle": "x"},
    ],
    ids=str,
)
def test_an_argument_of_the_wrong_kind_is_refused(wrong: dict[str, Any]) -> None:
    """An unseeded shuffle above all: it loses examples without a word."""
    arguments: dict[str, Any] = {"split": "train", "global_batch": 64, "worker": (0, 2), **wrong}
    [name] = wrong
    with pytest.raises(DatasetError, match=f"{name} is "):
        datasets.load("uci_digits", **arguments)


@pytest.mark.parametrize("batch", [64.0, "64", None])
def test_a_batch_that_is_not_a_number_of_examples(batch: Any) -> None:
    with pytest.raises(DatasetError, match=f"global_batch is {batch!r}"):
        Share("train", 100, batch)


def test_shares_add_up_however_the_numbers_lie() -> None:
    for examples, workers, local, alike in itertools.product(
        range(4, 40), (1, 2, 3, 4), (1, 2), (False, True)
    ):
        batch = workers * local * 2
        shares = [
            Share("train", examples, batch, False, workers * local, workers, index, alike)
            for index in range(workers)
        ]
        assert sum(share.own for share in shares) == examples
        last = [size for share in shares for size in share.last_batches]
        assert sum(last) == examples % batch
        assert max(last) - min(last) <= (1 if alike or local == 1 else 2)
