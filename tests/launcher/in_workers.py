"""Functions that tests run in the workers of a `LocalCluster`."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from typing import Any

_kept: list[int] = []


def rank() -> int:
    return int(os.environ["TFDIST_RANK"])


def task() -> str:
    config = json.loads(os.environ["TF_CONFIG"])
    return f"{config['task']['type']}:{config['task']['index']}"


def variable(name: str) -> str | None:
    return os.environ.get(name)


def keep(number: int) -> list[int]:
    _kept.append(number)
    return _kept


def write(text: str) -> None:
    print(f"rank {rank()} {text}")
    print(f"rank {rank()} complains", file=sys.stderr)


def fail(failing: int, seconds: float = 0) -> int:
    if rank() == failing:
        raise KeyError("bad row")
    time.sleep(seconds)
    return rank()


class UnavailableError(Exception):
    """Named like TensorFlow's."""


def fail_after_a_peer() -> None:
    if rank() == 1:
        time.sleep(0.3)
        raise KeyError("the cause")
    raise UnavailableError("Collective ops is aborted by: Socket closed")


def raise_what_cannot_be_sent() -> None:
    class Local(Exception):
        pass

    raise Local("of a class that has no name outside")


def return_what_cannot_be_sent() -> Any:
    return (number for number in range(3))


def die(dying: int, signum: int = signal.SIGKILL) -> None:
    if rank() == dying:
        os.kill(os.getpid(), signum)
    time.sleep(60)


def leave(code: int) -> None:
    os._exit(code)


def hang(hanging: int) -> None:
    if rank() == hanging:
        time.sleep(60)


def echo(value: Any) -> Any:
    return value


def size_of(data: bytes) -> int:
    return len(data)


def lose_stdout() -> None:
    sys.stdout.close()
    sys.stdout = None


def imported(name: str) -> bool:
    return name in sys.modules


def set_and_import(variable: str) -> None:
    os.environ[variable] = "1"
    importlib.import_module("tensorflow")


def all_reduce() -> float:
    tf = importlib.import_module("tensorflow")
    kit = importlib.import_module("tfdist_kit")
    strategy = kit.multi_worker_mirrored()

    def one() -> Any:
        return tf.distribute.get_replica_context().all_reduce("sum", tf.identity(1.0))

    return float(strategy.run(tf.function(one)))
