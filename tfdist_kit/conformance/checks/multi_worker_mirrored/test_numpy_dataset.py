"""What experimental_make_numpy_dataset of the compat.v1 class makes of arrays."""

from __future__ import annotations

import inspect

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._graph import in_a_session
from tfdist_kit.conformance.checks.multi_worker_mirrored._rows import flat, signature, steps, times
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)


@claim("mwms.numpy-dataset.signature")
def test_takes_arrays_and_a_session(subject: Subject) -> None:
    method = subject.make_strategy_v1().experimental_make_numpy_dataset
    assert signature(method) == [("numpy_input", inspect.Parameter.empty), ("session", None)]


@claim("mwms.numpy-dataset.rows")
def test_gives_a_dataset_of_the_rows(subject: Subject) -> None:
    import numpy as np
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    rows = np.arange(6).reshape(3, 2)
    dataset = strategy.experimental_make_numpy_dataset(rows)
    assert isinstance(dataset, tf.data.Dataset)
    assert [row.numpy().tolist() for row in dataset] == [[0, 1], [2, 3], [4, 5]]
    pairs = strategy.experimental_make_numpy_dataset((rows, np.arange(3.0)))
    assert [(x.numpy().tolist(), float(y)) for x, y in pairs] == [
        ([0, 1], 0.0),
        ([2, 3], 1.0),
        ([4, 5], 2.0),
    ]


@claim("mwms.numpy-dataset.not-in-the-graph")
def test_in_graph_mode_the_array_is_no_constant_of_the_graph(subject: Subject) -> None:
    import numpy as np
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    array = np.arange(100_000, dtype=np.int64)
    with in_a_session(strategy) as session:
        dataset = strategy.experimental_make_numpy_dataset(array, session)
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset.batch(100_000))
        rows = iterator.get_next()
        session.run(iterator.initializer)
        assert np.array_equal(session.run(rows), array)
        assert session.graph.as_graph_def().ByteSize() < array.nbytes / 10


@claim("mwms.numpy-dataset.session-in-graph-mode")
def test_in_graph_mode_refuses_to_do_without_a_session(subject: Subject) -> None:
    import numpy as np

    strategy = subject.make_strategy_v1()
    with in_a_session(strategy), pytest.raises((AssertionError, ValueError)):
        strategy.experimental_make_numpy_dataset(np.arange(4))


@claim("mwms.numpy-dataset.example")
@pytest.mark.tfdist(workers=2)
def test_the_example(subject: Subject) -> None:
    import numpy as np

    strategy = subject.make_strategy_v1()
    numpy_input = np.ones([10], dtype=np.float32)
    dataset = strategy.experimental_make_numpy_dataset(numpy_input)
    dist_dataset = strategy.experimental_distribute_dataset(dataset)
    mine = flat(steps(strategy, dist_dataset))
    assert times(strategy, mine, 2) == [0, 10]


@claim("mwms.numpy-dataset.batched")
@pytest.mark.tfdist(workers=2)
def test_batched_it_can_be_distributed(subject: Subject) -> None:
    import numpy as np

    strategy = subject.make_strategy_v1()
    dataset = strategy.experimental_make_numpy_dataset(np.arange(8)).batch(4)
    mine = flat(steps(strategy, strategy.experimental_distribute_dataset(dataset)))
    assert len(mine) == 4
    assert times(strategy, mine, 8) == [1] * 8
