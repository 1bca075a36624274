"""What makes tf.data slow or unordered under determinism, and the rewrite that cures each.

A stage of a dataset uses an op -> the rule that knows the op -> its code, its words, its cure
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing about a dataset.

    Attributes:
        code: Stable identifier of the kind of finding.
        stage: The stage, such as ``map(augment) at train.py:12``.
        ops: The TensorFlow ops in it that are the cause.
        cause: What the stage does.
        cost: What that costs under determinism, in words.
        rewrite: What to write instead.
        slowdown: How many times longer the dataset takes with the switch on; None where that was
            not measured.
    """

    code: str
    stage: str
    ops: tuple[str, ...]
    cause: str
    cost: str
    rewrite: str
    slowdown: float | None = None

    def __str__(self) -> str:
        measured = "" if self.slowdown is None else f" (measured: {self.slowdown:.1f} times)"
        ops = f" [{', '.join(self.ops)}]" if self.ops else ""
        return (
            f"{self.code}: {self.stage} {self.cause}{ops}: {self.cost}{measured}\n"
            f"  rewrite: {self.rewrite}"
        )


@dataclass(frozen=True)
class Rule:
    """One kind of finding.

    Attributes:
        code: Its identifier.
        ops: A pattern of the ops that it is about.
        cause: What a stage with such an op does.
        rewrite: What to write instead.
    """

    code: str
    ops: str
    cause: str
    rewrite: str

    def knows(self, op: str) -> bool:
        """Whether an op is one of its own."""
        return re.fullmatch(self.ops, op) is not None


_STATELESS = (
    "draw with tf.random.stateless_* or tf.image.stateless_random_*, and give each element a seed "
    "of its own: tf.data.Dataset.zip((dataset, tf.data.Dataset.random(seed=1).batch(2)))"
)

HIDDEN_RANDOM = Rule(
    "DET001",
    "",
    "draws random numbers within a branch, a loop or a tf.function",
    f"{_STATELESS}; or draw before the tf.cond and use the number in it",
)
DEPENDENT_RANDOM = Rule(
    "DET002",
    "",
    "draws random numbers whose shape or bounds it computes first",
    f"{_STATELESS}; or draw with a shape that is known beforehand",
)
INTERLEAVED_RANDOM = Rule(
    "DET003",
    "",
    "draws random numbers in a parallel interleave",
    f"{_STATELESS}; or draw in a map after the interleave, which is split where it can be",
)
UNSEEDED = Rule(
    "DET020",
    "",
    "was made without a seed before determinism was on",
    "give it a seed, or make it after enable_op_determinism",
)
READ_BEFORE = Rule(
    "DET021",
    "",
    "was read before determinism was on",
    "make the dataset anew after enable_op_determinism, or read one that is derived from it, such "
    "as dataset.take(-1)",
)

SERIALISING = (
    Rule(
        "DET010",
        r"RngReadAndSkip|RngSkip|Stateful.*|NonDeterministicInts",
        "draws from a tf.random.Generator",
        f"{_STATELESS}; a map of its own for the Generator does not help",
    ),
    Rule(
        "DET011",
        r"GeneratorDataset",
        "reads a Python generator",
        "read what the generator reads with tf.data itself: from_tensor_slices for what fits into "
        "memory, TFRecordDataset or another reader for files; or from range(n) with "
        "tf.numpy_function(..., stateful=False) for an element by its number",
    ),
    Rule(
        "DET013",
        r"(Lookup|Mutable|Initialize|Anonymous).*Table.*",
        "looks up in a table",
        "look up after the dataset: a Keras StringLookup as the model's first layer; or compare "
        "with a constant vocabulary: tf.argmax(tf.equal(vocabulary, x))",
    ),
    Rule(
        "DET014",
        r"PyFunc|EagerPyFunc",
        "calls a Python function that may have a state",
        "tf.numpy_function(..., stateful=False), if what it returns depends on its arguments alone",
    ),
    Rule(
        "DET015",
        r"TensorDataset",
        "makes datasets by from_tensors",
        "tf.data.Dataset.from_tensor_slices([x]) in its place",
    ),
    Rule(
        "DET012",
        r".*Variable.*|Resource(Gather|Scatter|Apply|Strided).*",
        "reads or writes a tf.Variable",
        "pass a number: float(variable), if it does not change; a Keras Random* layer belongs into "
        "the model, or becomes tf.image.stateless_random_* with a seed for each element",
    ),
    Rule(
        "DET019",
        r".*",
        "has an op with a state",
        "do that after the dataset, or with an op that has no state",
    ),
)

ONE_SERIAL = "it runs one element at a time, whatever its num_parallel_calls"
PARTLY_SERIAL = "what they are computed from runs one element at a time"


def all_serial(stages: list[str]) -> str:
    """What a serialising op costs.

    Args:
        stages: The stages that were to run in parallel or ahead.
    """
    return f"the whole dataset runs one element at a time, and nothing ahead: {', '.join(stages)}"


UNORDERED = "its elements come in another order, or with other random numbers, in every run"


def rule_of(op: str) -> Rule:
    """The first rule that knows an op which serialises a dataset."""
    return next(rule for rule in SERIALISING if rule.knows(op))
