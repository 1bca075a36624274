"""Says in words where each worker is, from the stacks of its threads.

    stacks of a rank -> where_is -> Where (a place in the user's code, and what it calls there)
    the places of all ranks -> explain -> one line for each, and what they mean together

Stacks name functions, not operations: a ``tf.function`` that waits in a collective is known by
its being idle. TensorFlow is known by the names of its files, and is never imported.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from tfdist_kit import _frames
from tfdist_kit.launcher.hangs.stack_text import Frame, Thread, main_thread
from tfdist_kit.launcher.inside import stack_dump

_LAUNCHER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
_STRATEGY = "distribute/collective_all_reduce_strategy.py"
_CONSTRUCTOR = ("__init__", "_initialize_strategy", "_initialize_multi_worker")
_COLLECTIVES = (
    "/ops/collective_ops.py",
    "/distribute/cross_device_ops.py",
    "/distribute/cross_device_utils.py",
)
_GRAPH = "/tensorflow/python/eager/execute.py"
_WRAPPERS = ("error_handler", "op_dispatch_handler", "wrapper", "wrapped", "inner", "<lambda>")
_NOT_THE_USERS = ("site-packages", "dist-packages")
_GENERATED = "__autograph_generated_file"
_SOURCE_LENGTH = 100


class Doing(Enum):
    """What a worker does at its place, in the words that say so."""

    SCRIPT = "is at"
    CALL = "is in"
    GRAPH = "waits in"
    COLLECTIVE = "waits for its peers in"
    CONSTRUCTOR = "waits for its peers in the strategy's constructor"

    @property
    def waits(self) -> bool:
        """Whether a peer may be what it waits for."""
        return self in (Doing.GRAPH, Doing.COLLECTIVE, Doing.CONSTRUCTOR)


@dataclass(frozen=True)
class Where:
    """Where a worker is.

    Attributes:
        doing: What it does there.
        place: ``file:line`` of the innermost line of the user's own code; empty if there is none.
        source: That line's text, where it can be read.
        callee: The function that it calls there, or an empty string.
        other: Where it is, in words, when that is not in the user's code.
        busy: Whether it uses the processor.
    """

    doing: Doing
    place: str = ""
    source: str = ""
    callee: str = ""
    other: str = ""
    busy: bool = False

    def __str__(self) -> str:
        if not self.place:
            return self.other
        place = f"{self.place}: {self.source}" if self.source else self.place
        works = self.busy and not self.doing.waits
        what = self.doing.value.replace("is", "is busy") if works else self.doing.value
        if self.doing is Doing.SCRIPT:
            return f"{what} {place}"
        return f"{what} {self.callee}".rstrip() + f", called from {place}"


def where_is(threads: Sequence[Thread], *, busy: bool = False) -> Where:
    """Find the place at which a worker's script is.

    Args:
        threads: The stacks of all its threads.
        busy: Whether it used the processor meanwhile: then it works, and does not wait.
    """
    main = main_thread(tuple(threads), _is_launchers)
    if main is None:
        return Where(Doing.SCRIPT, other="has no stacks of Python code")
    frames = _without_launcher(main.frames)
    at = next((index for index, frame in enumerate(frames) if _is_users(frame)), None)
    if at is None:
        return Where(Doing.SCRIPT, other=_outside(main, frames))
    doing, callee = _doing(frames[:at], busy)
    place = _frames.place(frames[at].file, frames[at].line)
    return Where(doing, place, _source(frames[at]), callee, busy=busy)


def _doing(calls: Sequence[Frame], busy: bool) -> tuple[Doing, str]:
    """What the user's code is doing, by the calls that it has made, the innermost first."""
    if any(call.file.endswith(_STRATEGY) and call.function in _CONSTRUCTOR for call in calls):
        return Doing.CONSTRUCTOR, ""
    callee = _callee(calls)
    if any(call.file.endswith(_COLLECTIVES) for call in calls):
        return Doing.COLLECTIVE, callee or "a collective"
    if any(call.file.endswith(_GRAPH) for call in calls):
        return (Doing.CALL if busy else Doing.GRAPH), callee or "a tf.function"
    return (Doing.CALL, callee) if callee else (Doing.SCRIPT, "")


def _callee(calls: Sequence[Frame]) -> str:
    """The function that was called directly, decorators apart; empty if its name says nothing."""
    for call in reversed(calls):
        if call.function not in _WRAPPERS and not call.file.startswith("<"):
            return "" if call.function.startswith(("_", "<")) else call.function
    return ""


def _outside(thread: Thread, frames: Sequence[Frame]) -> str:
    if thread.is_cut and frames:
        top = frames[0]
        place = _frames.place(top.file, top.line)
        return f"is in {top.function} at {place}, in more calls than could be written down"
    if not frames:
        return "has ended its script, or not begun it"
    if frames[-1].function == "_shutdown":
        return "has ended its script, and waits for the threads that this has started"
    return f"is in {frames[-1].function} at {_frames.place(frames[-1].file, frames[-1].line)}"


def _is_launchers(frame: Frame) -> bool:
    return frame.file.startswith(_LAUNCHER)


def _without_launcher(frames: Sequence[Frame]) -> Sequence[Frame]:
    """The calls that the script made: without our handler inside, and our `worker` around them."""
    begin, end = 0, len(frames)
    while begin < end and frames[begin].file == stack_dump.__file__:
        begin += 1
    while begin < end and (_is_launchers(frames[end - 1]) or frames[end - 1].file.startswith("<")):
        end -= 1
    return frames[begin:end]


def _is_users(frame: Frame) -> bool:
    if frame.file.startswith("<") or _GENERATED in frame.file:
        return False
    installed = any(f"/{folder}/" in frame.file for folder in _NOT_THE_USERS)
    return not installed and _frames.is_users_file(frame.file)


def _source(frame: Frame) -> str:
    if not os.path.isfile(frame.file):  # nor read a pipe
        return ""
    linecache.checkcache(frame.file)
    text = linecache.getline(frame.file, frame.line).strip()
    return text if len(text) <= _SOURCE_LENGTH else f"{text[:_SOURCE_LENGTH]}..."


@dataclass(frozen=True)
class Located:
    """One rank, and what is known of where it is.

    Attributes:
        rank: The rank.
        name: How messages call it.
        where: Its place; None when its stacks could not be had.
        trouble: Why not.
        joins: Whether it takes part in the cluster's collectives.
    """

    rank: int
    name: str
    where: Where | None
    trouble: str = ""
    joins: bool = True

    def __str__(self) -> str:
        return str(self.where or f"did not tell: {self.trouble}")


def explain(ranks: Sequence[Located]) -> tuple[str, ...]:
    """Say where each rank is, and what that means together.

    Returns:
        One line per rank, and one more when several ranks are known.
    """
    lines = [f"{rank.name} {rank}" for rank in ranks]
    return (*lines, *_together([rank for rank in ranks if rank.joins]))


def _together(ranks: Sequence[Located]) -> Iterable[str]:
    known = [(rank, rank.where) for rank in ranks if rank.where is not None and rank.where.place]
    if len(known) < 2:
        return
    waiting = [rank.rank for rank, where in known if where.doing.waits]
    others = [rank.rank for rank in ranks if rank.rank not in waiting]
    if len(known) == len(ranks) and len({where.place for _, where in known}) == 1:
        yield "all ranks are at the same place"
    elif waiting and others:
        need = "needs" if len(waiting) == 1 else "need"
        yield (
            f"the ranks are at different places: {name_ranks(waiting)} {need} every rank to take "
            "part, "
            f"and {name_ranks(others)} {'is' if len(others) == 1 else 'are'} not there"
        )
    elif waiting:
        yield (
            "the ranks wait at different places: each needs all of them to make the same calls in "
            "the same order"
        )
    else:
        yield "the ranks are at different places"


def name_ranks(ranks: Sequence[int]) -> str:
    """``rank 1``, or ``ranks 0, 2``."""
    listed = ", ".join(map(str, ranks))
    return f"rank {listed}" if len(ranks) == 1 else f"ranks {listed}"
