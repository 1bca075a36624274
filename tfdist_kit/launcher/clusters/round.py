"""One call to several workers: sent to all, and waited for.

packed call -> every member's channel -> answers as they come; deaths; one deadline for all
                                      -> offers -> `exchange.verdict` -> those who offered
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import selectors
import sys
import time
from collections.abc import Sequence

from tfdist_kit.launcher.clusters import exchange
from tfdist_kit.launcher.clusters.calls import Answer, Raised
from tfdist_kit.launcher.clusters.exchange import Offer
from tfdist_kit.launcher.clusters.member import Member
from tfdist_kit.launcher.start import channel


def wait_for_answers(
    members: Sequence[Member], packed: bytes, *, limit: float | None, drain: float | None
) -> dict[int, Answer]:
    """Send one call to all and gather what comes back.

    Args:
        members: Whom to call.
        packed: The call.
        limit: How long it may take, in seconds; None is for ever.
        drain: How long the others have once one has failed; None is as long as they like.

    Returns:
        The answers by rank; none for a member that died or did not answer in time.
    """
    return _Round(members, limit, drain).run(packed)


_numbers = itertools.count()


class _Round:
    def __init__(self, members: Sequence[Member], limit: float | None, drain: float | None) -> None:
        self._members = {member.rank: member for member in members}
        self._waiting = dict(self._members)
        self._ends = None if limit is None else time.monotonic() + limit
        self._drain = drain
        self._answers: dict[int, Answer] = {}
        self._offers: dict[int, Offer] = {}
        self._gone: dict[int, str] = {}
        self._number = next(_numbers)
        self._selector = selectors.DefaultSelector()

    def run(self, packed: bytes) -> dict[int, Answer]:
        for member in self._waiting.values():
            with contextlib.suppress(OSError):  # it has died, which is noticed below
                member.control.settimeout(self._left())
                path = [os.fspath(path) for path in sys.path]
                channel.send(member.control, {"path": path, "call": self._number})
                channel.send_bytes(member.control, packed)
        with self._selector:
            for member in self._waiting.values():
                for ready in _descriptors(member):
                    self._selector.register(ready, selectors.EVENT_READ, member)
            while self._waiting and self._left() != 0:
                for key, _ in self._selector.select(self._left()):
                    self._on_ready(key.data)
        return self._answers

    def _left(self) -> float | None:
        return None if self._ends is None else max(0.0, self._ends - time.monotonic())

    def _on_ready(self, member: Member) -> None:
        if member.rank not in self._waiting:
            return
        said = self._said_by(member)
        if isinstance(said, Offer):
            if said.call == self._number:
                self._offers[member.rank] = said
        else:
            self._on_end(member, said)
        self._settle_exchange()

    def _on_end(self, member: Member, answer: Answer | None) -> None:
        del self._waiting[member.rank]
        self._offers.pop(member.rank, None)
        for ready in _descriptors(member):
            self._selector.unregister(ready)
        ended = "raised" if isinstance(answer, Raised) else "returned"
        self._gone[member.rank] = "died" if answer is None else ended
        if answer is not None:
            self._answers[member.rank] = answer
        if self._drain is not None and (answer is None or isinstance(answer, Raised)):
            soon = time.monotonic() + self._drain
            self._ends = soon if self._ends is None else min(self._ends, soon)

    def _said_by(self, member: Member) -> Answer | Offer | None:
        """What it says, or None for a member that has died; its last answer still counts."""
        member.control.settimeout(self._left() if not member.has_died else 0.0)
        try:
            got = channel.receive_bytes(member.control)
        except OSError:
            got = None
        if got is None:
            member.process.wait(1.0)  # the channel of a dying process closes first
            return None
        said: Answer | Offer = pickle.loads(got[0])
        return said

    def _settle_exchange(self) -> None:
        """Answer those who have offered, if nobody has to be waited for."""
        if not self._offers:
            return
        names = {rank: member.plan.name for rank, member in self._members.items()}
        reply = exchange.verdict(self._offers, self._gone, names)
        if reply is None:
            return
        packed = pickle.dumps(reply)
        for rank in self._offers:
            with contextlib.suppress(OSError):
                channel.send_bytes(self._members[rank].control, packed)
        self._offers = {}


def _descriptors(member: Member) -> tuple[int, ...]:
    pidfd = member.process.pidfd
    control = member.control.fileno()
    return (control,) if pidfd is None else (control, pidfd)
