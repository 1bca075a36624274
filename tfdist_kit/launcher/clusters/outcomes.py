"""How a call went in each worker, and which of it is the cause of the rest.

answers, deaths, silence -> RankOutcome per worker -> CallOutcome -> values, or the root cause
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tfdist_kit._errors import ClusterTimeoutError, WorkerError
from tfdist_kit.launcher import summary
from tfdist_kit.launcher.clusters import calls
from tfdist_kit.launcher.clusters.calls import Answer, Raised, RemoteTraceback
from tfdist_kit.launcher.clusters.member import Member
from tfdist_kit.launcher.failure import Failure
from tfdist_kit.launcher.hangs import stacks

Kind = Literal["returned", "raised", "died", "aborted", "timed out"]


@dataclass(frozen=True)
class RankOutcome:
    """How a call went in one worker.

    Attributes:
        rank: The worker.
        name: How messages call it.
        kind: What became of the call there; ``aborted`` is for one that had not answered when its
            peers had failed, ``timed out`` for one that had not when nobody had.
        value: What was returned.
        failure: What was raised, as data.
        error: What was raised; None if its class is not known here.
        lost: The error that says how the worker died.
        where: Where it was when it had not answered, or how it died, in words.
        stacks: Of all its threads then; empty if they could not be had.
    """

    rank: int
    name: str
    kind: Kind
    value: Any = None
    failure: Failure | None = None
    error: BaseException | None = None
    lost: BaseException | None = None
    where: str = ""
    stacks: str = ""


@dataclass(frozen=True)
class CallOutcome:
    """How a call went in all of them.

    Attributes:
        ranks: In each worker, in the order of the call.
        together: What the places mean together at which some had not answered, in words.
        limit: How long it was allowed to take, in seconds.
        logs: Where the workers' logs lie.
    """

    ranks: tuple[RankOutcome, ...]
    together: tuple[str, ...]
    limit: float | None
    logs: str

    @property
    def is_whole(self) -> bool:
        """Whether every worker has answered."""
        return all(rank.kind in ("returned", "raised") for rank in self.ranks)

    @property
    def root_cause(self) -> RankOutcome | None:
        """Whoever failed first, and not in consequence of another; None if all returned."""
        raised = [rank for rank in self.ranks if rank.failure is not None]
        raised.sort(key=lambda rank: rank.failure.monotonic if rank.failure else 0.0)
        own = [rank for rank in raised if rank.failure and not rank.failure.aftermath]
        died = [rank for rank in self.ranks if rank.kind == "died"]
        late = [rank for rank in self.ranks if rank.kind in ("timed out", "aborted")]
        return next(iter([*own, *died, *raised, *late]), None)

    def error(self) -> BaseException | None:
        """The root cause as an exception; None if all returned."""
        cause = self.root_cause
        if cause is None:
            return None
        if cause.failure is not None:
            return self._raised(cause, cause.failure)
        return cause.lost or self._timeout()

    def _raised(self, cause: RankOutcome, told: Failure) -> BaseException:
        text = f"in {cause.name}:\n{told.traceback}"
        for other in self.ranks:
            if other.failure is not None and other.rank != cause.rank:
                kind = "consequence" if other.failure.aftermath else "also"
                headline = summary.headline(other.failure.message)
                text += f"{kind}: {other.name} raised {other.failure.type}: {headline}\n"
        error = cause.error or WorkerError(
            f"{cause.name} raised {told.type}: {summary.headline(told.message)}",
            rank=cause.rank,
            traceback=told.traceback,
        )
        error.__cause__ = RemoteTraceback(cause.rank, text)
        return error

    def _timeout(self) -> ClusterTimeoutError:
        late = [rank for rank in self.ranks if rank.kind == "timed out"]
        names = ", ".join(rank.name for rank in late)
        places = [f"{rank.name} {rank.where or 'has returned'}" for rank in self.ranks]
        told = (f"{names} did not return within {self.limit:g} s", *places, *self.together)
        return ClusterTimeoutError(
            "\n  ".join(told),
            hint=f"output in {self.logs}; a larger timeout= if it only needs more time",
            ranks=tuple(rank.rank for rank in late),
        )


def judge(
    members: Sequence[Member],
    answers: dict[int, Answer],
    told: Sequence[stacks.Answer],
    *,
    limit: float | None,
    logs: str,
) -> CallOutcome:
    """Put together how a call went.

    Args:
        members: The workers that were called.
        answers: What they answered, by rank; nothing from a worker that died or was silent.
        told: Where those were that did not answer.
        limit: How long it was allowed to take, in seconds.
        logs: Where the workers' logs lie.
    """
    dead = {member.rank for member in members if member.has_died and member.rank not in answers}
    somebody_failed = bool(dead) or any(isinstance(each, Raised) for each in answers.values())
    asked = {answer.target.rank: answer for answer in told}
    silence: Kind = "aborted" if somebody_failed else "timed out"

    def of(member: Member) -> RankOutcome:
        rank, name = member.rank, member.plan.name
        answer = answers.get(rank)
        if isinstance(answer, Raised):
            error = calls.error_of(answer)
            return RankOutcome(rank, name, "raised", failure=answer.failure, error=error)
        if answer is not None:
            return RankOutcome(rank, name, "returned", value=calls.value_of(answer))
        if rank in dead:
            return RankOutcome(rank, name, "died", lost=member.lost(), where=member.ending)
        where = str(asked[rank].located())
        return RankOutcome(rank, name, silence, where=where, stacks=asked[rank].text)

    together = stacks.explained(told)[len(told) :] if told else ()
    return CallOutcome(tuple(map(of, members)), together, limit, logs)
