"""Ops that are not deterministic although the switch is on, and of which TensorFlow says nothing.

    KNOWN: the op, when, the cure -> watch: TensorFlow's Python function for it is wrapped
        -> the program calls it in that way -> one warning with the user's line

It is a table of what was seen, on CPUs, in TensorFlow 2.21; there may be more.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tfdist_kit.adapters.op_determinism.facts import cpus
from tfdist_kit.adapters.op_determinism.switch import is_enabled
from tfdist_kit.adapters.op_determinism.telling import tell

_OPS = "tensorflow.python.ops"
_RAW = "tf.raw_ops"


@dataclass(frozen=True)
class KnownOp:
    """An op that is not deterministic with the switch on.

    Attributes:
        op: Its name in `tf.raw_ops`.
        use: What it is called through, in words.
        when: When it is not deterministic.
        cure: What to write instead.
        homes: The modules whose function makes the op, and the function's name.
        applies: Whether it is not deterministic with these arguments.
        versions: The versions of TensorFlow in which that was seen.
        is_threads: Whether one intra-op thread cures it.
    """

    op: str
    use: str
    when: str
    cure: str
    homes: tuple[tuple[str, str], ...]
    applies: Callable[[Mapping[str, Any]], bool]
    versions: str = "2.21"
    is_threads: bool = False


def _is_weighted(given: Mapping[str, Any]) -> bool:
    """Whether float weights are added up by several threads: rows are counted apart."""
    import tensorflow as tf

    weights = tf.convert_to_tensor(given["weights"])
    rank = tf.convert_to_tensor(given.get("input", given.get("arr"))).shape.rank
    return weights.dtype.is_floating and weights.shape.num_elements() != 0 and rank in (None, 1)


def _is_transposed(given: Mapping[str, Any]) -> bool:
    return bool(given["transpose_a"] or given["adjoint_a"])


def _is_unseeded(given: Mapping[str, Any]) -> bool:
    return not (given["seed"] or given["seed2"])


_SUM_INSTEAD = "tf.math.unsorted_segment_sum(weights, arr, number of bins)"
_SEED = "give it a seed other than 0"

KNOWN = (
    KnownOp(
        "DenseBincount",
        "tf.math.bincount",
        "float weights on a flat input",
        _SUM_INSTEAD,
        ((f"{_OPS}.gen_math_ops", "dense_bincount"), (_RAW, "DenseBincount")),
        _is_weighted,
        is_threads=True,
    ),
    KnownOp(
        "Bincount",
        "tf.raw_ops.Bincount",
        "float weights",
        _SUM_INSTEAD,
        ((f"{_OPS}.gen_math_ops", "bincount"), (_RAW, "Bincount")),
        _is_weighted,
        is_threads=True,
    ),
    KnownOp(
        "SparseMatrixMatMul",
        "a product of a CSR sparse matrix",
        "transpose_a or adjoint_a",
        "tf.raw_ops.SparseMatrixTranspose first, and the product without them",
        (
            (f"{_OPS}.linalg.sparse.gen_sparse_csr_matrix_ops", "sparse_matrix_mat_mul"),
            (_RAW, "SparseMatrixMatMul"),
        ),
        _is_transposed,
        is_threads=True,
    ),
    KnownOp(
        "FractionalAvgPool",
        "tf.nn.fractional_avg_pool",
        "no seed",
        _SEED,
        ((f"{_OPS}.gen_nn_ops", "fractional_avg_pool"), (_RAW, "FractionalAvgPool")),
        _is_unseeded,
    ),
    KnownOp(
        "FractionalMaxPool",
        "tf.raw_ops.FractionalMaxPool",
        "no seed",
        f"{_SEED}, and deterministic=True; tf.nn.fractional_max_pool does that itself",
        ((f"{_OPS}.gen_nn_ops", "fractional_max_pool"), (_RAW, "FractionalMaxPool")),
        _is_unseeded,
    ),
    KnownOp(
        "NonDeterministicInts",
        "tf.raw_ops.NonDeterministicInts",
        "always",
        "tf.random.uniform or tf.random.stateless_uniform, with dtype=tf.int32 and a maxval",
        (
            (f"{_OPS}.gen_stateful_random_ops", "non_deterministic_ints"),
            (_RAW, "NonDeterministicInts"),
        ),
        lambda _: True,
    ),
)


def watch(on_known: str) -> None:
    """Tell of each such op where the program uses it; for good, and only while the switch is on.

    Args:
        on_known: ``"warn"``, or ``"refuse"`` to raise there.
    """
    import tensorflow as tf

    for known in KNOWN:
        for module, name in known.homes:
            home = tf.raw_ops if module == _RAW else importlib.import_module(module)
            if original := getattr(home, name, None):
                original = getattr(original, "tfdist_original", original)
                setattr(home, name, _watched(original, known, on_known))


def _watched(original: Callable[..., Any], known: KnownOp, on_known: str) -> Callable[..., Any]:
    import tensorflow as tf

    signature = inspect.signature(original)

    @functools.wraps(original)
    def make_op(*args: Any, **kwargs: Any) -> Any:
        if is_enabled() and _tells(known, signature, args, kwargs):
            tell(
                f"{known.use} is not deterministic ({known.when}), although op determinism is on",
                known.cure,
                refuses=on_known == "refuse",
            )
        return original(*args, **kwargs)

    make_op.tfdist_original = original  # type: ignore[attr-defined]
    # A function of a user's that is traced must not have this one translated.
    watched: Callable[..., Any] = tf.autograph.experimental.do_not_convert(make_op)
    watched.tfdist_original = original  # type: ignore[attr-defined]
    return watched


def _tells(
    known: KnownOp, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    import tensorflow as tf

    threads = tf.config.threading.get_intra_op_parallelism_threads() or cpus()
    if known.is_threads and threads == 1:
        return False
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # TensorFlow's own function says so
        return False
    bound.apply_defaults()
    return known.applies(bound.arguments)
