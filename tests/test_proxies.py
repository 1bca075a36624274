"""Which variables keep a cluster's traffic away from proxies."""

from __future__ import annotations

import pytest

from tfdist_kit import _proxies


@pytest.mark.parametrize(
    ("environ", "exempt"),
    [
        ({}, "h1,h2"),
        ({"no_proxy": "a,h1"}, "a,h1,h2"),
        ({"no_proxy": "a", "no_grpc_proxy": "b"}, "b,h1,h2"),
        ({"no_proxy": "*"}, "*,h1,h2"),
        ({"no_grpc_proxy": ""}, "h1,h2"),
    ],
)
def test_only_grpc_is_kept_from_the_proxy(environ: dict[str, str], exempt: str) -> None:
    """What other programs read, ``no_proxy`` above all, stays as the user set it."""
    assert _proxies.bypass(environ, ["h1", "h2", "h1"]) == {"no_grpc_proxy": exempt}
