"""``tfdist stacks``: where each worker of a live run is, from another terminal.

run folder -> launcher.live -> launcher.stacks -> what they mean, then all of them
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfdist_kit.launcher.hangs import live, stacks

EPILOG = """\
The run goes on undisturbed. Exit code: 0 when every living worker told where it is, 1 when one did
not, 2 when the folder is not that of a live run.
"""


def add_parser(subparsers: Any) -> None:
    """Add ``stacks`` to the command line."""
    parser = subparsers.add_parser(
        "stacks",
        help="tell where each worker of a live run is",
        description="Ask every worker of a live run for the stacks of its threads.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="the run folder")
    parser.add_argument("--json", action="store_true", help="write everything as JSON")
    parser.set_defaults(run=execute)


def execute(args: argparse.Namespace) -> int:
    """Carry ``tfdist stacks`` out and return its exit code."""
    answers = stacks.collect(live.targets(args.run_dir), "tfdist stacks")
    if args.json:
        print(json.dumps(_as_data(answers), indent=1))
    else:
        print("\n".join(_as_text(answers)))
    living = [answer for answer in answers if answer.target.pid is not None]
    return int(any(answer.trouble for answer in living))


def _as_text(answers: Sequence[stacks.Answer]) -> list[str]:
    lines = list(stacks.explained(answers))
    for answer in answers:
        if answer.text:
            lines += ["", f"--- {answer.target.name}", answer.text.rstrip()]
    return lines


def _as_data(answers: Sequence[stacks.Answer]) -> dict[str, Any]:
    ranks = [
        {
            "rank": answer.target.rank,
            "name": answer.target.name,
            "pid": answer.target.pid,
            "where": str(answer.located().where or ""),
            "trouble": answer.trouble,
            "busy": answer.busy,
            "threads": [asdict(thread) for thread in answer.threads],
        }
        for answer in answers
    ]
    return {"explanation": list(stacks.explained(answers)), "ranks": ranks}
