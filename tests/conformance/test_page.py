"""The page about the suite: its example is one that runs, and its tables and options are whole."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conformance.fakes import INI, ROOT, conformance, entry
from tfdist_kit.cli.main import build_parser
from tfdist_kit.conformance.outcomes import OUTCOMES

PAGE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_example_is_a_suite(tmp_path: Path) -> None:
    blocks = [body for language, body in BLOCK.findall(PAGE) if language in ("toml", "py")]
    register, check, _, programs, scene, mutant = blocks
    for name, text in {
        "pytest.ini": INI,
        "register/toys.toml": register + entry("toys.leaving.codes"),
        "checks/test_toys.py": check,
        "checks/programs.py": programs,
        "checks/test_leaving.py": scene,
        "mutants/toys.py": mutant,
    }.items():
        path = tmp_path / "suite" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    result = conformance(tmp_path, "run", "--mutants", "--suite", "suite")
    assert result.code == 0, result
    assert "mutation 100 % (1 of 1 mutants)" in result.out


def test_every_outcome_is_explained() -> None:
    explained = re.findall(r"^\| ([a-z ]+) \| \w", PAGE, re.MULTILINE)
    assert tuple(explained[1:]) == OUTCOMES


def test_every_command_can_be_parsed() -> None:
    lines = re.findall(r"^tfdist (conformance [^#\n]+)", PAGE, re.MULTILINE)
    for line in lines:
        build_parser().parse_args(line.split())
    assert {line.split()[1] for line in lines} == {
        *("run", "report", "diff", "explain", "list", "mutants"),
    }
