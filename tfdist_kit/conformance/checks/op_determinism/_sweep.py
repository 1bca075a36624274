"""Ops that are run again and again on the same inputs, by family: what the sweep goes through.

Inputs are large enough that an op splits its work among threads, and no larger. The ops that are
known to differ are not here: see `_ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Case = Callable[[], Any]
Family = Mapping[str, Case]


class Inputs:
    """The same random inputs each time."""

    def __init__(self) -> None:
        self._state = np.random.RandomState(0)

    def floats(self, *shape: int) -> Any:
        """A tensor of normal random numbers, in single precision."""
        import tensorflow as tf

        return tf.constant(self._state.standard_normal(shape).astype("float32"))

    def below(self, limit: int, *shape: int, dtype: str = "int32") -> Any:
        """A tensor of whole numbers from 0 up to a limit."""
        import tensorflow as tf

        return tf.constant(self._state.randint(0, limit, shape).astype(dtype))


def gradient(function: Callable[..., Any], *inputs: Any) -> Case:
    """A case: the gradients of a function with respect to its inputs."""
    import tensorflow as tf

    def run() -> Any:
        with tf.GradientTape() as tape:
            for each in inputs:
                tape.watch(each)
            result = function(*inputs)
        return [tf.convert_to_tensor(each) for each in tape.gradient(result, inputs)]

    return run


def _reductions(inputs: Inputs) -> Family:
    import tensorflow as tf

    x = inputs.floats(256, 512)
    return {
        "reduce_sum": lambda: tf.reduce_sum(x),
        "reduce_sum of rows": lambda: tf.reduce_sum(x, 1),
        "reduce_sum of columns": lambda: tf.reduce_sum(x, 0),
        "reduce_mean": lambda: tf.reduce_mean(x),
        "reduce_prod": lambda: tf.reduce_prod(x / 2.0, 0),
        "reduce_logsumexp": lambda: tf.reduce_logsumexp(x),
        "reduce_std": lambda: tf.math.reduce_std(x),
        "norm": lambda: tf.norm(x),
        "cumsum": lambda: tf.cumsum(x, 1),
        "l2_loss": lambda: tf.nn.l2_loss(x),
    }


def _segments(inputs: Inputs) -> Family:
    import tensorflow as tf

    x, ids = inputs.floats(8192, 8), inputs.below(16, 8192)
    rows = tf.sort(ids)
    picked = inputs.below(8192, 8192)
    return {
        "segment_sum": lambda: tf.math.segment_sum(x, rows),
        "segment_mean": lambda: tf.math.segment_mean(x, rows),
        "segment_prod": lambda: tf.math.segment_prod(x, rows),
        "unsorted_segment_sum": lambda: tf.math.unsorted_segment_sum(x, ids, 16),
        "unsorted_segment_mean": lambda: tf.math.unsorted_segment_mean(x, ids, 16),
        "unsorted_segment_prod": lambda: tf.math.unsorted_segment_prod(x, ids, 16),
        "sparse segment_sum": lambda: tf.sparse.segment_sum(x, picked, rows),
        "sparse segment_mean": lambda: tf.sparse.segment_mean(x, picked, rows),
        "sparse segment_sqrt_n": lambda: tf.sparse.segment_sqrt_n(x, picked, rows),
        "segment_sum gradient": gradient(lambda x: tf.math.segment_sum(x, rows), x),
    }


def _scatters(inputs: Inputs) -> Family:
    import tensorflow as tf

    x, ids = inputs.floats(40000, 4), inputs.below(50, 40000)
    at, zeros = ids[:, None], tf.zeros([50, 4])
    variable = tf.Variable(zeros)

    def changed(method: str) -> Case:
        def run() -> Any:
            variable.assign(zeros)
            getattr(variable, method)(tf.IndexedSlices(x, ids))
            return variable.read_value()

        return run

    def changed_at(method: str) -> Case:
        def run() -> Any:
            variable.assign(zeros)
            getattr(variable, method)(at, x)
            return variable.read_value()

        return run

    return {
        "scatter_nd": lambda: tf.scatter_nd(at, x, [50, 4]),
        "tensor_scatter_nd_add": lambda: tf.tensor_scatter_nd_add(zeros, at, x),
        "tensor_scatter_nd_sub": lambda: tf.tensor_scatter_nd_sub(zeros, at, x),
        "tensor_scatter_nd_max": lambda: tf.tensor_scatter_nd_max(zeros, at, x),
        "Variable.scatter_add": changed("scatter_add"),
        "Variable.scatter_sub": changed("scatter_sub"),
        "Variable.scatter_max": changed("scatter_max"),
        "Variable.scatter_nd_add": changed_at("scatter_nd_add"),
        "Variable.scatter_nd_sub": changed_at("scatter_nd_sub"),
        "gather gradient": gradient(lambda table: tf.gather(table, ids) * x, inputs.floats(50, 4)),
        "gather_nd gradient": gradient(
            lambda table: tf.gather_nd(table, at) * x, inputs.floats(50, 4)
        ),
        "embedding_lookup gradient": gradient(
            lambda table: tf.nn.embedding_lookup(table, ids) * x, inputs.floats(50, 4)
        ),
    }


def _convolutions(inputs: Inputs) -> Family:
    import tensorflow as tf

    line, image, cube = (
        inputs.floats(4, 64, 8),
        inputs.floats(4, 24, 24, 8),
        inputs.floats(1, 8, 8, 8, 4),
    )
    one, two, three = (
        inputs.floats(3, 8, 8),
        inputs.floats(3, 3, 8, 8),
        inputs.floats(3, 3, 3, 4, 4),
    )
    depth, point = inputs.floats(3, 3, 8, 2), inputs.floats(1, 1, 16, 8)
    flat = inputs.floats(3, 3, 8)

    def transposed(image: Any, kernel: Any) -> Any:
        return tf.nn.conv2d_transpose(image, kernel, [4, 48, 48, 8], 2)

    def conv2d(image: Any, kernel: Any) -> Any:
        return tf.nn.conv2d(image, kernel, 1, "SAME")

    def depthwise(image: Any, kernel: Any) -> Any:
        return tf.nn.depthwise_conv2d(image, kernel, [1, 1, 1, 1], "SAME")

    def dilation(image: Any, kernel: Any) -> Any:
        return tf.nn.dilation2d(image, kernel, [1] * 4, "SAME", "NHWC", [1] * 4)

    def conv3d(cube: Any, kernel: Any) -> Any:
        return tf.nn.conv3d(cube, kernel, [1] * 5, "SAME")

    return {
        "conv1d": lambda: tf.nn.conv1d(line, one, 1, "SAME"),
        "conv2d": lambda: conv2d(image, two),
        "conv2d gradient": gradient(conv2d, image, two),
        "conv2d_transpose": lambda: transposed(image, two),
        "conv2d_transpose gradient": gradient(transposed, image, two),
        "conv3d": lambda: conv3d(cube, three),
        "conv3d gradient": gradient(conv3d, cube, three),
        "depthwise_conv2d": lambda: depthwise(image, depth),
        "depthwise_conv2d gradient": gradient(depthwise, image, depth),
        "separable_conv2d": lambda: tf.nn.separable_conv2d(image, depth, point, [1] * 4, "SAME"),
        "dilation2d": lambda: dilation(image, flat),
        "dilation2d gradient": gradient(dilation, image, flat),
    }


def _pools(inputs: Inputs) -> Family:
    import tensorflow as tf

    image, cube = inputs.floats(4, 24, 24, 8), inputs.floats(1, 8, 8, 8, 4)

    def largest(image: Any) -> Any:
        return tf.nn.max_pool2d(image, 3, 1, "SAME")

    def mean(image: Any) -> Any:
        return tf.nn.avg_pool2d(image, 3, 1, "SAME")

    def deep(cube: Any) -> Any:
        return tf.nn.max_pool3d(cube, 2, 1, "SAME")

    return {
        "max_pool2d": lambda: largest(image),
        "max_pool2d gradient": gradient(largest, image),
        "avg_pool2d": lambda: mean(image),
        "avg_pool2d gradient": gradient(mean, image),
        "max_pool3d gradient": gradient(deep, cube),
        "max_pool_with_argmax": lambda: tf.nn.max_pool_with_argmax(image, 2, 2, "SAME"),
    }


def _norms(inputs: Inputs) -> Family:
    import tensorflow as tf

    image, scale, offset = inputs.floats(8, 16, 16, 8), inputs.floats(8), inputs.floats(8)

    def normed(image: Any, scale: Any, offset: Any) -> Any:
        return tf.compat.v1.nn.fused_batch_norm(image, scale, offset)[0] ** 2

    return {
        "fused_batch_norm": lambda: normed(image, scale, offset),
        "fused_batch_norm gradient": gradient(normed, image, scale, offset),
        "moments": lambda: tf.nn.moments(image, [0, 1, 2]),
        "l2_normalize": lambda: tf.nn.l2_normalize(image, -1),
        "local_response_normalization": lambda: tf.nn.lrn(image),
    }


def _images(inputs: Inputs) -> Family:
    import tensorflow as tf

    image, boxes = inputs.floats(1, 24, 24, 3), abs(inputs.floats(100, 4)) / 3.0
    which, scores = tf.zeros(100, tf.int32), inputs.floats(100)

    def resized(method: str) -> Callable[[Any], Any]:
        return lambda image: tf.image.resize(image, [37, 41], method)

    def cropped(image: Any, boxes: Any) -> Any:
        return tf.image.crop_and_resize(image, boxes, which, [14, 14])

    return {
        "resize bilinear": lambda: resized("bilinear")(image),
        "resize bilinear gradient": gradient(resized("bilinear"), image),
        "resize nearest gradient": gradient(resized("nearest"), image),
        "resize bicubic gradient": gradient(resized("bicubic"), image),
        "crop_and_resize": lambda: cropped(image, boxes),
        "crop_and_resize gradient": gradient(cropped, image, boxes),
        "adjust_contrast": lambda: tf.image.adjust_contrast(image, 2.0),
        "adjust_hue": lambda: tf.image.adjust_hue(image, 0.2),
        "adjust_saturation": lambda: tf.image.adjust_saturation(image, 0.5),
        "extract_patches": lambda: tf.image.extract_patches(
            image, [1, 3, 3, 1], [1] * 4, [1] * 4, "SAME"
        ),
        "non_max_suppression": lambda: tf.image.non_max_suppression(boxes, scores, 50),
    }


def _matrices(inputs: Inputs) -> Family:
    import tensorflow as tf

    a, b, many = inputs.floats(96, 96), inputs.floats(96, 96), inputs.floats(8, 24, 24)
    positive = many @ tf.transpose(many, [0, 2, 1]) + 24.0 * tf.eye(24)
    return {
        "matmul": lambda: a @ b,
        "matmul gradient": gradient(tf.matmul, a, b),
        "batch matmul": lambda: many @ many,
        "einsum": lambda: tf.einsum("bij,bkj->ik", many, many),
        "tensordot": lambda: tf.tensordot(many, many, [[0, 1], [0, 1]]),
        "svd": lambda: tf.linalg.svd(many),
        "qr": lambda: tf.linalg.qr(many),
        "cholesky": lambda: tf.linalg.cholesky(positive),
        "eigh": lambda: tf.linalg.eigh(positive),
        "inv": lambda: tf.linalg.inv(positive),
        "solve": lambda: tf.linalg.solve(positive, many),
    }


def _sparse(inputs: Inputs) -> Family:
    import tensorflow as tf

    whole = inputs.floats(64, 64) * tf.cast(inputs.below(3, 64, 64) == 0, tf.float32)
    sparse, dense = tf.sparse.from_dense(whole), inputs.floats(64, 32)

    def product(values: Any, dense: Any) -> Any:
        return tf.sparse.sparse_dense_matmul(sparse.with_values(values), dense)

    return {
        "sparse_dense_matmul": lambda: product(sparse.values, dense),
        "sparse_dense_matmul gradient": gradient(product, sparse.values, dense),
        "sparse reduce_sum": lambda: tf.sparse.reduce_sum(sparse, 1),
        "sparse softmax": lambda: tf.sparse.softmax(sparse).values,
    }


def _losses(inputs: Inputs) -> Family:
    import tensorflow as tf

    labels, logits = tf.nn.softmax(inputs.floats(64, 200)), inputs.floats(64, 200)
    classes = inputs.below(200, 64)

    def entropy(logits: Any) -> Any:
        return tf.nn.softmax_cross_entropy_with_logits(labels, logits)

    def sparse_entropy(logits: Any) -> Any:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(classes, logits)

    return {
        "softmax cross entropy": lambda: entropy(logits),
        "softmax cross entropy gradient": gradient(entropy, logits),
        "sparse softmax cross entropy": lambda: sparse_entropy(logits),
        "sparse softmax cross entropy gradient": gradient(sparse_entropy, logits),
    }


def _others(inputs: Inputs) -> Family:
    import tensorflow as tf

    x, ids = inputs.floats(64, 256), inputs.below(50, 20000)
    limits = tf.constant(-1.0), tf.constant(1.0)

    def biased(x: Any, bias: Any) -> Any:
        return tf.nn.bias_add(x, bias)

    return {
        "softmax": lambda: tf.nn.softmax(x),
        "bias_add gradient": gradient(biased, x, inputs.floats(256)),
        "fake_quant gradient": gradient(tf.quantization.fake_quant_with_min_max_vars, x, *limits),
        "rfft": lambda: tf.signal.rfft(x),
        "top_k": lambda: tf.math.top_k(x, 9),
        "bincount": lambda: tf.math.bincount(ids),
    }


def families() -> Mapping[str, Family]:
    """All cases."""
    inputs = Inputs()
    return {
        "reductions": _reductions(inputs),
        "segments": _segments(inputs),
        "scatters": _scatters(inputs),
        "convolutions": _convolutions(inputs),
        "pools": _pools(inputs),
        "norms": _norms(inputs),
        "images": _images(inputs),
        "matrices": _matrices(inputs),
        "sparse": _sparse(inputs),
        "losses": _losses(inputs),
        "others": _others(inputs),
    }
