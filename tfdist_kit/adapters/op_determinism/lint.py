"""What makes a dataset slow or unordered under determinism: found without running it.

a dataset -> its stages -> the ops of their functions -> rules -> findings
    -> (on request) how much longer it takes
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tfdist_kit import _read_datasets
from tfdist_kit._errors import UsageError
from tfdist_kit.adapters.op_determinism import functions, rules
from tfdist_kit.adapters.op_determinism.rules import Finding
from tfdist_kit.adapters.op_determinism.stages import Stage, stage_of, stages_of
from tfdist_kit.adapters.op_determinism.switch import is_enabled


def lint_dataset(dataset: Any, *, measure: bool = False, elements: int = 64) -> list[Finding]:
    """Find which stages and ops make a dataset slow or unordered under determinism.

    TensorFlow keeps the order, and pays with speed: without a word it runs a stage, or the whole
    dataset, one element at a time. That is found whether the switch is on or not; what stays
    unordered is found when it is on.

    Args:
        dataset: A `tf.data.Dataset`, as it is given to the training. It is not run.
        measure: Whether to read its first elements, twice with the switch off and twice with it
            on, and tell how many times longer the latter takes. What the dataset does is then done:
            its generators and Python functions run, its variables and files are written.
        elements: How many elements are read for that, at most.

    Returns:
        The findings, from the source to the end; empty for a dataset that loses nothing.

    Raises:
        UsageError: It is no `tf.data.Dataset`, or `elements` is not above 0.
        UnsupportedVersionError: TensorFlow's internals are not as expected.
    """
    if elements < 1:
        raise UsageError(f"elements is {elements}", hint="give a number above 0")
    stages = stages_of(dataset)
    found = list(_slow(stages))
    if is_enabled():
        for stage in stages:
            found += [*unseeded(stage), *_unseeded_function(stage)]
        found += read_before(dataset)
    if not (measure and found):
        return found
    from tfdist_kit.adapters.op_determinism.measuring import slowdown

    times = slowdown(dataset, elements)
    return [dataclasses.replace(finding, slowdown=times) for finding in found]


def _slow(stages: list[Stage]) -> Iterator[Finding]:
    ahead = [stage.name for stage in stages if stage.is_ahead]
    for stage in stages:
        if ops := ahead and functions.ops_with_state(stage.graphs):
            yield from _serialising(stage, ops, ahead)
        elif stage.is_parallel:
            yield from _serial(stage)


def _serialising(stage: Stage, ops: list[str], ahead: list[str]) -> Iterator[Finding]:
    if stage.kind == "from_generator":
        ops = ["GeneratorDataset"]
    by_rule: dict[rules.Rule, list[str]] = defaultdict(list)
    for op in ops:
        by_rule[rules.rule_of(op)].append(op)
    for rule, own in by_rule.items():
        yield _finding(rule, stage, own, rules.all_serial(ahead))


def _serial(stage: Stage) -> Iterator[Finding]:
    for graph in stage.graphs:
        rule, cost = rules.INTERLEAVED_RANDOM, rules.ONE_SERIAL
        if stage.kind == "interleave":
            ops = functions.random_ops(graph)
        elif ops := functions.hidden_random_ops(graph):
            rule = rules.HIDDEN_RANDOM
        else:
            ops = functions.dependent_random_ops(graph)
            rule, cost = rules.DEPENDENT_RANDOM, rules.PARTLY_SERIAL
        if ops:
            yield _finding(rule, stage, ops, cost)


def unseeded(stage: Stage) -> Iterator[Finding]:
    """What TensorFlow draws a seed for itself, because nobody had given one when it was made."""
    seeds: list[Any] = [getattr(stage.dataset, name, None) for name in ("_seed", "_seed2")]
    if all(hasattr(seed, "numpy") and int(seed.numpy()) == 0 for seed in seeds):
        yield _finding(rules.UNSEEDED, stage, [], rules.UNORDERED)


def _unseeded_function(stage: Stage) -> Iterator[Finding]:
    for graph in stage.graphs:
        if ops := functions.unseeded_ops(graph):
            yield _finding(rules.UNSEEDED, stage, ops, rules.UNORDERED)


def read_before(dataset: Any) -> Iterator[Finding]:
    """Whether a dataset was read before determinism was on, and goes on as it was read then."""
    line = _read_datasets.first_line(dataset)
    if line and depends_on_the_switch(dataset):
        read = dataclasses.replace(rules.READ_BEFORE, cause=f"{rules.READ_BEFORE.cause}, by {line}")
        yield _finding(read, stage_of(dataset), [], rules.UNORDERED)


def depends_on_the_switch(dataset: Any) -> bool:
    """Whether a dataset is read in another way with the switch on."""
    is_sloppy = dataset.options().deterministic is False
    return any(_depends(stage, is_sloppy) for stage in stages_of(dataset))


def _depends(stage: Stage, is_sloppy: bool) -> bool:
    if functions.ops_with_state(stage.graphs):
        return True
    drawn = any(functions.random_ops(graph) for graph in stage.graphs)
    return stage.is_parallel and (drawn or is_sloppy or stage.is_sloppy)


def _finding(rule: rules.Rule, stage: Stage, ops: list[str], cost: str) -> Finding:
    return Finding(rule.code, stage.name, tuple(ops), rule.cause, cost, rule.rewrite)
