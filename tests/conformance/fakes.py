"""A suite of a document that does not exist, whose checks need no TensorFlow."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.commands import Result, tfdist

ROOT = Path(__file__).parents[2]
INI = "[pytest]\naddopts = --strict-markers -p no:cacheprovider\ntfdist_preload =\n"
ENV = {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "CUDA_VISIBLE_DEVICES": ""}

HEAD = """\
import os, signal, sys, time
from pathlib import Path
import pytest
from tfdist_kit.conformance.marks import claim
import numbers_to_break

pytestmark = pytest.mark.tfdist(timeout=20)
HERE = Path(__file__).parent
"""


def entry(name: str, more: str = "", *, level: str = "core", deviation: str = "") -> str:
    """A claim of the register."""
    text = (
        f'[[claim]]\nid = "{name}"\nanchor = "top"\nstatement = "About {name}."\n'
        f'kind = "behaviour"\nlevel = "{level}"\n{more}\n'
    )
    if deviation:
        text += (
            f'[[claim.deviation]]\ntensorflow = ">=2"\nmatch = "{deviation}"\n'
            f'verdict = "known deviation"\nseen = "something else"\n'
        )
    return text


def suite(folder: Path, register: str, checks: str, mutants: str = "") -> Path:
    """Write a suite."""
    for name, text in {
        "pytest.ini": INI,
        "register/fake.toml": register,
        "checks/test_fake.py": HEAD + checks,
        "checks/numbers_to_break.py": "def one(): return 1\n",
        "mutants/fake.py": mutants,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def conformance(folder: Path, *args: str | Path, env: Mapping[str, str] | None = None) -> Result:
    """Run ``tfdist conformance`` in a folder."""
    return tfdist("conformance", *args, folder=folder, env={**ENV, **(env or {})})


def once(temp: pytest.TempPathFactory, name: str, make: object) -> tuple[Path, Result]:
    """What `make` returns, made once for all processes of this test run that ask for it."""
    assert callable(make)
    base = temp.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder = base / f"conformance-{name}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = folder / "result.pickle"
        if not kept.exists():
            kept.write_bytes(pickle.dumps(make(folder)))
        result: Result = pickle.loads(kept.read_bytes())
    return folder, result
