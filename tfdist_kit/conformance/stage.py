"""In a worker: one part of a scene, and what it says meanwhile.

    perform -> program(stage) -> say(word, ...), line by line in a file -> `scenes`
            -> SystemExit, or another exception -> the process ends as Python would end it

A process that has decided how to leave does so at once: the interpreter's own teardown, up to
seconds with TensorFlow, is left out, but for a program that asks for it.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tfdist_kit.conformance.marks import MutantError, apply_mutant
from tfdist_kit.conformance.subjects import Subject

TEXT = 400


@dataclass(frozen=True, repr=False)
class Said:
    """What a worker has said.

    Attributes:
        word: What it is about.
        at: When, in seconds of the machine's monotonic clock.
        data: What is to be known of it.
    """

    word: str
    at: float
    data: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def __repr__(self) -> str:
        """What is the same in each run: neither when it was, nor at which step."""
        if self.word != "raised":
            return self.word
        return f"raised {self.data['type']}: {self.data['text'][:TEXT]}"


@dataclass(frozen=True)
class Stage:
    """What a program of a scene is given, in each worker.

    Attributes:
        work: A folder for all workers, with what an earlier scene has left there.
        records: Where they write what they say.
        subject: What the check is about.
    """

    work: str
    records: str
    subject: Subject

    @property
    def folder(self) -> Path:
        """The folder for all workers."""
        return Path(self.work)

    @property
    def rank(self) -> int:
        """The number of this worker."""
        return int(os.environ["TFDIST_RANK"])

    def say(self, word: str, **data: Any) -> None:
        """Say something to the check.

        Args:
            word: What it is about.
            data: Plain data.
        """
        line = json.dumps([word, time.monotonic(), data], default=_plain)
        with open(f"{self.records}/{self.rank}.jsonl", "a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def meet(self, name: str, size: int = 2, patience: float = 10.0) -> None:
        """Wait until so many workers are here, by files and without TensorFlow.

        Raises:
            TimeoutError: They did not come.
        """
        folder = Path(self.records, name)
        folder.mkdir(exist_ok=True)
        (folder / str(self.rank)).touch()
        ends = time.monotonic() + patience
        while len(list(folder.iterdir())) < size:
            if time.monotonic() > ends:
                raise TimeoutError(f"not all have come to {name}")
            time.sleep(0.002)


def _plain(value: Any) -> Any:
    """A number of NumPy's as one of Python's; anything else as text."""
    return value.item() if hasattr(value, "item") else str(value)


def read(path: Path) -> tuple[Said, ...]:
    """What a worker has said, up to the last whole line."""
    if not path.exists():
        return ()
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    return tuple(Said(*json.loads(line)) for line in whole.splitlines())


def break_here(folder: Path, mutant: str) -> None:
    """Break TensorFlow in this process.

    Raises:
        MutantError: The mutant does not fit this TensorFlow, or is broken itself.
    """
    try:
        apply_mutant(folder, mutant)
    except MutantError:
        raise
    except Exception as error:
        raise MutantError(f"{mutant} raised {type(error).__name__}: {error}") from error


def perform(program: Callable[..., None], stage: Stage, arguments: Mapping[str, Any]) -> None:
    """Do this worker's part; the process ends unless the program comes to its end."""
    try:
        program(stage, **arguments)
    except SystemExit as error:
        stage.say("left", code=str(error.code))
        _end(_status(error.code))
    except BaseException as error:
        stage.say("raised", type=type(error).__name__, text=str(error))
        traceback.print_exc()
        _end(1)
    stage.say("returned")


def _status(code: Any) -> int:
    """The exit code that Python makes of what SystemExit was given."""
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    print(code, file=sys.stderr)
    return 1


def _end(status: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def end_as_an_interpreter(status: int) -> NoReturn:
    """End this process with all of Python's own teardown."""
    ctypes.PyDLL(None).Py_Exit(status)
    raise AssertionError("Py_Exit has returned")
