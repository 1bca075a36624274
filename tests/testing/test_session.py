"""The plugin among pytest's own options and other plugins. No TensorFlow in the workers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.testing.sessions import Session, session

BARE = ("-o", "tfdist_preload=")


def project(folder: Path, files: Mapping[str, str] | None = None, test_it: str = "") -> None:
    for name, text in {**(files or {}), **({"test_it.py": test_it} if test_it else {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def outcomes(ran: Session) -> dict[str, str]:
    return {name: went.outcome for name, went in ran.tests.items()}


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


TWO_FAIL = """\
import pytest
pytestmark = pytest.mark.tfdist
def test_a(tf_worker): pass
def test_b(tf_worker): assert tf_worker.rank == 0
def test_c(tf_worker): assert tf_worker.rank == 1
"""


def test_exitfirst_and_last_failed(tmp_path: Path) -> None:
    project(tmp_path, test_it=TWO_FAIL)
    first = session(tmp_path, *BARE, "-x")
    assert outcomes(first) == {"test_a": "passed", "test_b": "failed"}
    again = session(tmp_path, *BARE, "--lf")
    assert outcomes(again) == {"test_b": "failed"}, again.out


def test_xdist(tmp_path: Path) -> None:
    project(tmp_path, test_it=TWO_FAIL)
    ran = session(tmp_path, *BARE, "-n", "2")
    assert outcomes(ran) == {"test_a": "passed", "test_b": "failed", "test_c": "failed"}
    assert (
        "> rank 1 (worker:1)  failed: test_it.py:4: AssertionError: assert 1 == 0"
        in ran["test_b"].text
    )
    assert not list((tmp_path / "temp").glob("tfdist-slots*"))


AT_ONCE = """\
import time
from pathlib import Path
import pytest
@pytest.mark.tfdist(workers=[2, 2, 2, 2])
@pytest.mark.parametrize("n", range(2))
def test_it(tf_worker, n):
    here = Path(__file__).parent / "here"
    with here.open("a") as file:
        file.write("+\\n")
    time.sleep(0.1)
    with here.open("a") as file:
        file.write("-\\n")
"""


@pytest.mark.parametrize(("slots", "most"), [("2", 2), ("4", 4), ("1", 2)])
def test_no_more_workers_are_at_work_than_there_are_slots(
    tmp_path: Path, slots: str, most: int
) -> None:
    project(tmp_path, test_it=AT_ONCE)
    ran = session(tmp_path, *BARE, "-n", "2", "--tfdist-slots", slots)
    assert ran.code == 0, ran.out
    steps = [1 if line == "+" else -1 for line in lines_of(tmp_path / "here")]
    assert len(steps) == 32
    assert max(sum(steps[:end]) for end in range(len(steps))) <= most


def test_a_projects_configuration_is_that_of_its_workers_too(tmp_path: Path) -> None:
    files = {
        "pytest.ini": "[pytest]\naddopts = -n 2 -v --lf --junitxml=out.xml -p helper\n"
        "filterwarnings = error\npythonpath = src\nmarkers = own\n"
        "consider_namespace_packages = true\n",
        "src/mine.py": "def value(): return 3\n",
        "helper.py": "import pytest\n@pytest.fixture\ndef helped(tf_worker):\n"
        "    return tf_worker.rank\n",
        "tests/unit/conftest.py": "import pytest\n@pytest.fixture\ndef sub(): return 'sub'\n",
        "tests/unit/test_it.py": (
            "import warnings, pytest, mine\n"
            "@pytest.mark.own\n@pytest.mark.tfdist\n"
            "def test_all(sub, helped, tf_worker, pytestconfig):\n"
            "    assert mine.value() == 3 and sub == 'sub' and helped == tf_worker.rank\n"
            "    assert str(pytestconfig.rootpath) == __file__.rpartition('/tests/')[0]\n"
            "    with pytest.raises(UserWarning): warnings.warn('x')\n"
        ),
    }
    project(tmp_path, files)
    ran = session(tmp_path, *BARE, PYTHONPATH=f"{tmp_path}:{Path(__file__).parents[2]}")
    assert outcomes(ran) == {"test_all": "passed"}, ran.out


@pytest.mark.parametrize("mode", ["prepend", "append", "importlib"])
def test_import_modes_and_names_that_are_there_twice(tmp_path: Path, mode: str) -> None:
    body = (
        "import pytest\nclass Own: pass\n@pytest.fixture\ndef own(): return Own()\n"
        "@pytest.mark.tfdist\ndef test_{0}(own):\n    assert isinstance(own, Own), '{0}'\n"
    )
    files = {f"{name}/test_same.py": body.format(name) for name in "ab"}
    packages = {} if mode == "importlib" else {"a/__init__.py": "", "b/__init__.py": ""}
    project(tmp_path, {**files, **packages})
    ran = session(tmp_path, *BARE, f"--import-mode={mode}")
    assert outcomes(ran) == {"test_a": "passed", "test_b": "passed"}, ran.out


@pytest.mark.parametrize(
    "args",
    [
        ("-p", "no:capture"),
        ("-p", "no:cacheprovider"),
        ("--noconftest",),
        ("--disable-plugin-autoload", "-p", "tfdist_kit.testing.plugin"),
        ("-W", "error"),
    ],
    ids=" ".join,
)
def test_other_ways_to_run_pytest(tmp_path: Path, args: tuple[str, ...]) -> None:
    folder = tmp_path / "a [b] c"
    files = {"conftest.py": "1/0\n"} if "--noconftest" in args else {}
    project(folder, files, "import pytest, warnings\n@pytest.mark.tfdist\ndef test_it():\n"
            "    with warnings.catch_warnings():\n        warnings.simplefilter('always')\n"
            "        warnings.warn('x')\n")  # fmt: skip
    ran = session(folder, *BARE, *args, "test_it.py")
    assert outcomes(ran) == {"test_it": "passed"}, ran.out


def test_output_is_shown_if_nothing_is_captured(tmp_path: Path) -> None:
    project(tmp_path, test_it="import pytest\n@pytest.mark.tfdist\n"
            "def test_it(tf_worker): print('hello from', tf_worker.rank)\n")  # fmt: skip
    ran = session(tmp_path, *BARE, "-s")
    assert "--- stdout of rank 1 (worker:1)\nhello from 1\n" in ran.out


REUSE = """\
import os, random, threading, time
from pathlib import Path
import pytest
pytestmark = pytest.mark.tfdist

def write(name):
    with (Path(__file__).parent / "pids").open("a") as file:
        file.write(f"{name} {os.getpid()}\\n")

def test_a(): write("a")
def test_b(): write("b")
def test_c(): write("c"); os.environ["LEFT"] = "1"
def test_d(): write("d"); assert "LEFT" not in os.environ
@pytest.mark.tfdist(fresh=True)
def test_e(): write("e")
def test_f(): write("f"); threading.Thread(target=time.sleep, args=(30,)).start()
def test_g(): write("g"); assert False
def test_h(): write("h"); pytest.skip("none")
def test_i(): write("i")
"""


def pids(folder: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in lines_of(folder / "pids"):
        name, pid = line.split()
        found.setdefault(name, set()).add(pid)
    return found


def test_processes_are_used_again_where_that_is_safe(tmp_path: Path) -> None:
    project(tmp_path, test_it=REUSE)
    ran = session(tmp_path, *BARE)
    assert [name for name, went in ran.tests.items() if went.outcome == "failed"] == ["test_g"]
    used = pids(tmp_path)
    assert used["a"] == used["b"] == used["c"]
    others = [used["c"], used["d"], used["e"], used["g"], used["h"], used["i"]]
    assert len(set.union(*others)) == 2 * len(others)
    assert used["d"] == used["f"], "a test in processes of its own does not use up the others"


def test_no_processes_are_used_again_on_request(tmp_path: Path) -> None:
    project(tmp_path, test_it=REUSE)
    session(tmp_path, *BARE, "--tfdist-fresh", "-k", "test_a or test_b")
    assert len(set.union(*pids(tmp_path).values())) == 4


def test_a_failure_tells_that_its_processes_were_used_before(tmp_path: Path) -> None:
    project(tmp_path, test_it=TWO_FAIL)
    ran = session(tmp_path, *BARE)
    assert "one test had used these processes before; --tfdist-fresh" in ran["test_b"].text
    assert "had used these processes" not in ran["test_c"].text


def test_coverage_counts_what_runs_in_the_workers(tmp_path: Path) -> None:
    project(
        tmp_path,
        {
            "mine.py": "def there():\n    return 1\n\n\ndef here():\n    return 2\n\n\n"
            "def nowhere():\n    return 3\n"
        },
        test_it="import pytest, mine\n@pytest.mark.tfdist\ndef test_there(): mine.there()\n"
        "def test_here(): mine.here()\n",
    )
    ran = session(tmp_path, *BARE, "--cov=mine", "--cov-report=term-missing")
    [line] = [line for line in ran.out.splitlines() if line.startswith("mine.py")]
    assert line.split() == ["mine.py", "6", "1", "83%", "10"], ran.out
    assert sorted(path.name for path in tmp_path.glob(".coverage*")) == [".coverage"]


def test_the_session_imports_neither_tensorflow_nor_the_launcher_for_nothing(
    tmp_path: Path,
) -> None:
    project(tmp_path, test_it="import sys\ndef test_it():\n"
            "    assert 'tensorflow' not in sys.modules\n"
            "    assert 'tfdist_kit.launcher' not in sys.modules\n")  # fmt: skip
    assert outcomes(session(tmp_path)) == {"test_it": "passed"}


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--tfdist-debug-rank", "-1"), "--tfdist-debug-rank is below 0; ranks begin at 0"),
        (("--tfdist-debug-rank", "0", "-n", "1"), "needs the terminal; leave out -n"),
        (("--tfdist-slots", "0"), "--tfdist-slots is below 1"),
    ],
)
def test_options_that_cannot_be_had(tmp_path: Path, args: tuple[str, ...], told: str) -> None:
    project(tmp_path, test_it=TWO_FAIL)
    ran = session(tmp_path, *args)
    assert (ran.code, ran.tests) == (4, {})
    assert f"ERROR: {told}" in ran.out.replace("--tfdist-debug-rank needs", "needs")


def test_a_breakpoint_without_a_terminal_says_how_to_get_one(tmp_path: Path) -> None:
    project(tmp_path, test_it="import pytest\n@pytest.mark.tfdist\ndef test_it(tf_worker):\n"
            "    if tf_worker.rank == 1:\n        breakpoint()\n    x = 1\n")  # fmt: skip
    ran = session(tmp_path, *BARE)
    assert "give it the terminal: --tfdist-debug-rank=RANK" in ran["test_it"].text


def test_a_test_may_end_the_session(tmp_path: Path) -> None:
    project(tmp_path, test_it="import pytest\n@pytest.mark.tfdist\n"
            "def test_it(): pytest.exit('enough', returncode=7)\n"
            "def test_other(): pass\n")  # fmt: skip
    ran = session(tmp_path, *BARE)
    assert "Exit: enough (in rank " in ran.out
    assert ran.code == 7
    assert "test_other" not in ran.tests


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    project(tmp_path, test_it=REUSE)
    ran = session(tmp_path, *BARE)
    assert ran.code == 1
    assert not any(Path(f"/proc/{pid}").exists() for pid in set.union(*pids(tmp_path).values()))
    left = {path.name for path in (tmp_path / "temp").iterdir()}
    assert {name.rstrip("0123456789") for name in left} <= {"pytest-of-root", "tfdist-"}, left


def test_a_worker_that_dies_between_two_tests_is_replaced(tmp_path: Path) -> None:
    project(
        tmp_path,
        test_it="import os, signal, pytest\nfrom pathlib import Path\n"
        "pid = Path(__file__).with_name('pid')\n"
        "@pytest.mark.tfdist\ndef test_a(tf_worker):\n"
        "    if tf_worker.rank: pid.write_text(str(os.getpid()))\n"
        "def test_b():\n"
        "    os.kill(int(pid.read_text()), signal.SIGKILL)\n"
        "    while 'State:\\tZ' not in Path(f'/proc/{pid.read_text()}/status').read_text(): pass\n"
        "@pytest.mark.tfdist\ndef test_c(tf_worker): pass\n",
    )
    assert set(outcomes(session(tmp_path, *BARE)).values()) == {"passed"}


def test_collecting_starts_no_process(tmp_path: Path) -> None:
    project(tmp_path, test_it=TWO_FAIL)
    ran = session(tmp_path, "--collect-only", "-q")
    assert "3 tests collected" in ran.out
    assert not list((tmp_path / "temp").iterdir())


def test_the_markers_are_shown() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--markers"],
        cwd=os.sep, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in ("tfdist(workers=2", "tfdist_replicas_agree", "tfdist_each_row_once"):
        assert f"@pytest.mark.{name}" in done.stdout
