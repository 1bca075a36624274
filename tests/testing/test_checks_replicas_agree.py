"""`assert_replicas_agree`: what agrees passes, what does not is named, with what was seen."""

from __future__ import annotations

import pytest

from tests.adapters.cluster import run_workers
from tests.testing.checked import SAME

CASES = "tests.testing.agree_cases"
PASS = {
    "right",
    "no strategy given",
    "in scope",
    "-0",
    "ON_READ among others",
    "Keras 3",
    "afterwards",
}
FAIL = {
    "assigned": [
        "AssertionError: 1 of 3 variables differ between replicas",
        "[2] assigned (float32, shape (2,)): the largest difference is 0.5",
        "made in scope like the 2 that agree. Usually an `assign`",
    ],
    "outside": ["[2] outside (float32, shape ())", "made outside strategy.scope()"],
    "first replica": ["its aggregation is ONLY_FIRST_REPLICA"],
    "NaN on one": ["NaN on some replicas only", "digests by rank: rank 0: "],
    "ON_READ": ["UsageError", "summed is read as the sum of its replicas' values (ON_READ)"],
    "Keras 3 assigned": ["1 of 2 variables", "wrong/bias (float32, shape (2,))"],
    "tf_keras' optimizer": ["iteration", "the largest difference is 1"],
    "fewer": ["rank 0 gave 1, rank 1 gave 2; only in one of them: [1] single (int32, shape ())"],
    "another": ["pair (float32, shape (2,)) of rank 0 stands where rank 1 has single (int32"],
    "no variable on rank 0": ["UsageError: TFD001: on rank 0: [0] is 1, which has no variables"],
    "nothing": ["UsageError: TFD001: there is no variable in []"],
    "by a replica": ["UsageError: TFD001: the check was called by a replica"],
    "no strategy": ["UsageError: TFD001: strategy is 'mirrored'"],
}


@pytest.mark.parametrize(
    ("api", "workers", "replicas"),
    [("v2", 2, 1), ("v2", 3, 1), ("compat.v1", 2, 2)],
    ids=["v2", "three workers", "compat.v1, two replicas each"],
)
def test_what_differs_is_named_on_all_ranks_alike(api: str, workers: int, replicas: int) -> None:
    told = run_workers(f"{CASES}:in_worker", workers=workers, api=api, replicas=replicas)
    assert told[1:] == told[:-1]
    assert told[0].keys() == PASS | FAIL.keys()
    for name, text in told[0].items():
        if name in PASS:
            assert text == SAME, name
        for part in FAIL.get(name, []):
            assert part in text, (name, text)


def test_a_worker_alone_agrees_with_itself() -> None:
    [told] = run_workers(f"{CASES}:in_worker", workers=0, api="v2", replicas=1)
    assert {text for text in told.values() if "UsageError" not in text} == {SAME}


@pytest.mark.parametrize("kind", ["mirrored", "default"])
def test_other_strategies(kind: str) -> None:
    [told] = run_workers(f"{CASES}:in_worker_other_strategy", workers=0, kind=kind)
    assert told["right"] == SAME
    if kind == "mirrored":
        assert "even the replicas of one worker differ" in told["torn"]
