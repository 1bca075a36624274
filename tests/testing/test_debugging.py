"""A debugger in one worker of a test. No TensorFlow in the workers."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.launcher.terminals import Terminal

ARGS = ["-o", "tfdist_preload=", "--color=no", "-p", "no:cacheprovider"]
TEST = """\
import pytest
@pytest.mark.tfdist(timeout=1)
def test_it(tf_worker):
    value = 41 + tf_worker.rank
    if tf_worker.rank == 1:
        breakpoint()
    assert value == 41
def test_other(): pass
"""


class Pytest(Terminal):
    command = (sys.executable, "-m", "pytest")


def test_breakpoint_and_post_mortem_on_one_rank(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    with Pytest([*ARGS, "--pdb", "--tfdist-debug-rank=1"], tmp_path) as terminal:
        terminal.shows(r"PDB set_trace(?s:.)*\(Pdb\) ")
        terminal.types("import time;; time.sleep(1.5);; p value\n")  # beyond the test's deadline
        terminal.shows(r"\n42\n\(Pdb\) ")
        terminal.types("c\n")
        terminal.shows(r"AssertionError|assert 42 == 41(?s:.)*PDB post_mortem(?s:.)*\(Pdb\) ")
        terminal.types("p tf_worker.rank + 100\n")
        terminal.shows(r"\n101\n\(Pdb\) ")
        terminal.types("c\n")
        terminal.shows(r"> rank 1 \(worker:1\)  failed: test_it.py:7: assert 42 == 41\n")
        terminal.shows(r"1 failed, 1 passed in ")
        terminal.shows("terminal given back: True True\nexit code: 1\n")


def test_leaving_the_debugger_ends_the_session(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    with Pytest([*ARGS, "--tfdist-debug-rank=1"], tmp_path) as terminal:
        terminal.shows(r"PDB set_trace(?s:.)*\(Pdb\) ")
        terminal.types("q\n")
        terminal.shows(r"Exit: Quitting debugger \(in rank 1 \(worker:1\)\)")
        terminal.shows("terminal given back: True True\nexit code: 2\n")


def test_ctrl_c_ends_the_session_and_its_workers(tmp_path: Path) -> None:
    test = "import pytest, time\n@pytest.mark.tfdist\ndef test_it():\n    time.sleep(60)\n"
    (tmp_path / "test_it.py").write_text(test + "def test_other(): pass\n")
    with Pytest([*ARGS, "-v"], tmp_path) as terminal:
        terminal.shows(r"test_it ")
        terminal.shows(r"KeyboardInterrupt", press="\x03")
        terminal.shows("exit code: 2\n")
