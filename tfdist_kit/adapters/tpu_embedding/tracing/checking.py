"""`check_step`: the real TPU step, traced without a TPU.

make(strategy) -> step functions -> TensorFlow traces each -> `reading`: the calls in its graph
               -> `rules`: what TensorFlow does not notice
               -> `explaining`: what it raised
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tfdist_kit._errors import UnsupportedVersionError, UsageError
from tfdist_kit.adapters._private import private
from tfdist_kit.adapters.tpu_embedding.tracing import fetching, findings, unbuilt
from tfdist_kit.adapters.tpu_embedding.tracing.arguments import arguments
from tfdist_kit.adapters.tpu_embedding.tracing.explaining import explained, protobuf_fault
from tfdist_kit.adapters.tpu_embedding.tracing.findings import Finding
from tfdist_kit.adapters.tpu_embedding.tracing.needs import NEST
from tfdist_kit.adapters.tpu_embedding.tracing.places import place_of_function
from tfdist_kit.adapters.tpu_embedding.tracing.reading import calls_in
from tfdist_kit.adapters.tpu_embedding.tracing.report import StepReport, Table, TracedStep
from tfdist_kit.adapters.tpu_embedding.tracing.rules import Core, findings_of
from tfdist_kit.adapters.tpu_embedding.tracing.topology import opened

__all__ = ["check_step"]


def check_step(
    make: Callable[[Any], Any], inputs: Any = (), *, hosts: int = 1, cores_per_host: int = 8
) -> StepReport:
    """Trace the steps of a TPU program on this machine, and say what is wrong with them.

    TensorFlow's own ``TPUStrategy`` and ``TPUEmbedding`` do the tracing, over a made-up TPU.
    Nothing is executed: of the data only types and shapes are used, and no table is made. What
    shows on a TPU alone, such as its memory, is not seen.

    Args:
        make: Builds model and embedding for the strategy that it gets, as the program does for its
            own, and returns the step: a ``tf.function``, or a dict of several by name.
        inputs: What each step gets: one argument, or a tuple of them. A function that takes a
            ``tf.distribute.InputContext`` and returns a ``tf.data.Dataset`` stands for the
            iterator over its data; `per_replica` of specs for one value on each core, alone or in
            a dict, list or tuple; a ``tf.TensorSpec`` or the like for a tensor; anything else for
            itself. If `make` returns a dict, this can be a dict with the same keys.
        hosts: How many hosts the TPU has.
        cores_per_host: How many TPU cores each of them has.

    Returns:
        What was traced and what was found; ``raise_for_findings()`` makes an error of it.

    Raises:
        UsageError: An argument is wrong, or this is called where nothing can be traced.
        UnsupportedVersionError: This TensorFlow lacks a private name that is needed.
    """
    _check_surroundings(make)
    with (
        opened(hosts, cores_per_host, goes_on=True) as (strategy, builds),
        fetching.noticed(strategy) as fetched,
    ):
        try:
            made = make(strategy)
        except UnsupportedVersionError:
            raise
        except Exception as error:
            return StepReport(hosts, cores_per_host, (), {}, (), (explained(error),))
        steps = _with_inputs(_named(made), inputs)
        traced = tuple(_traced(strategy, builds, *each) for each in steps)
        return StepReport(
            hosts,
            cores_per_host,
            traced,
            _shapes(builds.embedding),
            _tables(builds.embedding),
            tuple(_general(builds, fetched)),
        )


def _check_surroundings(make: Any) -> None:
    import tensorflow as tf

    if not callable(make):
        raise UsageError(
            f"make is {make!r}", hint="give a function that takes a strategy and returns the step"
        )
    if not tf.executing_eagerly() or tf.distribute.has_strategy():
        raise UsageError(
            "check_step is called inside a tf.function, in graph mode or in a strategy's scope",
            hint="call it outside; make gets a strategy of its own",
        )
    if tf.config.functions_run_eagerly():
        raise UsageError(
            "functions run eagerly in this process, so no step can be traced",
            hint="call tf.config.run_functions_eagerly(False)",
        )


def _named(made: Any) -> dict[str, Callable[..., Any]]:
    """The steps by name, for what `make` returned."""
    steps = made if isinstance(made, Mapping) else {_name(made): made}
    wrong = [each for each in steps.values() if not callable(each)]
    if wrong or not steps:
        raise UsageError(
            f"make returned {made!r}",
            hint="return the step, a tf.function; or a dict of several: "
            "{'training': training_step, 'evaluation': evaluation_step}",
        )
    return dict(steps)


def _name(step: Any) -> str:
    return getattr(inspect.unwrap(step) if callable(step) else step, "__name__", "step")


def _with_inputs(
    steps: dict[str, Callable[..., Any]], inputs: Any
) -> Iterator[tuple[str, Callable[..., Any], Any]]:
    each_its_own = isinstance(inputs, Mapping) and set(inputs) == set(steps)
    for name, step in steps.items():
        yield name, step, inputs[name] if each_its_own else inputs


def _traced(
    strategy: Any, builds: unbuilt.Builds, name: str, step: Callable[..., Any], inputs: Any
) -> TracedStep:
    import tensorflow as tf

    given = arguments(strategy, inputs)
    is_function = hasattr(step, "get_concrete_function")
    function: Any = step if is_function else tf.function(step)
    try:
        graph = function.get_concrete_function(*given).graph
    except UnsupportedVersionError:
        raise
    except Exception as error:
        return TracedStep(name, 0, 0, 0, False, _at(step, name, [explained(error)]))
    calls = calls_in(graph)
    found = findings_of(calls, _cores(strategy), _features(builds.embedding))
    if not is_function and any(call.in_run and not call.in_function for call in calls):
        found.append(findings.NOT_A_FUNCTION.at())
    kinds = [call.kind for call in calls]
    return TracedStep(
        name,
        kinds.count("enqueue"),
        kinds.count("dequeue"),
        kinds.count("apply_gradients"),
        True,
        _at(step, name, found),
    )


def _at(step: Callable[..., Any], name: str, found: list[Finding]) -> tuple[Finding, ...]:
    """The findings of a step; those of no line in it are where it begins."""
    begin = place_of_function(step)
    return tuple(replace(each, step=name, where=each.where or begin) for each in found)


def _cores(strategy: Any) -> tuple[Core, ...]:
    import tensorflow as tf

    specs = [tf.DeviceSpec.from_string(name) for name in strategy.extended.worker_devices]
    return tuple(
        (spec.replace(device_type="CPU", device_index=0).to_string(), spec.device_index)
        for spec in specs
    )


def _flat(embedding: Any) -> list[tuple[str, Any]]:
    """The features with their paths, in TensorFlow's order."""
    flatten = private(NEST, "flatten_with_joined_string_paths")
    return [] if embedding is None else flatten(embedding._feature_config)


def _features(embedding: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((path, feature.table.optimizer) for path, feature in _flat(embedding))


def _shapes(embedding: Any) -> dict[str, tuple[int, ...]]:
    shapes = [] if embedding is None else embedding._output_shapes
    return {
        path: (*shape, feature.table.dim)
        for (path, feature), shape in zip(_flat(embedding), shapes, strict=True)
    }


def _tables(embedding: Any) -> tuple[Table, ...]:
    configs = [] if embedding is None else embedding._table_config
    return tuple(
        Table(each.name, each.vocabulary_size, each.dim, type(each.optimizer).__name__)
        for each in configs
    )


def _general(builds: unbuilt.Builds, fetched: list[Any]) -> Iterator[Finding]:
    """What is wrong with the embedding and the data, whatever the steps are."""
    if builds.fault is not None:
        yield protobuf_fault(builds.fault)
    if builds.embedding is None:
        return
    for table in builds.embedding._table_config:
        if inspect.isclass(table.initializer):
            yield findings.INITIALIZER_CLASS.at(table=table.name, name=table.initializer.__name__)
    for spec in fetched:
        ids = fetching.ids_in(spec, builds.embedding._feature_config)
        if ids:
            yield findings.FETCHED.at(features=", ".join(ids))
