"""Keeps a cluster's own traffic away from HTTP proxies.

gRPC obeys ``http_proxy``, ``https_proxy`` and ``grpc_proxy`` even for localhost, and a cluster
behind a proxy hangs without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_PROXY_VARIABLES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")


def bypass(environ: Mapping[str, str], hosts: Iterable[str]) -> dict[str, str]:
    """The variables to set so that `hosts` are reached without the proxies that `environ` names.

    Returns:
        New values by name; empty when no proxy is named.
    """
    if not any(name.lower() in _PROXY_VARIABLES and value for name, value in environ.items()):
        return {}
    wanted = list(dict.fromkeys(hosts))
    changed = {}
    for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
        before = environ.get(name, "")
        if before or name == "no_proxy":  # gRPC heeds no_grpc_proxy alone where it is set
            missing = [host for host in wanted if host not in before.split(",")]
            changed[name] = ",".join(filter(None, [before, *missing]))
    return changed
