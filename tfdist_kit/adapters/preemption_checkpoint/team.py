"""The workers of one cluster, and how they hear of each other.

`Team.exchange` is called by every worker and gives each of them what all of them said, in rank
order. It is a meeting as well: it returns nowhere before everybody has come, and an error names
those who have not.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tfdist_kit._errors import CheckpointError, TfdistError, UsageError, text_of
from tfdist_kit.adapters._keys import Keys
from tfdist_kit.adapters._private import private
from tfdist_kit.adapters.preemption_checkpoint.store import LocalStore, Store

_PARTING_SECONDS = 2.0
"""Who is not there by then has died, or will find out that the chief has gone."""
_UNKNOWN = 2
"""TensorFlow's code of an `UnknownError`."""
_UTIL = "tensorflow.python.distribute.multi_worker_util"


@dataclass(frozen=True)
class Team:
    """Who trains together.

    Attributes:
        names: The tasks, as ``type:index``, in rank order.
        rank: This process's place among them.
        store: Where they leave each other word.
        prefix: What all keys of one handler begin with.
    """

    names: Sequence[str]
    rank: int
    store: Store
    prefix: str

    @property
    def name(self) -> str:
        """This process's own task."""
        return self.names[self.rank]

    @property
    def is_chief(self) -> bool:
        """Whether this process writes what all share."""
        return self.rank == 0

    def put(self, key: str, value: str = "") -> bool:
        """Write a key; False if somebody has."""
        return self.store.put(f"{self.prefix}/{key}", value)

    def get(self, key: str, seconds: float) -> str | None:
        """Wait for a key; None if nobody writes it in time."""
        return self.store.get(f"{self.prefix}/{key}", seconds)

    def exchange(self, what: str, value: str, seconds: float, call: str) -> list[str]:
        """Tell all workers a value, and be told theirs.

        Args:
            what: A name that this exchange alone has.
            value: What this worker says.
            seconds: How long the others have to come.
            call: What they were to do, for the error.

        Raises:
            CheckpointError: Some did not come in time; names them.
        """
        self.put(f"{what}/{self.rank}", value)
        ends = time.monotonic() + seconds
        told = [
            self.get(f"{what}/{rank}", max(0.0, ends - time.monotonic()))
            for rank in range(len(self.names))
        ]
        missing = [name for name, said in zip(self.names, told, strict=True) if said is None]
        if missing:
            error = CheckpointError(
                f"{', '.join(missing)} did not {call} within {seconds:g} s",
                hint="every worker must make the same calls in the same order; a worker that is "
                "only slow is waited for with Termination(meet_within=...)",
                tasks=tuple(missing),
            )
            self.tell_of(error)
            raise error
        return [said for said in told if said is not None]

    def let_chief_go_last(self, what: str) -> None:
        """Have the chief, whose process keeps the store, stay until all have read their fill.

        Args:
            what: A name that this parting alone has.
        """
        with contextlib.suppress(Exception):  # some have gone already
            if not self.is_chief:
                self.put(f"{what}/parts/{self.rank}")
                return
            ends = time.monotonic() + _PARTING_SECONDS
            for rank in range(1, len(self.names)):
                self.get(f"{what}/parts/{rank}", max(0.0, ends - time.monotonic()))

    def tell_of(self, error: BaseException) -> None:
        """Raise an error in every other worker, now; alone they learn of it when this one has gone.

        TensorFlow's handler does so for its own errors only.
        """
        if isinstance(self.store, Keys):
            with contextlib.suppress(Exception):  # the cluster is no more
                text = f"{self.name} raised {type(error).__name__}: {text_of(error)}"
                self.store.report_error(_UNKNOWN, text)

    def together(self, what: str, act: Callable[[], object], seconds: float, call: str) -> None:
        """Have every worker do something; where one of them cannot, all raise the same.

        Args:
            what: A name that this alone has.
            act: What to do; without a collective.
            seconds: How long the others have to come.
            call: What they were to call, for the error.

        Raises:
            UsageError: Some worker's `act` has raised one.
            CheckpointError: Some worker's `act` has raised another error, or it did not come.
        """
        failed: Exception | None = None
        try:
            act()
        except Exception as error:
            failed = error
        words = json.dumps(_words_of(failed))
        for name, told in zip(self.names, self.exchange(what, words, seconds, call), strict=True):
            reason, hint, is_usage = json.loads(told)
            if reason:
                message = reason if len(self.names) == 1 else f"{name}: {reason}"
                raise (UsageError if is_usage else CheckpointError)(message, hint=hint) from failed


def reason_of(error: Exception) -> str:
    """What an error says, TensorFlow's without the stack."""
    message = getattr(error, "message", None)
    return message if isinstance(message, str) else text_of(error)


def _words_of(error: Exception | None) -> tuple[str, str, bool]:
    """Reason, hint, and whether it is the user's."""
    if error is None:
        return "", "", False
    if isinstance(error, TfdistError):
        return error.args[0], error.hint, isinstance(error, UsageError)
    return f"{type(error).__name__}: {reason_of(error)}", "", False


def team_of(resolver: Any, number: int) -> Team:
    """The workers of a strategy's cluster; one process that trains alone is a team of one.

    Args:
        resolver: The strategy's cluster resolver, if it has one.
        number: Which handler of this process it is for: keys can be written only once.
    """
    prefix = f"tfdist/preemption/{number}"
    if not resolver or not resolver.cluster_spec().jobs:
        return Team(("the only worker",), 0, LocalStore(), prefix)
    jobs = resolver.cluster_spec().as_dict()
    names = [
        f"{job}:{index}" for job in ("chief", "worker") for index in range(len(jobs.get(job, ())))
    ]
    rank = private(_UTIL, "id_in_cluster")(
        resolver.cluster_spec(), resolver.task_type, resolver.task_id
    )
    return Team(tuple(names), rank, Keys(names), prefix)
