"""The page docs/embedding_steps.md: its examples run, and its tables name every finding."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from tests.adapters.cluster import run_workers
from tfdist_kit.adapters.tpu_embedding import check_step
from tfdist_kit.adapters.tpu_embedding.tracing.findings import MISTAKES
from tfdist_kit.adapters.tpu_embedding.tracing.report import StepReport
from tfdist_kit.testing import assert_tpu_step

HERE = "tests.adapters.tpu_embedding.test_tracing_page"
PAGE = (Path(__file__).parents[3] / "docs" / "embedding_steps.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def _module(folder: Path, number: int, text: str) -> Any:
    """An example as a module of its own, in a file that is called as on the page."""
    (folder / str(number)).mkdir()
    os.chdir(folder / str(number))
    path = folder / str(number) / "test_it.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"example_{number}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_worker_examples() -> str:
    """Run the examples; what the one says that fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        right, wrong, topology = _blocks("python")
        program = _module(folder, 0, right)
        for hosts in (1, 2):
            program.test_the_steps_are_fit_for_a_tpu(hosts)
        program.test_the_steps_learn_on_this_machine()
        _module(folder, 2, topology).test_activations_are_for_one_core()
        try:
            _module(folder, 1, wrong).test_the_steps_are_fit_for_a_tpu()
        except AssertionError as error:
            return f"AssertionError: {error}"
        finally:
            os.chdir("/")
    return "it passes"


def test_the_examples_run_and_the_wrong_one_says_what_is_on_the_page() -> None:
    [shown] = _blocks("text")
    [said] = run_workers(f"{HERE}:in_worker_examples", workers=1)
    assert said[: len(shown)] == shown


def test_every_finding_is_in_a_table() -> None:
    assert re.findall(r"^\| (EMB\d{3}) \|", PAGE, re.MULTILINE) == list(MISTAKES)


def test_check_step_takes_the_arguments_of_the_assertion_but_allow() -> None:
    whole = inspect.signature(assert_tpu_step).parameters
    assert list(whole) == [*inspect.signature(check_step).parameters, "allow"]
    assert "allow" in inspect.signature(StepReport.raise_for_findings).parameters
