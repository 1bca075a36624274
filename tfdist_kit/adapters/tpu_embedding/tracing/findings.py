"""What `check_step` can find: a mistake is known beforehand, a finding is one place of it.

    _mistake(number, what, cure) -> Mistake, kept in MISTAKES
    Mistake.at(where, ...)       -> Finding

The words are written once, here. Codes never change their meaning, and are never used again.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template
from typing import Final


@dataclass(frozen=True)
class Finding:
    """A mistake in one place of a step.

    Attributes:
        code: Stable identifier of the kind of mistake, ``EMB`` and three digits.
        what: What is wrong, and what a TPU does with it.
        cure: What to do about it.
        where: File and line of the program, ``file:line``; empty where it is not known.
        words: What TensorFlow, or whoever raised an error, said; empty if nothing was raised.
        step: The name of the step; empty if it is about all of them.
    """

    code: str
    what: str
    cure: str
    where: str = ""
    words: str = ""
    step: str = ""

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.what}"]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.words:
            lines.append("  error: " + self.words.replace("\n", "\n    "))
        return "\n".join([*lines, f"  cure: {self.cure}"])


@dataclass(frozen=True)
class Mistake:
    """A kind of mistake; ``$name`` in its words stands for a detail of the place."""

    code: str
    what: str
    cure: str

    def at(self, where: str = "", *, words: str = "", **details: object) -> Finding:
        """The finding that this mistake was made at `where`."""
        return Finding(
            code=self.code,
            what=Template(self.what).substitute(details),
            cure=Template(self.cure).substitute(details),
            where=where,
            words=words,
        )


MISTAKES: Final[dict[str, Mistake]] = {}
"""Every mistake that `check_step` knows, by code."""


def _mistake(number: int, what: str, cure: str) -> Mistake:
    code = f"EMB{number:03d}"
    if code in MISTAKES:
        raise ValueError(f"the code {code} is already taken by {MISTAKES[code].what!r}")
    MISTAKES[code] = Mistake(code, what, cure)
    return MISTAKES[code]


# What the graph shows, and TensorFlow does not notice.
NO_CALLS = _mistake(
    1,
    "the step does not use an embedding of the TPU",
    "make the embedding in the scope of the strategy that make is given, and call enqueue, dequeue "
    "and apply_gradients in the step",
)
NOT_APPLIED = _mistake(
    2,
    "enqueue with training=True $times, but apply_gradients $applied: the TPU waits for gradients, "
    "and raises or hangs",
    "call apply_gradients once for each batch, or enqueue it with training=False",
)
APPLIED_IN_INFERENCE = _mistake(
    3,
    "apply_gradients after enqueue with training=False: the TPU may hang",
    "enqueue with training=True, or leave apply_gradients out",
)
NOT_ENQUEUED = _mistake(
    4,
    "dequeue without enqueue: the TPU waits for ever for a batch",
    "enqueue a batch in the same loop, before strategy.run",
)
NOT_DEQUEUED = _mistake(
    5,
    "enqueue $times, but dequeue $dequeued: the queue of the TPU fills up, and enqueue then waits "
    "for ever",
    "call dequeue once for each batch, inside strategy.run",
)
DEQUEUED_TOO_OFTEN = _mistake(
    6,
    "dequeue $dequeued, but enqueue $times: the TPU waits for ever for another batch",
    "call dequeue once in the function that strategy.run runs, and use its result again",
)
APPLIED_TOO_OFTEN = _mistake(
    7,
    "apply_gradients $applied, but enqueue with training=True $times: the TPU takes gradients once "
    "for each batch",
    "add up the gradients of a batch, and call apply_gradients once",
)
WRONG_CORES = _mistake(
    8,
    "enqueue does not give each core one batch: $cores",
    "give enqueue what the distributed dataset gives; or, with device=, call it once for each of "
    "strategy.extended.worker_devices",
)
NO_GRADIENTS = _mistake(
    9,
    "apply_gradients gets nothing but zeros, for every feature: the tables never learn",
    "call tape.watch(activations) right after dequeue, inside the tape; and compute the loss from "
    "the activations",
)
ZERO_MOVES = _mistake(
    10,
    "no gradient for $features: with a gradient of zero, $optimizer still changes the rows that "
    "were looked up",
    "compute the loss from that feature, too; or give its table SGD or Adagrad, which leave such "
    "rows as they are",
)
OTHER_LOOP = _mistake(
    11,
    "$calls are not in the same loop, so that one is done more often than the other",
    "call enqueue and strategy.run in the same body of the same loop",
)
UNDECIDED = _mistake(
    12,
    "whether this batch is for training is decided when the step runs, so it cannot be checked "
    "against apply_gradients",
    "make two functions, one that trains and one that evaluates, each with a constant training=",
)
CONDITIONAL = _mistake(
    13,
    "$calls are not under the same conditions, so it cannot be checked whether they belong "
    "together",
    "make the condition a Python value, or put enqueue and strategy.run under the same one",
)
OUTSIDE_RUN = _mistake(
    14,
    "$call is called outside strategy.run: a TPU has it inside only",
    "call it in the function that strategy.run runs",
)
TOO_EARLY = _mistake(
    15,
    "dequeue comes before the first enqueue: the TPU waits for ever, unless a batch was enqueued "
    "before the step",
    "enqueue the batch before strategy.run",
)
NOT_A_FUNCTION = _mistake(
    16,
    "the step is no tf.function, nor is what it gives to strategy.run: a TPUStrategy does not run "
    "eagerly",
    "decorate the step with @tf.function",
)
FETCHED = _mistake(
    17,
    "the data set for enqueue was distributed so that it is fetched to the TPU ($features), while "
    "enqueue takes it from the host",
    "distribute it with options=tf.distribute.InputOptions(experimental_fetch_to_device=False)",
)
INITIALIZER_CLASS = _mistake(
    18,
    "the initializer of table $table is the class $name, not an instance: the TPU's build calls it "
    "with a shape, and fails",
    "make an instance: $name()",
)
PROTOBUF = _mistake(
    19,
    "with the installed protobuf $version, build fails on a TPU: TensorFlow assigns a bool to an "
    "enum. Here it was cured, to check the rest",
    "make the embedding with tfdist_kit.tpu_embedding; or give each optimizer "
    "low_dimensional_packing_status=0",
)

# What TensorFlow raises while the step is made or traced.
RAISED = _mistake(
    50,
    "$error was raised, so the step is not traced further",
    "see the words of the error",
)
STRUCTURE = _mistake(
    51,
    "what was given does not have the structure of feature_config",
    "give enqueue, weights and apply_gradients one value for each feature, nested as in "
    "feature_config; and build one tf.TensorShape for each",
)
SHAPE_CONFLICT = _mistake(
    52,
    "a feature has another shape than before. FeatureConfig.output_shape goes first, then what "
    "build was given, then what the first enqueue gave; the last dimension is left out, and the "
    "others are those of one core",
    "give the feature the same shape in all three, and in every step",
)
SHAPE_UNKNOWN = _mistake(
    53,
    "the shape of a feature for one core is not known, which the TPU needs",
    "batch with drop_remainder=True, and repeat() the data, without which several hosts, and "
    "`for ... in iterator`, do not know it; or set output_shape in FeatureConfig, or call build "
    "with the shapes",
)
INPUT_SHAPE = _mistake(
    54,
    "a feature has a rank or a last dimension that enqueue does not take",
    "dense: [batch], or [..., 1]; sparse: rank 2 or more; ragged: rank 2",
)
WEIGHTS = _mistake(
    55,
    "weights do not fit their features",
    "give weights of the same type as the ids (sparse or ragged), and None for dense features",
)
GRADIENTS = _mistake(
    56,
    "a gradient is not a tensor of the shape of its activation",
    "give apply_gradients what tape.gradient(loss, activations) gives",
)
UNBUILT = _mistake(
    57,
    "the embedding is used before it is built: nothing was enqueued yet",
    "call enqueue before strategy.run; or build, with the shapes of the features",
)
NESTED_ENQUEUE = _mistake(
    58,
    "enqueue is inside a loop, a condition or a tf.function inside strategy.run, from which a TPU "
    "cannot take it",
    "call enqueue before strategy.run; or directly in the function that it runs",
)
INDIRECT_INPUT = _mistake(
    59,
    "enqueue inside strategy.run got a computed value; there it takes the arguments of the "
    "function only, as they are",
    "compute it in the data set; or call enqueue before strategy.run",
)
NOT_A_TPU = _mistake(
    60,
    "device= does not name a core of the TPU",
    "use one of strategy.extended.worker_devices",
)
SECOND_EMBEDDING = _mistake(
    61,
    "a second embedding is built for the same TPU, which has one",
    "put all features and tables into one embedding",
)
OUTSIDE_SCOPE = _mistake(
    62,
    "the embedding was made outside the strategy's scope, so it is not for the TPU",
    "make it inside `with strategy.scope():`",
)
FLAG_IS_TENSOR = _mistake(
    63,
    "a tensor is used as a Python bool; if it is training=, that is decided when the step runs, "
    "which enqueue does not take",
    "make two functions, one that trains and one that evaluates, each with a constant training=",
)
OTHER_HOST = _mistake(
    64,
    "something is to be done now on a made-up host beyond the first, where there is nothing",
    "give check_step the function that makes the dataset, as inputs; and assign to variables "
    "inside the step only",
)
NOT_EAGER = _mistake(
    65,
    "something of the TPU is to be done eagerly",
    "do it inside a tf.function that make returns as a step",
)
OPTIMIZER = _mistake(
    66,
    "a table has an optimizer that a TPU's embedding does not have",
    "use one of tf.tpu.experimental.embedding (SGD, Adagrad, AdagradMomentum, Adam, FTRL), for "
    "the embedding or for each table",
)
LAMBDA = _mistake(
    67,
    "the tf.function around strategy.run is a lambda, whose name TensorFlow cannot use for the "
    "operations of a TPU",
    "write it with def",
)
