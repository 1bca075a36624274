"""``tfdist``: parse the command line, run one sub-command, turn errors into exit codes.

Exit codes: the sub-command's own; 2 for what cannot be done as asked; 1 for any other error.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from absl import app, flags
from absl.flags import argparse_flags

from tfdist_kit._errors import TfdistError, UsageError
from tfdist_kit._version import __version__

COMMANDS = ("run", "ps", "logs", "stacks", "config", "determinism", "conformance", "bench")
USAGE_EXIT = 2
ERROR_EXIT = 1


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    # absl's own flags are not offered: `--flagfile` would be read out of a script's arguments.
    parser: argparse.ArgumentParser = argparse_flags.ArgumentParser(
        prog="tfdist",
        description="Launch, check and survive multi-worker TensorFlow.",
        inherited_absl_flags=None,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tfdist {__version__}")
    subparsers = parser.add_subparsers(
        metavar="COMMAND", required=True, parser_class=argparse.ArgumentParser
    )
    for name in COMMANDS:
        importlib.import_module(f"tfdist_kit.cli.{name}").add_parser(subparsers)
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse ``sys.argv``; leaves with `USAGE_EXIT` when it cannot be understood."""
    parsed = build_parser().parse_args(argv[1:])
    flags.FLAGS.mark_as_parsed()
    return parsed


def main(args: argparse.Namespace) -> int:
    """Run the sub-command that `args` names and return the exit code."""
    try:
        code: int = args.run(args)
        return code
    except UsageError as error:
        return _complain(error, USAGE_EXIT)
    except TfdistError as error:
        return _complain(error, ERROR_EXIT)
    except BrokenPipeError:  # our reader has gone; there is nobody left to tell
        sys.stdout = None
        return ERROR_EXIT
    except OSError as error:
        print(f"tfdist: error: {error}", file=sys.stderr)
        return ERROR_EXIT


def _complain(error: TfdistError, code: int) -> int:
    print(f"tfdist: error: {error}", file=sys.stderr)
    return code


def entry_point() -> None:
    """The console script."""
    app.run(main, flags_parser=parse)
