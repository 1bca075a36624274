"""What shows on a GPU only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tfdist_kit.conformance.checks.op_determinism._ops import (
    EXAMPLE,
    SEED,
    prepared,
    results,
    search,
)
from tfdist_kit.conformance.checks.op_determinism._sweep import Inputs, gradient
from tfdist_kit.conformance.stage import Stage

Ops = Mapping[str, Callable[[], Any]]


def threads(stage: Stage) -> None:
    """Sums whose order the threads of a GPU decide, without the switch and with it."""
    import tensorflow as tf

    prepared()
    inputs = Inputs()
    with tf.device("GPU:0"):
        ids, values = inputs.below(8, 200_000), inputs.floats(200_000)
        labels, logits = inputs.floats(1, 10_000), inputs.floats(1, 10_000)
        cases = {
            "unsorted_segment_sum": lambda: tf.math.unsorted_segment_sum(values, ids, 8),
            "bias_add gradient": gradient(
                lambda bias: tf.nn.bias_add(inputs_of_bias, bias), inputs.floats(8)
            ),
            "cross entropy": lambda: tf.nn.softmax_cross_entropy_with_logits(labels, logits),
        }
        inputs_of_bias = inputs.floats(20_000, 8)
        stage.say("before", **{name: search(case) for name, case in cases.items()})
        stage.subject.enable_op_determinism(SEED, late=True)
        stage.say("with", **{name: len(results(case, 20)) for name, case in cases.items()})


def _unimplemented() -> Ops:
    """Ops that have no kernel for a GPU that gives the same bits each time."""
    import tensorflow as tf

    inputs, raw = Inputs(), tf.raw_ops
    image, boxes = inputs.floats(1, 24, 24, 4), abs(inputs.floats(10, 4)) / 3.0
    which, kernel = tf.zeros(10, tf.int32), inputs.floats(3, 3, 4)
    ids, weights = inputs.below(8, 1000), inputs.floats(1000)
    sparse, limits = tf.sparse.eye(24), (tf.constant(-1.0), tf.constant(1.0))

    def dilated(image: Any, kernel: Any) -> Any:
        return tf.nn.dilation2d(image, kernel, [1] * 4, "SAME", "NHWC", [1] * 4)

    def nearest(image: Any) -> Any:
        return tf.image.resize(image, [37, 41], "nearest")

    def cropped(image: Any, boxes: Any) -> Any:
        return tf.image.crop_and_resize(image, boxes, which, [14, 14])

    def largest(image: Any) -> Any:
        return tf.nn.max_pool_with_argmax(image, 2, 2, "SAME")[0]

    def normed(image: Any) -> Any:
        ones = tf.ones(4)
        return tf.compat.v1.nn.fused_batch_norm(image, ones, ones, ones, ones, is_training=False)[0]

    return {
        "AdjustContrast": lambda: tf.image.adjust_contrast(image[..., :3], 2.0),
        "ResizeNearestNeighborGrad": gradient(nearest, image),
        "SparseTensorDenseMatMul": lambda: tf.sparse.sparse_dense_matmul(sparse, image[0, 0]),
        "FusedBatchNormGrad without training": gradient(normed, image),
        "Dilation2DBackprop": gradient(dilated, image, kernel),
        "MaxPoolGradWithArgmax": gradient(largest, image),
        "Svd of one column": lambda: tf.linalg.svd(inputs.floats(2, 9, 1)),
        "Bincount": lambda: raw.Bincount(arr=ids, size=8, weights=weights),
        "DenseBincount": lambda: raw.DenseBincount(input=ids, size=8, weights=weights),
        "FakeQuantWithMinMaxVarsGradient": gradient(
            tf.quantization.fake_quant_with_min_max_vars, weights, *limits
        ),
        "CropAndResizeGrad": gradient(cropped, image, boxes),
    }


def unimplemented(stage: Stage) -> None:
    """Those, with the switch on."""
    import tensorflow as tf

    prepared()
    stage.subject.enable_op_determinism(SEED)
    with tf.device("GPU:0"):
        for name, run in _unimplemented().items():
            try:
                run()
            except Exception as error:
                stage.say("op", name=name, raised=type(error).__name__)
            else:
                stage.say("op", name=name, raised="")


def example_without(stage: Stage) -> None:
    """The page's example without the switch, until it fails."""
    import tensorflow as tf

    prepared()
    with tf.device("GPU:0"):
        for _ in range(200):
            try:
                exec(EXAMPLE, {"tf": tf})  # the page's own lines are what is checked
            except tf.errors.InvalidArgumentError:
                stage.say("failed")
                return
