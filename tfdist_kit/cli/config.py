"""``tfdist config``: check, explain and write TF_CONFIG.

    lint    environment or files -> tf_config.lint -> findings -> exit code
    show    environment or file  -> TFConfig -> what it means
    build   arguments            -> ClusterSpec -> TFConfig of each task -> JSON

Nothing here writes a file, and no command needs TensorFlow.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfdist_kit._errors import TFConfigError, UsageError
from tfdist_kit.tf_config import (
    ClusterSpec,
    Finding,
    Task,
    TFConfig,
    can_bind,
    is_own_address,
    join_address,
    lint,
    lint_environ,
    lint_together,
    resolves,
)

DEFAULT_PORT = 2222
ENVIRONMENT = "TF_CONFIG"
STDIN = "-"


def add_parser(subparsers: Any) -> None:
    """Add ``config`` and its sub-commands to the command line."""
    parser = subparsers.add_parser(
        "config",
        help="check, explain or write TF_CONFIG",
        description="Check, explain or write TF_CONFIG. Nothing is started.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_lint(commands)
    _add_show(commands)
    _add_build(commands)


def _add_lint(commands: Any) -> None:
    parser = commands.add_parser(
        "lint",
        help="find every mistake in TF_CONFIG",
        description="Find every mistake in the TF_CONFIG of the environment, or of files. Several "
        "files are taken for the tasks of one cluster and checked against each other.",
        epilog="Exit code: 0 without findings, 1 with findings, 2 for wrong usage.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="a file that holds the JSON; - is standard input"
    )
    parser.add_argument("--json", action="store_true", help="write the findings as JSON")
    parser.add_argument(
        "--no-network",
        action="store_true",
        help="look no host up, and leave this machine's addresses and ports alone",
    )
    parser.set_defaults(run=run_lint)


def _add_show(commands: Any) -> None:
    parser = commands.add_parser(
        "show",
        help="tell what TF_CONFIG means",
        description="Tell which tasks TF_CONFIG names, in rank order, and which one this is.",
        epilog="Exit code: 0 without findings, 1 with findings, 2 for wrong usage.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="a file that holds the JSON; - is standard input"
    )
    parser.add_argument("--json", action="store_true", help="write it as JSON")
    parser.set_defaults(run=run_show)


def _add_build(commands: Any) -> None:
    parser = commands.add_parser(
        "build",
        help="write the TF_CONFIG of each task",
        description="Write the TF_CONFIG of each task of a cluster, one line per task in rank "
        "order: chief, workers, evaluator.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--workers", metavar="N", required=True, help="number of tasks of type worker")
    add("--chief", action="store_true", help="add a task of type chief")
    add("--evaluator", action="store_true", help="add a task of type evaluator")
    add(
        "--host",
        metavar="H",
        action="append",
        help="a host for all tasks; repeated, one per task (default localhost)",
    )
    ports = parser.add_mutually_exclusive_group()
    ports.add_argument(
        "--port",
        metavar="P",
        default=str(DEFAULT_PORT),
        help=f"the port on each host, or the first one on a single host (default {DEFAULT_PORT})",
    )
    ports.add_argument("--ports", metavar="P1,P2,...", help="one port per task")
    add("--task", metavar="TYPE:INDEX", help="write this task's TF_CONFIG only")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="write one JSON list")
    form.add_argument("--export", action="store_true", help="write shell commands that set it")
    parser.set_defaults(run=run_build)


def run_lint(args: argparse.Namespace) -> int:
    """Print the findings; returns 1 if there are any."""
    resolve = None if args.no_network else resolves
    if not args.files:
        findings = lint_environ(
            os.environ,
            resolve=resolve,
            can_bind=None if args.no_network else can_bind,
            is_own_address=None if args.no_network else is_own_address,
        )
    else:
        findings = lint_together(_read_all(args.files), resolve=resolve)
    if args.json:
        print(json.dumps({"findings": [finding.to_dict() for finding in findings]}, indent=2))
    else:
        _print_findings(findings)
    return 1 if findings else 0


def _print_findings(findings: Sequence[Finding]) -> None:
    for finding in findings:
        print(f"{finding}\n")
    errors = sum(finding.severity == "error" for finding in findings)
    print(f"errors: {errors}, warnings: {len(findings) - errors}")


def run_show(args: argparse.Namespace) -> int:
    """Print what TF_CONFIG means; returns 1 if there are findings."""
    if args.file is None:
        findings, text = lint_environ(os.environ), os.environ.get(ENVIRONMENT)
    else:
        text = _read(args.file)
        findings = lint(text)
    broken = text is None or any(finding.severity == "error" for finding in findings)
    meaning = {} if broken else _meaning(TFConfig.parse(text or ""))
    if args.json:
        told = {"findings": [finding.to_dict() for finding in findings], **meaning}
        print(json.dumps(told, indent=2))
        return 1 if findings else 0
    if meaning:
        _print_meaning(meaning)
    if findings:
        _print_findings(findings)
    return 1 if findings else 0


def _meaning(config: TFConfig) -> dict[str, Any]:
    assert config.cluster is not None  # a text without a cluster has an error
    cluster = config.cluster
    return {
        "task": str(config.task),
        "chief": str(cluster.chief) if cluster.chief else None,
        "training_tasks": cluster.num_training_tasks,
        "tasks": [
            {
                "rank": rank,
                "task": str(task),
                "address": cluster.address(task),
                "trains": task in cluster.training_tasks,
            }
            for rank, task in enumerate(cluster.tasks)
        ],
    }


def _print_meaning(meaning: dict[str, Any]) -> None:
    print(f"this task:      {meaning['task']}")
    print(f"chief:          {meaning['chief'] or 'none'}")
    print(f"training tasks: {meaning['training_tasks']} of {len(meaning['tasks'])}")
    width = max(len(task["task"]) for task in meaning["tasks"])
    for task in meaning["tasks"]:
        mark = "*" if task["task"] == meaning["task"] else " "
        print(f"{mark} rank {task['rank']}  {task['task']:{width}}  {task['address']}")


def run_build(args: argparse.Namespace) -> int:
    """Print the TF_CONFIG of each task, or of the one that is asked for."""
    cluster = _build_cluster(args)
    tasks = _chosen_tasks(cluster, args.task)
    configs = [TFConfig(cluster, task) for task in tasks]
    if args.json:
        print(json.dumps([each.to_dict() for each in configs], indent=2))
        return 0
    for each in configs:
        text = each.to_json()
        print(f"export {ENVIRONMENT}={shlex.quote(text)}" if args.export else text)
    return 0


def _chosen_tasks(cluster: ClusterSpec, chosen: str | None) -> tuple[Task, ...]:
    if chosen is None:
        return cluster.tasks
    task = Task.parse(chosen)
    cluster.address(task)  # refuses a task that the cluster does not have
    return (task,)


def _build_cluster(args: argparse.Namespace) -> ClusterSpec:
    workers = _number(args.workers, "--workers")
    size = workers + args.chief + args.evaluator
    hosts = args.host or ["localhost"]
    if len(hosts) not in (1, size):
        raise UsageError(
            f"--host was given {len(hosts)} times for {size} tasks",
            hint="give one host for all tasks, or one per task: chief, workers, evaluator",
        )
    ports = _ports(args, size, shared=len(hosts) == 1)
    if len(hosts) == 1:
        hosts = hosts * len(ports)
    addresses = [join_address(host, port) for host, port in zip(hosts, ports, strict=True)]
    try:
        return ClusterSpec.from_addresses(
            addresses, workers=workers, chief=args.chief, evaluator=args.evaluator
        )
    except TFConfigError as error:
        raise UsageError(str(error.args[0]), hint=error.hint) from error


def _ports(args: argparse.Namespace, size: int, *, shared: bool) -> list[int]:
    """One port per task; tasks that share a host get ports in a row."""
    if args.ports is None:
        first = _number(args.port, "--port")
        return [first + rank if shared else first for rank in range(size)]
    ports = [_number(port, "--ports") for port in args.ports.split(",")]
    if len(ports) != size:
        raise UsageError(
            f"--ports {args.ports} names {len(ports)} ports for {size} tasks",
            hint="give one port per task: chief, workers, evaluator",
        )
    return ports


def _number(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            f"{option} is {text!r}, which is not a whole number", hint="write it in digits"
        ) from None


def _read_all(files: Sequence[str]) -> dict[str, str]:
    for file in files:
        if files.count(file) > 1:
            raise UsageError(f"the file {file} was given twice", hint="name each file once")
    return {_name(file): _read(file) for file in files}


def _name(file: str) -> str:
    return "standard input" if file == STDIN else file


def _read(file: str) -> str:
    try:
        if file == STDIN:
            return sys.stdin.read()
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{_name(file)} cannot be read: {error}",
            hint="name a text file that holds the JSON of TF_CONFIG, or - for standard input",
        ) from error
