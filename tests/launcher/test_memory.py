"""More workers than memory can hold: how much there is, what is needed, and the refusal."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import script
from tfdist_kit import UsageError
from tfdist_kit.launcher import RunRequest, run
from tfdist_kit.launcher.start import memory

MIB = memory.MIB


def machine(root: Path, files: dict[str, str]) -> Path:
    """A root folder whose machine has 1000 MiB available, and 50 MiB of swap."""
    meminfo = (
        f"MemTotal: {9999 * 1024} kB\nMemAvailable: {1000 * 1024} kB\nSwapFree: {50 * 1024} kB\n"
    )
    for name, text in {"proc/meminfo": meminfo, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def limited(folder: str, limit: int, used: int, files: int) -> dict[str, str]:
    """A control group of version 2."""
    return {
        f"sys/fs/cgroup{folder}/memory.max": f"{limit * MIB}\n",
        f"sys/fs/cgroup{folder}/memory.current": f"{used * MIB}\n",
        f"sys/fs/cgroup{folder}/memory.stat": f"anon 5\ninactive_file {files * MIB}\n"
        "active_file 0\nfile_thp 7\n",
    }


V2 = {"proc/self/cgroup": "0::/a/b\n"}
V1 = {
    "proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/a\n0::/\n",
    "sys/fs/cgroup/memory/a/memory.limit_in_bytes": f"{400 * MIB}",
    "sys/fs/cgroup/memory/a/memory.usage_in_bytes": f"{200 * MIB}",
    "sys/fs/cgroup/memory/a/memory.stat": f"total_inactive_file {10 * MIB}\n"
    f"total_active_file {20 * MIB}\n",
}
UNLIMITED = {"sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/memory.current": "1\n"}


@pytest.mark.parametrize(
    ("files", "mib"),
    [
        ({}, 1050),
        (V2, 1050),
        ({**V2, **UNLIMITED}, 1050),
        ({**V2, **limited("/a/b", 300, 200, 0)}, 150),
        ({**V2, **limited("/a/b", 300, 200, 60)}, 210),
        ({**V2, **limited("/a", 300, 100, 0), **limited("/a/b", 900, 100, 0)}, 250),
        ({**V2, **limited("/a/b", 300, 400, 0)}, 50),
        ({**V2, **limited("", 300, 100, 0)}, 250),
        ({**V2, **limited("/other", 1, 1, 0)}, 1050),
        (V1, 280),
    ],
)
def test_what_is_available_is_the_least_that_anybody_allows(
    tmp_path: Path, files: dict[str, str], mib: int
) -> None:
    assert memory.available(machine(tmp_path, files)) == mib * MIB


def test_a_system_that_does_not_tell_refuses_nothing(tmp_path: Path) -> None:
    assert memory.available(tmp_path) is None
    memory.check(10**6, system=tmp_path)


@pytest.mark.parametrize(
    ("workers", "preload", "tensorflow", "mib"),
    [(3, False, False, 14), (2, False, True, 372), (4, True, True, 338), (3, True, False, 6)],
)
def test_what_is_needed(workers: int, preload: bool, tensorflow: bool, mib: int) -> None:
    assert memory.needed(workers, preload=preload, tensorflow=tensorflow) // MIB == mib


def test_an_empty_worker_really_needs_more_than_the_floor() -> None:
    code = "import tfdist_kit.launcher.inside.worker; print(open('/proc/self/smaps_rollup').read())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = re.search(r"Pss_Anon: +(\d+) kB", done.stdout)
    if found is None:
        pytest.skip("this kernel does not tell anonymous memory apart")
    assert int(found[1]) * 1024 > memory.needed(1, preload=False, tensorflow=False)


def test_the_last_worker_that_fits_and_the_first_that_does_not(tmp_path: Path) -> None:
    system = machine(tmp_path, {})
    memory.check(225, system=system)
    with pytest.raises(UsageError, match=r"226 workers need at least 1054 MiB .* and 1050 MiB can"):
        memory.check(226, system=system)
    memory.check(5, tensorflow=True, system=system)
    with pytest.raises(UsageError, match="6 workers need at least 1116 MiB"):
        memory.check(6, tensorflow=True, system=system)
    memory.check(6, tensorflow=True, preload=True, system=system)


def test_a_run_that_cannot_fit_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(memory, "available", lambda *_: 5 * MIB)
    request = RunRequest(script(tmp_path, ""), workers=2, log_dir=tmp_path / "logs")
    with pytest.raises(UsageError, match="2 workers need at least 9 MiB of memory, and 5 MiB can"):
        run(request, {})
    assert not (tmp_path / "logs").exists()
