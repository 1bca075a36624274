"""``tfdist bench``: measure the launcher on this machine; prints Markdown tables."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfdist_kit._errors import UsageError

WHAT = ("startup", "testing", "death", "preemption", "determinism", "embedding", "memory", "output")


def add_parser(subparsers: Any) -> None:
    """Add ``bench`` to the command line."""
    parser = subparsers.add_parser(
        "bench",
        help="measure the launcher on this machine",
        description="Measure the launcher on this machine. Ratios are of runs made in turn.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "what", nargs="*", metavar="WHAT", help=f"of {', '.join(WHAT)} (default: all)"
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="counted runs of each")
    parser.add_argument(
        "--workers",
        type=_counts,
        default=[1, 2, 4, 8, 16],
        metavar="LIST",
        help="sizes of the clusters (default: 1,2,4,8,16)",
    )
    parser.set_defaults(run=execute)


def _counts(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of sizes such as 1,2,4")
    return counts


def execute(args: argparse.Namespace) -> int:
    """Measure, and print each row as soon as it is there."""
    unknown = set(args.what) - set(WHAT)
    if unknown or args.rounds < 1:
        wrong = f"cannot measure {', '.join(sorted(unknown))}" if unknown else "--rounds is below 1"
        raise UsageError(wrong, hint=f"tfdist bench [--rounds N] [{'|'.join(WHAT)}]")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from tfdist_kit.bench import contest  # here, since every other command would pay for it

    with tempfile.TemporaryDirectory(prefix="tfdist-bench-") as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        if args.what != ["output"]:
            print(contest.HEAD, flush=True)
        for row in _rows(args, Path(folder)):
            print(row, flush=True)
    return 0


def _rows(args: argparse.Namespace, folder: Path) -> Iterator[str]:
    from tfdist_kit.bench import (
        death,
        determinism,
        embedding,
        memory,
        output,
        preemption,
        startup,
        testing,
    )

    wanted = args.what or WHAT
    if "startup" in wanted:
        for one in startup.contests(folder, args.workers):
            yield from one.measure(args.rounds).rows()
    if "testing" in wanted:
        for one in testing.contests(folder):
            yield from one.measure(args.rounds).rows()
    if "death" in wanted:
        for one in death.contests(folder):
            yield from one.measure(args.rounds).rows()
    if "preemption" in wanted:
        for one in preemption.contests(folder):
            yield from one.measure(args.rounds).rows()
        yield from preemption.overhead(folder)
    if "determinism" in wanted:
        for one in determinism.contests(folder):
            yield from one.measure(args.rounds).rows()
        yield from determinism.overhead(folder)
    if "embedding" in wanted:
        yield from embedding.rows(folder)
    if "memory" in wanted:
        yield from memory.rows(folder)
    if "output" in wanted:
        yield "\n" + output.table(output.measure(rounds=args.rounds)).rstrip()
