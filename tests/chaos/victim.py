"""The worked example, with somebody who strikes it: what every worker of a plan runs.

    CHAOS=folder, incarnation -> the blows to this worker in this incarnation -> one by one, each a
    while after its phase has begun -> struck.jsonl, for the judge

It strikes from a thread, as a platform does from outside: wherever the main thread is just then.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tfdist_kit
from tests.chaos.plans import Blow, Plan, from_record

if TYPE_CHECKING:  # what the example needs: `tfdist run` reads here what to preload
    import keras  # noqa: F401
    import tensorflow_datasets  # noqa: F401

EXAMPLE = Path(__file__).parents[2] / "scripts" / "train_preemptible.py"
_TINY = 1000


class Victim:
    """One worker of a plan, in one incarnation.

    Args:
        folder: The plan's.
        rank: The worker.
        incarnation: How many times the workers were started before.
    """

    def __init__(self, folder: Path, rank: int, incarnation: int) -> None:
        self._folder = folder
        self._rank = rank
        self._incarnation = incarnation
        self._plan: Plan = from_record(json.loads((folder / "plan.json").read_text()))
        rounds = self._plan.rounds
        blows = rounds[incarnation] if incarnation < len(rounds) else ()
        self._due = [blow for blow in blows if blow.rank == rank]
        self._saving = "preemption save"
        self._steps = 0

    def enter(self, phase: str, step: int = 0) -> None:
        """A phase begins: strike those blows that are due in it."""
        for blow in list(self._due):
            if blow.phase == phase and step >= blow.step and blow.kind not in _ON_SAVES:
                self._due.remove(blow)
                threading.Thread(target=self._strike, args=(blow,), daemon=True).start()

    def _strike(self, blow: Blow) -> None:
        time.sleep(blow.delay)
        self._note("struck", kind=blow.kind, phase=blow.phase)
        if blow.kind.startswith("launcher"):
            pid = int((self._folder / "launcher").read_text())
        else:
            pid = os.getpid()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, _SIGNALS[blow.kind])

    def _note(self, what: str, **fields: Any) -> None:
        own = {"time": time.time(), "incarnation": self._incarnation, "rank": self._rank}
        line = json.dumps({"what": what, **own, **fields}) + "\n"
        descriptor = os.open(self._folder / "notes.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line.encode())
        os.close(descriptor)

    # What is put around the example

    def make_strategy(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **kwargs: Any) -> Any:
            self.enter("strategy")
            return make(*args, **kwargs)

        return made

    def make_handler(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **kwargs: Any) -> Any:
            self.enter("handler")
            with self._spoilt("handler"):
                handler = make(*args, **kwargs)
            self._watch_saves()
            handler._save_checkpoint = self._timed(handler._save_checkpoint)
            handler.run = self._run(handler, handler.run)
            handler.save = self._in_phase("periodic save", handler.save)
            handler.finish_training = self._in_phase("finish", handler.finish_training)
            return handler

        return made

    def _run(self, handler: Any, run: Callable[..., Any]) -> Callable[..., Any]:
        def ran(function: Any, step: int) -> Any:
            if not self._steps:
                self.enter("trace")
            if step == self._plan.steps - 1:
                self.enter("last step")
            self.enter("step", step)
            self._steps += 1
            return run(function, step)

        return ran

    def _in_phase(self, phase: str, act: Callable[[], None]) -> Callable[[], None]:
        def acted() -> None:
            self._saving = phase
            self.enter(phase)
            act()
            self._saving = "preemption save"
            if phase == "finish":
                self.enter("evaluation")

        return acted

    def _timed(self, save: Callable[..., None]) -> Callable[..., None]:
        def saved(*args: Any, **kwargs: Any) -> None:
            self._note("save begins", phase=self._saving)
            save(*args, **kwargs)
            self._note("save ends", phase=self._saving)

        return saved

    def _watch_saves(self) -> None:
        import tensorflow as tf

        save = tf.train.CheckpointManager.save

        def saved(*args: Any, **kwargs: Any) -> Any:
            if self._saving == "preemption save":
                self.enter("preemption save")
            with self._spoilt(self._saving):
                return save(*args, **kwargs)

        tf.train.CheckpointManager.save = saved

    @contextlib.contextmanager
    def _spoilt(self, phase: str) -> Iterator[None]:
        """A save, or the handler's making, with what the plan has in store for it."""
        with contextlib.ExitStack() as stack:
            for blow in list(self._due):
                if blow.phase == phase and blow.kind in _ON_SAVES:
                    self._due.remove(blow)
                    self._note("struck", kind=blow.kind, phase=phase)
                    stack.enter_context(_ON_SAVES[blow.kind](self._folder, blow))
            yield

    def mend(self) -> None:
        """Make the checkpoint's folder what it was, as somebody would between two starts."""
        away = self._folder / "job" / "away"
        if self._rank == 0 and away.exists():
            (self._folder / "job" / "checkpoints").unlink()
            away.rename(self._folder / "job" / "checkpoints")


@contextlib.contextmanager
def _full_disk(folder: Path, blow: Blow) -> Iterator[None]:
    """No file can grow any more, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_TINY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def _unwritable(folder: Path, blow: Blow) -> Iterator[None]:
    """The folder cannot be written, not even by root."""
    checkpoints = folder / "job" / "checkpoints"
    checkpoints.mkdir(parents=True, exist_ok=True)
    checkpoints.rename(folder / "job" / "away")
    checkpoints.touch()
    yield


@contextlib.contextmanager
def _slow(folder: Path, blow: Blow) -> Iterator[None]:
    time.sleep(blow.seconds / 2)
    yield
    time.sleep(blow.seconds / 2)


_ON_SAVES = {"disk": _full_disk, "unwritable": _unwritable, "slow": _slow}
_SIGNALS = {
    "term": signal.SIGTERM,
    "kill": signal.SIGKILL,
    "stop": signal.SIGSTOP,
    "launcher_term": signal.SIGTERM,
    "launcher_kill": signal.SIGKILL,
}


def main() -> None:
    """Run the example in this process, as `python scripts/train_preemptible.py` would."""
    incarnation = int(os.environ["CHAOS_BEFORE"]) + int(os.environ["TFDIST_ATTEMPT"])
    victim = Victim(Path(os.environ["CHAOS"]), int(os.environ["TFDIST_RANK"]), incarnation)
    victim.mend()
    tfdist_kit.multi_worker_mirrored = victim.make_strategy(tfdist_kit.multi_worker_mirrored)
    tfdist_kit.preemption_checkpoint_handler = victim.make_handler(
        tfdist_kit.preemption_checkpoint_handler
    )
    sys.argv[0] = str(EXAMPLE)
    victim.enter("start-up")
    try:
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    except SystemExit as leave:
        victim.enter("leaving" if leave.code else "exit")
        raise


if __name__ == "__main__":
    main()
