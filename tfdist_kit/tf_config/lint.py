"""Every mistake in a TF_CONFIG, as a coded finding with its cure.

    text, object, environment or several texts -> Document -> rules -> findings

Two thirds of the mistakes make TensorFlow hang, train alone in silence, or raise an error that
does not name TF_CONFIG; here they are told before anything starts. The lint never raises on what
it is given, and never asks the network: the callables that do are handed in (see
`tfdist_kit.tf_config.probe`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from tfdist_kit.tf_config.document import Document
from tfdist_kit.tf_config.findings import Finding
from tfdist_kit.tf_config.rules import ALL_RULES, apply, surroundings, together
from tfdist_kit.tf_config.rules.surroundings import HostProbe, PortProbe


def lint(config: object, *, resolve: HostProbe | None = None) -> tuple[Finding, ...]:
    """Look for mistakes in one TF_CONFIG.

    Args:
        config: The text, or an object that could be written as JSON; None means "not set".
        resolve: Tells why a host cannot be resolved, or None where it can; without it no host is
            looked up.

    Returns:
        The findings; none for a TF_CONFIG that is right.
    """
    return _lint(Document.read(config), resolve)


def _lint(document: Document, resolve: HostProbe | None) -> tuple[Finding, ...]:
    findings = apply(ALL_RULES, document)
    if resolve is not None:
        findings += tuple(surroundings.check_hosts(document, resolve))
    return findings


def lint_environ(
    environ: Mapping[str, str],
    *,
    resolve: HostProbe | None = None,
    can_bind: PortProbe | None = None,
    is_own_address: HostProbe | None = None,
) -> tuple[Finding, ...]:
    """Look for mistakes in the TF_CONFIG of an environment, and in what surrounds it.

    Args:
        environ: The environment, for example ``os.environ``.
        resolve: Tells why a host cannot be resolved, or None.
        can_bind: Tells why this machine cannot listen on a port, or None.
        is_own_address: Tells why a host is not this machine, or None.

    Returns:
        The findings; none where all is right.
    """
    text = environ.get("TF_CONFIG")
    if text is None and (misnamed := tuple(surroundings.check_variables(environ))):
        return misnamed
    document = Document.read(text)
    asked = None if resolve is None else cache(resolve)
    findings = _lint(document, asked) + tuple(surroundings.check_proxy(document, environ))
    if can_bind is not None:
        findings += tuple(surroundings.check_own_port(document, can_bind))
    if is_own_address is not None:
        findings += tuple(surroundings.check_own_host(document, is_own_address, asked))
    return findings


def lint_together(
    configs: Mapping[str, object], *, resolve: HostProbe | None = None
) -> tuple[Finding, ...]:
    """Look for mistakes in the TF_CONFIGs of several tasks, each alone and against each other.

    Args:
        configs: The texts or objects, by a name that the findings carry as their source.
        resolve: Tells why a host cannot be resolved, or None; asked once for each host.

    Returns:
        The findings; none where each is right and they fit together.
    """
    asked = None if resolve is None else cache(resolve)
    documents = {source: Document.read(config) for source, config in configs.items()}
    alone = tuple(
        replace(finding, source=source)
        for source, document in documents.items()
        for finding in _lint(document, asked)
    )
    side_by_side = (
        *together.check_same_cluster(documents),
        *together.check_each_task_once(documents),
    )
    return alone + side_by_side
