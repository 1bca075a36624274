"""What the place of a first difference tells about its cause, and what to do about it.

All that comes before it was the same, bit by bit: that leaves little.
"""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "init",
    "input order",
    "input values",
    "forward",
    "gradient",
    "reduction",
    "update",
    "length",
]
CAUSES: dict[Kind, tuple[str, str]] = {
    "init": (
        "the variables start out different: an initializer is not seeded, or another checkpoint "
        "was loaded",
        "call tfdist_kit.enable_op_determinism(seed) first of all: Keras draws from Python's "
        "random, which tf.random.set_seed does not seed",
    ),
    "input order": (
        "the same examples come in another order: a shuffle that is not seeded, or a parallel "
        "stage with deterministic=False",
        "give shuffle and numpy.random.default_rng a seed, leave deterministic=False out, and "
        "list files in order; lint_dataset(dataset) names the stage",
    ),
    "input values": (
        "the examples themselves differ: an augmentation draws without a seed for each element, "
        "or shares the state of a generator between parallel calls",
        "draw with tf.random.stateless_* or tf.image.stateless_random_* and a seed of each "
        "element's own; lint_dataset(dataset) names the stage",
    ),
    "forward": (
        "the same weights and the same batch gave another loss: an op of the forward pass is not "
        "deterministic, or draws without a seed (dropout)",
        "look among the layers for tf.math.bincount with weights or a sparse product "
        "(deterministic only with one intra-op thread), for unseeded dropout, and for state that "
        "is in no weight",
    ),
    "gradient": (
        "the same loss gave other gradients: an op of the backward pass is not deterministic",
        "call tfdist_kit.enable_op_determinism(seed); without it the gradient of "
        "tf.image.crop_and_resize and sums into variables run in any order",
    ),
    "reduction": (
        "the same gradients of each replica were summed to other values: the collective adds up in "
        "another order, or another replica's gradients differ",
        "see whether another rank differs earlier; set the communication to RING on both sides, "
        "and keep the number of workers",
    ),
    "update": (
        "the same gradients gave other weights: the optimizer's update is not deterministic (a "
        "scatter with duplicate indices), or the weights were changed from outside after the step",
        "call tfdist_kit.enable_op_determinism(seed); look for callbacks, and for code between the "
        "steps, that assign to weights",
    ),
    "length": (
        "one run has more steps than the other, and until its end nothing differs",
        "see why the one stopped: early stopping, another size of the data, or a failure",
    ),
}
_NO_INIT = (
    "the first step gave another loss, and the start values of the weights are not in the trace: "
    "an initializer that is not seeded, or an op of the forward pass",
    "seed first (tfdist_kit.enable_op_determinism), and build the model before fit so that the "
    "start values are recorded",
)


def advice(
    kind: Kind, *, has_init: bool, step: int, drawn: tuple[str, ...], unlike: tuple[str, ...] = ()
) -> tuple[str, str]:
    """The likely cause, and the cure.

    Args:
        kind: Where the first difference is.
        has_init: Whether the start values of the weights were recorded.
        step: In which step.
        drawn: The random generators whose state differed at the start.
        unlike: The keys of the manifests that differ.
    """
    cause, cure = CAUSES[kind]
    if kind == "forward" and step == 0 and not has_init:
        cause, cure = _NO_INIT[0], f"{_NO_INIT[1]}; else {cure}"
    if drawn and kind in ("init", "input order", "input values", "forward"):
        cause += f"; the state of {' and '.join(drawn)}'s random numbers differed at the start"
    if unlike:
        cause = f"the runs are not set up alike ({', '.join(unlike)}), which may be all; or {cause}"
        cure = f"set both up alike; if they still part, {cure}"
    return cause, cure
