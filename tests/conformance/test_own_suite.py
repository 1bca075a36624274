"""The kit's own register, checks and mutants, on the TensorFlow that is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfdist_kit.conformance.suites import Suite


def test_every_testable_claim_has_a_check_and_every_conforming_one_a_mutant() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tfdist_kit.cli", "conformance", "list", "--uncovered"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "claims: 0")


@pytest.mark.parametrize(
    ("document", "subject", "least"),
    [
        ("multi_worker_mirrored", "stock", 60),
        ("op_determinism", "stock", 20),
        ("preemption_checkpoint", "stock", 30),
        ("tpu_embedding", "adapter", 50),  # which also shows what stock needs a TPU for
    ],
)
def test_the_installed_tensorflow_is_as_the_register_says(
    tmp_path: Path, document: str, subject: str, least: int
) -> None:
    """Also by plain figures, so that a suite that checks nothing cannot pass.

    What is not core is left to `make conformance`: it takes more than half of the time.
    """
    env = {**os.environ, "TMPDIR": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "3"}
    env.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tfdist_kit.cli", "conformance", "run"),
            *("--document", document, "--profile", "core", "--report", "out"),
            *("--subject", subject),
        ],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["complete"] is True
    outcomes = [claim["outcome"] for claim in report["claims"]]
    claims = Suite().register().of_document(document)
    assert len(outcomes) == sum(claim.level == "core" for claim in claims)
    assert outcomes.count("conforms") > least
    assert set(outcomes) <= {
        *("conforms", "known deviation", "document defect", "not applicable", "untestable"),
    }
