"""Keras 3 training on several workers.

Keras 3 builds a model from its first batch and averages each batch's logs over the replicas. Both
fail under a ``MultiWorkerMirroredStrategy`` that spans workers, and so ``fit`` and ``evaluate``
do. Nor does ``compile`` enter the scope that the model was made in. ``enable_multi_worker()``
replaces these steps::

    compile -> in the model's scope, as Keras 2 does
    fit -> build the model from the dataset's spec       (no batch is read, no collective)
        -> train_function: forward, backward, update     (Keras and TensorFlow, unchanged)
        -> average the logs of one execution             (one all-reduce for all of them)
        -> metrics of the epoch, weights, history        (Keras and TensorFlow, unchanged)

Under `tfdist run`, each batch is also reported as progress. Losses, gradients, metrics and data are
never touched, and every other strategy is left to the original code. Keras' private names are
looked up in ``_plan`` alone.

With the same number of examples on each replica, the weights, loss, metrics and history are those
of one process that trains on the whole batch, up to rounding. By design of Keras they differ in
batches that do not divide by the replicas (each replica's mean counts the same), with gradient
clipping (of a replica's gradient), with ``BatchNormalization`` unless ``synchronized=True``, with
``Dropout`` (all replicas draw the same numbers), and in the logs that callbacks see after a batch
(means of the replicas' own results).
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

from tfdist_kit._errors import MissingDependencyError, StrategyError, UnsupportedVersionError
from tfdist_kit.launcher.inside import progress

__all__ = ["disable_multi_worker", "enable_multi_worker", "is_enabled"]

_replaced: list[tuple[Any, str, Any]] = []
_MISSING = object()
_HINT = "use Keras 3.10 to 3.15, tf_keras, or a custom training loop"


def enable_multi_worker() -> None:
    """Make Keras 3 train, evaluate and predict under a multi-worker strategy in this process.

    Call it in every worker, before or after the strategy is made. It changes nothing when called
    again, or where Keras needs no help (Keras 2, or a Keras that averages over workers itself).

    Raises:
        MissingDependencyError: Keras is not installed.
        StrategyError: Keras runs on another backend than TensorFlow.
        UnsupportedVersionError: Keras' internals are not as expected; nothing was changed.
    """
    if is_enabled():
        return
    for owner, name, replacement in _plan():
        _replaced.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, replacement)


def disable_multi_worker() -> None:
    """Undo ``enable_multi_worker()``; functions that a model has already made stay as they are."""
    while _replaced:
        owner, name, original = _replaced.pop()
        if original is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


def is_enabled() -> bool:
    """Whether functions of Keras are replaced at present."""
    return bool(_replaced)


def _plan() -> list[tuple[Any, str, Any]]:
    """What to replace, as (owner, name, replacement); nothing where Keras needs no help."""
    keras = _keras()
    version = keras.__version__
    if version.startswith("2."):
        return []
    if keras.backend.backend() != "tensorflow":
        raise StrategyError(
            f"Keras runs on the backend {keras.backend.backend()!r}, but only its TensorFlow "
            "backend knows tf.distribute strategies",
            hint="set KERAS_BACKEND=tensorflow before Keras is imported",
        )
    if "synchronization" not in inspect.signature(keras.Variable).parameters:
        problem = f"Keras {version} does not add metrics up over replicas"
        raise UnsupportedVersionError(problem, hint=_HINT)
    find = functools.partial(_find, version)
    module = find("keras.src.backend.tensorflow.trainer")
    reduce = find(module, "reduce_per_replica")
    if _averages_over_workers(reduce, version):
        return []
    spans = find(module, "_collective_all_reduce_multi_worker")
    get_dataset = find(find(module, "TFEpochIterator"), "_get_iterator")
    trainer = find(module, "TensorFlowTrainer")
    build = find(trainer, "_maybe_symbolic_build")
    make = find(trainer, "_make_function")
    branch = find(find("tensorflow.python.ops.control_flow_v2_func_graphs"), "CondBranchFuncGraph")
    find(branch, "capture_call_time_value")
    base = find(find("keras.src.trainers.trainer"), "Trainer")  # Keras compares with its `compile`
    return [
        (base, "compile", _compile_in_scope(find(base, "compile"))),
        (trainer, "_maybe_symbolic_build", _build_from_spec(build, get_dataset)),
        (trainer, "_make_function", _average_logs(make, spans)),
        (module, "reduce_per_replica", _local_mean(reduce, spans)),
        (branch, "capture_call_time_value", _capture_in_outer_graph),
    ]


def _keras() -> Any:
    try:
        return importlib.import_module("keras")
    except Exception as error:  # it is not installed, or its backend is not or is unknown
        hint = "pip install 'tfdist-kit[tensorflow]', and KERAS_BACKEND=tensorflow if it is set"
        raise MissingDependencyError(f"Keras cannot be imported: {error}", hint=hint) from error


def _find(version: str, owner: Any, name: str = "") -> Any:
    """A module by its name, or an attribute that must be there."""
    try:
        return getattr(owner, name) if name else importlib.import_module(owner)
    except (AttributeError, ModuleNotFoundError) as error:
        where = f"{owner.__name__}.{name}" if name else owner
        problem = f"training on several workers needs {where}, which Keras {version} lacks"
        raise UnsupportedVersionError(problem, hint=_HINT) from error


def _averages_over_workers(reduce_per_replica: Any, version: str) -> bool:
    """Whether Keras averages scalars over workers (``axis=None``) or fails to (``axis=0``)."""
    source = inspect.getsource(reduce_per_replica)
    axis = re.search(r"""reduce\(\s*["']MEAN["'].*?axis=(0|None)""", source)
    if axis is None:
        where = f"{reduce_per_replica.__module__}.{reduce_per_replica.__name__}"
        problem = f"Keras {version} averages over replicas in a way that is not known here: {where}"
        raise UnsupportedVersionError(problem, hint=_HINT)
    return axis[1] == "None"


def _compile_in_scope(original: Any) -> Any:
    """Enter the scope that the model was made in, as Keras 2 does."""

    @functools.wraps(original)
    def compile_(self: Any, *args: Any, **kwargs: Any) -> Any:
        import tensorflow as tf

        strategy = getattr(self, "_distribute_strategy", None)
        if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return original(self, *args, **kwargs)
        with strategy.scope():
            return original(self, *args, **kwargs)

    return compile_


def _build_from_spec(original: Any, get_dataset: Callable[[Any], Any]) -> Any:
    """Build the model from the shapes of a batch instead of from the mean of a real one.

    So does a cluster of one worker: reading a batch would move a shuffled dataset on to its next
    order, and one worker would then see other batches than several.
    """

    @functools.wraps(original)
    def maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        import tensorflow as tf

        strategy = self.distribute_strategy
        _refuse_v1(strategy)
        is_multi_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        if iterator is not None and is_multi_worker:
            data_batch = tf.nest.map_structure(one_replica, get_dataset(iterator).element_spec)
            iterator = None
        original(self, iterator=iterator, data_batch=data_batch)

    return maybe_symbolic_build


def one_replica(spec: Any) -> Any:
    """What the first replica of this worker is given; None where Keras fills in for None."""
    import tensorflow as tf

    spec = getattr(spec, "_value_specs", (spec,))[0]
    return None if isinstance(spec, tf.OptionalSpec) else spec


def _local_mean(original: Any, spans_workers: Callable[[Any], bool]) -> Any:
    """Average over this worker's replicas only; ``_average_logs`` does the rest."""

    @functools.wraps(original)
    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        _refuse_v1(strategy)
        if reduction not in ("auto", "mean") or not spans_workers(strategy):
            return original(values, strategy, reduction)
        import tensorflow as tf

        def mean(value: Any) -> Any:
            return tf.reduce_mean(tf.stack(strategy.experimental_local_results(value)), axis=0)

        return tf.nest.map_structure(mean, values)

    return reduce_per_replica


def _average_logs(original: Any, spans_workers: Callable[[Any], bool]) -> Any:
    """Average the logs over the workers once per execution, however many steps it has.

    All workers need the same logs: a callback that stops training on one worker alone would
    leave the others waiting in a collective.
    """

    @functools.wraps(original)
    def make_function(self: Any, step_function: Any) -> Any:
        function = original(self, step_function)
        trains = step_function == self.train_step
        function = progress.reporting(function, self.steps_per_execution if trains else None)
        strategy = self.distribute_strategy
        if not spans_workers(strategy):
            return function
        import tensorflow as tf

        _require_scope(self, strategy)
        mean = tf.function(functools.partial(_mean_over_replicas, strategy), reduce_retracing=True)
        return lambda iterator: mean(function(iterator))

    return make_function


def _refuse_v1(strategy: Any) -> None:
    """Keras does not know this class: ``fit`` fails, and ``predict`` gives a worker's own part."""
    import tensorflow as tf

    v1 = tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy
    if isinstance(strategy, v1) and strategy.extended._in_multi_worker_mode():
        raise StrategyError(
            "Keras 3 cannot work on several workers under the compat.v1 strategy",
            hint="use tf.distribute.MultiWorkerMirroredStrategy, or a custom training loop",
        )


def _require_scope(model: Any, strategy: Any) -> None:
    """Refuse variables that TensorFlow would keep apart on each worker without a word."""
    in_scope = strategy.extended.variable_created_in_scope
    variables = (*model.weights, *model.metrics_variables)
    outside = [variable.path for variable in variables if not in_scope(variable.value)]
    if outside:
        raise StrategyError(
            f"created outside strategy.scope(), so each worker would keep its own: {outside}",
            hint="create the model and its metric objects inside `with strategy.scope():`",
        )


def _mean_over_replicas(strategy: Any, logs: Any) -> Any:
    """Average a structure of numeric tensors over all replicas in a single collective."""
    import tensorflow as tf

    values = tf.nest.flatten(logs)
    if not values:
        return logs

    def mean(*values: Any) -> Any:
        packed = tf.concat([tf.reshape(tf.cast(v, tf.float64), [-1]) for v in values], axis=0)
        return tf.distribute.get_replica_context().all_reduce("MEAN", packed)

    packed = strategy.experimental_local_results(strategy.run(mean, args=values))[0]
    means = tf.split(packed, [tf.size(value) for value in values])
    unpacked = [
        tf.cast(tf.reshape(mean, tf.shape(value)), value.dtype)
        for mean, value in zip(means, values, strict=True)
    ]
    return tf.nest.pack_sequence_as(logs, unpacked)


def _capture_in_outer_graph(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Let the function around a ``tf.cond`` be fed what a collective in its branches needs.

    ``steps_per_execution`` calls a step inside a ``tf.cond``. TensorFlow feeds the key of a
    collective when a function is called, but not into the branches of a condition.
    """
    return self.outer_graph.capture_call_time_value(*args, **kwargs)
