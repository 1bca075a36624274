"""The house as it is drawn: what each room may know, and what importing the package costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfdist_kit

PACKAGE = Path(tfdist_kit.__file__).parent
KNOWS = {
    "tf_config": set(),
    "launcher": {"tf_config"},
    "determinism": {"tf_config", "launcher"},
    "adapters": {"tf_config", "launcher", "determinism"},
    "testing": {"tf_config", "launcher", "adapters"},
    "bench": {"tf_config", "launcher"},
    "conformance": {"tf_config", "launcher", "adapters", "testing"},
    "cli": {"tf_config", "launcher", "determinism", "bench", "conformance"},
}
TENSORFLOW = {"tensorflow", "keras", "tf_keras", "tensorflow_datasets"}
WITH_TENSORFLOW = {
    ("testing", "checks"),
    ("conformance", "checks"),
    ("conformance", "mutants"),
    ("conformance", "subjects.py"),
}
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("module", [path for path in MODULES if len(path.parts) > 1], ids=str)
def test_a_room_knows_only_the_rooms_it_may(module: Path) -> None:
    room = module.parts[0]
    known = {
        name.split(".")[1]
        for name in imports(PACKAGE / module)
        if name.startswith("tfdist_kit.") and (PACKAGE / name.split(".")[1]).is_dir()
    }
    assert known <= KNOWS[room] | {room}


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_only_the_adapters_and_the_checks_import_tensorflow(module: Path) -> None:
    tops = {name.partition(".")[0] for name in imports(PACKAGE / module)}
    may = module.parts[0] == "adapters" or module.parts[:2] in WITH_TENSORFLOW
    assert may or not tops & TENSORFLOW


def test_importing_the_package_imports_neither_tensorflow_nor_its_own_rooms() -> None:
    code = (
        "import sys, tfdist_kit\n"
        "print([n for n in sys.modules if n.partition('.')[0] in ('tensorflow', 'keras', 'absl')"
        " or n.count('.') and n.startswith('tfdist_kit.') and n.split('.')[1][0] != '_'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_worker_imports_next_to_nothing_of_the_launcher() -> None:
    code = (
        "import sys, tfdist_kit.launcher.inside.worker\n"
        "print('tfdist_kit.launcher.plan' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("name", tfdist_kit.__all__)
def test_every_public_name_can_be_had(name: str) -> None:
    assert getattr(tfdist_kit, name) is not None
    assert name in dir(tfdist_kit)


def test_a_name_that_is_not_public_cannot_be_had() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = tfdist_kit.nonsense


@pytest.mark.parametrize(
    "error", [getattr(tfdist_kit, name) for name in tfdist_kit.__all__ if name.endswith("Error")]
)
def test_every_error_has_a_code_of_its_own_and_shows_its_hint(
    error: type[tfdist_kit.TfdistError],
) -> None:
    others = {
        getattr(tfdist_kit, name).code
        for name in tfdist_kit.__all__
        if name.endswith("Error") and getattr(tfdist_kit, name) is not error
    }
    assert error.code not in others
    assert (
        str(error("it is wrong", hint="do this")) == f"{error.code}: it is wrong\n  hint: do this"
    )
