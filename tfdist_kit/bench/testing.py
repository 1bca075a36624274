"""How long pytest takes for many small tests on two workers, from a cold start.

Against tests that start a plain ``subprocess`` per worker, and against tests without workers.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tfdist_kit.bench.contest import Contest, run
from tfdist_kit.bench.startup import plain_launch

TESTS = 50
PLAIN_TESTS = 5
EMPTY = """\
import pytest

@pytest.mark.parametrize("number", range({tests}))
@pytest.mark.tfdist
def test_it(number):
    pass
"""
REDUCES = """\
import pytest

@pytest.mark.parametrize("number", range({tests}))
@pytest.mark.tfdist
def test_it(number, tf_worker):
    import tensorflow as tf
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    @tf.function
    def total():
        one = lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.identity(1.0))
        return strategy.run(one)
    assert float(total()) == tf_worker.size
"""


def contests(folder: Path) -> Iterator[Contest]:
    """Everything that is measured about tests; nothing where pytest is not installed."""
    if importlib.util.find_spec("pytest") is None:
        return
    reduce = folder / "reduce.py"
    body = REDUCES.partition("tf_worker):\n")[2].replace("tf_worker.size", "2")
    reduce.write_text("\n".join(line[4:] for line in body.splitlines()))
    yield Contest(
        f"{TESTS} tests of one all-reduce on 2 workers",
        {
            "marker tfdist": partial(_pytest, folder / "reduces", REDUCES),
            "marker tfdist, --tfdist-fresh": partial(
                _pytest, folder / "reduces", REDUCES, "--tfdist-fresh"
            ),
            f"plain subprocesses, {PLAIN_TESTS} times, x {TESTS // PLAIN_TESTS}": partial(
                _plain, reduce
            ),
        },
        "marker tfdist",
    )
    yield Contest(
        f"{TESTS} tests of an empty body on 2 workers",
        {
            "marker tfdist": partial(_pytest, folder / "empty", EMPTY),
            "without workers": partial(
                _pytest, folder / "alone", EMPTY.replace("@pytest.mark.tfdist\n", "")
            ),
        },
        "marker tfdist",
    )


def _pytest(folder: Path, text: str, *options: str) -> None:
    folder.mkdir(exist_ok=True)
    test = folder / "test_it.py"
    test.write_text(text.format(tests=TESTS))
    alone = ("-c", "/dev/null", "--rootdir", folder, "-p", "no:cacheprovider", "-q")
    run(sys.executable, "-m", "pytest", *alone, *options, test)


def _plain(script: Path) -> float:
    begin = time.perf_counter()
    for _ in range(PLAIN_TESTS):
        plain_launch(script, 2)
    return (time.perf_counter() - begin) * TESTS / PLAIN_TESTS
