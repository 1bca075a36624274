"""``tfdist conformance``: check what TensorFlow's documents say against this TensorFlow.

    run      register, checks -> live clusters -> report -> exit code
    mutants  the same checks under mutants -> killed, survived
    list, explain      register, checks, mutants -> text
    report, diff       report.json -> views, differences

Exit codes: 0 conformant, 1 something deviates (or a mutant survived), 2 usage, 3 incomplete.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfdist_kit._errors import RegisterError, UsageError

if TYPE_CHECKING:
    from tfdist_kit.conformance.found import Found, Wish
    from tfdist_kit.conformance.suites import Suite

_EPILOG = (
    "Exit code: 0 conformant (known deviations allowed), 1 something deviates, 2 wrong usage, "
    "3 incomplete: something could not be told."
)
DEVIATES, INCOMPLETE = 1, 3


def add_parser(subparsers: Any) -> None:
    """Add ``conformance`` and its sub-commands to the command line."""
    parser = subparsers.add_parser(
        "conformance",
        help="check TensorFlow against its documents",
        description="Check, claim by claim, whether this TensorFlow does what its documents say.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_run(commands)
    _add_mutants(commands)
    _add_list(commands)
    _add_explain(commands)
    _add_report(commands)
    _add_diff(commands)


def _command(commands: Any, name: str, help_: str, run: Callable[..., int], **more: Any) -> Any:
    parser = commands.add_parser(
        name, help=help_, description=f"{help_[0].upper()}{help_[1:]}.", allow_abbrev=False, **more
    )
    parser.set_defaults(run=lambda args: _run(run, args))
    return parser


def _run(run: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Run a sub-command; a register that is wrong is wrong usage here, since 1 means deviates."""
    try:
        return run(args)
    except RegisterError as error:
        raise UsageError(str(error.args[0]), hint=error.hint) from error


def _add_run(commands: Any) -> None:
    parser = _command(commands, "run", "check the claims", run_run, epilog=_EPILOG)
    _add_selection(parser)
    add = parser.add_argument
    add("--profile", choices=("core", "extended", "all"), default="all", help="up to which level")
    add("--quick", action="store_true", help="core claims only, the smallest check of each")
    add("--mutants", action="store_true", help="run the mutants, too")
    add("--report", metavar="DIR", help="write the report and its views there")


def _add_mutants(commands: Any) -> None:
    what = "break TensorFlow on purpose, and see the checks fail"
    parser = _command(commands, "mutants", what, run_mutants, epilog=_EPILOG)
    _add_selection(parser)
    add = parser.add_argument
    add("--every-check", action="store_true", help="run every check under every mutant: slow")
    add("--report", metavar="DIR", help="add the score to the report that is there")


def _add_selection(parser: Any) -> None:
    add = parser.add_argument
    add("--document", metavar="NAME", action="append", default=[], help="claims of this document")
    add("--claim", metavar="ID", action="append", default=[], help="this claim; can be repeated")
    add(
        "--subject",
        choices=("stock", "adapter"),
        default="stock",
        help="TensorFlow's own classes, or the kit's adapters over them",
    )
    add("-n", type=int, default=1, metavar="N", help="how many processes of pytest (default 1)")
    _add_suite(parser)


def _add_suite(parser: Any) -> None:
    parser.add_argument(
        "--suite", metavar="DIR", help="a suite of your own: register/, checks/ and mutants/"
    )


def _add_list(commands: Any) -> None:
    parser = _command(commands, "list", "list the claims", run_list)
    add = parser.add_argument
    add("--document", metavar="NAME", help="claims of this document")
    add("--level", metavar="LEVEL", help="claims of this level: core, extended or informative")
    add(
        "--uncovered",
        action="store_true",
        help="claims that lack a check or a mutant; exit code 3 if there are any",
    )
    _add_suite(parser)


def _add_explain(commands: Any) -> None:
    parser = _command(commands, "explain", "tell all that is known of a claim", run_explain)
    parser.add_argument("claim", metavar="ID", help="the claim")
    _add_suite(parser)


def _add_report(commands: Any) -> None:
    what = "write the views of a report: HTML, JUnit XML, Markdown, badge"
    parser = _command(commands, "report", what, run_report)
    parser.add_argument("folder", metavar="DIR", help="the folder that report.json is in")
    parser.add_argument(
        "--beside", metavar="DIR", help="another report, of the other subject, to be shown with it"
    )


def _add_diff(commands: Any) -> None:
    what = "tell which outcomes differ between two reports"
    parser = _command(commands, "diff", what, run_diff, epilog="Exit code: 1 if any differs.")
    parser.add_argument("first", metavar="A", help="report.json, or its folder")
    parser.add_argument("second", metavar="B", help="another one")


def _suite(args: argparse.Namespace) -> Suite:
    if importlib.util.find_spec("pytest") is None:
        raise UsageError("pytest is not installed", hint="pip install 'tfdist-kit[test]'")
    from tfdist_kit.conformance.suites import Suite

    return Suite.at(args.suite)


def _wish(args: argparse.Namespace, suite: Suite, **more: Any) -> Wish:
    from tfdist_kit.conformance.found import Wish
    from tfdist_kit.conformance.surroundings import surroundings

    if args.n < 1:
        raise UsageError(f"-n is {args.n}", hint="give a whole number of 1 or more")
    if args.n > 1 and importlib.util.find_spec("xdist") is None:
        raise UsageError("-n needs pytest-xdist", hint="pip install 'tfdist-kit[test]'")
    if suite.is_own and not surroundings().tensorflow:
        raise UsageError("TensorFlow is not installed", hint="pip install 'tfdist-kit[tensorflow]'")
    return Wish(
        documents=tuple(args.document),
        claims=tuple(args.claim),
        subject=args.subject,
        processes=args.n,
        **more,
    )


@contextlib.contextmanager
def _shown() -> Iterator[tuple[Any, Any]]:
    """How a run goes on, on the terminal; and whether it is to stop."""
    from tfdist_kit.cli.progress import progress
    from tfdist_kit.conformance.sessions import Stop

    shown, stop = progress(), Stop()
    try:
        with stop.heard():
            yield shown, stop
    finally:
        shown.close()


def run_run(args: argparse.Namespace) -> int:
    """Check the claims, print what was found, and write the report if one is wanted."""
    suite = _suite(args)
    wish = _wish(args, suite, profile=args.profile, quick=args.quick, mutants=args.mutants)
    from tfdist_kit.conformance.report import canonical, text
    from tfdist_kit.conformance.run import run, timing

    with _shown() as (shown, stop):
        found = run(suite, wish, shown, stop)
    report = canonical.build(found, suite.register())
    for line in text.summary(report):
        print(line)
    if args.report:
        folder = Path(args.report)
        print(f"report: {canonical.write(folder, report)}")
        canonical.write(folder, timing(found), canonical.TIMING)
        _write_views(folder, report)
    return _exit_code(found)


def _write_views(folder: Path, report: Any, other: Any = None) -> None:
    from tfdist_kit.conformance.report.views import remove_views, write_views

    remove_views(folder)
    if report["complete"]:
        for path in write_views(folder, report, other):
            print(f"view: {path}")


def _exit_code(found: Found) -> int:
    from tfdist_kit.conformance.outcomes import exit_code

    if not found.complete:
        print(f"tfdist: incomplete: {found.trouble}", file=sys.stderr)
        return INCOMPLETE
    if any(one.result == "survived" for one in found.killings or ()):
        return DEVIATES
    return exit_code([found.outcome(claim).name for claim in found.claims])


def run_mutants(args: argparse.Namespace) -> int:
    """Run the mutants, and print which were killed."""
    suite = _suite(args)
    wish = _wish(args, suite)
    from tfdist_kit.conformance.mutation import run_alone
    from tfdist_kit.conformance.report import canonical, text

    report = canonical.read(args.report) if args.report else None
    with _shown() as (shown, stop):
        found = run_alone(suite, wish, shown, stop, everything=args.every_check)
    for line in text.killings(found.killings or []):
        print(line)
    if report is not None and found.complete:
        folder = Path(args.report)
        more = canonical.with_killings(report, found.killings or [])
        print(f"report: {canonical.write(folder, more)}")
        _write_views(folder, more)
    found.claims = ()  # their outcomes are not what was asked for
    return _exit_code(found)


def run_list(args: argparse.Namespace) -> int:
    """Print the claims, a line each."""
    from tfdist_kit.conformance import listing

    suite = _suite(args)
    entries = listing.entries(suite, document=args.document, level=args.level)
    if args.uncovered:
        entries = [entry for entry in entries if entry.lacks]
    for line in listing.lines(entries):
        print(line)
    return INCOMPLETE if args.uncovered and entries else 0


def run_explain(args: argparse.Namespace) -> int:
    """Print all that is known of a claim."""
    from tfdist_kit.conformance import listing

    suite = _suite(args)
    for line in listing.explained(suite, args.claim):
        print(line)
    return 0


def run_report(args: argparse.Namespace) -> int:
    """Write the views of a report."""
    from tfdist_kit.conformance.report import canonical

    other = canonical.read(args.beside) if args.beside else None
    path = Path(args.folder)
    _write_views(path if path.is_dir() else path.parent, canonical.read(path), other)
    return 0


def run_diff(args: argparse.Namespace) -> int:
    """Print which outcomes differ; returns 1 if any does."""
    from tfdist_kit.conformance.report import canonical, markdown, side_by_side

    first, second = canonical.read(args.first), canonical.read(args.second)
    differences = list(side_by_side.lines(first, second))
    for line in differences:
        print(line)
    for report, name in ((first, args.first), (second, args.second)):
        print(f"{name}: {', '.join(markdown.numbers(report))}")
    return 1 if differences else 0
