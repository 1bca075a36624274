"""Runs texts as programs of their own, forked from one process that has imported TensorFlow.

That process has nothing of this project in it and has run no operation. Each program has its own
TF_CONFIG, or none, and ends as an interpreter does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 200.0
END = ("code", "out", "err")


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    code: int
    out: str
    err: str


def run_programs(folder: Path, programs: Mapping[str, tuple[str, str | None]]) -> dict[str, Ended]:
    """Run all programs at the same time: of each its text and its TF_CONFIG, by name."""
    env = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    process = subprocess.Popen(
        [sys.executable, __file__, json.dumps(dict(programs))],
        cwd=folder,
        env={**env, "TF_CPP_MIN_LOG_LEVEL": "3"},
        start_new_session=True,
    )
    try:
        assert process.wait(PATIENCE) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return {name: _ended(folder / name) for name in programs}


def _ended(file: Path) -> Ended:
    code, out, err = (file.with_suffix(f".{part}").read_text() for part in END)
    return Ended(int(code), out, err)


def _run(name: str, text: str, tf_config: str | None) -> None:
    """Be that program."""
    for descriptor, part in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{name}.{part}", os.O_WRONLY | os.O_CREAT, 0o600), descriptor)
    sys.argv = ["-c"]
    if tf_config is not None:
        os.environ["TF_CONFIG"] = tf_config
    file = Path(f"{name}.py").resolve()
    file.write_text(text)
    exec(compile(text, file, "exec"), {"__name__": "__main__"})


def main() -> None:
    """Fork, and write down how each one ended."""
    sys.path[0] = ""
    import keras  # noqa: F401  # TensorFlow would import it late
    import tensorflow  # noqa: F401

    running = {}
    for name, (text, tf_config) in json.loads(sys.argv[1]).items():
        pid = os.fork()
        if pid == 0:
            return _run(name, text, tf_config)
        running[pid] = name
    while running:
        pid, status = os.wait()
        Path(f"{running.pop(pid)}.code").write_text(str(os.waitstatus_to_exitcode(status)))
    return None


if __name__ == "__main__":
    main()
