"""Ways to break what a checkpoint of the tables holds, and what it restores into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant

Function = Callable[..., Any]


def _untracked_slots(patch: Patch) -> None:
    """Have a checkpoint not find the slot variables of a TPUEmbedding."""
    _children(patch, lambda found, save_type: {k: v for k, v in found.items() if _is_kept(k)})


def _is_kept(name: str) -> bool:
    return "/" not in name and name != "_variables"


def _children(patch: Patch, change: Callable[[Any, str], Any]) -> None:
    """Have the objects that belong to a TPUEmbedding be what `change` makes of them."""
    from tensorflow.python.tpu import tpu_embedding_v2

    def other(found: Function) -> Function:
        def children(self: Any, save_type: Any = "checkpoint", **more: Any) -> Any:
            return change(found(self, save_type, **more), save_type)

        return children

    patch(tpu_embedding_v2.TPUEmbedding, "_trackable_children", other)


def _named(patch: Patch, rename: Callable[[str], str]) -> None:
    """Have TPUEmbedding track its variables under other names."""
    from tensorflow.python.tpu import tpu_embedding_v2

    def other(found: Function) -> Function:
        return lambda self, name, **more: found(self, name=rename(name), **more)

    patch(tpu_embedding_v2.TPUEmbedding, "_add_variable_with_custom_getter", other)


def _without_optimizer(patch: Patch) -> None:
    """Have TPUEmbeddingForServing make no slot variables."""
    from tensorflow.python.tpu import tpu_embedding_base

    def other(found: Function) -> Function:
        def make(self: Any, table: Any, trainable: bool) -> Any:
            table.optimizer = None
            return found(self, table, trainable)

        return make

    patch(tpu_embedding_base.TPUEmbeddingBase, "_create_variables", other)


def _made(patch: Patch, change: Callable[..., None]) -> None:
    """Have something done to each TPUEmbedding that has been made."""
    from tensorflow.python.tpu import tpu_embedding_v2

    def other(found: Function) -> Function:
        def make(self: Any, *args: Any, **kwargs: Any) -> None:
            found(self, *args, **kwargs)
            change(self)

        return make

    patch(tpu_embedding_v2.TPUEmbedding, "__init__", other)


@mutant("tpu.checkpoint.tables-and-slots", name="slot-variables-are-not-saved")
def _(patch: Patch) -> None:
    _untracked_slots(patch)


@mutant("tpu.checkpoint.key-of-a-table", name="tables-have-other-keys")
def _(patch: Patch) -> None:
    _named(patch, lambda name: name if "/" in name else f"table_{name}")


@mutant("tpu.checkpoint.key-of-a-slot", name="slots-have-no-slash-in-their-key")
def _(patch: Patch) -> None:
    _named(patch, lambda name: name.replace("/", "_"))


@mutant("tpu.checkpoint.same-keys", name="serving-has-no-slot-variables")
def _(patch: Patch) -> None:
    _without_optimizer(patch)


@mutant("tpu.checkpoint.from-shards", name="first-shard-alone-is-saved")
def _(patch: Patch) -> None:
    from tensorflow.python.tpu import tpu_embedding_v2

    patch(
        tpu_embedding_v2.TPUEmbeddingVariable,
        "_gather_saveables_for_checkpoint",
        lambda found: lambda self: self.variables[0]._gather_saveables_for_checkpoint(),
    )


@mutant("tpu.checkpoint.without-optimizer", name="no-optimizer-is-adagrad")
def _(patch: Patch) -> None:
    import tensorflow as tf
    from tensorflow.python.tpu import tpu_embedding_v2

    def other(found: Function) -> Function:
        def make(self: Any, config: Any, optimizer: Any, *more: Any, **named: Any) -> None:
            adagrad = tf.tpu.experimental.embedding.Adagrad(0.1)
            found(self, config, optimizer or adagrad, *more, **named)

        return make

    patch(tpu_embedding_v2.TPUEmbedding, "__init__", other)


@mutant("tpu.checkpoint.another-vocabulary", name="every-table-has-five-rows")
def _(patch: Patch) -> None:
    from tensorflow.python.tpu import tpu_embedding_v2_utils

    def other(found: Function) -> Function:
        return lambda self, rows, *more, **named: found(self, 5, *more, **named)

    patch(tpu_embedding_v2_utils.TableConfig, "__init__", other)


@mutant("tpu.checkpoint.saved-model", name="saved-model-does-not-find-the-tables")
def _(patch: Patch) -> None:
    _children(patch, lambda found, save_type: found if save_type == "checkpoint" else {})


@mutant("tpu.checkpoint.fetched-and-loaded", name="nothing-is-fetched-or-loaded")
def _(patch: Patch) -> None:
    from tensorflow.python.saved_model import registration

    patch(registration, "get_registered_saver_name", lambda found: lambda trackable: None)


@mutant(
    "tpu.checkpoint.after-steps",
    name="object-that-runs-steps-saves-more",
    also=("tpu.checkpoint.nothing-added",),
)
def _(patch: Patch) -> None:
    import tensorflow as tf
    from tensorflow.python.tpu import tpu_embedding_v2

    def add(self: Any) -> None:
        if type(self) is not tpu_embedding_v2.TPUEmbedding:
            self.steps = tf.Variable([[0.0]])

    _made(patch, add)


@mutant("tpu.checkpoint.after-steps", name="serving-leaves-slot-variables-over")
def _(patch: Patch) -> None:
    _without_optimizer(patch)


@mutant("tpu.checkpoint.resumed", name="training-resumes-with-new-slot-variables")
def _(patch: Patch) -> None:
    _untracked_slots(patch)
