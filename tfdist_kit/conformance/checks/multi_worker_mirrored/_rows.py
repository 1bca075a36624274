"""What a strategy hands out, as plain numbers.

distributed dataset or iterator -> steps -> parts, one for each local replica -> lists
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tfdist_kit.testing import Worker


def signature(method: Any) -> list[tuple[str, Any]]:
    """The arguments of a bound method, each with its default; `inspect.Parameter.empty` if none."""
    return [(each.name, each.default) for each in inspect.signature(method).parameters.values()]


def parts(strategy: Any, value: Any) -> list[Any]:
    """What each replica of this worker has of a value."""
    return [each.numpy().tolist() for each in strategy.experimental_local_results(value)]


def steps(strategy: Any, distributed: Iterable[Any]) -> list[list[Any]]:
    """The parts of every step, up to the end."""
    return [parts(strategy, value) for value in distributed]


def flat(nested: Any) -> list[Any]:
    """All numbers or bytes in lists of lists."""
    return list(_flat(nested))


def _flat(nested: Any) -> Iterator[Any]:
    for each in nested:
        if isinstance(each, list):
            yield from _flat(each)
        else:
            yield each


def times(strategy: Any, numbers: Sequence[int], count: int) -> list[int]:
    """How often each of the numbers below `count` comes in the `numbers` of all workers."""
    import tensorflow as tf

    mine = [list(numbers).count(each) for each in range(count)]
    total: list[int] = strategy.reduce("SUM", tf.constant(mine), axis=None).numpy().tolist()
    return total


def from_all(strategy: Any, worker: Worker, numbers: Sequence[int]) -> list[list[int]]:
    """The numbers of all workers, in the order of their ranks; there are as many in each."""
    import tensorflow as tf

    rows = [[0] * len(numbers)] * worker.size
    rows[worker.rank] = list(numbers)
    found: list[list[int]] = strategy.reduce("SUM", tf.constant(rows), axis=None).numpy().tolist()
    return found


def policy(name: str) -> Any:
    """Options of a dataset that ask for an auto-shard policy."""
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy[name]
    return options


def write_lines(folder: Path, rank: int, *counts: int) -> list[str]:
    """Files whose lines are numbers, counted on from file to file; each worker writes its own.

    Args:
        folder: Of the test.
        rank: Of the worker.
        counts: How many lines each file has.
    """
    own = folder / str(rank)
    own.mkdir()
    names, first = [], 0
    for index, count in enumerate(counts):
        file = own / f"{index}.txt"
        file.write_text("".join(f"{first + line}\n" for line in range(count)), encoding="utf-8")
        names.append(str(file))
        first += count
    return names


def lines(names: Sequence[str]) -> Any:
    """A dataset of the numbers in files."""
    import tensorflow as tf

    return tf.data.TextLineDataset(list(names)).map(_number)


def _number(line: Any) -> Any:
    import tensorflow as tf

    return tf.strings.to_number(line, tf.int64)
