"""Much output at once: nothing is lost, and the launcher stays small and quick."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.commands import DEADLINE, Command, script
from tfdist_kit.bench import output

MIB = 1 << 20
ENDLESS = """\
import os
line = b"x" * int(os.environ["WIDTH"]) + b"\\n"
while True: os.write(1, line * (65536 // len(line)))
"""


def peak(pid: int) -> int:
    [kib] = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(kib) * 1024


def test_eight_workers_of_a_hundred_thousand_lines_each() -> None:
    [found] = output.measure(styles=["a write per 8 KiB"], rounds=1)  # checks every line
    assert 0 < found.peak < 100 * MIB
    assert output.table([found]).count("lines/s") == 2


def test_workers_that_write_line_by_line() -> None:
    [found] = output.measure(styles=["a write per line"], writers=3, lines=20_000, rounds=1)
    assert found.peak < 100 * MIB


@pytest.mark.parametrize(
    "seen",
    [
        b"[rank 0] 0000000 TEXT\n[rank 0] 0000002 TEXT\n",
        b"[rank 0] 0000000 TEXT\n[rank 0] 00000[rank 1] 0000000 TEXT\n01 TEXT\n",
        b"[rank 0] 0000000 TEXT\n[rank 0] 0000000 TEXT\n",
        b"[rank 0] 0000000 TEXT\n",
        b"[rank 0] 0000000 TEXT\n[rank 0] 0000001 TEXT\nrest",
    ],
    ids=["lost", "torn", "doubled", "too few", "no end"],
)
def test_the_check_finds(seen: bytes) -> None:
    with pytest.raises(RuntimeError, match=r"came as|missing"):
        output._check([seen.replace(b"TEXT", b"x" * output._TEXT)], writers=1, lines=2)


@pytest.mark.parametrize("width", [0, 80])
def test_memory_is_bounded_while_nobody_reads(tmp_path: Path, width: int) -> None:
    args = ["run", "-n", "3", "--log-dir", "logs", script(tmp_path, ENDLESS)]
    with Command(args, tmp_path, {"WIDTH": str(width)}) as command:
        wait_for_standstill(tmp_path / "logs")
        assert peak(command.process.pid) < 100 * MIB
        os.kill(command.process.pid, signal.SIGTERM)  # and it still heeds
        assert command.process.wait(20) == 143


def wait_for_standstill(logs: Path) -> None:
    """Wait until the log files grow no more: the launcher has stopped reading."""
    deadline = time.monotonic() + DEADLINE
    sizes, since = [0], time.monotonic()
    while not sum(sizes) or time.monotonic() - since < 1.0:
        assert time.monotonic() < deadline, sizes
        before, sizes = sizes, [path.stat().st_size for path in logs.glob("*/*/stdout.log")]
        since = since if sizes == before else time.monotonic()
        time.sleep(0.05)
