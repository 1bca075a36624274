"""Ways to break what the page says of how a TPUEmbedding is made, and of its two modes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant
from tfdist_kit.conformance.mutants._tpu_embedding import embedding, module, utils


def sgd() -> Any:
    """An optimizer that the engine's configuration can be made with."""
    return utils().SGD(0.1, low_dimensional_packing_status=0)


@mutant("tpu.constructor.signature", name="embedding-pipelines-by-default")
def _(patch: Patch) -> None:
    def other(found: Any) -> Any:
        def init(
            self: Any,
            feature_config: Any,
            optimizer: Any,
            pipeline_execution_with_tensor_core: bool = True,
        ) -> None:
            found(self, feature_config, optimizer, pipeline_execution_with_tensor_core)

        return init

    patch(module().TPUEmbedding, "__init__", other)


@mutant("tpu.constructor.optimizer-is-required", name="embedding-has-a-default-optimizer")
def _(patch: Patch) -> None:
    def other(found: Any) -> Any:
        def init(
            self: Any,
            feature_config: Any,
            optimizer: Any = None,
            pipeline_execution_with_tensor_core: bool = False,
        ) -> None:
            found(self, feature_config, optimizer, pipeline_execution_with_tensor_core)

        return init

    patch(module().TPUEmbedding, "__init__", other)


@mutant("tpu.constructor.no-optimizer-no-slots", name="embedding-without-optimizer-has-slots")
def _(patch: Patch) -> None:
    embedding(patch, lambda optimizer, **more: {"optimizer": optimizer or utils().Adam(), **more})


@mutant("tpu.constructor.no-optimizer-under-tpu", name="embedding-under-tpu-has-sgd")
def _(patch: Patch) -> None:
    embedding(patch, lambda optimizer, **more: {"optimizer": optimizer or sgd(), **more})


@mutant("tpu.constructor.other-optimizers", name="any-optimizer-will-do")
def _(patch: Patch) -> None:
    patch(utils(), "_Optimizer", lambda found: object)


@mutant("tpu.constructor.nested-features", name="one-level-of-features-only")
def _(patch: Patch) -> None:
    from types import SimpleNamespace

    def flat(structure: Any) -> list[Any]:
        if isinstance(structure, dict):
            return [structure[key] for key in sorted(structure)]
        return list(structure) if isinstance(structure, (list, tuple)) else [structure]

    patch(module(), "nest", lambda nest: SimpleNamespace(**{**vars(nest), "flatten": flat}))


@mutant("tpu.config.shared-table", name="each-feature-has-its-table")
def _(patch: Patch) -> None:
    def other(found: Any) -> Any:
        def init(self: Any, table: Any, *arguments: Any, **named: Any) -> None:
            found(self, copy.copy(table), *arguments, **named)
            self.table.name = None

        return init

    patch(utils().FeatureConfig, "__init__", other)


@mutant("tpu.config.shared-by-identity", name="equal-tables-are-one")
def _(patch: Patch) -> None:
    table = utils().TableConfig
    patch(table, "__hash__", lambda found: lambda self: self.vocabulary_size)
    patch(
        table,
        "__eq__",
        lambda found: lambda self, other: self.vocabulary_size == other.vocabulary_size,
    )


@mutant("tpu.config.names-are-unique", name="equal-names-are-told-apart")
def _(patch: Patch) -> None:
    def renamed(feature_config: Any, **more: Any) -> dict[str, Any]:
        for number, feature in enumerate(module().nest.flatten(feature_config)):
            feature.table.name = f"{feature.table.name}_{number}"
        return {"feature_config": feature_config, **more}

    embedding(patch, renamed)


@mutant("tpu.config.default-names", name="tables-are-called-embedding")
def _(patch: Patch) -> None:
    def named(feature_config: Any, **more: Any) -> dict[str, Any]:
        for number, feature in enumerate(module().nest.flatten(feature_config)):
            feature.table.name = feature.table.name or f"embedding_{number}"
        return {"feature_config": feature_config, **more}

    embedding(patch, named)


@mutant("tpu.config.table-order", name="tables-are-in-reverse")
def _(patch: Patch) -> None:
    def other(found: Any) -> Any:
        def init(self: Any, *arguments: Any, **named: Any) -> None:
            found(self, *arguments, **named)
            self._table_config.reverse()

        return init

    patch(module().TPUEmbedding, "__init__", other)


@mutant("tpu.config.optimizer-of-a-table", name="optimizer-of-a-table-is-forgotten")
def _(patch: Patch) -> None:
    def forgotten(feature_config: Any, **more: Any) -> dict[str, Any]:
        for feature in module().nest.flatten(feature_config):
            feature.table.optimizer = None
        return {"feature_config": feature_config, **more}

    embedding(patch, forgotten)


@mutant("tpu.modes.by-the-scope", name="mode-is-that-of-the-caller")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def other(found: Any) -> Any:
        def tables(self: Any) -> Any:
            strategy = tf.distribute.get_strategy()
            self._using_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
            return found.fget(self)

        return property(tables)

    patch(module().TPUEmbedding, "embedding_tables", other)


@mutant("tpu.modes.enqueue-outside", name="enqueue-outside-is-silent")
def _(patch: Patch) -> None:
    patch(module().TPUEmbedding, "enqueue", lambda found: lambda *_, **named: None)


@mutant("tpu.modes.dequeue-outside", name="dequeue-outside-is-silent")
def _(patch: Patch) -> None:
    patch(module().TPUEmbedding, "dequeue", lambda found: lambda self, name=None: None)


@mutant("tpu.modes.apply-gradients-outside", name="apply-gradients-outside-is-silent")
def _(patch: Patch) -> None:
    patch(module().TPUEmbedding, "apply_gradients", lambda found: lambda *_, **named: None)


def with_tables(patch: Patch, make: Callable[[Any, Callable[[Any], Any]], Any]) -> None:
    """Have `make` of an embedding and its tables in the place of embedding_tables."""

    def other(found: Any) -> Any:
        return property(lambda self: make(self, found.fget))

    patch(module().TPUEmbedding, "embedding_tables", other)


@mutant("tpu.modes.tables", name="tables-are-found-by-name")
def _(patch: Patch) -> None:
    with_tables(
        patch, lambda self, found: {config.name: one for config, one in found(self).items()}
    )


@mutant("tpu.modes.tables-under-tpu", name="tables-under-tpu-are-empty")
def _(patch: Patch) -> None:
    with_tables(patch, lambda self, found: {} if self._using_tpu else found(self))


@mutant("tpu.modes.tables-are-built-when-asked-for", name="tables-want-a-build")
def _(patch: Patch) -> None:
    def want(self: Any, found: Any) -> Any:
        if not self._built:
            raise RuntimeError("it has not been built")
        return found(self)

    with_tables(patch, want)


@mutant("tpu.modes.embedding-lookup", name="tables-are-upside-down")
def _(patch: Patch) -> None:
    with_tables(
        patch, lambda self, found: {config: one[::-1] for config, one in found(self).items()}
    )


@mutant("tpu.modes.slots-are-not-trainable", name="all-variables-are-trainable")
def _(patch: Patch) -> None:
    def other(found: Any) -> Any:
        def add(self: Any, **named: Any) -> Any:
            return found(self, **{**named, "trainable": True})

        return add

    patch(module().TPUEmbedding, "_add_variable_with_custom_getter", other)


@mutant("tpu.note.any-number-outside", name="one-instance-outside")
def _(patch: Patch) -> None:
    built: list[Any] = []

    def other(found: Any) -> Any:
        def build(self: Any, *arguments: Any, **named: Any) -> None:
            if built and built[0] is not self:
                raise RuntimeError("there is one already")
            built.append(self)
            found(self, *arguments, **named)

        return build

    patch(module().TPUEmbedding, "build", other)


@mutant("tpu.note.one-instance", name="tpu-is-never-initialized")
def _(patch: Patch) -> None:
    patch(module().tpu_ops, "is_tpu_embedding_initialized", lambda found: lambda: False)


@mutant("tpu.setup.option-elsewhere", name="option-is-for-tpu-only")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    def other(found: Any) -> Any:
        def distribute(self: Any, dataset_fn: Any, options: Any = None) -> Any:
            if options is not None and not options.experimental_fetch_to_device:
                raise ValueError("this is for a TPUStrategy")
            return found(self, dataset_fn, options)

        return distribute

    owner = distribute_lib.StrategyBase
    patch(owner, "distribute_datasets_from_function", other)


@mutant("tpu.setup.sparse-without-the-option", name="sparse-batches-go-to-the-device")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import tpu_strategy

    patch(tpu_strategy.TPUExtended, "_check_spec", lambda found: lambda self, spec: None)


@mutant("tpu.setup.ids-on-a-tpu-device", name="ids-may-be-on-the-device")
def _(patch: Patch) -> None:
    owner = module().TPUEmbedding
    patch(owner, "_raise_error_for_inputs_not_on_cpu", lambda found: lambda *_: None)
