"""What becomes of input pipelines: the order of their elements, and what runs side by side.

Two processes run the same pipelines, one without the switch and one with it. Nothing is measured by
the clock: a function counts how many threads are in it, or holds back an element until another one
has arrived.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tfdist_kit.conformance.checks.op_determinism._ops import prepared
from tfdist_kit.conformance.stage import Stage

PATIENCE = 0.25
"""How long an element is held back, in seconds, where nothing arrives before it."""
BUSY = 0.004
LONG = 3.0
THREADS = 8
ITEMS = 16
WITHOUT, WITH = range(2)
"""The ranks."""

Function = Callable[[Any], Any]


def begin(stage: Stage) -> None:
    """One of the two processes has the switch on."""
    prepared()
    if stage.rank == WITH:
        stage.subject.enable_op_determinism(1)


def threaded(dataset: Any, threads: int = THREADS, **options: Any) -> Any:
    """A data set that has threads of its own."""
    import tensorflow as tf

    wanted = tf.data.Options()
    wanted.threading.private_threadpool_size = threads
    for name, value in options.items():
        setattr(wanted, name, value)
    return dataset.with_options(wanted)


def in_python(function: Function) -> Function:
    """A function of Python's as a part of a pipeline that counts as one without state."""
    import tensorflow as tf

    def call(x: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(function, [x], tf.int64, stateful=False), [])

    return call


class Race:
    """Holds back the first element until another one has arrived."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.hold = in_python(self._hold)

    def _hold(self, x: Any) -> Any:
        if x == 0:
            self.arrived.wait(PATIENCE)
        return x

    def order(self, dataset: Any) -> list[int]:
        """The elements as they come."""
        self.arrived.clear()
        found = dataset.as_numpy_iterator()
        first = next(found)
        self.arrived.set()
        return [int(each) for each in (first, *found)]


class Peak:
    """Counts how many threads are in a function at once.

    Each stays there until there are enough of them. Without the switch all come, so that they are
    waited for; with it most come alone.

    Args:
        rank: Which of the two processes this is.
        enough: How many are enough.
    """

    def __init__(self, rank: int, enough: int = 2) -> None:
        self._patience = BUSY if rank == WITH else LONG
        self._enough = enough
        self._changed = threading.Condition()
        self._inside = 0
        self.most = 0
        self.calls = 0
        self.work = in_python(self._work)

    def _work(self, x: Any) -> Any:
        with self._changed:
            self._inside += 1
            self.calls += 1
            self.most = max(self.most, self._inside)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most >= self._enough, self._patience)
            self._inside -= 1
        return x

    def of(self, dataset: Any, threads: int = THREADS, size: int = ITEMS) -> int:
        """How many there were at most while so much of a data set was read."""
        self.most = 0
        for _ in itertools.islice(threaded(dataset, threads), size):
            pass
        return self.most


def numbers(size: int = ITEMS) -> Any:
    """A data set."""
    import tensorflow as tf

    return tf.data.Dataset.range(size)


def one_by_one(function: Function) -> Function:
    """What interleave reads: a data set of one element."""
    return lambda x: numbers(1).map(lambda _: function(x))


def orders(stage: Stage) -> None:
    """Pipelines that may change the order of their elements."""
    begin(stage)
    race = Race()
    few, may = numbers(4), {"num_parallel_calls": 4, "deterministic": False}
    by_option = threaded(few.map(race.hold, 4), deterministic=False)
    pipelines = {
        "map": threaded(few.map(race.hold, **may)),
        "interleave": threaded(few.interleave(one_by_one(race.hold), 4, 1, **may)),
        "option": by_option,
    }
    for name, dataset in pipelines.items():
        stage.say(name, order=race.order(dataset))
    stage.say("batch", order=_batches())
    stage.say("reads", deterministic=by_option.options().deterministic)


def _batches() -> list[int]:
    """Which of the batches come first: it takes a while to copy the first one."""
    import tensorflow as tf

    def sized(x: Any) -> Any:
        return tf.fill([tf.where(x == 0, 8_000_000, 1)], x)

    dataset = numbers(4).map(sized).batch(1, num_parallel_calls=4, deterministic=False)
    return [int(each[0, 0]) for each in threaded(dataset)]


def additions() -> Mapping[str, Function]:
    """What a function of a pipeline may have in it, each adding nothing to its argument."""
    import tensorflow as tf

    keys = tf.range(ITEMS, dtype=tf.int64)
    nothing = tf.zeros([], tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, 0 * keys), nothing)
    generator, variable = tf.random.Generator.from_seed(1), tf.Variable(nothing)

    def rounded(x: Any) -> Any:
        return tf.cast(0.5 * x, tf.int64)

    def times_nothing(x: Any) -> Any:
        return 0 * x

    def in_cond(x: Any) -> Any:
        def draw() -> Any:
            return rounded(tf.random.uniform([], seed=1))

        return tf.cond(x >= 0, draw, lambda: nothing)

    return {
        "nothing": lambda x: nothing,
        "random op": lambda x: rounded(tf.random.uniform([], seed=1)),
        "random op in tf.cond": in_cond,
        "generator": lambda x: rounded(generator.uniform([])),
        "variable": lambda x: variable,
        "table": lambda x: table.lookup(x),
        "python function": lambda x: tf.numpy_function(times_nothing, [x], tf.int64),
        "stateless random op": lambda x: rounded(tf.random.stateless_uniform([], [x, x])),
    }


def both(one: Function, other: Function) -> Function:
    """The sum of two functions."""
    return lambda x: one(x) + other(x)


RANDOM, GENERATOR = "random op", "generator"


def side_by_side(stage: Stage) -> None:
    """How many threads are in the slow function of a pipeline."""
    begin(stage)
    peak, added = Peak(stage.rank), additions()
    work = peak.work
    for name, extra in added.items():
        with_it = numbers().map(both(work, extra), THREADS)
        stage.say(f"map: {name}", most=peak.of(with_it))
    for name in ("nothing", RANDOM, GENERATOR):
        extra = added[name]
        reads = one_by_one(both(work, extra))
        stage.say(
            f"interleave: {name}", most=peak.of(numbers().interleave(reads, THREADS, 1, THREADS))
        )
        stage.say(f"beside: {name}", **_beside(peak, both(lambda x: x, extra)))


def _beside(peak: Peak, function: Function) -> dict[str, int]:
    """What a function does to other parts of its pipeline, and when it has a map of its own."""
    work = peak.work
    before = numbers().map(function)
    own_map = numbers().map(function, THREADS).map(work, THREADS)
    return {
        "map": peak.of(before.map(work, THREADS)),
        "interleave": peak.of(before.interleave(one_by_one(work), THREADS, 1, THREADS)),
        "hoisted": peak.of(own_map),
        "prefetched": _prefetched(function),
    }


def _prefetched(function: Function) -> int:
    """How many elements have been made when the first has been taken, and a while has passed."""
    peak = Peak(WITH, enough=1)
    taken = iter(threaded(numbers().map(peak.work).map(function).prefetch(4)))
    next(taken)
    ends = time.monotonic() + PATIENCE
    while peak.calls < 2 and time.monotonic() < ends:
        time.sleep(BUSY)
    return peak.calls


def other_sources(stage: Stage) -> None:
    """Parts of a pipeline that have a state, beside a map that has none."""
    import tensorflow as tf

    begin(stage)
    peak = Peak(stage.rank)
    spec = tf.TensorSpec([], tf.int64)

    def constant(x: Any) -> Any:
        return tf.data.Dataset.from_tensors(x)

    sources = {
        "from_generator": tf.data.Dataset.from_generator(
            lambda: range(ITEMS), output_signature=spec
        ),
        "from_tensors in interleave": numbers().interleave(constant, 2, 1),
    }
    for name, source in sources.items():
        stage.say(name, most=peak.of(source.map(peak.work, THREADS)))


MANY = 128


def many_threads(stage: Stage) -> None:
    """A map that could have very many threads, were it not for a generator in it."""
    begin(stage)
    peak, extra = Peak(stage.rank, MANY), additions()[GENERATOR]
    dataset = numbers(3 * MANY).map(both(peak.work, extra), MANY)
    stage.say("many", most=peak.of(dataset, MANY))


def augmented(stage: Stage) -> None:
    """Random augmentations, seeded, in a map that is parallel and in one that is not."""
    import tensorflow as tf

    begin(stage)
    tf.random.set_seed(1)
    race = Race()

    def drawn(draw: Function, threads: int | None) -> list[float]:
        def function(x: Any) -> Any:
            one = tf.reshape(1 + 0 * race.hold(x), [1])  # so that it draws when it has been held
            return draw(one)[0]

        return [float(each) for each in threaded(numbers(8).map(function, threads))]

    for name, make in (("random op", _by_op), ("generator", _by_generator)):
        parallel = drawn(make(), THREADS)
        race.arrived.set()
        stage.say(name, parallel=parallel, serial=drawn(make(), None))
        race.arrived.clear()


def _by_op() -> Function:
    import tensorflow as tf

    return lambda shape: tf.random.uniform(shape, seed=1)


def _by_generator() -> Function:
    import tensorflow as tf

    generator = tf.random.Generator.from_seed(1)
    return lambda shape: generator.uniform(shape)
