"""Has a command run several times, and looks where the runs part.

    VerifyRequest -> launcher.run, once for each run, with the recorder in its workers
        -> a folder of traces each -> held against the first -> Verdict

The recorder gets into the workers by their environment (`launcher.inside.on_import`): the program
is the same in every respect.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfdist_kit._errors import UsageError
from tfdist_kit.determinism.comparing import Divergence, compare
from tfdist_kit.determinism.explaining import Difference, explain, explain_workers
from tfdist_kit.determinism.trace import Run, read_run
from tfdist_kit.determinism.workers import Drift, drift
from tfdist_kit.launcher import ConsoleWish, Deadlines, Outcome, RunRequest
from tfdist_kit.launcher import run as launch

IDENTICAL_EXIT = 0
DIVERGED_EXIT = 1
FAILED_EXIT = 3
_RECORDER = "tfdist_kit.adapters.op_determinism.recorder:at_import"
_TRAINERS = ("keras.src.backend.tensorflow.trainer", "tf_keras.src.engine.training")
RECORDING: Mapping[str, str] = {
    "TFDIST_ON_IMPORT": ";".join(f"{module}={_RECORDER}" for module in _TRAINERS),
}
"""What a worker's environment needs besides TFDIST_RECORD, to have Keras' models recorded."""
_BUSY = """\
import os, sys, threading
def leave():
    sys.stdin.read()
    os._exit(0)
threading.Thread(target=leave, daemon=True).start()
while True:
    sum(range(1000))
"""


@dataclass(frozen=True)
class VerifyRequest:
    """What is to be verified.

    Attributes:
        target: A script's path, or a module's name.
        args: Its arguments.
        is_module: Which of them it is.
        folder: Where the traces go: ``run_0/rank_0.jsonl`` and so on.
        runs: How often it is run.
        workers: How many workers train it.
        stress: Whether every second run has to share the processors with others.
        env: Variables for every run.
        timeout: Seconds that one run may take; None is for ever.
        shows_output: Whether the program's output is shown.
    """

    target: str
    folder: Path
    args: tuple[str, ...] = ()
    is_module: bool = False
    runs: int = 3
    workers: int = 1
    stress: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None
    shows_output: bool = False


@dataclass(frozen=True)
class Verdict:
    """What became of the runs.

    Attributes:
        runs: Those that were recorded.
        failed: The number of the run that failed, if one did, and its exit code.
        differences: What of the manifests of two runs differs.
        divergence: The first place where a run differs from the first one.
        between_workers: What of the manifests of one run's workers differs.
        drift: Where the workers of the first run do not agree with each other.
    """

    runs: tuple[Run, ...]
    failed: tuple[int, int] | None = None
    differences: tuple[Difference, ...] = ()
    divergence: Divergence | None = None
    between_workers: tuple[Difference, ...] = ()
    drift: Drift | None = None

    @property
    def exit_code(self) -> int:
        """0: identical; 1: the runs, or their workers, part; 3: a run failed."""
        if self.failed is not None:
            return FAILED_EXIT
        parted = self.divergence is not None or self.drift is not None
        return DIVERGED_EXIT if parted else IDENTICAL_EXIT


def verify(
    request: VerifyRequest,
    environ: Mapping[str, str],
    say: Callable[[str], None] = lambda line: None,
) -> Verdict:
    """Run a program several times, and compare what it computed.

    Args:
        request: What to run.
        environ: The environment that the runs inherit.
        say: Is told about the progress, a line at a time.

    Raises:
        UsageError: It cannot be done, or the program has recorded nothing.
    """
    if request.runs < 2:
        raise UsageError(f"the number of runs is {request.runs}", hint="give two or more")
    if request.folder.exists() and any(request.folder.glob("run_*")):
        raise UsageError(
            f"{request.folder} already holds recorded runs", hint="give another folder, or empty it"
        )
    runs: list[Run] = []
    for number in range(request.runs):
        stressed = request.stress and number % 2 == 1
        with _busy() if stressed else contextlib.nullcontext():
            outcome = launch(_one_run(request, number), environ)
        say(f"run {number}: {_told(outcome)}{', on busy processors' if stressed else ''}")
        if outcome.exit_code:
            return Verdict(tuple(runs), failed=(number, outcome.exit_code))
        runs.append(_recorded(request.folder / f"run_{number}", number))
    return judge(runs)


def judge(runs: Sequence[Run]) -> Verdict:
    """Hold every run against the first, and the first one's workers against each other."""
    first, *others = runs
    found = [(explain(first, other), compare(first, other)) for other in others]
    differing = next((found for found in found if found[1] is not None), None)
    differences = differing[0] if differing else next((d for d, _ in found if d), [])
    return Verdict(
        tuple(runs),
        differences=tuple(differences),
        divergence=differing[1] if differing else None,
        between_workers=tuple(explain_workers(first)),
        drift=drift(first),
    )


def _one_run(request: VerifyRequest, number: int) -> RunRequest:
    folder = request.folder / f"run_{number}"
    return RunRequest(
        target=request.target,
        args=request.args,
        is_module=request.is_module,
        workers=request.workers,
        env={**request.env, **RECORDING, "TFDIST_RECORD": str(folder.absolute())},
        log_dir=request.folder / "logs" / f"run_{number}",
        deadlines=Deadlines(total=request.timeout),
        console=ConsoleWish(tee=request.shows_output, live=False),
    )


def _told(outcome: Outcome) -> str:
    how = "done" if not outcome.exit_code else f"FAILED with exit code {outcome.exit_code}"
    return f"{how} in {outcome.seconds:.1f} s"


def _recorded(folder: Path, number: int) -> Run:
    try:
        run = read_run(folder, f"run {number}")
    except UsageError as error:
        if folder.exists():
            raise
        raise UsageError(
            "the program has recorded nothing: it trains no Keras model",
            hint="in the step of a loop of your own, call "
            "tfdist_kit.adapters.op_determinism.record(...)",
        ) from error
    return run


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    """Processes that use as much of the processors as they are given, until the block ends."""
    command = [sys.executable, "-c", _BUSY]
    others: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(os.cpu_count() or 1):
            others.append(subprocess.Popen(command, stdin=subprocess.PIPE))
        yield
    finally:
        for other in others:
            if other.stdin is not None:
                other.stdin.close()
            other.wait()
