"""``tfdist determinism``: is a training the same in every run, and if not, where do runs part?

verify -- python train.py  -> runs it again and again, and compares    } -> text, JSON, HTML
compare A B                -> two recorded runs, exactly or within a tolerance }
explain A B, manifest      -> why two runs may not have the same bits
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfdist_kit._errors import MissingDependencyError, UsageError
from tfdist_kit.determinism import arms, explaining, telling, verifying
from tfdist_kit.determinism.arms import Growth, Tolerance
from tfdist_kit.determinism.html import html
from tfdist_kit.determinism.trace import Run, read_run
from tfdist_kit.determinism.verifying import Verdict, VerifyRequest

EPILOG = """\
Exit code: 0 when the runs are identical (compare: or within the tolerance), 1 when they part, 2 for
wrong usage, 3 when a run failed.
"""
_MANIFEST = """\
import json
from tfdist_kit.adapters.op_determinism.recorder import manifest
print(json.dumps(manifest(), indent=1))
"""


def add_parser(subparsers: Any) -> None:
    """Add ``determinism`` to the command line."""
    parser = subparsers.add_parser(
        "determinism",
        help="tell whether a training repeats bit by bit, and where it does not",
        description="Tell whether a training repeats bit by bit, and where it does not.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(metavar="WHAT", required=True)
    _add_verify(commands)
    _add_compare(commands)
    explain = commands.add_parser(
        "explain", help="tell why two runs may not have the same bits", allow_abbrev=False
    )
    _add_two_runs(explain)
    explain.set_defaults(run=_explain)
    manifest = commands.add_parser(
        "manifest", help="print what may change the bits of a run, or here", allow_abbrev=False
    )
    manifest.add_argument("trace", metavar="RUN", nargs="?", type=Path, help="a recorded run")
    manifest.set_defaults(run=_manifest)


def _add_verify(commands: Any) -> None:
    parser = commands.add_parser(
        "verify",
        help="run a training several times, and compare what it computes",
        usage="tfdist determinism verify [options] -- [python] SCRIPT [ARG ...]\n"
        "       tfdist determinism verify [options] -- [python] -m MODULE [ARG ...]",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--runs", type=int, metavar="N", help="how often (3; with --stress 5)")
    parser.add_argument("-n", "--workers", type=int, default=1, metavar="N", help="workers (1)")
    parser.add_argument(
        "--stress",
        action="store_true",
        help="keep the processors busy during every second run, so that luck is unlikely",
    )
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="for one run")
    parser.add_argument("--output", action="store_true", help="show what the program prints")
    parser.add_argument(
        "--traces", type=Path, metavar="DIR", help="keep the traces there, whatever comes of it"
    )
    _add_views(parser)
    parser.add_argument("command", metavar="COMMAND", nargs=argparse.REMAINDER)
    parser.set_defaults(run=_verify)


def _add_compare(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="compare two recorded runs",
        description="Compare two recorded runs bit by bit; or, with --rtol, by how far they part.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_two_runs(parser)
    parser.add_argument("--rtol", type=float, metavar="X", help="allowed relative distance")
    parser.add_argument(
        "--atol", type=float, default=Tolerance.absolute, metavar="X", help="allowed distance"
    )
    _add_views(parser)
    parser.set_defaults(run=_compare)


def _add_two_runs(parser: Any) -> None:
    for name in ("first", "second"):
        parser.add_argument(name, metavar="RUN", type=Path, help="a folder with traces")


def _add_views(parser: Any) -> None:
    parser.add_argument("--json", action="store_true", help="write everything as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page, too")


def _verify(args: argparse.Namespace) -> int:
    is_module, target, own = _command(args.command)
    folder = args.traces or Path(tempfile.mkdtemp(prefix="tfdist-determinism-"))
    request = VerifyRequest(
        target=target,
        args=tuple(own),
        is_module=is_module,
        folder=folder,
        runs=(5 if args.stress else 3) if args.runs is None else args.runs,
        workers=args.workers,
        stress=args.stress,
        env=dict(_variable(text) for text in args.env),
        timeout=args.timeout,
        shows_output=args.output,
    )
    keeps = args.traces is not None
    try:
        verdict = verifying.verify(request, os.environ, _say)
        keeps = keeps or verdict.exit_code != verifying.IDENTICAL_EXIT
        if keeps:
            _say(f"traces in {folder}")
    finally:
        if not keeps:
            shutil.rmtree(folder, ignore_errors=True)
    _show(args, verdict)
    return verdict.exit_code


def _say(line: str) -> None:
    print(f"tfdist: {line}", file=sys.stderr, flush=True)


def _command(words: Sequence[str]) -> tuple[bool, str, Sequence[str]]:
    """Whether it is a module, its name or the script's path, and its arguments."""
    words = list(words)
    if words[:1] == ["--"]:
        words = words[1:]
    if words and Path(words[0]).name.startswith("python"):
        words = words[1:]
    is_module = words[:1] == ["-m"]
    words = words[1:] if is_module else words
    if not words or words[0].startswith("-"):
        what = f"begins with {words[0]}" if words else "names no program"
        raise UsageError(
            f"the command {what}",
            hint="tfdist determinism verify -- python SCRIPT [ARG ...], or -m MODULE",
        )
    return is_module, words[0], words[1:]


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--env was given {text!r}", hint="write it as NAME=VALUE")
    return name, value


def _compare(args: argparse.Namespace) -> int:
    first, second = _two_runs(args)
    if args.rtol is None:
        verdict = verifying.judge([first, second])
        _show(args, verdict)
        return verdict.exit_code
    growth = arms.compare_arms(first, second, Tolerance(args.rtol, args.atol))
    differences = tuple(explaining.explain(first, second))
    _show(args, Verdict((first, second), differences=differences), growth)
    return int(growth.beyond is not None)


def _two_runs(args: argparse.Namespace) -> tuple[Run, Run]:
    return read_run(args.first, str(args.first)), read_run(args.second, str(args.second))


def _show(args: argparse.Namespace, verdict: Verdict, growth: Growth | None = None) -> None:
    if args.html is not None:
        args.html.write_text(html(verdict, growth), encoding="utf-8")
        _say(f"wrote {args.html}")
    if args.json:
        print(json.dumps(telling.data(verdict, growth), indent=1))
    elif growth is None:
        print(telling.text(verdict))
    else:
        print("\n".join([str(growth), *telling.comparable(verdict.differences)]))


def _explain(args: argparse.Namespace) -> int:
    first, second = _two_runs(args)
    lines = list(telling.comparable(explaining.explain(first, second)))
    print("\n".join(lines) or "the manifests are the same: the runs should have the same bits")
    return int(bool(lines))


def _manifest(args: argparse.Namespace) -> int:
    if args.trace is not None:
        traces = read_run(args.trace).traces
        print(json.dumps({rank: trace.manifest for rank, trace in traces.items()}, indent=1))
        return 0
    done = subprocess.run(
        [sys.executable, "-c", _MANIFEST],
        env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise MissingDependencyError(
            f"the manifest cannot be made: {reason}", hint="pip install 'tfdist-kit[tensorflow]'"
        )
    print(done.stdout, end="")
    return 0
