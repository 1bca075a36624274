"""Rules about what surrounds TF_CONFIG: the environment, this machine and the network.

The network is asked by the callables that are handed in; each returns None where all is well,
else the reason.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping

from tfdist_kit.tf_config.address import split_address
from tfdist_kit.tf_config.document import Document, Entry
from tfdist_kit.tf_config.findings import Finding, mistake
from tfdist_kit.tf_config.rules.address import flaw, sound_entries

HostProbe = Callable[[str], str | None]
PortProbe = Callable[[int], str | None]

VARIABLE = mistake(
    "TFC070",
    "a variable has nearly the name TF_CONFIG",
    why="TensorFlow reads TF_CONFIG only, finds no cluster and trains alone, without a word",
    cure="rename the variable to TF_CONFIG",
)
UNRESOLVABLE = mistake(
    "TFC071",
    "a host's name cannot be resolved here",
    why="a task hangs when it is its own name; else the first all-reduce raises UnavailableError "
    "($reason)",
    cure="correct the name, or make it known to the name service or /etc/hosts of this machine",
)
UNBINDABLE = mistake(
    "TFC072",
    "this task cannot listen on its own port",
    why="TensorFlow raises UnknownError 'Could not start gRPC server' here, and the other tasks "
    "hang ($reason)",
    cure="end the program that has the port, or choose another port in the cluster of every task",
)
FOREIGN = mistake(
    "TFC073",
    "this task's own address is not one of this machine",
    severity="warning",
    why="unless something forwards the port to this machine, the tasks hang: they reach another "
    "machine by this address ($reason)",
    cure="correct the address, or the task's type and index: this machine may be another task",
)
PROXY = mistake(
    "TFC074",
    "a proxy stands between the tasks",
    severity="warning",
    why="gRPC obeys $variable even for localhost, and the tasks hang where the proxy does not "
    "let them through",
    cure='add the hosts to $exempting, for example $exempting="$host", or make the strategy by '
    "tfdist_kit.multi_worker_mirrored, which does so",
)


def check_variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether TF_CONFIG was meant to be set, but under another name."""
    for name, value in environ.items():
        if name != "TF_CONFIG" and name.replace("_", "").lower() in ("tfconfig", "tfconfigs"):
            yield VARIABLE.at(name, value)


def check_hosts(document: Document, resolve: HostProbe) -> Iterator[Finding]:
    """Whether this machine can resolve the hosts that it needs, each asked for once."""
    seen: set[str] = set()
    for entry in _needed(document):
        host, _ = split_address(entry.address)
        if host in seen:
            continue
        seen.add(host)
        if (reason := resolve(host)) is not None:
            yield UNRESOLVABLE.at(entry.where, host, reason=reason)


def _needed(document: Document) -> list[Entry]:
    """The entries that this task connects to: training tasks never talk to the evaluator."""
    all_jobs = document.task_type == "evaluator"
    return [entry for entry in sound_entries(document) if all_jobs or entry.job != "evaluator"]


def check_own_port(document: Document, can_bind: PortProbe) -> Iterator[Finding]:
    """Whether TensorFlow's server will be able to listen."""
    if (own := _sound_own(document)) is None:
        return
    _, port = split_address(own.address)
    if port and (reason := can_bind(port)) is not None:
        yield UNBINDABLE.at(own.where, port, reason=reason)


def check_own_host(
    document: Document, is_own_address: HostProbe, resolve: HostProbe | None
) -> Iterator[Finding]:
    """Whether the address that the others use leads to this machine."""
    if (own := _sound_own(document)) is None:
        return
    host, _ = split_address(own.address)
    if resolve is not None and resolve(host) is not None:
        return  # one mistake, told by check_hosts
    if (reason := is_own_address(host)) is not None:
        yield FOREIGN.at(own.where, own.address, reason=reason)


def _sound_own(document: Document) -> Entry | None:
    own = document.own
    return own if own is not None and flaw(own.address) is None else None


def check_proxy(document: Document, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether gRPC will send what the tasks say to each other through a proxy."""
    # gRPC looks at these names in this order, and in lower case only.
    proxies = [name for name in ("grpc_proxy", "https_proxy", "http_proxy") if environ.get(name)]
    if not proxies or len(document.entries) < 2:
        return
    exempting = "no_grpc_proxy" if environ.get("no_grpc_proxy") else "no_proxy"
    exempt = [item.strip() for item in environ.get(exempting, "").split(",")]
    for entry in _needed(document):
        host, _ = split_address(entry.address)
        if not any(_covers(item, host) for item in exempt if item):
            yield PROXY.at(
                proxies[0],
                _without_password(environ[proxies[0]]),
                variable=proxies[0],
                host=host,
                exempting=exempting,
            )
            return


def _without_password(url: str) -> str:
    return re.sub(r"[^/@]*@", "***@", url)


def _covers(item: str, host: str) -> bool:
    """Whether an item of no_proxy exempts a host: the end of its name, or a network."""
    if host.lower().endswith(item.lower()):
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(item, strict=False)
    except ValueError:
        return False
