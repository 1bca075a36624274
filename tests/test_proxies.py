"""Which variables keep a cluster's traffic away from proxies."""

from __future__ import annotations

import pytest

from tfdist_kit import _proxies

PROXY = {"http_proxy": "http://proxy:3128"}


@pytest.mark.parametrize(
    ("environ", "changed"),
    [
        ({}, {}),
        ({"http_proxy": ""}, {}),
        ({"no_proxy": "a"}, {}),
        (PROXY, {"no_proxy": "h1,h2"}),
        ({"grpc_proxy": "p"}, {"no_proxy": "h1,h2"}),
        ({**PROXY, "no_proxy": "a"}, {"no_proxy": "a,h1,h2"}),
        ({**PROXY, "no_proxy": "h1,h2"}, {"no_proxy": "h1,h2"}),
        ({**PROXY, "no_grpc_proxy": "b"}, {"no_proxy": "h1,h2", "no_grpc_proxy": "b,h1,h2"}),
    ],
)
def test_bypass(environ: dict[str, str], changed: dict[str, str]) -> None:
    assert _proxies.bypass(environ, ["h1", "h2", "h1"]) == changed
