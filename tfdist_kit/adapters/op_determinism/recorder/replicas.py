"""Do all replicas hold the same weights? A digest in the graph, and a few bytes to each other.

    variables -> digests of this worker's copies -> one number -> do all workers have the same?
              -> only if not: each variable's digests -> which of them, on which workers

No value is exchanged, whatever the size of the variables. The workers tell each other through the
coordination service, so that a call adds no collective to the program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from tfdist_kit._errors import StrategyError, UsageError
from tfdist_kit.adapters._meeting import AbsentError, Group, Meeting, group_of
from tfdist_kit.adapters.op_determinism.recorder import digests
from tfdist_kit.adapters.op_determinism.recorder.collecting import named_variables

DEADLINE = 60.0
SHOWN = 8
Told = Mapping[str, Mapping[str, Any]]


def check_replicas(strategy: Any, variables: Iterable[Any]) -> None:
    """Check that every replica of every worker holds the same bits in each variable.

    Call it on all workers, between steps; every hundred steps, for example. It takes a few
    milliseconds. `tfdist_kit.testing.assert_replicas_agree` tells more, and exchanges values.

    Args:
        strategy: The strategy that the variables were made under.
        variables: The variables, in the same order on all workers.

    Raises:
        StrategyError: Some replicas differ; on all workers, with the same message.
        UsageError: There is no variable, or this is called in a graph.
    """
    import tensorflow as tf

    if not tf.executing_eagerly():
        raise UsageError(
            "check_replicas() is called in a graph",
            hint="call it between the steps, outside of any tf.function",
        )
    named = named_variables(variables)
    if not named:
        raise UsageError("check_replicas() was given no variable", hint="give model.variables")
    own = {name: _digests(strategy, variable) for name, variable in named}
    _compare(group_of(strategy), own)


def _digests(strategy: Any, variable: Any) -> list[str]:
    """Of this worker's copies."""
    inner = getattr(variable, "value", None)
    plain = variable if inner is None or callable(inner) else inner
    kind = digests.method()
    copies = strategy.experimental_local_results(plain)
    return [f"{int(digests.digest(copy, kind)) & (1 << 64) - 1:016x}" for copy in copies]


def _compare(group: Group, own: Mapping[str, list[str]]) -> None:
    meeting = Meeting(group, DEADLINE)
    try:
        told = meeting.tell(_summed(own))
        alike = len(set(told.values())) == 1 and all(len(set(each)) == 1 for each in own.values())
        # All hold this second round if one must: what a worker has of its own is told in the first.
        agreed = meeting.tell({"alike": alike})
        if all(each["alike"] for each in agreed.values()):
            return
        _raise(meeting.tell(dict(own)))
    except AbsentError as error:
        raise StrategyError(
            f"the replicas were not compared: {error} did not come within {DEADLINE:g} s",
            hint="every worker must call check_replicas(), the same number of times",
        ) from None


def _summed(own: Mapping[str, list[str]]) -> str:
    """One digest; workers may have different numbers of replicas."""
    content = repr([(name, sorted(set(copies))) for name, copies in own.items()])
    return hashlib.sha256(content.encode()).hexdigest()


def _raise(everywhere: Told) -> None:
    names = list(dict.fromkeys(name for told in everywhere.values() for name in told))
    unlike = [
        name
        for name in names
        if len({each for told in everywhere.values() for each in told.get(name, ("absent",))}) > 1
    ]
    lines = [f"  {name}: {_holders(everywhere, name)}" for name in unlike[:SHOWN]]
    if len(unlike) > SHOWN:
        lines.append(f"  and {len(unlike) - SHOWN} more")
    raise StrategyError(
        f"{len(unlike)} of {len(names)} variables differ between replicas\n" + "\n".join(lines),
        hint="look for an assign, a restore or an update outside strategy.run, or for gradients "
        "that are not reduced; tfdist determinism verify names the step",
    )


def _holders(everywhere: Told, name: str) -> str:
    """Who has which digest, such as ``ab12cd (worker:0), 98fe76 (worker:1)``."""
    holders: dict[str, list[str]] = {}
    for task, told in everywhere.items():
        found = "/".join(dict.fromkeys(each[:8] for each in told.get(name, ("absent",))))
        holders.setdefault(found, []).append(task)
    return ", ".join(f"{found} ({', '.join(tasks)})" for found, tasks in holders.items())
