"""TensorFlow's start-up noise is left out, and nothing else; the lines are real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import script, tfdist
from tfdist_kit.launcher.output.quiet import Quiet

MARKED = [
    (line[0] == "+", line[2:])
    for line in (Path(__file__).parent / "tensorflow_lines.txt")
    .read_text(encoding="utf-8")
    .splitlines()
]
"""Lines of TensorFlow 2.21 on two workers, of which one dies, and whether each is to be shown."""
ALL = "".join(f"{line}\n" for _, line in MARKED)
SHOWN = "".join(f"{line}\n" for is_shown, line in MARKED if is_shown)
NOISE = [line for is_shown, line in MARKED if not is_shown]
OLD = "2025-03-01 10:20:30.123456: {} tensorflow/core/{}"


def is_hidden(line: str) -> bool:
    return Quiet().filter(line.encode() + b"\n") == b""


def test_real_output_without_its_noise() -> None:
    assert Quiet().filter(ALL.encode()) == SHOWN.encode()


def test_any_cut_between_lines_leaves_the_same(tmp_path: Path) -> None:
    lines = ALL.encode().splitlines(keepends=True)
    for cut in range(len(lines)):
        quiet = Quiet()
        parts = (b"".join(lines[:cut]), b"".join(lines[cut:]))
        assert b"".join(map(quiet.filter, parts)) == SHOWN.encode()


@pytest.mark.parametrize("line", [line for line in NOISE if line[:5] in ("I0000", "W0000")])
@pytest.mark.parametrize("level", ["E0000", "F0000"])
def test_the_same_words_are_shown_when_they_are_an_error(line: str, level: str) -> None:
    assert is_hidden(line)
    assert not is_hidden(level + line[5:])


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        (OLD.format("I", "util/port.cc:153] oneDNN custom operations are on. You may see"), True),
        (OLD.format("E", "util/port.cc:153] oneDNN custom operations are on. You may see"), False),
        (OLD.format("W", "x/computation_placer.cc:1] computation placer already registered"), True),
        (
            OLD.format("E", "x/computation_placer.cc:1] computation placer already registered"),
            False,
        ),
        (OLD.format("I", "util/port.cc:153] something else"), False),
        ("I0000 00:00:1.5 7 local_rendezvous.cc:1] Local rendezvous is aborting: UNKNOWN", False),
        ("W0000 00:00:1.5 7 gpu_device.cc:1] Cannot dlopen some GPU libraries.", False),
        ("I0000 00:00:1.5 7 coordination_service.cc:1] Barrier(x) failed with ABORTED", False),
        ("the script says: port.cc:153] oneDNN custom operations are on", False),
        ("/job:worker/replica:0/task:1", False),
    ],
)
def test_other_lines(line: str, hidden: bool) -> None:
    assert is_hidden(line) is hidden


def test_the_files_have_everything(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text(ALL, encoding="utf-8")
    name = script(tmp_path, "import sys; sys.stderr.write(open('lines', encoding='utf-8').read())")
    args = ["-n", "1", "--quiet-tf", "--log-dir", "logs", name]
    result = tfdist("run", *args, folder=tmp_path)
    log = tmp_path / "logs/attempt_0/rank_0/stderr.log"
    assert log.read_text(encoding="utf-8") == ALL
    shown = [line for line in result.err.splitlines() if line.startswith("[rank 0] ")]
    assert shown == [f"[rank 0] {line}".rstrip("\n") for line in SHOWN.splitlines()]
