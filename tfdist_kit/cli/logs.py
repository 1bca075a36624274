"""``tfdist logs``: the logs of a run, with rank prefixes.

run folder -> launcher.follow -> stdout
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.cli.run import ranks
from tfdist_kit.launcher.output import watch
from tfdist_kit.launcher.output.follow import Follower, Wish
from tfdist_kit.launcher.output.lines import wants_colour


def add_parser(subparsers: Any) -> None:
    """Add ``logs`` to the command line."""
    parser = subparsers.add_parser(
        "logs",
        help="print the logs of a run",
        description="Print what the workers of a run wrote, each line with its rank.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "folder", metavar="RUN_DIR", nargs="?", type=Path, help="default: the newest run's"
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the run is over, restarts included"
    )
    parser.add_argument(
        "--rank-filter", metavar="RANKS", type=ranks, help="print only these, for example 0,2"
    )
    for stream in watch.STREAMS:
        parser.add_argument(
            f"--{stream}",
            action="append_const",
            const=stream,
            dest="streams",
            help=f"print {stream} (default: both streams)",
        )
    parser.add_argument(
        "--quiet-tf", action="store_true", help="leave TensorFlow's start-up notes out"
    )
    parser.set_defaults(run=execute)


def execute(args: argparse.Namespace) -> int:
    """Carry ``tfdist logs`` out and return its exit code."""
    folder = args.folder or watch.newest_run()
    _check_ranks(folder, args.rank_filter)
    wish = Wish(
        ranks=args.rank_filter,
        streams=tuple(args.streams or watch.STREAMS),
        quiet_tf=args.quiet_tf,
        colour=wants_colour(sys.stdout.fileno(), os.environ.get("NO_COLOR")),
    )
    follower = Follower(folder, wish, _write)
    if args.follow:
        follower.follow()
    else:
        follower.write_all()
    return 0


def _check_ranks(folder: Path, wanted: list[int] | None) -> None:
    size = len(watch.plan_of(folder)["workers"])
    for rank in wanted or ():
        if not 0 <= rank < size:
            raise UsageError(
                f"rank {rank} is in the rank filter, but the ranks of {folder} are 0 to {size - 1}",
                hint="tfdist ps shows the ranks of a run",
            )


def _write(block: bytes) -> None:
    """Write whole lines; bytes that are not UTF-8 become replacement characters."""
    if not block.isascii():
        block = block.decode("utf-8", "replace").encode()
    view = memoryview(block)
    while view:
        view = view[os.write(sys.stdout.fileno(), view) :]
