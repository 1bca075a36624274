"""`assert_each_row_once`: rows lost, doubled and unknown are counted, and their cause is seen."""

from __future__ import annotations

import re

import pytest

from tests.adapters.cluster import run_workers
from tests.testing.checked import SAME

CASES = "tests.testing.row_cases"
PASS = {
    "plain",
    "no strategy given",
    "a seed",
    "uneven",
    "less than replicas",
    "equal rows",
    "strings",
    "arrays as rows",
    "OFF",
    "function",
    "function, batches as rows",
    "function, a number",
    "load",
    "a list",
    "afterwards",
}
WRONG = {
    "no seed": ["in another order on each worker", "a shuffle without a seed", "seed=..."],
    "no seed, rows given": ["a shuffle without a seed"],
    "not sharded": ["64 read {times}", "its auto_shard_policy is OFF", "AutoShardPolicy.DATA"],
    "function without shard": ["64 read {times}", "does not shard it", "context.num_input_pipe"],
    "function without shard, a number": ["64 read {times}", "does not shard it"],
    "same part": ["32 never read, 32 read {times}", "all workers read the same part"],
    "sharded twice": ["sharded twice", "AutoShardPolicy.OFF"],
    "sharded twice, rows given": ["sharded twice", "of 64 rows"],
    "shuffle and take": ["does not have the same rows on each worker"],
    "dropped": ["of 61 rows", "exactly the last", "rows are lost", "drop_remainder=True"],
    "OFF, dropped": ["of 64 rows, 8 never read", "exactly the last 8 rows are lost"],
    "repeated": ["64 read 3 times", "each worker reads its own rows 3 times"],
    "too few": ["of 70 rows, 6 never read", "none of the usual patterns was seen"],
    "unknown": ["of 60 rows, 4 read once, but not among the rows"],
    "equal rows lost": ["of 64 rows, 1 never read", "never: row [0, 0], 0"],
    "plain fails": ["reading the plain dataset failed on rank 1", "bad row"],
    "fails on rank 0": ["reading the data failed on rank 0", "bad row"],
    "function's fails": ["reading the data failed on rank 1", "bad row"],
    "endless fails": ["reading the data failed on rank 1", "bad row"],
    "no files": ["failed on rank 0: NotFoundError", "Found an unshardable source dataset"],
}
REFUSED = {
    "no rows": "says nothing of all rows",
    "repeat": "the data never ends",
    "function with repeat": "the data never ends",
    "endless": "has not ended after 30 batches",
    "function's endless": "has not ended after 30 batches",
    "not batched": "yields single rows",
    "another type": "rows= has float64 with 2 dimensions",
    "another structure": "rows= has float32 with 1 dimensions",
    "other rows on each": "whether they are all rows that there are cannot be told",
    "other rows= on each": "rows= is not the same on all workers",
    "no data": "the data is 3",
    "rows of zero": "rows is 0",
    "other kinds": "the workers gave different kinds of data",
}

FEW = [
    "plain",
    "uneven",
    "less than replicas",
    "load",
    "function",
    "no seed",
    "not sharded",
    "same part",
    "function's fails",
    "endless",
]


@pytest.mark.parametrize(
    ("api", "workers", "replicas", "only"),
    [("v2", 2, 1, None), ("v2", 3, 1, FEW), ("compat.v1", 2, 2, FEW)],
    ids=["v2", "three workers", "compat.v1, two replicas each"],
)
def test_what_is_wrong_is_counted_and_explained(
    api: str, workers: int, replicas: int, only: list[str] | None
) -> None:
    function = f"{CASES}:in_worker"
    told = run_workers(function, workers=workers, api=api, replicas=replicas, only=only)
    assert told[1:] == told[:-1]
    wanted = PASS | WRONG.keys() | REFUSED.keys() if only is None else {*only, "afterwards"}
    assert told[0].keys() == wanted
    assert {name: text for name, text in told[0].items() if name in PASS and text != SAME} == {}
    times = "twice" if workers == 2 else "3 times"
    for name in WRONG.keys() & wanted:
        assert told[0][name].startswith("AssertionError: "), (name, told[0][name])
        for part in WRONG[name]:
            assert part.format(times=times) in told[0][name], (name, told[0][name])
    for name in REFUSED.keys() & wanted:
        assert told[0][name].startswith("UsageError: "), (name, told[0][name])
        assert REFUSED[name] in told[0][name], (name, told[0][name])
    if only is None:
        assert_examples(told[0]["no seed"])


def assert_examples(text: str) -> None:
    """They say who read them."""
    twice = re.findall(r"2 times by ranks 0, 1: row \[\d+, \d+\], \d+", text)
    never = re.findall(r"never: row \[\d+, \d+\], \d+", text)
    assert len(twice) == len(never) == 3
    assert "rows read by rank 0: 32, rank 1: 32" in text


def test_other_strategies() -> None:
    [told] = run_workers(f"{CASES}:in_worker_alone", workers=0)
    assert told.keys() == {"mirrored", "default"}
    for each in told.values():
        assert each["right"] == SAME
        assert "of 10 rows, 1 never read\n    never: row 0" in each["lost"]
