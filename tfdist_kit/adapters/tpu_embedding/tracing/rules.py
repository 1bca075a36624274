"""What is wrong with the calls of a step, though TensorFlow traces it: one function per rule.

calls of one layer in one loop -> Group: batches, dequeues, applied gradients -> findings
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tfdist_kit.adapters.tpu_embedding.tracing import findings as known
from tfdist_kit.adapters.tpu_embedding.tracing.findings import Finding
from tfdist_kit.adapters.tpu_embedding.tracing.reading import Call, Kind, Mode

Core = tuple[str, int]


@dataclass(frozen=True)
class Group:
    """The calls that a step does equally often.

    Attributes:
        calls: In the order of the program.
        cores: All cores of the TPU: host device and number.
        features: For each feature, its path and its table's optimizer.
    """

    calls: tuple[Call, ...]
    cores: tuple[Core, ...]
    features: tuple[tuple[str, Any], ...]

    def of(self, kind: Kind) -> list[Call]:
        """The calls of one method."""
        return [call for call in self.calls if call.kind == kind]

    def per_core(self, *modes: Mode) -> Counter[Core]:
        """How many batches each core gets; of some modes, or of all."""
        counts: Counter[Core] = Counter()
        for call in self.of("enqueue"):
            if not modes or call.mode in modes:
                counts.update(self.cores if call.core is None else [call.core])
        return counts

    def batches(self, *modes: Mode) -> int:
        """How many batches the step enqueues; of some modes, or of all."""
        return max(self.per_core(*modes).values(), default=0)


def findings_of(
    calls: Sequence[Call], cores: tuple[Core, ...], features: tuple[tuple[str, Any], ...]
) -> list[Finding]:
    """Everything that is wrong with the calls of a step."""
    if not calls:
        return [known.NO_CALLS.at()]
    found = list(_outside_run(calls))
    for layer in dict.fromkeys(call.layer for call in calls):
        own = [call for call in calls if call.layer == layer]
        apart = list(_apart(own))
        found += apart
        if not apart:
            for group in _groups(own, cores, features):
                found += [each for rule in RULES for each in rule(group)]
    return found


def _groups(
    calls: Sequence[Call], cores: tuple[Core, ...], features: tuple[tuple[str, Any], ...]
) -> Iterator[Group]:
    for place in dict.fromkeys((call.loops, call.branches) for call in calls):
        own = tuple(call for call in calls if (call.loops, call.branches) == place)
        yield Group(own, cores, features)


def _outside_run(calls: Sequence[Call]) -> Iterator[Finding]:
    for call in calls:
        if call.kind != "enqueue" and not call.in_run:
            yield known.OUTSIDE_RUN.at(call.where, call=call.kind)


def _apart(calls: Sequence[Call]) -> Iterator[Finding]:
    """Calls that can't be compared, since a step does not do them equally often."""
    home = next((call for call in calls if call.kind == "dequeue"), None)
    if home is None or not any(call.kind == "enqueue" for call in calls):
        return
    loops = _strays(calls, home, lambda call: call.loops)
    mistake = known.OTHER_LOOP if loops else known.CONDITIONAL
    strays = loops or _strays(calls, home, lambda call: call.branches)
    if strays:
        kind = "enqueue" if strays[0].kind == "dequeue" else strays[0].kind
        yield mistake.at(strays[0].where, calls=f"{kind} and dequeue")


def _strays(calls: Sequence[Call], home: Call, place: Callable[[Call], Any]) -> list[Call]:
    """Calls that are not where `home` is, if somewhere the calls do not make up a step."""
    kinds: dict[Any, set[Kind]] = {}
    for call in calls:
        kinds.setdefault(place(call), set()).add(call.kind)
    if all({"enqueue", "dequeue"} <= found for found in kinds.values()):
        return []
    return [call for call in calls if place(call) != place(home)]


def wrong_cores(group: Group) -> Iterator[Finding]:
    """Each core has to get as many batches as the others."""
    counts, enqueues = group.per_core(), group.of("enqueue")
    told = [
        f"{host} core {core} gets {counts[host, core]} of {group.batches()}"
        for host, core in dict.fromkeys([*group.cores, *counts])
        if counts[host, core] != group.batches() or (host, core) not in group.cores
    ]
    if enqueues and told:
        yield known.WRONG_CORES.at(enqueues[-1].where, cores=_some(told))


def not_enqueued(group: Group) -> Iterator[Finding]:
    """What is dequeued has to be enqueued."""
    if group.of("dequeue") and not group.batches():
        yield known.NOT_ENQUEUED.at(group.of("dequeue")[0].where)


def not_dequeued(group: Group) -> Iterator[Finding]:
    """What is enqueued has to be dequeued."""
    dequeues = group.of("dequeue")
    if len(dequeues) < group.batches():
        yield known.NOT_DEQUEUED.at(
            group.of("enqueue")[-1].where,
            times=_times(group.batches()),
            dequeued=_times(len(dequeues)),
        )


def dequeued_too_often(group: Group) -> Iterator[Finding]:
    """Each batch is dequeued once."""
    dequeues = group.of("dequeue")
    if 0 < group.batches() < len(dequeues):
        yield known.DEQUEUED_TOO_OFTEN.at(
            dequeues[-1].where, times=_times(group.batches()), dequeued=_times(len(dequeues))
        )


def too_early(group: Group) -> Iterator[Finding]:
    """The first batch is enqueued before it is dequeued."""
    first = next((call for call in group.calls if call.kind != "apply_gradients"), None)
    if first is not None and first.kind == "dequeue" and group.batches():
        yield known.TOO_EARLY.at(first.where)


def not_applied(group: Group) -> Iterator[Finding]:
    """Each batch for training gets gradients."""
    trained, applied = group.batches("train"), group.of("apply_gradients")
    if len(applied) < trained:
        enqueue = [call for call in group.of("enqueue") if call.mode == "train"][-1]
        yield known.NOT_APPLIED.at(
            enqueue.where, times=_times(trained), applied=_times(len(applied))
        )


def applied_in_inference(group: Group) -> Iterator[Finding]:
    """No batch for inference gets gradients."""
    applied = group.of("apply_gradients")
    if applied and group.batches("inference") and not group.batches("train", "unknown"):
        yield known.APPLIED_IN_INFERENCE.at(applied[0].where)


def applied_too_often(group: Group) -> Iterator[Finding]:
    """Each batch for training gets gradients once."""
    trained, applied = group.batches("train"), group.of("apply_gradients")
    if 0 < trained < len(applied) and not group.batches("unknown"):
        yield known.APPLIED_TOO_OFTEN.at(
            applied[-1].where, times=_times(trained), applied=_times(len(applied))
        )


def undecided(group: Group) -> Iterator[Finding]:
    """Whether a batch is for training has to be known."""
    for call in group.of("enqueue"):
        if call.mode == "unknown":
            yield known.UNDECIDED.at(call.where)


def no_gradients(group: Group) -> Iterator[Finding]:
    """Some feature has to have a gradient."""
    for call in group.of("apply_gradients"):
        if call.zeros and all(call.zeros):
            yield known.NO_GRADIENTS.at(call.where)


def zero_moves(group: Group) -> Iterator[Finding]:
    """A feature without a gradient, with an optimizer for which zero is not nothing."""
    for call in group.of("apply_gradients"):
        if all(call.zeros):
            continue
        without: dict[str, list[str]] = {}
        for is_zero, (path, optimizer) in zip(call.zeros, group.features, strict=False):
            if is_zero and _moves(optimizer):
                without.setdefault(type(optimizer).__name__, []).append(path)
        for name, paths in without.items():
            yield known.ZERO_MOVES.at(call.where, features=_some(paths), optimizer=name)


def _moves(optimizer: Any) -> bool:
    is_still = type(optimizer).__name__ in ("SGD", "Adagrad")
    return not is_still or getattr(optimizer, "weight_decay_factor", None) is not None


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _some(texts: list[str], shown: int = 4) -> str:
    more = [f"and {len(texts) - shown} more"] if len(texts) > shown else []
    return ", ".join([*texts[:shown], *more])


RULES: Final[tuple[Callable[[Group], Iterator[Finding]], ...]] = (
    wrong_cores,
    not_enqueued,
    not_dequeued,
    dequeued_too_often,
    too_early,
    not_applied,
    applied_in_inference,
    applied_too_often,
    undecided,
    no_gradients,
    zero_moves,
)
