"""`assert_same_as_single_process`: wrong losses and gradients are found, by what they do."""

from __future__ import annotations

import pytest

from tests.adapters.cluster import run_workers
from tests.testing.checked import SAME

CASES = "tests.testing.step_cases"
PASS = {
    "SGD",
    "Adam",
    "SGD of tf_keras",
    "Adam of tf_keras",
    "uneven",
    "module",
    "no strategy given",
    "the wrong left out",
    "fit",
    "fit of tf_keras",
    "fit, synchronized",
}
TOO_LARGE = "the update is {n} times too large, and there are {n} replicas: the loss is averaged"
TOO_SMALL = "the update is {n} times too small"
NOT_REDUCED = "gradients are not reduced over the replicas: each worker has made the update of"
WRONG = {
    "mean": [TOO_LARGE, "kernel (float32, shape (3, 1))", "compute_average_loss", "2 of 4 var"],
    "mean, Adam": [TOO_LARGE, "momentum"],
    "mean, tf_keras": [TOO_LARGE],
    "divided twice": [TOO_SMALL, "divided by their number twice"],
    "mean of unequal parts": ["rows do not divide by {n} replicas"],
    "not reduced": [NOT_REDUCED, "nor do the replicas agree", "1 of 1 variables", "all_reduce"],
    "mean of updates": [TOO_SMALL],
    "aggregation skipped": [NOT_REDUCED, "m/dense"],
    "dropout": ["no simple relation", "dropout or other random numbers"],
    "fails": ["alone on one replica's rows, failed on rank 1: ValueError: rank 1 cannot do this"],
    "fails late": ["alone on one replica's rows, failed on rank 1: InvalidArgumentError"],
    "no state": ["make_state, without a strategy, failed on rank 1: ValueError: no state"],
    "fit, BatchNormalization": ["moving_mean", "do not agree after it", "synchronized=True"],
    "fit, unequal parts": ["rows do not divide by {n} replicas"],
}
REFUSED = {
    "does nothing": "the step changes no variable",
    "within the tolerance": "the step changes no variable beyond the tolerance",
    "not built": "build model and optimizer in make_state",
    "no variables": "there is no variable in",
    "too few rows": "the batch has 1 rows, and there are {n} replicas",
    "another batch on each": "the batch is not the same on all workers",
    "unequal batch": "the components of the batch have the sizes",
    "in scope": "nothing is a single process",
    "no step, no model": "the state is dict, not a compiled model",
}
THREE = ["uneven", "mean", "divided twice", "not reduced"]
"""What depends on the number of workers."""
LOCAL_TOO = [
    "SGD",
    "module",
    "mean",
    "mean, Adam",
    "divided twice",
    "not reduced",
    "aggregation skipped",
    "fails",
]
"""What may go another way with several replicas on each worker, or under the other class."""


@pytest.mark.parametrize(
    ("api", "workers", "replicas", "only"),
    [("v2", 2, 1, None), ("v2", 3, 1, THREE), ("compat.v1", 2, 2, LOCAL_TOO)],
    ids=["v2", "three workers", "compat.v1, two replicas each"],
)
def test_a_wrong_step_is_explained_by_what_it_does(
    api: str, workers: int, replicas: int, only: list[str] | None
) -> None:
    function = f"{CASES}:in_worker"
    told = run_workers(function, workers=workers, api=api, replicas=replicas, only=only)
    assert told[1:] == told[:-1]
    wanted = PASS | WRONG.keys() | REFUSED.keys() if only is None else {*only}
    assert told[0].keys() == wanted
    assert {name: text for name, text in told[0].items() if name in PASS and text != SAME} == {}
    n = workers * replicas
    for name in WRONG.keys() & wanted:
        assert told[0][name].startswith("AssertionError: "), (name, told[0][name])
        for part in WRONG[name]:
            assert part.format(n=n) in told[0][name], (name, told[0][name])
    for name in REFUSED.keys() & wanted:
        assert told[0][name].startswith("UsageError: "), (name, told[0][name])
        assert REFUSED[name].format(n=n) in told[0][name], (name, told[0][name])


def test_other_strategies() -> None:
    [told] = run_workers(f"{CASES}:in_worker_alone", workers=0)
    assert told["default"]["right"] == told["default"]["mean"] == SAME
    assert told["mirrored"]["right"] == SAME
    assert TOO_LARGE.format(n=2) in told["mirrored"]["mean"]
