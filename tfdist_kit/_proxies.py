"""Keeps a cluster's own traffic away from HTTP proxies.

gRPC obeys ``http_proxy``, ``https_proxy`` and ``grpc_proxy`` even for localhost, and a cluster
behind a proxy hangs without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def bypass(environ: Mapping[str, str], hosts: Iterable[str]) -> dict[str, str]:
    """The variables to set so that gRPC reaches `hosts` without a proxy.

    gRPC heeds ``no_grpc_proxy`` alone where it is set, and nobody else reads it; so it is set
    even where no proxy is named (yet), and what ``no_proxy`` says is kept in it.
    """
    before = environ.get("no_grpc_proxy") or environ.get("no_proxy") or ""
    listed = [item for item in before.split(",") if item]
    return {"no_grpc_proxy": ",".join(dict.fromkeys([*listed, *hosts]))}
