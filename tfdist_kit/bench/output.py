"""Output at scale: lines per second through ``tfdist run``, against a reader that does nothing.

    8 writers x 100,000 lines -> tfdist run (files, prefixes) -> a pipe -> counted here
    the same 8 writers        -> pipes                        -> read and thrown away

The writers wait for one another, and the clock runs from the first byte to the last, so that no
start-up counts. Both ways run in turn; what comes through ``tfdist run`` is checked line by line.
"""

from __future__ import annotations

import os
import re
import selectors
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfdist_kit.bench.contest import TFDIST_RUN

WRITERS = 8
LINES = 100_000
_CHUNK = 1 << 20
_TEXT = 72
_LOOK_EVERY = 16

_WAIT = """\
import os, pathlib, sys, time
gate, rank = pathlib.Path(os.environ["TFDIST_BENCH_GATE"]), os.environ["TFDIST_RANK"]
(gate / rank).touch()
while len(os.listdir(gate)) < {writers}: time.sleep(0.001)
text = "x" * {text}
"""
STYLES = {
    "a write per line": "for n in range({lines}): sys.stdout.write(f'{{n:07}} {{text}}\\n')\n",
    "a write per 8 KiB": "with open(1, 'w', closefd=False) as out:\n"
    "    for n in range({lines}): out.write(f'{{n:07}} {{text}}\\n')\n",
}
_LINE_BY_LINE = "import sys; sys.stdout.reconfigure(line_buffering=True)\n"


@dataclass
class Meter:
    """Counts what is read, from the first byte to the last."""

    lines: int = 0
    first: float | None = None
    last: float = 0.0

    def take(self, data: bytes) -> None:
        """Count a piece of output."""
        self.last = time.perf_counter()
        self.first = self.first or self.last
        self.lines += data.count(b"\n")

    @property
    def rate(self) -> float:
        """Lines per second."""
        return self.lines / (self.last - (self.first or 0.0))


@dataclass(frozen=True)
class Throughput:
    """One style of writing, measured both ways in turn.

    Attributes:
        style: How the writers write.
        tfdist: Lines per second through ``tfdist run``, a round each.
        bare: Lines per second into the reader that does nothing.
        peak: The most memory that the launcher used, in bytes.
    """

    style: str
    tfdist: tuple[float, ...]
    bare: tuple[float, ...]
    peak: int

    @property
    def ratio(self) -> float:
        """Median of tfdist / bare, pair by pair."""
        return statistics.median(a / b for a, b in zip(self.tfdist, self.bare, strict=True))


@dataclass
class _Checker:
    """Follows each rank's numbers: a lost, doubled, torn or misplaced line is an error."""

    rest: bytes = b""
    next_number: dict[bytes, int] = field(default_factory=dict)

    def take(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            prefix, number, text = line[:9], line[9:16], line[16:]
            expected = self.next_number.get(prefix, 0)
            if number != b"%07d" % expected or text != b" " + b"x" * _TEXT:
                raise RuntimeError(f"line {expected} of {prefix!r} came as {line!r}")
            self.next_number[prefix] = expected + 1

    def check(self, writers: int, lines: int) -> None:
        if self.rest or sorted(self.next_number.values()) != [lines] * writers:
            raise RuntimeError(f"lines are missing: {self.next_number}")


def measure(
    *,
    styles: Sequence[str] = tuple(STYLES),
    writers: int = WRITERS,
    lines: int = LINES,
    rounds: int = 5,
    options: Sequence[str] = (),
) -> list[Throughput]:
    """Measure each style of writing.

    Args:
        styles: The names of those that are measured.
        writers: How many write at once.
        lines: How many lines each writes.
        rounds: Counted pairs of runs.
        options: More options for ``tfdist run``; with them the lines are not checked, and those
            that are counted are the lines shown.

    Raises:
        RuntimeError: A line was lost, torn or out of order.
    """
    with tempfile.TemporaryDirectory(prefix="tfdist-bench-") as folder:
        return [_measure(Path(folder), style, writers, lines, rounds, options) for style in styles]


def _measure(
    folder: Path, style: str, writers: int, lines: int, rounds: int, options: Sequence[str]
) -> Throughput:
    script = folder / "write.py"
    body = (_WAIT + STYLES[style]).format(writers=writers, lines=lines, text=_TEXT)
    script.write_text(body, encoding="utf-8")
    through, bare, peak = [], [], 0
    for _ in range(rounds):
        meter, most = _through_tfdist(folder, script, writers, lines, options)
        through.append(meter.rate)
        peak = max(peak, most)
        bare.append(_into_a_bare_reader(folder, script, writers).rate)
    return Throughput(style, tuple(through), tuple(bare), peak)


def _environment(folder: Path, **more: str) -> dict[str, str]:
    gate = Path(tempfile.mkdtemp(prefix="gate-", dir=folder))
    own = {"TFDIST_BENCH_GATE": str(gate), "TMPDIR": str(folder), **more}
    return {**{k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}, **own}


def _through_tfdist(
    folder: Path, script: Path, writers: int, lines: int, options: Sequence[str]
) -> tuple[Meter, int]:
    command = [*TFDIST_RUN, "-n", str(writers), *options]
    process = subprocess.Popen(
        [*command, str(script)],
        env=_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    meter, taken, peak = Meter(), [], 0
    with process.stdout as out:
        while data := os.read(out.fileno(), _CHUNK):
            meter.take(data)
            taken.append(data)
            if len(taken) % _LOOK_EVERY == 0:
                peak = max(peak, _peak(process.pid))
    if process.wait():
        raise RuntimeError(f"tfdist run left with {process.returncode}")
    if not options:
        _check(taken, writers, lines)
    return meter, peak


def _peak(pid: int) -> int:
    """The most memory that a process has used since its program began, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0


def _check(taken: Iterable[bytes], writers: int, lines: int) -> None:
    checker = _Checker()
    for data in taken:
        checker.take(data)
    checker.check(writers, lines)


def _into_a_bare_reader(folder: Path, script: Path, writers: int) -> Meter:
    environment = _environment(folder)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _LINE_BY_LINE + script.read_text(encoding="utf-8")],
            env={**environment, "TFDIST_RANK": str(rank)},
            stdout=subprocess.PIPE,
        )
        for rank in range(writers)
    ]
    meter = Meter()
    with selectors.DefaultSelector() as selector:
        for process in processes:
            selector.register(process.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]
        _read_all(selector, meter.take)
    if [code for process in processes if (code := process.wait())]:
        raise RuntimeError("a writer failed")
    return meter


def _read_all(selector: selectors.BaseSelector, take: Callable[[bytes], None]) -> None:
    while selector.get_map():
        for key, _ in selector.select():
            data = os.read(key.fd, _CHUNK)
            if data:
                take(data)
            else:
                selector.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]


def table(found: Iterable[Throughput]) -> str:
    """The measurements as a Markdown table."""
    head = "| 8 writers | tfdist run | bare reader | ratio | launcher's peak memory |\n"
    rows = (
        f"| {it.style} | {statistics.median(it.tfdist):,.0f} lines/s "
        f"| {statistics.median(it.bare):,.0f} lines/s | {it.ratio:.2f} | {it.peak >> 20} MiB |\n"
        for it in found
    )
    return head.replace("8", str(WRITERS)) + "|---|---|---|---|---|\n" + "".join(rows)
