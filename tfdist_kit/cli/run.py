"""``tfdist run``: start a script or module on a local cluster of workers.

command line + preset file + defaults -> options -> RunRequest -> launcher.run -> exit code
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.cli import preset
from tfdist_kit.launcher import ConsoleWish, Deadlines, RestartWish, RunRequest, dry_run, run

DEFAULTS: Mapping[str, Any] = {
    "workers": 2,
    "chief": False,
    "evaluator": False,
    "isolate": False,
    "debug_rank": None,
    "gpus_per_worker": None,
    "module": False,
    "args": [],
    "env": {},
    "start_method": "auto",
    "fast_exit": True,
    "log_dir": None,
    "tee": None,
    "rank_filter": None,
    "timestamps": False,
    "collapse": False,
    "quiet_tf": False,
    "live": True,
    "timeout": None,
    "start_timeout": Deadlines.start,
    "drain": Deadlines.drain,
    "grace": Deadlines.grace,
    "save_timeout": Deadlines.save,
    "evaluator_timeout": Deadlines.evaluator,
    "max_restarts": RestartWish.limit,
    "restart_delay": RestartWish.delay,
    "stall_timeout": None,
}
EPILOG = """\
Ranks count the chief first, then the workers, then the evaluator. A deadline of 0 seconds for
--timeout, --start-timeout, --evaluator-timeout or --stall-timeout is no deadline.

Exit code: 0 when every worker ended well; else that of the worker that failed first (128+N if
signal N ended it); 124 when a time limit was over; 130 after Ctrl-C; 2 for wrong usage; 42 when
workers were preempted, or tfdist was (SIGTERM, SIGUSR1) and they saved: start the run again.

Ctrl-\\ tells where every worker is, and the run goes on; so does `tfdist stacks RUN_DIR`.
"""


def add_parser(subparsers: Any) -> None:
    """Add ``run`` to the command line."""
    parser = subparsers.add_parser(
        "run",
        help="start a script on a local cluster of workers",
        description="Start a script, or a module with -m, in one process per worker.",
        usage="tfdist run [-n N] [options] SCRIPT [ARG ...]\n"
        "       tfdist run [-n N] [options] -m MODULE [ARG ...]",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    _add_cluster_options(parser.add_argument_group("the cluster"))
    _add_process_options(parser.add_argument_group("processes"))
    _add_deadline_options(parser.add_argument_group("deadlines, in seconds"))
    _add_restart_options(parser.add_argument_group("restarts"))
    _add_output_options(parser.add_argument_group("output"))
    parser.add_argument("--config", metavar="FILE", type=Path, help="a preset (TOML); options win")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the plan as JSON and start nothing"
    )
    parser.add_argument("target", metavar="SCRIPT", help="what each worker runs")
    own = parser.add_argument(
        "script_args", metavar="ARG", nargs=argparse.REMAINDER, help="its own"
    )
    own.required = False
    parser.set_defaults(run=execute)


def _add_cluster_options(group: Any) -> None:
    group.add_argument(
        "-n", "--workers", type=int, metavar="N", help="tasks of type worker (default: 2)"
    )
    yes_or_no = argparse.BooleanOptionalAction
    group.add_argument("--chief", action=yes_or_no, help="add a chief to the workers")
    group.add_argument("--evaluator", action=yes_or_no, help="add an evaluator")
    group.add_argument(
        "--isolate", action=yes_or_no, help="in a network of its own, which nobody else can reach"
    )
    group.add_argument(
        "--debug-rank", type=int, metavar="N", help="give rank N the terminal; no deadlines"
    )
    group.add_argument(
        "--gpus-per-worker",
        type=int,
        metavar="K",
        help="let each process see K GPUs of its own; 0 hides all (default: all see all)",
    )
    group.add_argument(
        "-m", "--module", action="store_true", help="SCRIPT is a module, as for python -m"
    )
    group.add_argument(
        "--env",
        action="append",
        metavar="NAME=VALUE",
        help="set a variable for every worker; may be given several times",
    )


def _add_process_options(group: Any) -> None:
    yes_or_no = argparse.BooleanOptionalAction
    group.add_argument(
        "--start-method",
        choices=["auto", "preload", "fresh"],
        help="import TensorFlow once and fork the workers, or start an interpreter for each "
        "(default: auto, preload where it is known to be safe)",
    )
    group.add_argument(
        "--fast-exit",
        action=yes_or_no,
        help="leave without the interpreter's own teardown (default: yes)",
    )


def _add_deadline_options(group: Any) -> None:
    options = {
        "timeout": "the whole run (default: none)",
        "start-timeout": "from the first worker that joins the cluster to the last (default: 60)",
        "drain": "for the peers of a failed worker to end by themselves (default: 5)",
        "grace": "between SIGTERM and SIGKILL (default: 5)",
        "save-timeout": "for a worker that was given notice to save; drain and grace wait for it "
        "(default: 600)",
        "evaluator-timeout": "for the evaluator to end after training (default: 60)",
        "stall-timeout": "for a worker without output or progress (default: none)",
    }
    for name, text in options.items():
        group.add_argument(f"--{name}", type=float, metavar="SECONDS", help=text)


def _add_restart_options(group: Any) -> None:
    group.add_argument(
        "--max-restarts",
        type=int,
        metavar="N",
        help="start all workers again after a crash, at most N times without progress in between; "
        "a preempted or lost worker is not counted (default: 0, never start again)",
    )
    group.add_argument(
        "--restart-delay",
        type=float,
        metavar="SECONDS",
        help="before the first restart; each further one without progress doubles it, "
        "up to 60 (default: 1)",
    )


def _add_output_options(group: Any) -> None:
    yes_or_no = argparse.BooleanOptionalAction
    group.add_argument(
        "--log-dir",
        metavar="DIR",
        help="the run folder (default: a new one under the system's temp folder; "
        "the newest 10 are kept)",
    )
    group.add_argument(
        "--tee",
        action=yes_or_no,
        help="show the workers' output (default: yes, but not with --debug-rank)",
    )
    group.add_argument(
        "--rank-filter", metavar="RANKS", type=ranks, help="show only these, for example 0,2"
    )
    switches = {
        "timestamps": "start each line with the time",
        "collapse": "show the same line of several ranks, or one said again and again, once",
        "quiet-tf": "leave TensorFlow's start-up notes out; errors are always shown",
        "live": "on a terminal, show a status line per rank below the log (default: yes)",
    }
    for name, text in switches.items():
        group.add_argument(f"--{name}", action=yes_or_no, help=text)


def ranks(text: str) -> list[int]:
    """A list of ranks on the command line."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of ranks such as 0,2") from None


def execute(args: argparse.Namespace) -> int:
    """Carry ``tfdist run`` out and return its exit code."""
    given = {name: value for name, value in vars(args).items() if name in DEFAULTS}
    if "env" in given:
        given["env"] = dict(_variable(text) for text in given["env"])
    from_file = preset.read(args.config) if "config" in args else {}
    if "env" in from_file:
        given["env"] = {**from_file["env"], **given.get("env", {})}
    request = to_request({**DEFAULTS, **from_file, **given}, args.target, args.script_args)
    if "dry_run" in args:
        print(json.dumps(dry_run(request, os.environ).to_dict(), indent=1))
        return 0
    return run(request, os.environ).exit_code


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--env was given {text!r}", hint="write it as NAME=VALUE")
    return name, value


def to_request(options: Mapping[str, Any], target: str, args: list[str]) -> RunRequest:
    """Turn merged options into a request.

    Args:
        options: A value for each name in `DEFAULTS`.
        target: The script or module.
        args: Its arguments on the command line; a preset's own come before them.

    Raises:
        UsageError: A value means nothing.
    """
    shown, tee, log_dir = options["rank_filter"], options["tee"], options["log_dir"]
    if log_dir == "":
        raise UsageError("--log-dir is empty", hint="name a folder, or leave the option out")
    return RunRequest(
        target=target,
        args=(*options["args"], *args),
        is_module=options["module"],
        workers=options["workers"],
        chief=options["chief"],
        evaluator=options["evaluator"],
        env=options["env"],
        start_method=options["start_method"],
        fast_exit=options["fast_exit"],
        log_dir=None if log_dir is None else Path(log_dir),
        deadlines=Deadlines(
            total=options["timeout"] or None,
            start=options["start_timeout"] or None,
            drain=options["drain"],
            grace=options["grace"],
            save=options["save_timeout"],
            evaluator=options["evaluator_timeout"] or None,
            stall=options["stall_timeout"] or None,
        ),
        restarts=RestartWish(options["max_restarts"], options["restart_delay"]),
        console=ConsoleWish(
            tee=options["debug_rank"] is None if tee is None else tee,
            ranks=None if shown is None else tuple(shown),
            timestamps=options["timestamps"],
            collapse=options["collapse"],
            quiet_tf=options["quiet_tf"],
            live=options["live"],
        ),
        isolate=options["isolate"],
        debug_rank=options["debug_rank"],
        gpus_per_worker=options["gpus_per_worker"],
    )
