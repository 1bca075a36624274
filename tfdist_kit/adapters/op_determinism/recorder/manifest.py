"""The manifest of a process: everything that may legitimately change the bits that it computes.

The facts of `facts`, by which workers are held against each other, and those of one run: its
program, its cluster, and how its random generators stood. Two runs whose manifests differ need not
be the same, bit by bit.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from tfdist_kit.adapters.op_determinism.facts import facts, short


def manifest() -> dict[str, Any]:
    """What may legitimately change this process' bits, as JSON can hold it.

    Call it when TensorFlow is set up: threads, switches and seeds are told as they are now.

    Returns:
        Nested dicts, such as ``{"threads": {"intra_op": 0, ...}, ...}``. What is under ``task``
        differs between workers by design; ``drawn`` tells the states of random generators, which
        are the same in two runs only if they were seeded.
    """
    return {
        **facts(),
        "cluster": _cluster(),
        "program": _program(),
        "task": _config().get("task"),
        "drawn": _drawn(),
    }


def _config() -> dict[str, Any]:
    try:
        config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    except ValueError:
        return {}
    return config if isinstance(config, dict) else {}


def _cluster() -> dict[str, int]:
    """How many tasks of each kind; the addresses change no bits."""
    jobs = _config().get("cluster")
    return {job: len(tasks) for job, tasks in jobs.items()} if isinstance(jobs, dict) else {}


def _program() -> dict[str, Any]:
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    try:
        text = Path(script).read_bytes() if script else b""
    except OSError:
        text = b""
    return {"script": short(text.decode("utf-8", "replace")), "arguments": sys.argv[1:]}


def _drawn() -> dict[str, str]:
    import numpy as np

    return {
        "python": short(repr(random.getstate())),
        "numpy": short(repr([np.asarray(part).tolist() for part in np.random.get_state()])),
    }
