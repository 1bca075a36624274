"""Prove that nothing is left behind: many clusters in a row, many kills at random moments.

    python scripts/soak.py --clusters 1000 --kills 200

After each, no process of it may live; at the end no port, network namespace, shared memory, open
file or temp file may be there that was not there before. Takes half an hour on two cores.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

from tfdist_kit import LocalCluster
from tfdist_kit.bench import startup
from tfdist_kit.bench.contest import TFDIST_RUN, TOTAL
from tfdist_kit.launcher import close_pool

MARK = "TFDIST_SOAK_MARK"
TRAIN = (
    TOTAL
    + """\
import time
ends = time.monotonic() + 3
while float(total()) and time.monotonic() < ends:
    pass
"""
)
WAYS = (
    ["--start-method", "preload"],
    ["--start-method", "preload", "--isolate"],
    ["--start-method", "fresh"],
    ["--start-method", "preload", "--max-restarts", "1", "--restart-delay", "0"],
)


def living(mark: str) -> list[int]:
    """Every process that was started under a mark, zombies apart."""
    needle, found = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and needle in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def wait_until_gone(mark: str, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while (left := living(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    if left:
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes()[:200] for pid in left]
        raise SystemExit(f"still alive after {seconds:g} s: {commands}")


def listening() -> set[str]:
    rows = [
        row.split()
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for row in Path(table).read_text().splitlines()[1:]
    ]
    return {row[1] for row in rows if row[3] == "0A"}


def namespaces() -> set[str]:
    found = set()
    for entry in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(os.readlink(entry))
        except OSError:
            continue
    return found


def state(folder: Path) -> dict[str, set[str]]:
    """Everything that could be left behind."""
    return {
        "ports": listening(),
        "network namespaces": namespaces(),
        "shared memory": set(os.listdir("/dev/shm")),
        "open files": {f"{fd} {os.readlink(f'/proc/self/fd/{fd}')}" for fd in _descriptors()},
        "temp files": {
            str(path.relative_to(folder))
            for path in folder.rglob("*")
            if not any(part.startswith("run-") for part in path.parts)  # the newest 10 are kept
        },
    }


def _descriptors() -> list[int]:
    return [int(fd) for fd in os.listdir("/proc/self/fd") if Path(f"/proc/self/fd/{fd}").exists()]


def clusters(count: int, script: Path) -> None:
    """Make clusters one after the other; every second one has a network of its own."""
    begin = time.monotonic()
    for number in range(count):
        with LocalCluster(2, isolate=number % 2 == 1) as cluster:
            cluster.run(startup.run_text, str(script))
        if number % 100 == 99:
            print(f"{number + 1} clusters, {time.monotonic() - begin:.0f} s", flush=True)
    close_pool()
    wait_until_gone(os.environ[MARK])


def kills(count: int, script: Path) -> None:
    """Kill launchers, workers and preloading processes at random moments."""
    victims: dict[str, int] = {}
    for number in range(count):
        victim = _kill_one(WAYS[number % len(WAYS)], script)
        victims[victim] = victims.get(victim, 0) + 1
        if number % 20 == 19:
            print(f"{number + 1} kills: {victims}", flush=True)


def _kill_one(options: list[str], script: Path) -> str:
    mark = uuid.uuid4().hex
    launcher = subprocess.Popen(
        [*TFDIST_RUN, "--drain", "1", *options, script],
        env={**os.environ, MARK: mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(random.uniform(0, 6))
    others = [pid for pid in living(mark) if pid != launcher.pid]
    kill_launcher = not others or random.random() < 0.5
    with contextlib.suppress(ProcessLookupError):
        os.kill(launcher.pid if kill_launcher else random.choice(others), signal.SIGKILL)
    code = launcher.wait(60)
    wait_until_gone(mark)
    if kill_launcher:
        return "launcher" if code == -signal.SIGKILL else "launcher, after its end"
    return "another process"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=200)
    wanted = parser.parse_args()
    os.environ.update({"TF_CPP_MIN_LOG_LEVEL": "3", MARK: uuid.uuid4().hex})
    with tempfile.TemporaryDirectory(prefix="tfdist-soak-") as name:
        folder = Path(name)
        os.environ["TMPDIR"] = tempfile.tempdir = name
        train, reduce, empty = (folder / f"{name}.py" for name in ("train", "reduce", "empty"))
        train.write_text(TRAIN)
        reduce.write_text(startup.ALL_REDUCE)
        empty.write_text("")
        subprocess.run([*TFDIST_RUN, empty], check=True)
        before = state(folder)
        clusters(wanted.clusters, reduce)
        kills(wanted.kills, train)
        # What a launcher that was killed could not remove, its next start does.
        subprocess.run([*TFDIST_RUN, empty], check=True)
        left = {what: more for what, now in state(folder).items() if (more := now - before[what])}
    if left:
        raise SystemExit(f"left behind: {left}")
    print(f"nothing is left of {wanted.clusters} clusters and {wanted.kills} kills")


if __name__ == "__main__":
    main()
