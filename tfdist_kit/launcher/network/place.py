"""Where the cluster's servers listen: a private network, or held ports of this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from tfdist_kit.launcher.network import interfaces, netns
from tfdist_kit.launcher.network.netns import Namespace, UnavailableError
from tfdist_kit.launcher.network.ports import HeldPorts


@dataclass(frozen=True)
class Network:
    """A place for a cluster.

    Attributes:
        ports: One port per process, in rank order, that nobody else can take.
        namespace: The private network that the workers enter; None for this machine's own.
        notices: What the user should know about it, a line each.
    """

    ports: tuple[int, ...]
    namespace: Namespace | None = None
    notices: tuple[str, ...] = ()

    @property
    def fds(self) -> dict[str, int]:
        """What a worker inherits and enters, by names that begin with ``network``."""
        fds = self.namespace.fds if self.namespace else ()
        return {f"network_{index}": fd for index, fd in enumerate(fds)}


@contextlib.contextmanager
def network(size: int, *, isolate: bool) -> Iterator[Network]:
    """A place for a cluster of `size` processes, given up at the end of the ``with`` block.

    Args:
        size: Number of processes.
        isolate: Whether to try for a private network.
    """
    with contextlib.ExitStack() as held:
        try:
            namespace = held.enter_context(netns.make()) if isolate else None
            refusal: tuple[str, ...] = ()
        except UnavailableError as error:
            namespace, refusal = None, (_refused(error),)
        if namespace is not None:
            yield Network(netns.ports(size), namespace)
        else:
            numbers = held.enter_context(HeldPorts(size)).numbers
            yield Network(numbers, None, (*refusal, *_exposed(advise=not isolate)))


def _refused(error: UnavailableError) -> str:
    return f"no private network: {error}; the run goes on without it, on held ports"


def _exposed(*, advise: bool) -> tuple[str, ...]:
    """A warning if the internet may reach the cluster."""
    for interface, address in interfaces.public():
        cure = "; --isolate keeps others out" if advise else ""
        return (
            f"{interface} has the public address {address}: TensorFlow's server listens on all "
            f"interfaces and runs whatever graph it is sent{cure}",
        )
    return ()
