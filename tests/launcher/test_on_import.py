"""A worker calls what its environment names when its program imports a module."""

from __future__ import annotations

from pathlib import Path

from tests.commands import script, tfdist

HOOKS = """\
import sys
def note(module):
    module.noted.append(module.ready)
    print("noted", module.__name__, "numpy" in sys.modules)
"""
WATCHED = "noted = []\nready = True\n"
PROGRAM = """\
import sys
print("before", "hooks" in sys.modules)
import watched
import watched as again
print(watched.noted, watched.__spec__.name, watched.__file__ is not None)
"""


def test_a_function_is_called_once_after_the_import(tmp_path: Path) -> None:
    script(tmp_path, HOOKS, "hooks.py")
    script(tmp_path, WATCHED, "watched.py")
    name = script(tmp_path, PROGRAM)
    variable = "TFDIST_ON_IMPORT=watched=hooks:note;never=hooks:note"
    result = tfdist("run", "-n", "1", "--env", variable, name, folder=tmp_path)
    assert result.code == 0, result.err
    assert result.out.splitlines() == [
        "[rank 0] before False",
        "[rank 0] noted watched False",
        "[rank 0] [True] watched True",
    ]


def test_without_the_variable_nothing_is_watched(tmp_path: Path) -> None:
    script(tmp_path, WATCHED, "watched.py")
    name = script(tmp_path, PROGRAM)
    result = tfdist("run", "-n", "1", name, folder=tmp_path)
    assert result.code == 0, result.err
    assert result.out.splitlines()[1] == "[rank 0] [] watched True"
